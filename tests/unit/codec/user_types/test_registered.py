"""Registered types: under their own names, in their own ways, and with versions that are brought up to date."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from enum import Enum, Flag
from typing import Any

import attrs
import msgspec
import ormsgpack
import pytest
from pydantic import BaseModel, PrivateAttr
from unit.codec import sample_types
from unit.codec.user_types import class_types

from limpet.codec.user_types import registered
from limpet.codec.user_types.classes import kind_of_class, parts_of
from limpet.codec.user_types.families import REGISTERED_KINDS
from limpet.codec.user_types.registered import register_type
from limpet.codec.values import decode, encode, encode_leniently
from limpet.errors import UsageError, ValueNotReadable, ValueNotStorable


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """What these tests register is a fact about the process, and is taken back for the other tests."""
    before = set(registered._entries)
    yield
    for name in set(registered._entries) - before:
        if name in registered._entries:
            registered._leave(registered._entries[name])


class Grid:
    """Has no family: only its owner knows how it is stored."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows
        self.lock = threading.Lock()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.rows == other.rows

    __hash__ = None  # pyright: ignore[reportAssignmentType] - it can be changed


@dataclass
class Page:
    url: str


@dataclass
class Article:
    title: str
    tags: list[str]


class Note(BaseModel):
    text: str
    size: int = 0
    _cache: list[int] = PrivateAttr(default_factory=list)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Right(Flag):
    READ = 1
    WRITE = 2


class StormError(Exception):
    def __init__(self, force: int) -> None:
        super().__init__(force)
        self.force = force


@attrs.define
class Rope:
    length: int


class Hook(msgspec.Struct):
    size: int


class Handle:
    """Pickle stores it."""

    def __init__(self, number: int) -> None:
        self.number = number


class Trap:
    """Pickle would run code of the stored bytes."""

    def __reduce__(self) -> Any:
        return ran.append, ("the trap",)


ran: list[str] = []


def again(value: Any) -> Any:
    return decode(encode(value))


def dataclass_of(name: str, module: str) -> Any:
    return make_dataclass(name, ["value"], namespace={"__module__": module})


def parts_in(data: bytes) -> Any:
    """The parts of the outermost value, with the tags and bytes of what is inside."""
    return ormsgpack.unpackb(data, ext_hook=lambda _tag, inside: ormsgpack.unpackb(inside, ext_hook=lambda *each: each))


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


def unreadable(data: bytes) -> ValueNotReadable:
    with pytest.raises(ValueNotReadable) as caught:
        decode(data)
    return caught.value


def unstorable(value: object) -> ValueNotStorable:
    with pytest.raises(ValueNotStorable) as caught:
        encode([value], "result")
    return caught.value


def test_a_type_with_its_own_way_comes_back() -> None:
    assert Grid is register_type(Grid, name="grid", encode=lambda grid: grid.rows, decode=Grid)
    assert {"a": [Grid([[1, 2]])]} == again({"a": [Grid([[1, 2]])]})
    assert ["grid", 1, None, [[1, 2]]] == parts_in(encode(Grid([[1, 2]])))


def test_what_encode_gives_may_be_anything_that_can_be_stored() -> None:
    register_type(
        Grid, encode=lambda grid: {(1, 2): sample_types.Page("a"), "grid": grid.rows}, decode=lambda s: Grid(s["grid"])
    )
    assert Grid([[3]]) == again(Grid([[3]]))


@pytest.mark.parametrize(
    "value",
    [Page("a"), Note(text="x"), Colour.RED, Right.READ | Right.WRITE, Rope(3), Hook(3), class_types.Position(1, 2)],
    ids=lambda value: type(value).__name__,
)
def test_a_type_of_a_family_is_stored_under_its_name(value: Any) -> None:
    register_type(type(value), name="thing", version=3)
    name, version, family, _ = parts_in(encode(value))
    assert ("thing", 3, kind_of_family(type(value))) == (name, version, family)
    assert (value, type(value)) == (again(value), type(again(value)))


def kind_of_family(cls: type) -> int:
    kind = REGISTERED_KINDS[cls].family
    assert kind is not None
    return kind.tag


def test_a_registered_exception_comes_back() -> None:
    register_type(StormError, name="storm")
    copy = again(StormError(7))
    assert (StormError, (7,), 7) == (type(copy), copy.args, copy.force)


