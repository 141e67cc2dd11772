"""A frame that is damaged, missing, repeated, swapped or moved to another state is noticed."""

from __future__ import annotations

import zlib
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet.codec.encryption import RecordCipher
from limpet.codec.frames import (
    PLAIN_VERSION,
    SEALED_VERSION,
    FrameReader,
    first_link,
    forked_link,
    from_frames,
    is_intact,
    link_of,
    relinked,
    to_frame,
)
from limpet.errors import NotEncrypted, StateCorrupted, UnsupportedVersion, WrongKey
from limpet.journal.timeline import intact
from limpet.keys import Encryption
from limpet.model import (
    CheckpointRecord,
    DamagedRecord,
    EventRecord,
    ExecutionStatus,
    Failure,
    Record,
    StateStatus,
    StorageRecord,
)

Frames = list[tuple[int, bytes]]

RECORDS: list[Record] = [
    EventRecord(seq=1, address="run::agent_call", status=ExecutionStatus.STARTED, at=1.5, input=b"in"),
    StorageRecord(seq=2, key="k", at=2.0, value=b"v"),
    EventRecord(
        seq=3,
        address="run::fetch[a%3A]#2::tool_call",
        status=ExecutionStatus.FAILED,
        at=3.0,
        behind=1,
        attempt=3,
        duration_s=0.25,
        version="2",
        fingerprint=bytes(range(16)),
        input=b"\x00\xff",
        error=Failure("ValueError", "no", "Traceback …", b"value"),
        causes=("run::a::tool_call", "run::b::tool_call"),
    ),
    StorageRecord(seq=4, key="k", at=4.0, value=None),
    CheckpointRecord(seq=5, status=StateStatus.PAUSED, at=5.0, metadata='{"tags":["x"]}'),
    EventRecord(
        seq=6,
        address="run::agent_call",
        status=ExecutionStatus.COMPLETED,
        at=6.0,
        behind=5,
        result=b"\xc0",
        version=None,
    ),
]


KEY = Encryption(bytes(range(32)))
LENIENT = Encryption(bytes(range(32)), accept_plain=True)
OTHER_KEY = Encryption(bytes(range(1, 33)))


def frames_of(state_id: str, records: list[Record], encryption: Encryption | None = None) -> Frames:
    link, frames = first_link(state_id), Frames()
    cipher = None if encryption is None else RecordCipher(encryption, state_id)
    for record in records:
        frame, link = to_frame(record, link, first_link(state_id), cipher)
        frames.append((record.seq, frame))
    return frames


FRAMES = frames_of("kelp-42", RECORDS)
SEALED = frames_of("kelp-42", RECORDS, KEY)


def read(
    frames: Frames, state_id: str = "kelp-42", link: int | None = None, cipher: RecordCipher | None = None
) -> list[Record]:
    first = 1 if link is None or not frames else frames[0][0]
    return list(intact(from_frames(state_id, frames, link, cipher, first)))


def read_sealed(frames: Frames, state_id: str = "kelp-42", encryption: Encryption = KEY) -> list[Record]:
    return read(frames, state_id, cipher=RecordCipher(encryption, state_id))


def rechained(bodies: list[bytes], state_id: str = "kelp-42") -> Frames:
    """Frames with these versions and bodies, numbered and chained anew, as a forger would do it."""
    link, frames = first_link(state_id), Frames()
    for seq, body in enumerate(bodies, start=1):
        frames.append((seq, checked(body, link, state_id)))
        link = link_of(frames[-1][1])
    return frames


def renumbered(bodies: list[bytes]) -> Frames:
    return list(enumerate(bodies, start=1))


def checked(content: bytes, link: int, state_id: str = "s") -> bytes:
    """A frame with whatever version and body, and the checksums that fit them."""
    if content[0] < PLAIN_VERSION:
        return zlib.crc32(content, link).to_bytes(4, "big") + content
    own = zlib.crc32(content, zlib.crc32(state_id.encode())).to_bytes(4, "big")
    return zlib.crc32(own, link).to_bytes(4, "big") + content[:1] + own + content[1:]


def content(frame: bytes) -> bytes:
    """The version and the body of a frame."""
    return frame[4:5] + frame[9:]


def test_a_journal_comes_back_as_it_was_written() -> None:
    assert RECORDS == read(FRAMES)
    assert [type(record) for record in RECORDS] == [type(record) for record in read(FRAMES)]


