"""A state id is user input, and may become part of a path or a URL."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.errors import InvalidStateId
from limpet.model import FORMAT_VERSION, StateHeader, StateMetadata, StateStatus, checked_state_id
from limpet.model.header import MAX_STATE_ID, utc


@pytest.mark.parametrize(
    "state_id",
    ["a", "A", "7", "kelp-42", "a.b_c@d+e=f,g-h", "a.", "a-", "x" * MAX_STATE_ID, "0195f2c8-7c1e-7e3a-9d6b"],
)
def test_a_plain_id_names_a_state(state_id: str) -> None:
    assert state_id == checked_state_id(state_id)


@pytest.mark.parametrize(
    ("state_id", "why"),
    [
        (None, "it is NoneType, not text"),
        (42, "it is int, not text"),
        (b"kelp", "it is bytes, not text"),
        (["kelp"], "it is list, not text"),
        ("", "it is empty"),
        ("x" * (MAX_STATE_ID + 1), "it has 201 characters, and 200 is the most"),
        ("..", "it contains '..'"),
        ("a..b", "it contains '..'"),
        ("../../etc/passwd", "it contains '..'"),
        ("a/b", "it contains '/'"),
        ("/a", "it contains '/'"),
        ("a\\b", "it contains '\\\\'"),
        ("a\x00b", "it contains '\\x00'"),
        ("a\nb", "it contains '\\n'"),
        ("kelp\n", "it contains '\\n'"),
        ("a\x7f", "it contains '\\x7f'"),
        ("a b", "it contains ' '"),
        (" a", "it contains ' '"),
        ("a ", "it contains ' '"),
        (".hidden", "it begins with '.'"),
        ("-rf", "it begins with '-'"),
        ("_a", "it begins with '_'"),
        ("=a", "it begins with '='"),
        (".", "it begins with '.'"),
        ("algé", "it contains 'é'"),
        ("٤٢", "it contains '٤'"),
        ("kelp\ud800", "it contains '\\ud800'"),
        ("a:b", "it contains ':'"),
        ("a%2Fb", "it contains '%'"),
        ("a?b", "it contains '?'"),
        ("a#b", "it contains '#'"),
        ("a'b", 'it contains "\'"'),
        ("a;b", "it contains ';'"),
        ("~", "it contains '~'"),
    ],
)
def test_an_id_that_is_not_plain_is_refused_with_the_reason(state_id: object, why: str) -> None:
    with pytest.raises(InvalidStateId) as caught:
        checked_state_id(state_id)
    assert (state_id, why) == caught.value.args
    assert f"cannot be a state id: {why}. Use 1 to 200 letters" in str(caught.value)


def test_a_long_id_is_shown_shortened() -> None:
    with pytest.raises(InvalidStateId) as caught:
        checked_state_id("x" * 100_000)
    assert len(str(caught.value)) < 400


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_names_a_state_as_it_is_or_is_refused(text: str) -> None:
    try:
        assert text == checked_state_id(text)
    except InvalidStateId:
        return
    assert text.isascii()
    assert not set(text) & set("/\\\0 \n%:?#")
    assert text not in (".", "..")


def test_a_header_has_the_version_that_this_code_writes() -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    header = StateHeader(state_id="s", status=StateStatus.RUNNING, created_at=moment, updated_at=moment)
    assert (FORMAT_VERSION, 0, None, None) == (header.version, header.position, header.agent, header.holder)
    assert (StateMetadata(), (), 0) == (header.metadata, header.bases, header.timeline)


def test_seconds_become_an_aware_moment() -> None:
    assert datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC) == utc(1.5)