def test_a_class_can_be_registered_where_it_is_declared() -> None:
    @register_type
    @dataclass
    class Local:
        value: int

    @register_type(name="other", version=2)
    @dataclass
    class Other:
        value: int

    assert [Local(1), Other(2)] == again([Local(1), Other(2)])
    assert ["other", 2, 18] == parts_in(encode(Other(1)))[:3]


def test_the_name_stays_when_the_class_is_moved() -> None:
    before = dataclass_of("Before", "elsewhere")
    register_type(before, name="moved")
    data = encode(before(3))
    registered._leave(registered._entries["moved"])
    after = make_dataclass("After", ["value"])
    register_type(after, name="moved")
    assert after(3) == decode(data)


@pytest.mark.parametrize("tag", [18, 36])
def test_an_alias_finds_what_was_recorded_under_an_older_name(tag: int) -> None:
    family_parts = ["gone.module:WebPage", {"url": "a"}]
    data = written(tag, family_parts if tag == 18 else ["gone.module:WebPage", 1, 18, family_parts])
    assert "gone.module:WebPage" == unreadable(data).type_name
    register_type(Page, name="page", aliases=("gone.module:WebPage", "other:Name"))
    assert Page("a") == decode(data)


def test_an_alias_in_the_parameters_of_a_generic_model_is_followed() -> None:
    data = written(20, [f"{class_types.__name__}:Crate", {"item": 1}, None, ["item"], {}, [["class", "gone:Page"]]])
    register_type(Page, aliases=["gone:Page"])
    assert class_types.Crate[Page] is type(decode(data))


def test_subclasses_are_other_types() -> None:
    class Child(Page):
        pass

    register_type(Page, name="page")
    assert "cannot be found again" in unstorable(Child("a")).why


def test_a_registered_name_is_looked_up_among_the_registered_only() -> None:
    name = f"{sample_types.__name__}:Page"
    error = unreadable(written(36, [name, 1, 18, [name, {"url": "a", "lines": []}]]))
    assert (name, "no type is registered under that name in this program") == error.args


def test_a_type_that_was_seen_before_is_registered_from_then_on() -> None:
    before = encode(Page("a"))
    assert 18 == ormsgpack.unpackb(before, ext_hook=lambda tag, _: tag)
    register_type(Page, name="page")
    assert 36 == ormsgpack.unpackb(encode(Page("a")), ext_hook=lambda tag, _: tag)
    assert Page("a") == decode(before)


def test_a_type_that_was_refused_before_can_be_registered() -> None:
    assert "is not a kind of value" in unstorable(Grid([])).why
    register_type(Grid, encode=lambda grid: grid.rows, decode=Grid)
    assert Grid([]) == again(Grid([]))


def test_registering_again_replaces_the_entry() -> None:
    register_type(Page, name="page", aliases=("old:Page",))
    register_type(Page, name="sheet")
    assert "sheet" == parts_in(encode(Page("a")))[0]
    assert "no type is registered" in unreadable(written(36, ["page", 1, 18, ["page", {"url": "a"}]])).why
    assert "module 'old' is not imported" in unreadable(written(18, ["old:Page", {"url": "a"}])).why


def test_a_module_that_is_loaded_again_registers_its_classes_again() -> None:
    first, second = (dataclass_of("Loaded", "loaded") for _ in range(2))
    register_type(first)
    data = encode(first(1))
    register_type(second)
    assert second is type(decode(data))
    assert "cannot be found again" in unstorable(first(1)).why


def upgrade_article(fields: Any, version: int) -> Any:
    assert (1, {"title"}) == (version, set(fields))
    return {"title": fields["title"].upper(), "tags": []}


@pytest.mark.parametrize("tag", [18, 36])
def test_an_upgrade_brings_older_fields_up_to_date(tag: int) -> None:
    name = f"{__name__}:Article"
    parts = [name, {"title": "kelp"}, {"seen": 3}]
    data = written(tag, parts if tag == 18 else ["article", 1, 18, parts])
    register_type(Article, name="article", version=2, upgrade=upgrade_article)
    copy = decode(data)
    assert (Article("KELP", []), 3) == (copy, vars(copy)["seen"])
    assert Article("x", ["y"]) == again(Article("x", ["y"]))


def test_an_upgrade_is_told_the_recorded_version() -> None:
    versions: list[int] = []

    def upgrade(stored: Any, version: int) -> Any:
        versions.append(version)
        return stored

    register_type(Page, name="page", version=3, upgrade=upgrade)
    for version in (1, 2, 3):
        assert Page("a") == decode(written(36, ["page", version, 18, ["page", {"url": "a"}]]))
    assert [1, 2] == versions


