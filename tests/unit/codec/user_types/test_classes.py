"""Instances of users' classes come back with all that they carry, and without anything of the class being called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import attrs
import msgspec
import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from unit.codec.user_types import class_types as types
from unit.codec.user_types.class_types import Anchor, Buoy, Crate, FrozenKnot, Knot

from limpet.codec.kinds import NotStorable
from limpet.codec.user_types.classes import family_of, kind_of_class, parts_of
from limpet.codec.values import decode, encode
from limpet.errors import ValueNotReadable, ValueNotStorable

HERE = types.__name__


def again(value: Any) -> Any:
    return decode(encode(value))


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


def with_attribute(value: Any, name: str, item: object) -> Any:
    vars(value)[name] = item
    return value


@pytest.mark.parametrize(
    "value",
    [
        Anchor(1.5, ["a"]),
        Anchor((1, {2}), [Knot("reef")]),  # pyright: ignore[reportArgumentType] - any value will do
        Buoy("north", 7, 8),
        types.Hashed("reef"),
        types.HashedWithDict("reef"),
        types.HeavyAnchor(1.0, ["x"], 3),
        types.LooseAnchor(1.0, ["x"], 3),
        types.AnchorOf(Anchor(1.0)),
        types.AnchorOf[int](3),
        Knot("bowline", [1, 2]),
        Knot("\ud800", [2**80]),
        FrozenKnot(long_name="x", turns=(1, 2)),
        types.HeavyKnot(long_name="x", weight=3),
        types.OpenKnot("open"),
        types.KnotOf(Knot("inner")),
        types.KnotOf[int](3),
        types.Launched("one", 5, crew=2),
        types.Boat([1]),
        types.Ferry("f", 3),
        types.Checked(3),
        types.Position(1, (2,)),
        types.Planet.HOME,
        types.Price.HIGH,
        types.Label.name_,
        types.Permission.READ | types.Permission.WRITE,
        types.Permission(8),
        types.Owner(pet=types.Seal(depth=2.5)),
        types.Owner(pet=types.Cat()),
        types.Aliased(shown=3),  # pyright: ignore[reportCallIssue] - the checker knows only the alias
        types.Aliased.model_validate({"displayedAs": 3}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_instance_comes_back_equal_and_of_the_same_class(value: Any) -> None:
    copy = again([value, {"k": (value,)}])
    assert [value, {"k": (value,)}] == copy
    assert type(value) is type(copy[0])
    assert repr(value) == repr(copy[0])


def test_a_typed_dict_comes_back_as_the_dict_that_it_is() -> None:
    entry: types.Entry = {"name": "kelp"}
    assert entry == again(entry)
    assert dict is type(again(entry))


def test_reading_calls_nothing_of_an_attrs_class_or_a_struct() -> None:
    data = [encode(Buoy("north")), encode(FrozenKnot(long_name="x")), encode(types.HeavyKnot(long_name="y", weight=1))]
    types.calls.clear()
    assert [Buoy, FrozenKnot, types.HeavyKnot] == [type(decode(each)) for each in data]
    assert [] == types.calls


def test_what_is_frozen_comes_back_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        again(Buoy("north")).name = "south"
    with pytest.raises(AttributeError):
        again(FrozenKnot(long_name="x")).long_name = "y"


@pytest.mark.parametrize("cls", [types.Hashed, types.HashedWithDict])
def test_a_hash_that_attrs_has_kept_is_computed_again(cls: Any) -> None:
    value = cls("reef")
    hash(value)
    assert again(value)._attrs_cached_hash is None
    assert hash(value) == hash(again(value)) == hash(again(again(value)))


def test_a_struct_that_keeps_its_hash_has_the_right_one() -> None:
    knot = types.HeavyKnot(long_name="x", weight=3)
    assert hash(knot) == hash(again(knot))


def test_cached_properties_come_back() -> None:
    hashed, knot = types.Hashed("reef"), types.OpenKnot("open")
    assert ("REEF", "OPEN") == (hashed.loud, knot.loud)
    assert "REEF" == vars(types.Hashed)["loud"].__get__(again(hashed))
    assert {"loud": "OPEN"} == vars(again(knot))


def test_attributes_besides_the_slots_of_a_base_come_back() -> None:
    anchor = with_attribute(types.PlainAnchor(1.0, ["a"]), "colour", "red")
    copy = again(anchor)
    assert (1.0, ["a"], {"colour": "red"}) == (copy.weight, copy.marks, vars(copy))


def test_a_field_behind_a_descriptor_comes_back_through_it() -> None:
    data = encode(types.Described(7))
    types.calls.clear()
    copy = decode(data)
    assert (7, {"_weight": 7}, ["__set__"]) == (copy.weight, vars(copy), types.calls)


def test_only_fields_are_set_through_what_the_class_defines() -> None:
    types.calls.clear()
    copy = decode(written(18, [f"{HERE}:Ferry", {"name": "f", "cars": 1}]))
    assert types.Ferry("f", 1) == copy
    data = written(18, [f"{HERE}:Checked", {"number": 1}, {"weight": 3, "__class__": 4}])
    copy = decode(data)
    assert types.Checked is type(copy)
    assert [] == types.calls


def test_fields_in_another_order_are_the_same_fields() -> None:
    for tag, name, fields in (
        (18, "Ferry", {"cars": 1, "name": "f"}),
        (18, "Launched", {"crew": 0, "number": 3, "name": "n"}),
        (22, "Knot", {"turns": [], "name": "k"}),
        (23, "Anchor", {"marks": [], "weight": 1.0}),
    ):
        copy = decode(written(tag, [f"{HERE}:{name}", fields]))
        assert fields == {key: getattr(copy, key) for key in fields}
    model = decode(written(20, [f"{HERE}:Seal", {"depth": 1.0, "kind": "seal"}]))
    assert types.Seal(kind="seal", depth=1.0) == model


def test_records_with_all_their_parts_are_read_as_well() -> None:
    assert types.Ferry("f", 1) == decode(written(18, [f"{HERE}:Ferry", {"name": "f", "cars": 1}, {}]))
    assert types.Position(1, 2) == decode(written(19, [f"{HERE}:Position", {"x": 1, "y": 2}, {}]))
    seal = decode(written(20, [f"{HERE}:Seal", {"kind": "seal", "depth": 1.0}, None, ["depth"], {}]))
    assert (types.Seal(depth=1.0), {"depth"}) == (seal, seal.model_fields_set)


@pytest.mark.parametrize(
    ("tag", "name", "fields", "declared"),
    [
        (22, "Knot", {"name": "x"}, "name, turns"),
        (23, "Anchor", {"weight": 1.0, "colour": "red"}, "marks, weight"),
        (23, "Anchor", {}, "marks, weight"),
    ],
)
def test_a_class_that_has_changed_is_refused_with_both_shapes(tag: int, name: str, fields: Any, declared: str) -> None:
    with pytest.raises(ValueNotReadable) as caught:
        decode(written(tag, [f"{HERE}:{name}", fields]))
    recorded = ", ".join(sorted(fields)) or "none"
    assert f"{HERE}:{name}" == caught.value.type_name
    assert f"it was recorded with the fields {recorded} and now has {declared}; register it with " in caught.value.why


@pytest.mark.parametrize("tag", [17, 18, 19, 20, 21, 22, 23])
@pytest.mark.parametrize("name", ["Anchor", "Knot", "Ferry", "Position", "Seal", "AttrsError", "Planet"])
def test_only_the_recorded_family_comes_back(tag: int, name: str) -> None:
    own = {"Anchor": 23, "Knot": 22, "Ferry": 18, "Position": 19, "Seal": 20, "AttrsError": 21, "Planet": 17}[name]
    data = written(tag, [f"{HERE}:{name}", {}, {}, {}, None, False, None][: 3 if tag == 17 else 4])
    with pytest.raises(ValueNotReadable) as caught:
        decode(data)
    assert ("the class of that name is none now" in caught.value.why) is (tag != own)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("result.weight", Anchor(object())),  # pyright: ignore[reportArgumentType] - to be refused
        ("result.turns[0]", Knot("x", [object()])),  # pyright: ignore[reportArgumentType] - to be refused
        ("result.extra", with_attribute(types.OpenKnot("x"), "extra", object())),
        ("result.item.item", Crate[Any](item=Crate[Any](item=object()))),
    ],
)
def test_the_place_inside_an_instance_is_named(place: str, value: object) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode(value, "result")
    assert place == caught.value.place


def test_a_struct_that_lacks_a_field_is_refused() -> None:
    knot = Knot("x")
    del knot.name
    with pytest.raises(ValueNotStorable, match="Knot"):
        encode(knot)


@attrs.define
class WithList(list[int]):
    tag: str = ""


def test_an_attrs_class_with_content_besides_its_fields_is_refused() -> None:
    with pytest.raises(NotStorable, match="is also a list"):
        kind_of_class(WithList)


def test_a_class_that_was_whole_and_is_not_any_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = type("Ferry", (types.Ferry,), {"__slots__": ("hidden",), "__module__": HERE, "__qualname__": "Ferry"})
    monkeypatch.setattr(types, "Ferry", changed)
    with pytest.raises(ValueNotReadable, match=r"the class of that name has the slot 'hidden'"):
        decode(written(18, [f"{HERE}:Ferry", {"name": "f", "cars": 1}]))


def test_a_class_that_replaced_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(types.Checked(3))
    newer = type("Checked", (types.Checked,), {"__module__": HERE, "__qualname__": "Checked"})
    assert types.Checked is type(decode(data))
    monkeypatch.setattr(types, "Checked", newer)
    assert newer is type(decode(data))
    module = ModuleType(HERE)
    vars(module)["Checked"] = newest = type("Checked", (newer,), {"__module__": HERE, "__qualname__": "Checked"})
    monkeypatch.setitem(sys.modules, HERE, module)
    assert newest is type(decode(data))


class Asking(type):
    """A metaclass that notices when its classes are asked for anything."""

    asked: list[str] = []  # noqa: RUF012 - this is the notice

    def __getattribute__(cls, name: str) -> Any:
        Asking.asked.append(name)
        return super().__getattribute__(name)


class Watched(metaclass=Asking):
    class Inner:
        pass

    @property
    def shown(self) -> int:
        Asking.asked.append("shown")
        return 1


@pytest.mark.parametrize("qualified", ["Watched", "Watched.Inner", "Watched.shown", "Watched.Inner.nothing"])
@pytest.mark.parametrize("tag", [17, 18, 19, 20, 21, 22, 23])
def test_a_class_that_data_names_is_not_asked_for_anything(qualified: str, tag: int) -> None:
    data = written(tag, [f"{__name__}:{qualified}", {}, {}, {}][: 3 if tag == 17 else 4])
    Asking.asked.clear()
    with pytest.raises(ValueNotReadable):
        decode(data)
    assert [] == Asking.asked


def test_the_parts_of_a_member_of_an_enum_are_none() -> None:
    assert [] == list(parts_of(types.Planet.EARTH, "here"))


def test_the_families_are_told_apart() -> None:
    expected = {
        Anchor: "an attrs class",
        types.PlainAnchor: "an attrs class",
        Knot: "a msgspec struct",
        types.Checked: "a dataclass",
        types.AttrsError: "an exception",
        types.Position: "a named tuple",
        types.Price: "an enum",
        Crate[int]: "a pydantic model",
        object: None,
        BaseModel: "a pydantic model",
        msgspec.Struct: "a msgspec struct",
    }
    assert expected == {cls: family_of(cls) for cls in expected}


ITEMS = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.floats(allow_nan=False), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(Anchor, inner, st.lists(inner, max_size=2)),
        st.builds(types.LooseAnchor, inner, st.just([]), inner),
        st.builds(types.Hashed, st.text()),
        st.builds(Knot, st.text(), st.lists(inner, max_size=2)),
        st.builds(types.KnotOf, inner),
        st.builds(lambda item: FrozenKnot(long_name=item), inner),
        st.builds(lambda item: Crate[Any](item=item), inner),
        st.builds(types.Boat, inner),
        st.builds(types.Position, inner, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(ITEMS)
def test_instances_inside_instances_come_back_equal(value: Any) -> None:
    assert repr(value) == repr(again(value))
    assert value == again(value)
