from __future__ import annotations

import pytest

from holdfast import MemoryStateBackend, StateCorrupted, StateHeader, StateStatus
from holdfast.artifacts.stored_values import StoredValues
from holdfast.backends.contract import Append, Claim
from holdfast.codec import frames
from holdfast.engine.lease import new_holder
from holdfast.engine.reading import JournalReader, decoded, next_link
from holdfast.keys import Encryption, new_key
from holdfast.model import Base, CheckpointRecord
from holdfast.model.header import utc

PLAIN = StoredValues(None)
SEALED = StoredValues(None, cipher=Encryption(new_key()))


def header(state_id: str) -> StateHeader:
    return StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=utc(0.0), updated_at=utc(0.0))


def written(stored: StoredValues, owner: str, first: int, last: int, link: int) -> tuple[tuple[bytes, ...], int]:
    bodies: list[bytes] = []
    for seq in range(first, last + 1):
        record = CheckpointRecord(seq, StateStatus.RUNNING, 0.0, owner)
        body, link = frames.to_frame(record, link, stored.record_cipher(owner))
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
    with pytest.raises(StateCorrupted):
        list(decoded(found, read, PLAIN))


def test_a_fork_that_is_read_as_an_ordinary_state_does_not_fit() -> None:
    backend, found = family(PLAIN)
    with pytest.raises(StateCorrupted):
        list(decoded(header("third"), backend.read("third"), PLAIN))
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