def test_an_upgrade_of_a_model_keeps_which_fields_were_given() -> None:
    register_type(Note, name="note", version=2, upgrade=lambda fields, _: {"text": fields["words"], "size": 7})
    for given, expected in (([["words", "text"]], {"text"}), ([], {"text", "size"}), ([None], {"text", "size"})):
        parts = ["note", {"words": "x"}, *([None] if given else []), *given]
        copy = decode(written(36, ["note", 1, 20, parts]))
        assert (Note(text="x", size=7), expected, []) == (copy, copy.model_fields_set, copy._cache)
    copy = decode(written(36, ["note", 1, 20, ["note", {"words": "x"}, {"more": 1}, ["words", "more"], {}]]))
    assert {"more"} == copy.model_fields_set


@pytest.mark.parametrize("tag", [18, 20])
def test_an_upgrade_may_change_the_family(tag: int) -> None:
    old = written(tag, [f"{__name__}:Note", {"words": "x"}, {"seen": 1} if tag == 18 else None])
    register_type(Note, version=2, upgrade=lambda fields, _: {"text": fields["words"], "size": 7})
    assert Note(text="x", size=7) == decode(old)


def test_an_upgrade_goes_from_fields_to_an_own_way_and_back() -> None:
    name = f"{__name__}:Page"
    register_type(
        Page, version=2, encode=lambda page: [page.url], decode=lambda s: Page(*s), upgrade=lambda f, _: [f["url"]]
    )
    assert Page("a") == decode(written(18, [name, {"url": "a"}]))
    data = encode(Page("b"))
    register_type(Page, version=3, upgrade=lambda stored, _: {"url": stored[0]})
    assert Page("b") == decode(data)


def test_upgrades_of_enums_and_exceptions() -> None:
    register_type(Colour, version=2, upgrade=lambda member, _: {"CRIMSON": "RED"}[member])
    register_type(Right, version=2, upgrade=lambda value, _: value & 3)
    register_type(StormError, version=2, upgrade=lambda fields, _: {"args": [9], "force": fields["args"][0]})
    assert Colour.RED is decode(written(17, [f"{__name__}:Colour", "CRIMSON", None]))
    assert Right.READ is decode(written(17, [f"{__name__}:Right", None, 5]))
    copy = decode(written(21, [f"{__name__}:StormError", [3], {"old": 1}, {}, None, True, "text"]))
    assert ((9,), 3, True, "text") == (copy.args, copy.force, copy.__suppress_context__, copy.recorded_traceback)
    assert not hasattr(copy, "old")
    assert (9,) == decode(written(36, [f"{__name__}:StormError", 1, 18, ["x", {"args": [3]}]])).args


def test_a_record_of_a_newer_version_is_refused() -> None:
    register_type(Page, name="page", version=2, upgrade=lambda stored, _: stored)
    error = unreadable(written(36, ["page", 5, 18, ["page", {"url": "a"}]]))
    assert ("page", "it was recorded with version 5, and this program has registered version 2") == error.args


def test_an_older_version_without_an_upgrade_is_refused() -> None:
    register_type(Page, name="page", version=2)
    error = unreadable(written(36, ["page", 1, 18, ["page", {"url": "a"}]]))
    assert "it was recorded with version 1, and version 2 is registered without an `upgrade`" == error.why
    error = unreadable(written(36, ["page", 1, None, ["a"]]))
    assert "it was recorded with version 1, and version 2 is registered without an `upgrade`" == error.why


@pytest.mark.parametrize("version", [1, 2])
def test_a_changed_shape_without_an_upgrade_is_refused_with_both_shapes(version: int) -> None:
    register_type(Article, name="article", version=version)
    error = unreadable(written(36, ["article", 1, 18, ["old:Article", {"title": "a", "size": 1}]]))
    assert "article" == error.type_name
    assert error.why.startswith("it was recorded with the fields size, title and now has tags, title; register it with")


def test_what_was_recorded_by_fields_is_read_where_there_is_an_own_way_now() -> None:
    data = encode(Page("a"))
    register_type(Page, encode=lambda page: page.url, decode=Page)
    assert Page("a") == decode(data)


def test_what_was_recorded_in_an_own_way_needs_one() -> None:
    register_type(Page, name="page")
    assert "is registered without a `decode`" in unreadable(written(36, ["page", 1, None, "a"])).why


def failing(*_: object) -> Any:
    raise ZeroDivisionError("by zero")


