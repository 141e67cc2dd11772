from __future__ import annotations

import msgspec
import pytest

from limpet import MemoryStateBackend, StateCorrupted, StateHeader, StateStatus
from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import Append, Claim
from limpet.codec import frames
from limpet.engine.lease import new_holder
from limpet.engine.reading import (
    JournalReader,
    damaged_records,
    decoded,
    next_link,
    require_end,
    require_intact,
    whole_journal,
)
from limpet.journal.timeline import intact
from limpet.keys import Encryption, new_key
from limpet.model import Base, CheckpointRecord, DamagedRecord, End
from limpet.model.header import utc

PLAIN = StoredValues(None)
SEALED = StoredValues(None, cipher=Encryption(new_key()))


def header(state_id: str) -> StateHeader:
    return StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=utc(0.0), updated_at=utc(0.0))


def written(stored: StoredValues, owner: str, first: int, last: int, link: int) -> tuple[tuple[bytes, ...], int]:
    bodies: list[bytes] = []
    for seq in range(first, last + 1):
        record = CheckpointRecord(seq, StateStatus.RUNNING, 0.0, owner)
        body, link = frames.to_frame(record, link, frames.first_link(owner), stored.record_cipher(owner))
        bodies.append(body)
    return tuple(bodies), link


def family(stored: StoredValues) -> tuple[MemoryStateBackend, StateHeader]:
    """A fork of a fork: 5 records of the first state, 3 of the second, 4 of its own."""
    backend = MemoryStateBackend()
    bodies, link = written(stored, "first", 1, 7, frames.first_link("first"))
    backend.acquire([Claim(header=header("first"), bodies=bodies, holder=new_holder(), ttl_s=0.0)])
    link = frames.forked_link("second", frames.link_of(bodies[4]))
    bodies, _ = written(stored, "second", 6, 9, link)
    claim = Claim(header=header("second"), bodies=bodies, base=Base("first", 5), holder=new_holder(), ttl_s=0.0)
    backend.acquire([claim])
    link = frames.forked_link("third", frames.link_of(bodies[2]))
    bodies, link = written(stored, "third", 9, 12, link)
    claim = Claim(header=header("third"), bodies=bodies, base=Base("second", 8), holder=new_holder(), ttl_s=60.0)
    (grant,) = backend.acquire([claim])
    assert grant is not None
    return backend, grant.header


@pytest.mark.parametrize("stored", [PLAIN, SEALED], ids=["plain", "sealed"])
def test_each_record_of_a_fork_is_read_as_what_its_owner_wrote(stored: StoredValues) -> None:
    backend, found = family(stored)
    reader = JournalReader(backend, stored, found)
    owners = ["first"] * 5 + ["second"] * 3 + ["third"] * 4
    records = list(reader.stream(chunk_size=5))
    assert owners == [record.metadata for record in records if isinstance(record, CheckpointRecord)]
    assert list(range(1, 13)) == [record.seq for record in records]


@pytest.mark.parametrize("stored", [PLAIN, SEALED], ids=["plain", "sealed"])
@pytest.mark.parametrize("after", range(12))
@pytest.mark.parametrize("limit", [1, 2, 4, 20])
def test_any_window_of_a_fork_is_checked_by_itself(stored: StoredValues, after: int, limit: int) -> None:
    backend, found = family(stored)
    window = JournalReader(backend, stored, found).window(after, limit)
    assert list(range(after + 1, min(12, after + limit) + 1)) == [record.seq for record in window]


def test_a_window_behind_the_end_is_empty() -> None:
    backend, found = family(PLAIN)
    assert [] == JournalReader(backend, PLAIN, found).window(12, 5)
    assert [] == JournalReader(backend, PLAIN, found).window(40, 5)


def test_the_next_record_of_a_fork_follows_its_last() -> None:
    backend, found = family(PLAIN)
    last = backend.read("third")[-1]
    assert frames.link_of(last[1]) == next_link(found, last)
    assert frames.forked_link("third", frames.link_of(backend.read("third")[7][1])) == next_link(
        found, backend.read("third")[7]
    )
    assert frames.first_link("first") == next_link(found, None)