@pytest.mark.parametrize("first", [FRAMES[0][1], SEALED[0][1]], ids=["plain", "sealed"])
def test_a_frame_that_follows_another_one_is_the_same_but_for_its_chain(first: bytes) -> None:
    frame, link = relinked(first, 77)
    assert (first[4:], link) == (frame[4:], link_of(frame))
    assert (first, link_of(first)) == relinked(frame, first_link("kelp-42"))


def test_frames_of_the_oldest_format_follow_another_one_as_well() -> None:
    old = checked(b"\x01" + content(FRAMES[0][1])[1:], 5)
    frame, link = relinked(old, 77)
    assert checked(old[4:], 77) == frame
    assert link_of(frame) == link


def test_an_empty_journal_has_no_records() -> None:
    assert [] == read([])


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{type(record).__name__} {record.seq}")
def test_each_record_comes_back_by_itself(record: Record) -> None:
    frame, link = to_frame(record, 7, first_link("kelp-42"))
    assert [record] == read([(record.seq, frame)], link=7)
    assert link == link_of(frame)


@pytest.mark.parametrize("status", ExecutionStatus)
def test_every_status_of_an_event_comes_back_as_itself(status: ExecutionStatus) -> None:
    record = EventRecord(seq=1, address="a::tool_call", status=status, at=0.0)
    (found,) = read(frames_of("s", [record]), "s")
    assert isinstance(found, EventRecord)
    assert status is found.status


def test_a_frame_is_chain_version_own_checksum_and_record() -> None:
    record = StorageRecord(seq=1, key="k", at=2.0, value=b"v")
    frame, link = to_frame(record, 9, first_link("s"))
    assert bytes([PLAIN_VERSION]) + msgspec.msgpack.encode([3, 1, "k", 2.0, b"v", [], False, 0]) == content(frame)
    assert zlib.crc32(content(frame), zlib.crc32(b"s")) == int.from_bytes(frame[5:9], "big")
    assert zlib.crc32(frame[5:9], 9) == link == int.from_bytes(frame[:4], "big")


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_every_flipped_bit_is_noticed_and_costs_that_record_alone(number: int) -> None:
    seq, frame = FRAMES[number]
    for place in range(len(frame)):
        for bit in range(8):
            damaged = bytearray(frame)
            damaged[place] ^= 1 << bit
            found = list(from_frames("kelp-42", [*FRAMES[:number], (seq, bytes(damaged)), *FRAMES[number + 1 :]]))
            assert isinstance(found[number], DamagedRecord)
            assert RECORDS == [*found[:number], RECORDS[number], *found[number + 1 :]], "another one is affected"


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_every_truncation_is_noticed(number: int) -> None:
    seq, frame = FRAMES[number]
    for length in range(len(frame)):
        with pytest.raises(StateCorrupted) as caught:
            read([*FRAMES[:number], (seq, frame[:length]), *FRAMES[number + 1 :]])
        assert seq == caught.value.seq


@pytest.mark.parametrize("more", [b"\x00", b"\xc0", FRAMES[1][1]])
def test_bytes_after_a_frame_are_noticed(more: bytes) -> None:
    with pytest.raises(StateCorrupted):
        read([(1, FRAMES[0][1] + more)])


def test_the_first_bad_record_is_named_and_those_before_it_are_given() -> None:
    frames = [*FRAMES[:3], (4, b"garbage"), *FRAMES[4:]]
    with pytest.raises(StateCorrupted, match=r"State 'kelp-42' is damaged at record 4: it is cut off: 7 bytes"):
        read(frames)
    reading = intact(from_frames("kelp-42", frames))
    assert RECORDS[:3] == [next(reading) for _ in range(3)]


def test_swapped_frames_are_noticed() -> None:
    bodies = [frame for _, frame in FRAMES]
    for order in permutations(range(len(bodies))):
        if list(order) != sorted(order):
            with pytest.raises(StateCorrupted):
                read(renumbered([bodies[place] for place in order]))


@pytest.mark.parametrize("number", range(len(FRAMES) - 1))
@pytest.mark.parametrize("is_renumbered", [True, False])
def test_a_removed_frame_is_noticed(number: int, is_renumbered: bool) -> None:
    kept = FRAMES[:number] + FRAMES[number + 1 :]
    with pytest.raises(StateCorrupted):
        read(renumbered([frame for _, frame in kept]) if is_renumbered else kept)


