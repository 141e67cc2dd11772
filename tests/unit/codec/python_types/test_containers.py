"""Deques, ranges and the other dictionaries come back equal, of the same type and in the same order."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import Any, cast

import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.codec import sample_types as types
from unit.codec.sample_types import Page, Tide

from limpet.codec.kinds import Opaque
from limpet.codec.values import decode, encode, encode_leniently
from limpet.errors import ValueNotReadable, ValueNotStorable

RELAXED = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def again(value: Any) -> Any:
    return decode(encode(value))


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


def form(value: Any) -> Any:
    """A value with every type in it and every order written out."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [form(item) for item in value]
    if kind is deque:
        return kind, value.maxlen, [form(item) for item in value]
    if kind in (dict, OrderedDict, Counter):
        return kind, [(form(key), form(item)) for key, item in value.items()]
    if kind is defaultdict:
        return kind, value.default_factory, [(form(key), form(item)) for key, item in value.items()]
    return kind, repr(value)


VALUES: list[Any] = [
    deque(),
    deque([1, (2,), deque([3])]),
    deque([1, 2], maxlen=5),
    deque(maxlen=0),
    deque(["lone \ud800"], 2**40),
    range(0),
    range(3),
    range(10, -10, -3),
    range(2**80, 2**90, 2**70),
    defaultdict(None, {1: 2}),
    defaultdict(list, {"a": [1], (1, 2): [2]}),
    defaultdict(Decimal, {"a": Decimal("1.5")}),
    defaultdict(Counter, {"a": Counter("kelp")}),
    defaultdict(types.Defaulted, {"a": types.Defaulted()}),
    defaultdict(cast(Any, Page)),
    OrderedDict([("b", 1), ("a", 2), (3, [4])]),
    Counter("kelp forest"),
    Counter({"a": -1, ("b",): 0}),
    Counter(cast(Any, {"a": 2.5})),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_container_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    assert form(value) == form(again(value))
    assert form([{"k": (value,)}]) == form(again([{"k": (value,)}]))
    assert encode(value) == encode(again(value))


def test_a_defaultdict_still_makes_what_is_missing() -> None:
    copy = again(defaultdict(list, {"a": [1]}))
    copy["b"].append(2)
    assert {"a": [1], "b": [2]} == copy


def test_a_deque_still_forgets_what_is_too_much() -> None:
    copy = again(deque([1, 2], maxlen=2))
    copy.append(3)
    assert [2, 3] == list(copy)


def test_reading_a_defaultdict_makes_nothing() -> None:
    types.calls.clear()
    data = encode(defaultdict(cast(Any, types.Guarded)))
    assert types.Guarded is decode(data).default_factory
    assert [] == types.calls


class OwnDeque(deque[Any]):
    pass


class OwnCounter(Counter[str]):
    pass


class Local:
    pass


NO_KIND = "is not a kind of value that can be stored"
NO_CLASS = "makes the missing items of a defaultdict, and only a class can be stored there"


@pytest.mark.parametrize(
    ("value", "place", "type_name", "why"),
    [
        (OwnDeque([1]), "result", f"{__name__}.OwnDeque", NO_KIND),
        (OwnCounter("a"), "result", f"{__name__}.OwnCounter", NO_KIND),
        (deque([1, object()]), "result[1]", "object", NO_KIND),
        (OrderedDict(a=[object()]), "result['a'][0]", "object", NO_KIND),
        (Counter({print: 1}), f"the key {print!r} of result", "builtin_function_or_method", NO_KIND),
        (defaultdict(int, {"a": object()}), "result['a']", "object", NO_KIND),
        (defaultdict(lambda: 0), "result.default_factory", "function", NO_CLASS),
        ([defaultdict(cast(Any, dict.fromkeys))], "result[0].default_factory", "builtin_function_or_method", NO_CLASS),
        (defaultdict(threading.Thread), "result.default_factory", "threading.Thread", NO_KIND),
        (defaultdict(Local), "result.default_factory", f"{__name__}.Local", NO_KIND),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_cannot_be_stored_is_named_inside_a_container(value: Any, place: str, type_name: str, why: str) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode(value, "result")
    assert (place, type_name, why) == caught.value.args


@pytest.mark.parametrize("value", [Counter("a"), OrderedDict(a=1)])
def test_attributes_that_would_be_lost_are_refused(value: Any) -> None:
    value.source = "reef"
    with pytest.raises(ValueNotStorable, match="has attributes of its own, which would be lost"):
        encode(value)


@pytest.mark.parametrize("outer", [deque, lambda: OrderedDict(), lambda: defaultdict(list)])
def test_a_container_that_contains_itself_is_refused(outer: Any) -> None:
    value = outer()
    value.append(value) if isinstance(value, deque) else value.update(a=value)
    with pytest.raises(ValueNotStorable, match="contains itself"):
        encode(value)


def test_a_note_stands_for_what_cannot_be_stored_inside() -> None:
    assert deque([1, Opaque("builtins.object")], 3) == decode(encode_leniently(deque([1, object()], 3)))
    assert Opaque("collections.defaultdict") == decode(encode_leniently(defaultdict(lambda: 0)))


@pytest.mark.parametrize(
    "data",
    [
        written(24, [None]),
        written(24, [None, "text"]),
        written(24, [None, 3]),
        written(24, [-1, []]),
        written(24, [1, [1, 2]]),
        written(24, [True, [1]]),
        written(24, [2**64 - 1, []]),
        written(25, [0, 1]),
        written(25, [0, 1, 0]),
        written(25, ["a", 1, 1]),
        written(26, ["list"]),
        written(26, ["list", {"a": 1}]),
        written(26, ["os:system", []]),
        written(26, ["os:PathLike", []]),
        written(26, ["threading:Thread", []]),
        written(26, ["antigravity:Thing", []]),
        written(26, [5, []]),
        written(27, 5),
        written(27, [[1]]),
        written(28, None),
        written(28, [[[], 1]]),
    ],
)
def test_damaged_containers_are_refused(data: bytes) -> None:
    with pytest.raises(ValueNotReadable):
        decode(data)


def test_a_huge_length_allocates_nothing() -> None:
    assert 2**62 == decode(written(24, [2**62, [1]])).maxlen


def test_a_factory_that_cannot_be_stored_any_more_is_named() -> None:
    with pytest.raises(ValueNotReadable) as caught:
        decode(written(26, ["threading:Thread", []]))
    assert ("threading:Thread", f"it makes the items of a defaultdict, and now {NO_KIND}") == caught.value.args


TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.sampled_from([Tide.LOW, Decimal(1)]))
KEYS = st.one_of(st.integers(), TEXT, st.tuples(st.integers(), TEXT))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.lists(st.tuples(KEYS, inner), max_size=3)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.builds(deque, st.lists(inner, max_size=3), st.none() | st.integers(3, 9)),
        st.builds(range, st.integers(), st.integers(), st.integers(1)),
        st.builds(defaultdict, st.sampled_from([None, int, list, Page, Tide]), pairs),
        st.builds(OrderedDict, pairs),
        st.dictionaries(KEYS, inner, max_size=3).map(lambda counts: Counter(counts)),
    )


@RELAXED
@given(st.recursive(ATOMS, containers, max_leaves=12))
def test_any_nested_containers_come_back_equal_and_of_the_same_type(value: Any) -> None:
    data = encode(value)
    assert form(value) == form(decode(data))
    assert data == encode(decode(data)) == encode_leniently(value)