@pytest.mark.parametrize("number", range(12))
def test_a_record_of_another_place_does_not_fit(number: int) -> None:
    backend, found = family(PLAIN)
    read = backend.read("third")
    read[number] = (number + 1, backend.read("second")[min(number, 8)][1] if number > 7 else read[number - 1][1])
    damaged = [record.seq for record in decoded(found, read, PLAIN) if isinstance(record, DamagedRecord)]
    assert [number + 1] == damaged
    assert damaged == [record.seq for record in damaged_records(found, read)]
    with pytest.raises(StateCorrupted, match=f"State 'third' is damaged at record {number + 1}"):
        require_intact(found, read)


@pytest.mark.parametrize("stored", [PLAIN, SEALED], ids=["plain", "sealed"])
@pytest.mark.parametrize("number", range(12))
def test_a_missing_record_of_a_fork_or_of_what_it_shares_costs_no_other(stored: StoredValues, number: int) -> None:
    backend, found = family(stored)
    read = backend.read("third")
    del read[number]
    records = list(whole_journal(header_with_end(found, backend.read("third")), read, stored))
    assert list(range(1, 13)) == [record.seq for record in records]
    assert [number + 1] == [record.seq for record in records if isinstance(record, DamagedRecord)]


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("number", range(11))
def test_a_stream_of_a_damaged_journal_names_what_is_damaged_alone(number: int, chunk: int) -> None:
    backend, found = family(PLAIN)
    read = backend.read("third")

    class Damaged(MemoryStateBackend):
        def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
            kept = [(seq, frame) for seq, frame in read if seq != number + 1 and seq > after]
            return kept[:limit]

    for after in (0, number):
        records = list(JournalReader(Damaged(), PLAIN, found).stream(after, chunk))
        assert list(range(after + 1, 13)) == [record.seq for record in records]
        assert [number + 1] == [record.seq for record in records if isinstance(record, DamagedRecord)]


def header_with_end(found: StateHeader, read: list[tuple[int, bytes]]) -> StateHeader:
    seq, frame = read[-1]
    return msgspec.structs.replace(found, end=End(seq, frames.link_of(frame)))


def test_records_that_are_missing_at_the_end_are_told_by_the_header() -> None:
    backend, found = family(PLAIN)
    read = backend.read("third")
    ended = header_with_end(found, read)
    require_intact(ended, read)
    require_end(ended, read[-1])
    assert [11, 12] == [damage.seq for damage in damaged_records(ended, read[:10])]
    with pytest.raises(StateCorrupted, match="record 12: it is missing, although the header"):
        require_end(ended, read[10])
    assert [*range(1, 13)] == [damage.seq for damage in damaged_records(ended, [])]
    with pytest.raises(StateCorrupted, match="record 9: it is missing, although the header"):
        list(JournalReader(backend, PLAIN, msgspec.structs.replace(ended, position=8)).stream())


def test_another_record_than_the_header_knew_is_noticed() -> None:
    backend, found = family(PLAIN)
    read = backend.read("third")
    ended = header_with_end(found, read[:11])
    require_intact(ended, read)
    other = msgspec.structs.replace(ended, end=End(11, 12345))
    assert [11] == [damage.seq for damage in damaged_records(other, read)]
    damaged = [record.seq for record in whole_journal(other, read, PLAIN) if isinstance(record, DamagedRecord)]
    assert [11] == damaged
    assert 12 == len(list(whole_journal(other, read, PLAIN)))


def test_a_fork_that_is_read_as_an_ordinary_state_does_not_fit() -> None:
    backend, found = family(PLAIN)
    with pytest.raises(StateCorrupted):
        list(intact(decoded(header("third"), backend.read("third"), PLAIN)))
    assert 12 == found.position


def test_what_is_appended_to_a_fork_is_read_behind_the_rest() -> None:
    backend, found = family(PLAIN)
    (grant,) = backend.acquire([Claim(header=found, holder=found.holder or new_holder(), ttl_s=1.0, supersede=None)])
    assert grant is not None
    assert grant.held_by is not None
    claim = Claim(header=found, holder=new_holder(), ttl_s=60.0, supersede=grant.held_fence)
    (grant,) = backend.acquire([claim])
    assert grant is not None
    assert grant.lease is not None
    bodies, _ = written(PLAIN, "third", 13, 13, next_link(found, backend.read("third")[-1]))
    assert [None] == backend.append([Append(grant.lease, 13, bodies)])
    again = backend.find_state("third")
    assert again is not None
    assert 13 == len(list(JournalReader(backend, PLAIN, again).stream()))