@pytest.mark.parametrize("number", range(len(FRAMES)))
@pytest.mark.parametrize("is_renumbered", [True, False])
def test_a_repeated_frame_is_noticed(number: int, is_renumbered: bool) -> None:
    doubled = FRAMES[: number + 1] + FRAMES[number:]
    with pytest.raises(StateCorrupted):
        read(renumbered([frame for _, frame in doubled]) if is_renumbered else doubled)


def test_frames_of_another_state_are_noticed() -> None:
    other = frames_of("kelp-43", RECORDS)
    with pytest.raises(StateCorrupted):
        read(other)
    for number in range(len(FRAMES)):
        with pytest.raises(StateCorrupted) as caught:
            read([*FRAMES[:number], other[number], *FRAMES[number + 1 :]])
        assert number + 1 == caught.value.seq


def test_a_record_that_says_another_number_is_noticed() -> None:
    frame, _ = to_frame(RECORDS[1], first_link("s"), first_link("s"))
    with pytest.raises(StateCorrupted, match=r"damaged at record 1: it says that it is record 2"):
        read([(1, frame)], "s")


@pytest.mark.parametrize("cipher", [None, RecordCipher(KEY, "s"), RecordCipher(LENIENT, "s")])
@pytest.mark.parametrize("version", [0, SEALED_VERSION + 1, 255])
def test_a_version_that_is_not_known_is_refused_clearly(version: int, cipher: RecordCipher | None) -> None:
    frame = checked(bytes([version]) + b"whatever", first_link("s"))
    with pytest.raises(UnsupportedVersion) as caught:
        read([(1, frame)], "s", cipher=cipher)
    assert ("Record 1 of state 's'", version, SEALED_VERSION) == caught.value.args


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\xc1",
        b"\x01",
        msgspec.msgpack.encode([]),
        msgspec.msgpack.encode([99, 1]),
        msgspec.msgpack.encode([3, 1, "k"]),
        msgspec.msgpack.encode([3, 1, 5, 2.0, None]),
        msgspec.msgpack.encode([1, 1, "a::tool_call", "vanished", 1.0, 1]),
        msgspec.msgpack.encode({"seq": 1}),
        msgspec.msgpack.encode([3, 1, "k", 2.0, None]) + b"\x00",
        b"\x95\x03\x01\xa1\xff\xcb" + bytes(8) + b"\xc0",
        b"\x98\x03\x01\xa1k\xcb" + bytes(8) + b"\xc0\x90\xc2" + b"\x91" * 100_000 + b"\xc0",
    ],
    ids=lambda record: record[:12].hex(),
)
def test_a_record_that_makes_no_sense_is_noticed_even_with_a_fitting_checksum_or_seal(record: bytes) -> None:
    plain = bytes([PLAIN_VERSION]) + record
    sealed = bytes([SEALED_VERSION]) + RecordCipher(KEY, "s").seal(record, 1)
    for body, cipher in ((plain, None), (sealed, RecordCipher(KEY, "s"))):
        with pytest.raises(StateCorrupted, match=r"damaged at record 1: it cannot be read"):
            read([(1, checked(body, first_link("s")))], "s", cipher=cipher)


def test_fields_that_a_later_version_adds_at_the_end_are_passed_over() -> None:
    body = bytes([PLAIN_VERSION]) + msgspec.msgpack.encode([3, 1, "k", 2.0, b"v", [], False, 0, "run", 1, "new field"])
    assert [StorageRecord(1, "k", 2.0, b"v", place="run", number=1)] == read([(1, checked(body, first_link("s")))], "s")


@pytest.mark.parametrize("start", range(len(FRAMES)))
def test_the_rest_of_a_journal_is_read_from_the_link_before_it(start: int) -> None:
    link = link_of(FRAMES[start - 1][1]) if start else first_link("kelp-42")
    assert RECORDS[start:] == read(FRAMES[start:], link=link)
    with pytest.raises(StateCorrupted):
        read(FRAMES[start:], link=link ^ 1)


def test_the_first_link_is_that_of_the_state() -> None:
    assert first_link("s") != first_link("t")


def test_the_first_link_of_a_fork_is_that_of_its_id_behind_what_it_shares() -> None:
    assert zlib.crc32(b"fork", 7) == forked_link("fork", 7)
    assert len({forked_link("fork", 7), forked_link("fork", 8), forked_link("other", 7)}) == 3


