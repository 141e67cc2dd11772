"""Every address reads back as what it was built from."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from limpet.errors import InvalidAddress
from limpet.journal.address import (
    Address,
    Segment,
    enclosing_path,
    escape,
    is_top_level,
    label,
    matching,
    nearest,
    nearest_ends,
    parse,
    unescape,
)
from limpet.model import EventType

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text(st.sampled_from(":[]#%u25A0F\n\x00\x85\u2028\ud800"), max_size=12),
)
NAMES = TEXT.filter(bool)
SEGMENTS = st.builds(Segment, NAMES, st.none() | TEXT, st.integers(1, 10**17))
ADDRESSES = st.builds(Address, st.lists(SEGMENTS, min_size=1, max_size=5).map(tuple), st.sampled_from(list(EventType)))


@pytest.mark.parametrize(
    ("written", "segments"),
    [
        ("research::fetch::tool_call", [Segment("research"), Segment("fetch")]),
        ("research::fetch#2::tool_call", [Segment("research"), Segment("fetch", None, 2)]),
        ("research::fetch[page-2]::tool_call", [Segment("research"), Segment("fetch", "page-2")]),
        ("research::fetch[page-2]#3::tool_call", [Segment("research"), Segment("fetch", "page-2", 3)]),
        (
            "research::gather[0]::fetch::tool_call",
            [Segment("research"), Segment("gather", "0"), Segment("fetch")],
        ),
        ("fetch[]::tool_call", [Segment("fetch", "")]),
        ("a%3A%3Ab[%5B%25%5D%23]::tool_call", [Segment("a::b", "[%]#")]),
        ("über straße::tool_call", [Segment("über straße")]),
        ("a%0Ab%u2028%uD800::tool_call", [Segment("a\nb\u2028\ud800")]),
    ],
)
def test_an_address_is_written_and_read_as_documented(written: str, segments: list[Segment]) -> None:
    address = Address(tuple(segments), EventType.TOOL_CALL)
    assert written == str(address)
    assert address == parse(written)


@pytest.mark.parametrize("event_type", EventType)
def test_an_address_ends_in_its_event_type(event_type: EventType) -> None:
    address = parse(f"research::{event_type}")
    assert event_type is address.event_type
    assert str(address).endswith(f"::{event_type.value}")


@RELAXED
@given(ADDRESSES)
@example(Address((Segment("::[]#%\n\ud800", "%3A]#2", 2),), EventType.LLM_CALL))
@example(Address((Segment("%u2028", "%25"), Segment("tool_call")), EventType.TOOL_CALL))
def test_any_address_reads_back_as_what_it_was_built_from(address: Address) -> None:
    assert address == parse(str(address))


@RELAXED
@given(ADDRESSES)
def test_an_address_is_one_line_of_storable_text(address: Address) -> None:
    assert str(address).encode()
    assert [str(address)] == str(address).splitlines()
    assert str(address).isprintable() or all(each not in str(address) for each in "\x00\x1f\x7f\x9f")


@RELAXED
@given(ADDRESSES, ADDRESSES)
def test_two_addresses_are_written_differently(one: Address, other: Address) -> None:
    assert (one == other) == (str(one) == str(other))


@RELAXED
@given(TEXT)
def test_escaping_is_undone_by_unescaping(text: str) -> None:
    assert text == unescape(escape(text))
    assert not set(":[]#\n") & set(escape(text))


@pytest.mark.parametrize("text", ["fetch", "über", "a b", "a.b-c_d/e", "🦑"])
def test_text_without_meaning_is_written_as_it_is(text: str) -> None:
    assert text == escape(text) == unescape(text)


def test_a_label_is_a_segment_without_its_number() -> None:
    assert ["fetch", "fetch[a%23]", "fetch[]"] == [label("fetch"), label("fetch", "a#"), label("fetch", "")]


def test_the_number_is_written_from_the_second_call_on() -> None:
    assert ["f", "f#2", "f[k]#10"] == [str(Segment("f")), str(Segment("f", None, 2)), str(Segment("f", "k", 10))]


@RELAXED
@given(ADDRESSES)
def test_the_parts_of_an_address_are_read_off_its_text(address: Address) -> None:
    written = str(address)
    assert address.segments[-1].name == address.name
    assert written.rsplit("::", 1)[0] == address.path
    assert address.scope == enclosing_path(written)
    assert (address.scope == "") == is_top_level(written) == (len(address.segments) == 1)


def test_the_path_is_the_scope_of_what_is_called_inside() -> None:
    outer, inner = parse("research::agent_call"), parse("research::gather[0]::fetch::tool_call")
    assert ("research", "") == (outer.path, outer.scope)
    assert ("research::gather[0]::fetch", "research::gather[0]") == (inner.path, inner.scope)
    assert ["", "research::gather[0]"] == [enclosing_path(str(outer)), enclosing_path(str(inner))]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it does not end in tool_call, llm_call, agent_call, question, timer, message"),
        ("fetch", "it does not end in tool_call, llm_call, agent_call, question, timer, message"),
        ("fetch::", "it does not end in tool_call, llm_call, agent_call, question, timer, message"),
        ("fetch::call", "it does not end in tool_call, llm_call, agent_call, question, timer, message"),
        ("fetch::TOOL_CALL", "it does not end in tool_call, llm_call, agent_call, question, timer, message"),
        ("fetch::tool_call ", "it does not end in tool_call, llm_call, agent_call, question, timer, message"),
        ("fetch:tool_call", "it does not end in tool_call, llm_call, agent_call, question, timer, message"),
        ("tool_call", "it names no call before the event type"),
        ("::tool_call", "'' is not a name with an optional [key] and #number"),
        ("a::::tool_call", "'' is not a name with an optional [key] and #number"),
        ("a:::b::tool_call", "':b' is not a name with an optional [key] and #number"),
        ("a:b::tool_call", "'a:b' is not a name with an optional [key] and #number"),
        ("[k]::tool_call", "'[k]' is not a name with an optional [key] and #number"),
        ("a[k::tool_call", "'a[k' is not a name with an optional [key] and #number"),
        ("a]::tool_call", "'a]' is not a name with an optional [key] and #number"),
        ("a[k]b::tool_call", "'a[k]b' is not a name with an optional [key] and #number"),
        ("a[k][l]::tool_call", "'a[k][l]' is not a name with an optional [key] and #number"),
        ("a#::tool_call", "'a#' is not a name with an optional [key] and #number"),
        ("a#0::tool_call", "'a#0' is not a name with an optional [key] and #number"),
        ("a#02::tool_call", "'a#02' is not a name with an optional [key] and #number"),
        ("a#-1::tool_call", "'a#-1' is not a name with an optional [key] and #number"),
        ("a#two::tool_call", "'a#two' is not a name with an optional [key] and #number"),
        ("a#٢::tool_call", "'a#٢' is not a name with an optional [key] and #number"),
        ("a#2[k]::tool_call", "'a#2[k]' is not a name with an optional [key] and #number"),
        ("a#1::tool_call", "'a#1' is to be written 'a'"),
        ("a%::tool_call", "'a%' is to be written 'a%25'"),
        ("a%3::tool_call", "'a%3' is to be written 'a%253'"),
        ("a%3a::tool_call", "'a%3a' is to be written 'a%253a'"),
        ("a%41::tool_call", "'a%41' is to be written 'aA'"),
        ("a%u0041::tool_call", "'a%u0041' is to be written 'aA'"),
        ("a\n::tool_call", "'a\\n' is to be written 'a%0A'"),
        ("a[\ud800]::tool_call", "'a[\\ud800]' is to be written 'a[%uD800]'"),
    ],
)
def test_a_malformed_address_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidAddress) as caught:
        parse(text)
    assert (text, why) == caught.value.args
    assert "An address looks like 'research::fetch#2::tool_call'" in str(caught.value)


def test_a_number_beyond_all_measure_is_refused() -> None:
    with pytest.raises(InvalidAddress, match="is not a name with an optional"):
        parse(f"a#{'9' * 5000}::tool_call")


@RELAXED
@given(st.lists(st.sampled_from(["a", "::", ":", "[", "]", "#", "2", "%", "3A", "tool_call", "\n"]), max_size=9))
def test_any_text_is_an_address_or_refused(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        address = parse(text)
    except InvalidAddress:
        return
    assert text == str(address)


KNOWN = ["research::fetch::tool_call", "research::fetch#2::tool_call", "research::sum::llm_call", "other::agent_call"]


def test_the_nearest_addresses_are_those_that_look_alike() -> None:
    assert "research::fetch::tool_call" == nearest("reserch::fetch::tool_call", KNOWN)[0]
    assert () == nearest("zzz", KNOWN)


def test_no_more_nearest_addresses_are_named_than_asked_for() -> None:
    known = (f"research::fetch#{number}::tool_call" for number in range(2, 50))
    assert 3 == len(nearest("research::fetch::tool_call", known))
    assert 1 == len(nearest("research::fetch::tool_call", KNOWN, most=1))


def test_a_text_means_the_addresses_that_it_is_the_end_of() -> None:
    known = ["a::fetch::tool_call", "a::b::fetch::tool_call", "a::fetch#2::tool_call", "a::prefetch::tool_call"]
    assert ["a::fetch::tool_call", "a::b::fetch::tool_call"] == matching("fetch", known)
    assert ["a::b::fetch::tool_call"] == matching("b::fetch", known)
    assert ["a::fetch#2::tool_call"] == matching("fetch#2", known)
    assert ["a::fetch::tool_call"] == matching("a::fetch::tool_call", known)
    assert ["a::fetch::tool_call", "a::b::fetch::tool_call"] == matching("fetch::tool_call", known)
    assert [] == matching("fetch::llm_call", known)
    assert ["a::log_tool_call::tool_call"] == matching("log_tool_call", ["a::log_tool_call::tool_call"])


def test_the_nearest_of_a_shortened_address_are_found_by_their_ends() -> None:
    known = ["a::fetch::tool_call", "a::b::summarise::llm_call", "a::fetch#2::tool_call"]
    assert ("a::b::summarise::llm_call",) == nearest_ends("sumarise", known)
    assert ("a::b::summarise::llm_call",) == nearest_ends("b::sumarise", known)
    assert "a::fetch#2::tool_call" in nearest_ends("fetsh#2", known)
    assert () == nearest_ends("zzz", known)