def test_an_encode_that_fails_is_named_with_its_place() -> None:
    register_type(Grid, encode=failing, decode=failing)
    error = unstorable(Grid([]))
    assert ("result[0]", f"{__name__}.Grid") == (error.place, error.type_name)
    assert "could not be encoded by its `encode` (ZeroDivisionError: by zero)" == error.why


def test_what_encode_gives_must_be_storable() -> None:
    register_type(Grid, encode=lambda grid: {"lock": grid.lock}, decode=failing)
    assert ("result[0]", "_thread.lock") == unstorable(Grid([])).args[:2]


def test_an_encode_that_gives_the_value_itself_is_refused() -> None:
    register_type(Grid, encode=lambda grid: [grid], decode=failing)
    assert "result[0]" == unstorable(Grid([])).place


def test_a_part_that_encode_leaves_out_is_not_blamed_for_another() -> None:
    register_type(Grid, encode=lambda grid: grid.rows, decode=Grid)
    with pytest.raises(ValueNotStorable) as caught:
        encode([Grid([]), object()], "result")
    assert "result[1]" == caught.value.place
    assert [] == list(parts_of(Grid([]), "here"))


def test_a_registered_type_is_noted_where_it_cannot_be_stored() -> None:
    register_type(Grid, encode=failing, decode=failing)
    assert [1, f"{__name__}.Grid"] == [1, decode(encode_leniently([1, Grid([])]))[1].type_name]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"decode": failing}, "its `decode` raised ZeroDivisionError: by zero"),
        ({"decode": lambda _: 5}, "its `decode` gave a value of type int, not a Grid"),
        ({"decode": Grid, "version": 2, "upgrade": failing}, "its `upgrade` raised ZeroDivisionError: by zero"),
    ],
)
def test_what_fails_when_it_is_read_is_named(options: Any, why: str) -> None:
    register_type(Grid, name="grid", encode=lambda grid: grid.rows, **options)
    assert ("grid", why) == unreadable(written(36, ["grid", 1, None, [[1]]])).args


def silent(*_: object) -> Any:
    raise KeyError


def test_an_error_without_a_text_is_named_by_its_type() -> None:
    register_type(Grid, name="grid", encode=silent, decode=silent)
    assert "its `decode` raised KeyError" == unreadable(written(36, ["grid", 1, None, 1])).why


def test_an_upgrade_must_give_fields() -> None:
    register_type(Page, name="page", version=2, upgrade=lambda _fields, _version: [1])
    error = unreadable(written(36, ["page", 1, 18, ["page", {"url": "a"}]]))
    assert "its `upgrade` gave a value of type list, not the dict of its fields" == error.why


@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["page"],
        ["page", 1, 18],
        ["page", 0, 18, ["page", {"url": "a"}]],
        ["page", True, 18, ["page", {"url": "a"}]],
        ["page", "1", 18, ["page", {"url": "a"}]],
        ["page", 1, 99, ["page", {"url": "a"}]],
        ["page", 1, "json", "{}"],
        ["page", 1, [], "{}"],
        ["page", 1, 18, 5],
        ["page", 1, 18, []],
        ["page", 1, 17, ["page", "RED", None]],
        [5, 1, 18, ["page", {"url": "a"}]],
        [["page"], 1, 18, ["page", {"url": "a"}]],
    ],
    ids=str,
)
def test_damaged_records_are_refused(parts: Any) -> None:
    register_type(Page, name="page")
    unreadable(written(36, parts))


def test_pickle_is_used_where_it_is_asked_for() -> None:
    register_type(Handle, name="handle", adapter="pickle")
    assert 3 == again([Handle(3)])[0].number
    name, version, form, stored = parts_in(encode(Handle(3)))
    assert ("handle", 1, "pickle", bytes) == (name, version, form, type(stored))


def test_pickle_is_not_used_for_a_type_that_did_not_ask() -> None:
    register_type(Page, name="page")
    ran.clear()
    error = unreadable(written(36, ["page", 1, "pickle", pickle.dumps(Trap())]))
    assert 'is not registered with `adapter="pickle"`' in error.why
    assert "no type is registered" in unreadable(written(36, ["nobody", 1, "pickle", pickle.dumps(Trap())])).why
    assert [] == ran


@pytest.mark.parametrize("stored", [pickle.dumps(5), b"no pickle", "text", None])
def test_pickle_gives_that_very_type_or_nothing(stored: Any) -> None:
    register_type(Handle, name="handle", adapter="pickle")
    assert "its `adapter` " in unreadable(written(36, ["handle", 1, "pickle", stored])).why