def test_a_link_of_zero_is_a_link() -> None:
    frame, _ = to_frame(RECORDS[0], 0, first_link("kelp-42"))
    assert RECORDS[:1] == read([(1, frame)], link=0)


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
EVENTS = st.builds(
    EventRecord,
    seq=st.just(1),
    address=TEXT,
    status=st.sampled_from(ExecutionStatus),
    at=st.floats(allow_nan=False),
    behind=st.integers(-(2**63), 2**63),
    attempt=st.integers(1, 1000),
    duration_s=st.floats(allow_nan=False),
    version=st.none() | TEXT,
    fingerprint=st.binary(),
    input=st.none() | st.binary(),
    result=st.none() | st.binary(),
    error=st.none() | st.builds(Failure, TEXT, TEXT, TEXT, st.none() | st.binary()),
    causes=st.lists(TEXT).map(tuple),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(EVENTS, TEXT)
def test_any_record_comes_back_as_it_was(record: Any, state_id: str) -> None:
    assert [record] == read(frames_of(state_id, [record]), state_id)


def test_a_sealed_journal_comes_back_as_it_was_written() -> None:
    assert RECORDS == read_sealed(SEALED)
    assert [type(record) for record in RECORDS] == [type(record) for record in read_sealed(SEALED)]


def test_a_change_of_the_storage_outside_of_every_call_has_no_place() -> None:
    frame, _ = to_frame(StorageRecord(1, "k", 2.0, b"v"), 9, first_link("s"))
    assert [3, 1, "k", 2.0, b"v", [], False, 0] == msgspec.msgpack.decode(frame[9:])


def test_a_sealed_frame_is_checksum_version_and_sealed_record() -> None:
    record = StorageRecord(seq=7, key="k", at=2.0, value=b"v", place="run", number=1)
    cipher = RecordCipher(KEY, "s")
    frame, link = to_frame(record, 9, first_link("s"), cipher)
    assert zlib.crc32(content(frame), zlib.crc32(b"s")) == int.from_bytes(frame[5:9], "big")
    assert zlib.crc32(frame[5:9], 9) == link == int.from_bytes(frame[:4], "big")
    assert bytes([SEALED_VERSION]) == frame[4:5]
    place = b"records" + (7).to_bytes(8, "big")
    assert msgspec.msgpack.encode(record) == KEY.open(frame[9:], place, "It")
    assert 4 + 1 + 4 + 32 + len(msgspec.msgpack.encode(record)) == len(frame)


def test_nothing_of_a_record_stands_in_its_sealed_frame() -> None:
    secret = b"the kelp grips the rock"
    record = StorageRecord(seq=1, key=secret.decode(), at=2.0, value=secret)
    assert secret in frames_of("s", [record])[0][1]
    assert secret not in frames_of("s", [record], KEY)[0][1]


def test_the_chain_of_sealed_frames_is_that_of_their_bytes() -> None:
    link = first_link("kelp-42")
    for _, frame in SEALED:
        link = zlib.crc32(frame[5:9], link)
        assert link == link_of(frame)


@pytest.mark.parametrize("start", range(len(SEALED)))
def test_the_rest_of_a_sealed_journal_is_read_from_the_link_before_it(start: int) -> None:
    link = link_of(SEALED[start - 1][1]) if start else first_link("kelp-42")
    assert RECORDS[start:] == read(SEALED[start:], "kelp-42", link, RecordCipher(KEY, "kelp-42"))


@pytest.mark.parametrize("number", range(len(SEALED)))
def test_every_flipped_bit_of_a_sealed_frame_is_noticed(number: int) -> None:
    seq, frame = SEALED[number]
    for place in range(len(frame)):
        for bit in range(8):
            damaged = bytearray(frame)
            damaged[place] ^= 1 << bit
            with pytest.raises(StateCorrupted) as caught:
                read_sealed([*SEALED[:number], (seq, bytes(damaged)), *SEALED[number + 1 :]])
            assert seq == caught.value.seq


@pytest.mark.parametrize("number", range(len(SEALED)))
def test_every_bit_that_a_forger_flips_is_noticed(number: int) -> None:
    bodies = [content(frame) for _, frame in SEALED]
    for place in range(len(bodies[number])):
        for bit in range(8):
            forged = bytearray(bodies[number])
            forged[place] ^= 1 << bit
            wanted = WrongKey if place else (UnsupportedVersion, NotEncrypted, StateCorrupted, WrongKey)
            with pytest.raises(wanted, match=f"[Rr]ecord {number + 1}"):
                read_sealed(rechained([*bodies[:number], bytes(forged), *bodies[number + 1 :]]))


@pytest.mark.parametrize("number", range(len(SEALED)))
def test_every_cut_that_a_forger_makes_is_noticed(number: int) -> None:
    bodies = [content(frame) for _, frame in SEALED]
    for length in range(1, len(bodies[number])):
        with pytest.raises(WrongKey):
            read_sealed(rechained([*bodies[:number], bodies[number][:length], *bodies[number + 1 :]]))


def test_sealed_records_that_are_swapped_and_chained_anew_are_noticed() -> None:
    bodies = [content(frame) for _, frame in SEALED]
    for order in permutations(range(len(bodies))):
        if list(order) != sorted(order):
            with pytest.raises(WrongKey):
                read_sealed(rechained([bodies[place] for place in order]))


def test_a_sealed_record_of_another_state_is_noticed_although_it_is_chained_anew() -> None:
    foreign = rechained([content(frame) for _, frame in SEALED], "kelp-43")
    with pytest.raises(WrongKey, match="Record 1 of state 'kelp-43' cannot be decrypted: it was changed"):
        read_sealed(foreign, "kelp-43")


def test_a_sealed_record_that_says_another_number_is_noticed() -> None:
    body = bytes([SEALED_VERSION]) + RecordCipher(KEY, "s").seal(msgspec.msgpack.encode(RECORDS[1]), 1)
    with pytest.raises(StateCorrupted, match=r"damaged at record 1: it says that it is record 2"):
        read_sealed(rechained([body], "s"), "s")


def test_a_forged_plain_record_is_refused_where_a_key_is_given() -> None:
    with pytest.raises(NotEncrypted, match=r"Record 1 of state 'kelp-42' is not encrypted although a key is given"):
        read_sealed(FRAMES)
    mixed = rechained([*(content(frame) for _, frame in SEALED[:3]), *(content(frame) for _, frame in FRAMES[3:])])
    with pytest.raises(NotEncrypted, match=r"Record 4 of state 'kelp-42'"):
        read_sealed(mixed)


def test_records_from_before_encryption_are_read_where_they_are_accepted() -> None:
    mixed = rechained([*(content(frame) for _, frame in FRAMES[:3]), *(content(frame) for _, frame in SEALED[3:])])
    assert RECORDS == read_sealed(FRAMES, encryption=LENIENT)
    assert RECORDS == read_sealed(mixed, encryption=LENIENT)
    assert RECORDS == read_sealed(SEALED, encryption=LENIENT)


def test_a_sealed_record_is_not_read_without_a_key() -> None:
    with pytest.raises(WrongKey, match=r"Record 1 of state 'kelp-42' .*: it is encrypted, and no key is given"):
        read(SEALED)


def test_a_sealed_record_is_not_read_with_another_key() -> None:
    with pytest.raises(WrongKey, match=r"Record 1 of state 'kelp-42' .* it needs the key with the id [0-9a-f]{8}, and"):
        read_sealed(SEALED, encryption=OTHER_KEY)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(EVENTS, TEXT)
def test_any_record_comes_back_from_its_seal(record: Any, state_id: str) -> None:
    assert [record] == read_sealed(frames_of(state_id, [record], KEY), state_id)


def old_frames_of(records: list[Record], cipher: RecordCipher | None = None) -> Frames:
    """Frames as format 1 had them."""
    contents: list[bytes] = []
    for record in records:
        encoded = msgspec.msgpack.encode(record)
        contents.append(b"\x01" + encoded if cipher is None else b"\x02" + cipher.seal(encoded, record.seq))
    return rechained(contents)


OLD = old_frames_of(RECORDS)


def test_frames_of_format_1_are_read() -> None:
    assert RECORDS == read(OLD)
    cipher = RecordCipher(KEY, "kelp-42")
    assert RECORDS == read(old_frames_of(RECORDS, cipher), cipher=cipher)


def test_a_journal_that_was_begun_in_format_1_goes_on_in_format_2() -> None:
    frames, link = OLD[:3], link_of(OLD[2][1])
    for record in RECORDS[3:]:
        frame, link = to_frame(record, link, first_link("kelp-42"))
        frames.append((record.seq, frame))
    assert RECORDS == read(frames)


@pytest.mark.parametrize(
    "stored",
    [
        [3, 1, "k", 2.0, b"v"],
        [3, 1, "k", 2.0, b"v", []],
        [3, 1, "k", 2.0, b"v", [], False],
        [3, 1, "k", 2.0, b"v", [], False, None],
        [3, 1, "k", 2.0, b"v", [], False, 0],
    ],
)
def test_a_storage_record_of_format_1_gets_what_it_did_not_say(stored: list[Any]) -> None:
    frame = checked(b"\x01" + msgspec.msgpack.encode(stored), first_link("s"))
    assert [StorageRecord(1, "k", 2.0, b"v", behind=0)] == read([(1, frame)], "s")


def test_a_storage_record_of_format_1_keeps_what_it_says() -> None:
    frame = checked(b"\x01" + msgspec.msgpack.encode([3, 1, "k", 2.0, None, ["a"], True, 5]), first_link("s"))
    assert [StorageRecord(1, "k", 2.0, None, ("a",), True, 5)] == read([(1, frame)], "s")


@pytest.mark.parametrize("number", range(len(OLD)))
def test_a_flipped_bit_in_format_1_costs_that_record_alone(number: int) -> None:
    seq, frame = OLD[number]
    for place in range(len(frame)):
        damaged = bytearray(frame)
        damaged[place] ^= 64
        frames = [*OLD[:number], (seq, bytes(damaged)), *OLD[number + 1 :]]
        if place == 4:
            with pytest.raises(UnsupportedVersion):
                read(frames)
            continue
        found = list(from_frames("kelp-42", frames))
        assert isinstance(found[number], DamagedRecord)
        assert RECORDS == [*found[:number], RECORDS[number], *found[number + 1 :]]


@pytest.mark.parametrize("number", range(len(FRAMES) - 1))
def test_a_missing_record_is_named_and_the_others_are_given(number: int) -> None:
    found = list(from_frames("kelp-42", FRAMES[:number] + FRAMES[number + 1 :]))
    assert DamagedRecord("kelp-42", number + 1, "it is missing") == found[number]
    assert RECORDS == [*found[:number], RECORDS[number], *found[number + 1 :]]


def test_behind_a_damaged_record_no_record_of_another_state_is_taken() -> None:
    other = frames_of("kelp-43", RECORDS)
    found = list(from_frames("kelp-42", [*FRAMES[:2], *other[2:5], FRAMES[5]]))
    assert [3, 4, 5] == [record.seq for record in found if isinstance(record, DamagedRecord)]
    assert RECORDS[5] == found[5]


def test_numbers_that_nobody_can_have_written_end_the_reading() -> None:
    with pytest.raises(StateCorrupted, match=r"record 3: it is missing, and record 9000000000 comes next"):
        list(from_frames("kelp-42", [*FRAMES[:2], (9_000_000_000, FRAMES[2][1])]))
    with pytest.raises(StateCorrupted, match=r"record 3: it is missing, and record 2 comes next"):
        list(from_frames("kelp-42", [*FRAMES[:2], FRAMES[1]]))


@pytest.mark.parametrize("frames", [FRAMES, SEALED, OLD])
def test_damage_is_found_without_a_key(frames: Frames) -> None:
    def found(frames: Frames) -> list[int]:
        return [damage.seq for damage in FrameReader(first_link("kelp-42")).check("kelp-42", frames)]

    assert [] == found(frames)
    for number, (seq, frame) in enumerate(frames):
        damaged = (seq, frame[:-1] + bytes([frame[-1] ^ 1]))
        assert [seq] == found([*frames[:number], damaged, *frames[number + 1 :]])
        if seq < len(frames):
            removed = found([*frames[:number], *frames[number + 1 :]])
            # In format 1 the one behind cannot be checked by itself.
            assert ([seq] if frames is not OLD else [seq, seq + 1]) == removed
    # What is sealed does not say its number.
    swapped = [frames[0], (2, frames[2][1]), (3, frames[1][1]), *frames[3:]]
    assert ([2, 4] if frames is SEALED else [2, 3] if frames is FRAMES else [2, 3, 4]) == found(swapped)


def test_sealed_records_that_are_swapped_cost_no_other() -> None:
    frames = [SEALED[0], (2, SEALED[2][1]), (3, SEALED[1][1]), *SEALED[3:]]
    found = list(from_frames("kelp-42", frames, cipher=RecordCipher(KEY, "kelp-42")))
    assert [2, 3] == [record.seq for record in found if isinstance(record, DamagedRecord)]
    assert RECORDS[3:] == found[3:]


def test_a_frame_is_judged_by_itself() -> None:
    _, frame = FRAMES[2]
    assert is_intact("kelp-42", frame)
    assert not is_intact("kelp-43", frame)
    assert not is_intact("kelp-42", frame[:-1])
    assert not is_intact("kelp-42", b"")
    assert is_intact("kelp-42", OLD[2][1]), "which cannot be told"
