"""A line is one line of JSON, carries the sum of itself, and is read only as it was written."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.lines.framing import OWNER, RECORDS, frame_of_record, frame_of_value, framed

from limpet.codec.values import encode
from limpet.lines import Line, LineDamaged, content_of, from_line, to_line

AFTER = 0x00C0FFEE

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
CONTENTS = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key not in ("sum", "after", "left")), JSON, max_size=4
)


def line_of(content: dict[str, Any], left: int = 0) -> bytes:
    return to_line(content, OWNER, AFTER, left)[0]


def forged(kept: bytes, owner: str = OWNER) -> bytes:
    """A line with other content whose sum is right all the same: anybody can compute it."""
    return b'{"sum":"%08x",%b\n' % (zlib.crc32(kept, zlib.crc32(owner.encode())), kept)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(pairs) == len(dict(pairs)), "a key stands twice"
    return dict(pairs)


def test_a_line_is_what_the_format_says() -> None:
    line, checksum = to_line({"header": {"name": "kélp\n", "n": 1}}, OWNER, AFTER, 2)
    kept = '"after":"00c0ffee","left":2,"header":{"name":"kélp\\n","n":1}}'.encode()
    assert zlib.crc32(kept, zlib.crc32(OWNER.encode())) == checksum
    assert b'{"sum":"%08x",' % checksum + kept + b"\n" == line


def test_a_line_says_what_it_was_given() -> None:
    line, checksum = to_line({"a": [1, {"b": None}]}, OWNER, AFTER, 3)
    assert Line(checksum, AFTER, 3, {"a": [1, {"b": None}]}) == from_line(line, OWNER)


def test_what_is_not_left_is_not_written() -> None:
    assert b"left" not in line_of({"a": 1})
    assert 0 == from_line(line_of({"a": 1}), OWNER).left


def test_a_line_may_have_no_content() -> None:
    assert {} == from_line(line_of({}), OWNER).content


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_one_line_of_json_for_every_tool(name: str) -> None:
    content = content_of(frame_of_record(RECORDS[name]), OWNER)
    line, _ = to_line(content, OWNER, AFTER, 1)
    assert 1 == line.count(b"\n")
    read = json.loads(line, object_pairs_hook=once)
    assert ["sum", "after", "left", *content] == list(read)
    assert content == {key: read[key] for key in content}


def test_text_stays_readable() -> None:
    line = line_of(content_of(frame_of_value(encode("Seegras ä 海藻 🌊 \u2028")), OWNER))
    assert '"result":"Seegras ä 海藻 🌊 \u2028"' in line.decode()


@settings(max_examples=80, deadline=None)
@given(CONTENTS, st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_generated_content_comes_back(content: dict[str, Any], after: int, left: int) -> None:
    line, checksum = to_line(content, OWNER, after, left)
    read = from_line(line, OWNER)
    assert (checksum, after, left) == (read.sum, read.after, read.left)
    assert repr(content) == repr(read.content)
    assert content == {key: value for key, value in json.loads(line).items() if key not in ("sum", "after", "left")}


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for line in (data, data + b"}\n", forged(data), forged(b'"after":"00c0ffee",' + data + b"}")):
        try:
            read = from_line(line, OWNER)
        except LineDamaged:
            continue
        assert json.loads(line) == {"sum": f"{read.sum:08x}", "after": f"{read.after:08x}", **read.content}


@pytest.mark.parametrize(
    "line",
    [
        line_of({}),
        line_of(content_of(frame_of_record(RECORDS["a result"]), OWNER), 2),
        line_of(content_of(framed(b"sealed", 4), OWNER)),
    ],
    ids=["empty", "record", "sealed"],
)
def test_every_flipped_bit_is_noticed(line: bytes) -> None:
    for place in range(len(line)):
        for bit in range(8):
            changed = bytearray(line)
            changed[place] ^= 1 << bit
            with pytest.raises(LineDamaged):
                from_line(bytes(changed), OWNER)


def test_a_line_that_is_cut_off_or_grown_is_noticed() -> None:
    line = line_of({"a": {"b": 1}}, 1)
    for changed in (*(line[:end] for end in range(len(line))), line + b"\n", line + line, b" " + line, line[1:]):
        with pytest.raises(LineDamaged):
            from_line(changed, OWNER)


def test_a_line_of_another_owner_is_noticed() -> None:
    with pytest.raises(LineDamaged, match="its sum does not fit its bytes and its owner"):
        from_line(line_of({"a": 1}), "kelp-43")


@pytest.mark.parametrize(
    "kept",
    [
        b"}",
        b'"a":1}',
        b'"a":1,"after":"00c0ffee"}',
        b'"after":"00c0ffee","a":1}}',
        b'"after":"00c0ffee","a":1}x}',
        b'"after":"00c0ffe","a":1}',
        b'"after":"00C0FFEE"}',
        b'"after":"-0c0ffee"}',
        b'"after":"00c0ffee0"}',
        b'"after":5}',
        b'"after":null}',
        b'"after": "00c0ffee"}',
        b'"after":"00c0ffee","left":0}',
        b'"after":"00c0ffee","left":-1}',
        b'"after":"00c0ffee","left":1.0}',
        b'"after":"00c0ffee","left":true}',
        b'"after":"00c0ffee","left":null}',
        b'"after":"00c0ffee","left":01}',
        b'"after":"00c0ffee","left":' + b"9" * 30 + b"}",
        b'"after":"00c0ffee","a":1,"left":1}',
        b'"after":"00c0ffee","left":1,"left":2}',
        b'"after":"00c0ffee","after":"00c0ffee"}',
        b'"after":"00c0ffee","sum":"00c0ffee"}',
        b'"after":"00c0ffee","a":1,"a":1}',
        b'"after":"00c0ffee","a":{"b":1,"b":2}}',
        b'"after":"00c0ffee","a":[{"b":1,"\\u0062":2}]}',
        b'"after":"00c0ffee",\n"a":1}',
        b'"after":"00c0ffee","a":1e400}',
        b'"after":"00c0ffee","a":NaN}',
        b'"after":"00c0ffee","a":"\\ud800"}',
        b'"after":"00c0ffee","a":"\xff"}',
        b'"after":"00c0ffee","a":' + b"9" * 5000 + b"}",
        b'"after":"00c0ffee","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'"after":"00c0ffee","a":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b'"after":"00c0ffee"',
    ],
    ids=lambda kept: kept[:50].decode("latin-1"),
)
def test_a_forged_line_with_the_right_sum_is_damaged(kept: bytes) -> None:
    with pytest.raises(LineDamaged):
        from_line(forged(kept), OWNER)


@pytest.mark.parametrize("kept", [b'"after":"00c0ffee","a":1e+16}', b'"after":"00c0ffee", "a":"\\u0041"}'])
def test_a_line_of_another_writer_of_json_is_read(kept: bytes) -> None:
    assert {"a": json.loads(b"{" + kept)["a"]} == from_line(forged(kept), OWNER).content


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_never_written_as_null(number: float) -> None:
    for content in ({"a": number}, {"a": [None, {"b": (1, number)}]}):
        with pytest.raises(ValueError, match="not finite"):
            to_line(content, OWNER, AFTER)


def test_null_and_tuples_may_stand_in_a_line() -> None:
    assert {"a": None, "b": [1, 2.5]} == from_line(line_of({"a": None, "b": (1, 2.5)}), OWNER).content


@pytest.mark.parametrize("key", ["sum", "after", "left"])
def test_content_under_a_key_of_the_line_itself_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="another key"):
        to_line({key: 1}, OWNER, AFTER)


def test_text_with_lone_surrogates_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        to_line({"a": "\ud800"}, OWNER, AFTER)