def test_pickle_with_versions() -> None:
    register_type(Handle, name="handle", adapter="pickle")
    data = encode(Handle(3))
    register_type(Handle, name="handle", adapter="pickle", version=2, upgrade=lambda old, _: Handle(old.number + 1))
    assert 4 == decode(data).number
    register_type(Handle, name="handle", adapter="pickle", version=2, upgrade=lambda old, _: old.number)
    assert "its `upgrade` gave a value of type int" in unreadable(data).why


def test_what_pickle_cannot_store_is_refused() -> None:
    register_type(Handle, name="handle", adapter="pickle")
    assert "could not be encoded with pickle" in unstorable(Handle(lambda: 0)).why  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("register", "problem", "remedy"),
    [
        (lambda: register_type(5), "5, which is not a class", "the class itself"),  # pyright: ignore[reportArgumentType]
        (lambda: register_type(int), "int cannot be registered: it is stored", "class of your own"),
        (lambda: register_type(list), "list cannot be registered: it is stored", "class of your own"),
        (lambda: register_type(datetime), "datetime cannot be registered: it is stored", "class of your own"),
        (lambda: register_type(Grid), "Grid cannot be registered: it is not a dataclass", "`encode=` and `decode=`"),
        (lambda: register_type(sample_types.HiddenSlot), "it has the slot 'hidden'", "`encode=` and `decode=`"),
        (lambda: register_type(Grid, encode=failing), "only one of `encode` and `decode`", "Give both"),
        (lambda: register_type(Page, decode=failing), "only one of `encode` and `decode`", "Give both"),
        (lambda: register_type(Page, version=0), "its version is 0", "from 1 on"),
        (lambda: register_type(Page, version=True), "its version is True", "from 1 on"),
        (lambda: register_type(Page, version="2"), "its version is '2'", "from 1 on"),  # pyright: ignore[reportArgumentType]
        (lambda: register_type(Page, name=""), "'' cannot be its name", "not empty"),
        (lambda: register_type(Page, name="a\nb"), r"'a\\nb' cannot be its name", "can be printed"),
        (lambda: register_type(Page, name="\ud800"), "cannot be its name", "can be printed"),
        (lambda: register_type(Page, name=5), "5 cannot be its name", "can be printed"),  # pyright: ignore[reportArgumentType]
        (lambda: register_type(Page, aliases=("a", "\x00")), "cannot be its name or an alias", "can be printed"),
        (lambda: register_type(Page, adapter="json"), "there is no adapter 'json'", "'pickle'"),
        (
            lambda: register_type(Page, adapter="pickle", encode=failing, decode=failing),
            "both an adapter",
            "one of them",
        ),
    ],
)
def test_bad_use_is_refused_with_a_remedy(register: Callable[[], object], problem: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        register()
    assert remedy in caught.value.remedy
    assert {} == {name: 0 for name, entry in registered._entries.items() if entry.cls in (Page, Grid)}


def test_one_alias_may_be_given_without_a_tuple() -> None:
    register_type(Page, aliases="old:Page")
    assert Page("a") == decode(written(18, ["old:Page", {"url": "a"}]))


@pytest.mark.parametrize("options", [{"name": "page"}, {"name": "rope", "aliases": ("page",)}])
def test_a_name_that_another_class_has_is_refused(options: Any) -> None:
    register_type(Page, name="page")
    with pytest.raises(UsageError, match=rf"as 'page': {__name__}:Page is registered under that name"):
        register_type(Rope, **options)
    assert Page("a") == again(Page("a"))
    assert 23 == ormsgpack.unpackb(encode(Rope(1)), ext_hook=lambda tag, _: tag)


def test_types_are_registered_from_many_threads() -> None:
    classes = [dataclass_of(f"Made{number}", "made") for number in range(40)]
    ready = threading.Barrier(4)
    failed: list[BaseException] = []

    def register(some: list[Any]) -> None:
        ready.wait()
        try:
            for cls in some:
                register_type(cls, name=cls.__name__)
                assert [cls(1)] == again([cls(1)])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=register, args=(classes[number::4],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failed
    assert [cls(2) for cls in classes] == again([cls(2) for cls in classes])


def test_the_kind_of_a_registered_class_is_its_own() -> None:
    register_type(Page, name="page")
    assert REGISTERED_KINDS[Page] is kind_of_class(Page)
    assert ["page", 1, 18, [f"{__name__}:Page", {"url": "a"}]] == registered.REGISTERED.lower(
        Page("a"), lambda part: part
    )
