"""The content of the line of a frame: readable for what we write, exact for every bytes there are."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import msgspec
import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.lines.framing import CHAIN, OWNER, RECORDS, frame_of_record, frame_of_value, framed

from limpet.codec.values import encode
from limpet.lines import LineDamaged, content_of, frame_of, from_line, to_line
from limpet.lines.records import _BY_KIND
from limpet.model import (
    CheckpointNote,
    CheckpointRecord,
    CheckpointTrigger,
    Details,
    DroppedRecord,
    DropReason,
    EventRecord,
    ExecutionStatus,
    Failure,
    Part,
    ReadRecord,
    Record,
    StateStatus,
    StorageRecord,
    TimelineRecord,
    TimerRecord,
    Usage,
)

THOROUGH = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text(max_size=12)
NUMBERS = st.integers(-(2**63), 2**64 - 1)
TIMES = st.floats() | st.floats(0, 2e9)
MSGPACK = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats() | TEXT | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
ENCODED = st.one_of(st.none(), MSGPACK.map(ormsgpack.packb), st.binary(max_size=8), st.just(encode((1, {2: b"x"}))))
METADATA = st.one_of(TEXT, MSGPACK.map(msgspec.json.encode).map(bytes.decode), st.just('{"a":1,"a":2}'))


def built(cls: type[Record], *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.builds(cls, *fields)


TEXTS = st.lists(TEXT, max_size=3).map(tuple)
GENERATED = st.one_of(
    built(
        EventRecord,
        *(NUMBERS, TEXT, st.sampled_from(ExecutionStatus), TIMES, NUMBERS, NUMBERS, TIMES, st.none() | TEXT),
        *(st.binary(max_size=16), ENCODED, ENCODED, st.none() | st.builds(Failure, TEXT, TEXT, TEXT, ENCODED)),
        *(TEXTS, TEXTS, NUMBERS),
    ),
    built(CheckpointRecord, NUMBERS, st.sampled_from(StateStatus), TIMES, METADATA),
    built(StorageRecord, NUMBERS, TEXT, TIMES, ENCODED, TEXTS, st.booleans(), NUMBERS, TEXT, NUMBERS),
    built(TimerRecord, NUMBERS, TIMES, TEXT, st.lists(NUMBERS, max_size=3).map(tuple), NUMBERS),
    built(ReadRecord, NUMBERS, TIMES, TEXT, TEXT, st.booleans(), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    built(
        TimelineRecord,
        *(
            NUMBERS,
            TIMES,
            NUMBERS,
            NUMBERS,
            st.lists(st.builds(Part, NUMBERS, NUMBERS, NUMBERS), max_size=3).map(tuple),
        ),
        *(TEXT, TEXT),
    ),
    built(
        DroppedRecord,
        *(NUMBERS, st.sampled_from(DropReason), NUMBERS, NUMBERS),
        st.none() | st.builds(Usage, NUMBERS, TIMES, TEXT),
    ),
)


def assert_exact(frame: bytes, owner: str = OWNER) -> dict[str, Any]:
    content = content_of(frame, owner)
    assert frame == frame_of(content, owner)
    line, _ = to_line(content, owner, 7)
    assert frame == frame_of(from_line(line, owner).content, owner)
    return content


def shown(name: str) -> dict[str, Any]:
    return assert_exact(frame_of_record(RECORDS[name]))["record"]


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("name", RECORDS)
def test_every_kind_of_record_is_readable(name: str, version: int) -> None:
    content = assert_exact(frame_of_record(RECORDS[name], version))
    # What has more fields than at first says how many: events with details, checkpoints with a note, and changes of the
    # storage that were made inside a call.
    record = RECORDS[name]
    is_longer = getattr(record, "details", None) or getattr(record, "note", None)
    is_longer = is_longer or (isinstance(record, StorageRecord) and record.place)
    number = ["fields"] if is_longer else []
    assert ["record", *number, "chain", "version"] == list(content)
    assert ("1f2e3d4c", version) == (content["chain"], content["version"])
    assert "$encoded" not in json.dumps(content)


def test_a_result_is_what_it_looks_like() -> None:
    expected = {
        "event": {
            "seq": 3,
            "address": "research::fetch::tool_call",
            "status": "completed",
            "at": 1763428929.1,
            "behind": 1,
            "duration_s": 0.1,
            "input": ["kelp/1"],
            "result": "what stands at kelp/1",
        }
    }
    assert expected == shown("a result")
    assert list(expected["event"]) == list(shown("a result")["event"])


def test_the_value_none_is_null_and_no_value_is_left_out() -> None:
    assert shown("a result that is None")["event"]["result"] is None
    assert shown("a value None in the storage")["storage"]["value"] is None
    assert {"seq": 10, "key": "k", "at": 4.0, "behind": 1} == shown("a deleted key")["storage"]


def test_a_failure_is_told_by_the_names_of_its_fields() -> None:
    failed = shown("a failure")["event"]
    assert "000102030405060708090a0b0c0d0e0f" == failed["fingerprint"]
    assert ["type_name", "message", "traceback", "value"] == list(failed["error"])
    assert {"$exception"} == failed["error"]["value"].keys()
    expected = {"type_name": "ValueError", "message": "no", "traceback": ""}
    assert expected == shown("a failure without a value")["event"]["error"]


def test_the_parts_of_a_timeline_are_told_by_the_names_of_their_fields() -> None:
    expected = [{"first": 1, "last": 4, "below": 0}, {"first": 6, "last": 8, "below": 3}]
    assert expected == shown("a timeline")["timeline"]["parts"]


def test_metadata_is_json_where_its_text_comes_back() -> None:
    assert {"tags": ["x", "ä"], "custom": {"score": 0.5}} == shown("a checkpoint")["checkpoint"]["metadata"]


@pytest.mark.parametrize(
    "metadata",
    [
        *('{"a": 1}', '{"a":1,"a":2}', '{"a":NaN}', '{"a":1e400}', '{"a":1e16}', '{"a":"\\u0041"}', '{"a":"\\ud800"}'),
        *('"text"', "[]", "5", "", "{", "no JSON", '{"a":' + "9" * 5000 + "}", '{"a":' * 100 + "1" + "}" * 100),
    ],
    ids=lambda text: text[:12],
)
def test_metadata_is_text_where_it_would_be_written_otherwise(metadata: str) -> None:
    content = assert_exact(frame_of_record(CheckpointRecord(1, StateStatus.RUNNING, 1.0, metadata)))
    assert metadata == content["record"]["checkpoint"]["metadata"]


def test_a_value_that_does_not_come_back_leaves_the_rest_of_its_record_readable() -> None:
    record = EventRecord(1, "a", ExecutionStatus.COMPLETED, 1.0, input=encode([(1,)]), result=b"\xcf" + bytes(8))
    event = assert_exact(frame_of_record(record))["record"]["event"]
    assert ("a", [{"$tuple": [1]}], {"$encoded": "zwAAAAAAAAAA"}) == (event["address"], event["input"], event["result"])


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("body", [b"", b"key.nonce.ciphertext.tag"])
def test_a_sealed_frame_keeps_its_body_and_what_stands_around_it(version: int, body: bytes) -> None:
    content = assert_exact(framed(body, version))
    assert ["sealed", "chain", "version"] == list(content)
    assert (CHAIN.hex(), version) == (content["chain"], content["version"])


@pytest.mark.parametrize("count", range(4, 15))
def test_a_record_from_before_some_fields_says_how_many_it_has(count: int) -> None:
    fields = ormsgpack.unpackb(msgspec.msgpack.encode(RECORDS["a failure"]))[: count + 1]
    content = assert_exact(framed(ormsgpack.packb(fields), 1))
    assert count == content["fields"]
    assert ["record", "fields", "chain", "version"] == list(content)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        CHAIN,
        CHAIN + b"\x03",
        CHAIN + b"\x04abc",
        framed(b"", 3),
        framed(b"\xc1", 3),
        framed(ormsgpack.packb([]), 3),
        framed(ormsgpack.packb("text"), 3),
        framed(ormsgpack.packb([9, 1]), 3),
        framed(ormsgpack.packb([[1], 1]), 3),
        framed(ormsgpack.packb([2, 1, "running"]), 3),
        framed(ormsgpack.packb([2, 1, "unheard of", 1.0, "{}"]), 3),
        framed(ormsgpack.packb([2, True, "running", 1.0, "{}"]), 3),
        framed(ormsgpack.packb([True, 1, "a", "started", 1.0]), 3),
        framed(ormsgpack.packb([2, 1, "running", 1.0, "{}", "a field of tomorrow"]), 3),
        framed(ormsgpack.packb([2, 1, "running", 1.0, "{}"]) + b"\x00", 3),
        framed(ormsgpack.packb([3, 1, "k", 1.0, "no bytes"]), 3),
        framed(ormsgpack.packb([1, 1, "a", "started", 1.0, 0, 1, -0.0]), 3),
        frame_of_record(EventRecord(1, "a", ExecutionStatus.STARTED, float("nan"))),
        frame_of_record(EventRecord(1, "a", ExecutionStatus.STARTED, 1.0, duration_s=float("inf"))),
        frame_of_record(RECORDS["a result"], 0),
        frame_of_record(RECORDS["a result"], 5),
        frame_of_record(RECORDS["a result"], 3, owner="another"),
        framed(b"sealed", 4, owner="another"),
    ],
    ids=lambda frame: frame[4:16].hex(),
)
def test_other_bytes_are_kept_as_they_are(frame: bytes) -> None:
    assert ["bytes"] == list(assert_exact(frame))


def test_the_checksum_is_that_of_the_owner() -> None:
    frame = frame_of_record(RECORDS["a result"], owner="kelp-43")
    content = assert_exact(frame, "kelp-43")
    assert "record" in content
    assert frame != frame_of(content, OWNER)


def test_a_frame_that_stands_as_bytes_is_read_although_it_has_a_readable_form() -> None:
    frame = frame_of_record(RECORDS["a result"])
    assert frame == frame_of({"bytes": base64.b64encode(frame).decode()}, OWNER)


@THOROUGH
@given(GENERATED, st.sampled_from([1, 3]))
def test_generated_records_come_back_exactly(record: Record, version: int) -> None:
    assert_exact(frame_of_record(record, version))


@THOROUGH
@given(st.binary(max_size=64), st.sampled_from(range(6)))
def test_any_body_comes_back_exactly(body: bytes, version: int) -> None:
    assert_exact(framed(body, version))
    assert_exact(body)


@THOROUGH
@given(st.integers(1, 7), st.lists(MSGPACK, max_size=16))
def test_any_fields_come_back_exactly(tag: int, fields: list[Any]) -> None:
    assert_exact(framed(ormsgpack.packb([tag, *fields])))


@THOROUGH
@given(GENERATED, st.data())
def test_a_frame_of_which_a_byte_is_changed_comes_back_exactly(record: Record, data: st.DataObject) -> None:
    body = bytearray(msgspec.msgpack.encode(record))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert_exact(framed(bytes(body)))


@pytest.mark.parametrize(
    "record",
    [
        DroppedRecord(9, DropReason.SUPERSEDED, 0, 0, Usage(0, math.inf, "")),
        EventRecord(9, "a::llm_call", ExecutionStatus.COMPLETED, 1.0, details=Details(usage=Usage(0, math.nan, ""))),
        CheckpointRecord(
            9, StateStatus.RUNNING, 1.0, "", CheckpointNote(trigger=CheckpointTrigger.MANUAL, done=math.inf)
        ),
    ],
)
def test_a_number_that_json_does_not_have_comes_back_exactly(record: Record) -> None:
    assert ["bytes"] == list(assert_exact(frame_of_record(record)))


def test_the_fields_and_their_defaults_are_part_of_the_format() -> None:
    """What a line leaves out is read as this. Change nothing here; only add a field that is new at the end."""
    assert {"event": 15, "checkpoint": 4, "storage": 7, "timeline": 7, "dropped": 5, "timer": 5, "read": 9} == {
        kind: layout.count for kind, layout in _BY_KIND.items()
    }
    expected = {
        "event": {
            "behind": 0,
            "attempt": 1,
            "duration_s": 0.0,
            "fingerprint": b"",
            **dict.fromkeys(["version", "input", "result", "error", "details"]),
            **{name: [] for name in ("causes", "artifacts")},
            "beside": -1,
        },
        "checkpoint": {"note": None},
        "storage": {"value": None, "artifacts": [], "is_artifact": False, "behind": 0, "place": "", "number": 0},
        "timeline": {"parts": [], "address": "", "forked_from": ""},
        "dropped": {"timeline": 0, "behind": 0, "usage": None},
        "timer": {"behind": 0},
        "read": {"behind": 0, "count": 1},
    }
    assert expected == {kind: layout.defaults for kind, layout in _BY_KIND.items()}
    assert ("type_name", "message", "traceback", "value") == Failure.__struct_fields__
    assert ("first", "last", "below") == Part.__struct_fields__


EVENT = {"seq": 1, "address": "a", "status": "started", "at": 1.0}
HEAD = {"chain": "1f2e3d4c", "version": 3}


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"version": 3},
        {"bytes": "AA"},
        {"bytes": 5},
        {"bytes": "AA==", "version": 3},
        {"sealed": "AA==", **HEAD},
        {"sealed": "A", "chain": "1f2e3d4c", "version": 4},
        {"sealed": None, "chain": "1f2e3d4c", "version": 4},
        {"sealed": "AA==", "chain": "1f2e3d4c", "version": 4, "more": 1},
        {"sealed": "AA==", "chain": "1f2e3d4", "version": 4},
        {"sealed": "AA==", "chain": "1F2E3D4C", "version": 4},
        {"sealed": "AA==", "chain": "1f 2e 3d 4c", "version": 4},
        {"sealed": "AA==", "chain": "1f2e3d4c5b", "version": 4},
        {"sealed": "AA==", "chain": 5, "version": 4},
        {"sealed": "AA==", "chain": "1f2e3d4c", "version": 4.0},
        {"sealed": "AA==", "chain": "1f2e3d4c", "version": [4]},
        {"sealed": "AA==", "chain": "1f2e3d4c", "version": 2**70},
        {"record": {"event": EVENT}, "chain": "1f2e3d4c"},
        {"record": {"event": EVENT}, "version": 3},
        {"record": {"event": EVENT}, "chain": "1f2e3d4c", "version": True},
        {"record": {"event": EVENT}, "chain": "1f2e3d4c", "version": 4},
        {"record": {"event": EVENT}, "chain": "1f2e3d4c", "version": None},
        {"record": {"event": EVENT}, "more": 1, **HEAD},
        *({"record": {"event": EVENT}, "fields": number, **HEAD} for number in (0, 3, -1, 15, 17, 99, True, None, 4.0)),
        {"record": {"event": EVENT | {"attempt": 2}}, "fields": 5, **HEAD},
        {"record": {"event": EVENT | {"details": {"due_at": 1.0}}}, **HEAD},
        *(
            {"record": {"event": EVENT | {"details": details}}, "fields": 16, **HEAD}
            for details in (None, 5, [], "due", {"due_at": "soon"}, {"usage": 5}, {"usage": {"tokens": 1.5}})
        ),
        {"record": {"event": EVENT}, "fields": 5, "more": 1, **HEAD},
        {"record": {}, **HEAD},
        {"record": [], **HEAD},
        {"record": None, **HEAD},
        {"record": {"event": EVENT, "storage": {}}, **HEAD},
        {"record": {"nobody's": EVENT}, **HEAD},
        {"record": {"event": None}, **HEAD},
        {"record": {"event": [1]}, **HEAD},
        {"record": {"event": {}}, **HEAD},
        *({"record": {"event": {k: v for k, v in EVENT.items() if k != name}}, **HEAD} for name in EVENT),
        *(
            {"record": {"event": EVENT | changed}, **HEAD}
            for changed in (
                *({"seq": "1"}, {"seq": 2**64}, {"seq": 1.5}, {"seq": True}, {"seq": None}, {"status": "unheard of"}),
                *({"at": "1"}, {"at": None}, {"address": 5}, {"address": "\ud800"}, {"more": 1}, {1: 1}),
                *({"attempt": 1}, {"duration_s": 0.0}, {"version": None}, {"causes": []}, {"fingerprint": ""}),
                *({"fingerprint": "0"}, {"fingerprint": "AA"}, {"fingerprint": "a a"}, {"fingerprint": 5}),
                *({"input": {"$bytes": "A"}}, {"result": {"$nobody": 1}}, {"result": 2**64}, {"causes": [1]}),
                *({"causes": "a"}, {"causes": {}}, {"error": None}, {"error": {}}, {"error": []}, {"error": "no"}),
                {"error": {"type_name": "a", "message": "b", "traceback": "c", "more": 1}},
                {"error": {"type_name": "a", "message": "b", "traceback": 5}},
                {"error": {"type_name": "a", "message": "b", "traceback": "c", "value": {"$bytes": 1}}},
            )
        ),
        {"record": {"storage": {"seq": 1, "key": 5, "at": 1.0}}, **HEAD},
        {"record": {"checkpoint": {"seq": 1, "status": "running", "at": 1.0, "metadata": 5}}, **HEAD},
        {"record": {"checkpoint": {"seq": 1, "status": "running", "at": 1.0, "metadata": {"a": object()}}}, **HEAD},
        *(
            {"record": {"timeline": {"seq": 1, "at": 1.0, "number": 1, "base": 1, "parts": parts}}, **HEAD}
            for parts in ([{}], [{"first": 1, "last": 2}], [[1, 2, 0]], [1], 5, {}, [{"first": 1, "last": 2, "x": 3}])
        ),
    ],
)
def test_forged_content_is_damaged_and_nothing_else(content: dict[str, Any]) -> None:
    with pytest.raises(LineDamaged):
        frame_of(content, OWNER)


@pytest.mark.parametrize("levels", [1000, 100_000])
def test_content_that_is_nested_without_end_is_damaged(levels: int) -> None:
    value = deep(levels)
    checkpoint = {"seq": 1, "status": "running", "at": 1.0, "metadata": value}
    contents = [
        {"record": {"event": EVENT | {"result": {"$tuple": value}}}, **HEAD},
        {"record": {"event": EVENT | {"causes": value}}, **HEAD},
        {"record": {"event": value}, **HEAD},
        {"record": {"checkpoint": checkpoint}, **HEAD},
        {"record": value, **HEAD},
        {"bytes": value},
    ]
    for content in contents:
        with pytest.raises(LineDamaged):
            frame_of(content, OWNER)


def test_a_large_frame_stays_readable_and_exact() -> None:
    text = "kelp ä $" * 20_000
    assert text == assert_exact(frame_of_value(encode(text)))["record"]["event"]["result"]


def test_a_record_of_a_great_many_parts_is_written_so_that_its_line_has_few() -> None:
    many = frame_of_value(encode([[]] * 2_000_000))
    content = content_of(many, OWNER)
    assert {"bytes"} == content.keys()
    line, _ = to_line({"seq": 1, **content}, OWNER, 0)
    assert many == frame_of(content, OWNER)
    assert content == {key: part for key, part in from_line(line, OWNER).content.items() if key != "seq"}
    fewer = frame_of_value(encode([[]] * 600_000))
    assert "record" in content_of(fewer, OWNER)


def test_a_line_of_more_parts_than_are_written_is_damaged() -> None:
    line, _ = to_line({"x": [[]] * 2_000_000}, OWNER, 0)
    with pytest.raises(LineDamaged, match="it has more lists, maps and items"):
        from_line(line, OWNER)
