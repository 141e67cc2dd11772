"""Names in stored data find classes that the program has, and nothing else happens because of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import ormsgpack
import pytest
from unit.codec import sample_types as types

from limpet.codec.names import find_class, find_entry, let_stand_for, main_module_name, name_of
from limpet.codec.values import decode, encode
from limpet.errors import ValueNotReadable

FAMILY_TAGS = {
    17: ["A", None],
    18: [{}, {}],
    19: [{}, {}],
    20: [{}, None, [], {}],
    21: [[], {}, {}],
    22: [{}],
    23: [{}],
}


def naming(tag: int, name: Any) -> bytes:
    """A value of the kind with that tag that names a class."""
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb([name, *FAMILY_TAGS[tag]])))


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """A module that is imported, and complains when it is asked for an attribute that it does not have."""
    made = ModuleType("asked_for_nothing")
    asked: list[str] = []
    vars(made).update(asked=asked, __getattr__=asked.append)
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]
    assert [] == asked


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (types.Page, f"{types.__name__}:Page"),
        (types.Outer.Inner, f"{types.__name__}:Outer.Inner"),
        (ValueError, "builtins:ValueError"),
        (json.JSONDecodeError, "json.decoder:JSONDecodeError"),
    ],
)
def test_a_name_finds_the_class_that_it_was_made_of(cls: type, name: str) -> None:
    assert name == name_of(cls)
    assert cls is find_class(name)


DANGEROUS = [
    "os:system",
    "builtins:eval",
    "builtins:__import__",
    "builtins:object",
    "builtins:type",
    "builtins:dict",
    "subprocess:Popen",
    "os:path.join",
    "os:environ",
    "sys:modules",
    "threading:Thread",
    "pathlib:Path",
    f"{types.__name__}:Outer",
    f"{types.__name__}:Outer.Inner.value",
    f"{types.__name__}:calls",
    f"{types.__name__}:Page.__init__",
    f"{types.__name__}:Nothing",
    f"{types.__name__}:",
    f"{types.__name__}",
    ":",
    "",
    "::",
    "antigravity:Thing",
    "this:s",
    "os.path:join",
    "..:x",
    "tests/unit:Page",
]


@pytest.mark.parametrize("tag", FAMILY_TAGS)
@pytest.mark.parametrize("name", DANGEROUS)
def test_a_name_that_is_no_class_of_that_kind_is_refused(name: str, tag: int) -> None:
    before = set(sys.modules)
    types.calls.clear()
    with pytest.raises(ValueNotReadable) as caught:
        decode(naming(tag, name))
    assert name == caught.value.type_name
    assert before == set(sys.modules)
    assert [] == types.calls


@pytest.mark.parametrize("name", [None, 5, [], {}, b"os:system"])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(ValueNotReadable):
        decode(naming(18, name))


def test_a_module_that_is_not_imported_is_named_and_stays_so() -> None:
    assert "antigravity" not in sys.modules
    with pytest.raises(ValueNotReadable, match=r"module 'antigravity' is not imported in this program"):
        find_class("antigravity:Thing")
    assert "antigravity" not in sys.modules


def test_a_missing_class_is_told_from_a_missing_module() -> None:
    with pytest.raises(ValueNotReadable, match=r"module 'json' has no such class"):
        find_class("json:Thing")


def test_a_submodule_is_not_followed_from_its_package() -> None:
    with pytest.raises(ValueNotReadable):
        find_class("json:decoder.JSONDecodeError")


def test_a_module_is_not_asked_for_attributes(module: ModuleType) -> None:
    with pytest.raises(ValueNotReadable):
        decode(naming(18, f"{module.__name__}:Thing"))


class Deceiver:
    """Says that it is a class when it is asked, as stand-ins for other objects do."""

    asked = 0

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - the deceit
        Deceiver.asked += 1
        return type


def test_an_object_is_not_asked_what_it_is(module: ModuleType) -> None:
    vars(module)["thing"] = Deceiver()
    with pytest.raises(ValueNotReadable):
        find_class(f"{module.__name__}:thing")
    assert 0 == Deceiver.asked


class Lazy(ModuleType):
    """A module that would load itself when it is asked for anything."""

    asked: ClassVar[list[str]] = []

    def __getattribute__(self, name: str) -> Any:
        Lazy.asked.append(name)
        return super().__getattribute__(name)


def test_a_lazy_module_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lazy", Lazy("lazy"))
    Lazy.asked.clear()
    with pytest.raises(ValueNotReadable):
        decode(naming(18, "lazy:Thing"))
    assert [] == Lazy.asked


class Computing:
    """Stands for a module and computes what it has."""

    asked = 0

    @property
    def __dict__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride] - what it has is computed
        Computing.asked += 1
        return {"Thing": types.Page}


def test_something_that_stands_for_a_module_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "computing", Computing())
    with pytest.raises(ValueNotReadable):
        find_class("computing:Thing")
    assert find_entry("computing:Thing") is None
    assert 0 == Computing.asked


def test_an_entry_of_a_module_that_is_not_imported_is_none() -> None:
    assert find_entry("antigravity:Thing") is None


def test_a_name_may_stand_for_another_class(module: ModuleType) -> None:
    name = f"{module.__name__}:Old"
    let_stand_for(name, types.Page)
    assert types.Page is find_class(name)
    let_stand_for(name, None)
    with pytest.raises(ValueNotReadable):
        find_class(name)


def test_something_that_stands_for_a_module_and_has_no_entries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "no_entries", object())
    with pytest.raises(ValueNotReadable):
        decode(naming(18, "no_entries:Thing"))


def test_a_class_in_a_place_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueNotReadable, match=r"it was recorded as an enum, and the class of that name is none now"):
        decode(naming(17, f"{types.__name__}:Page"))


def running_as(monkeypatch: pytest.MonkeyPatch, **entries: Any) -> ModuleType:
    main = ModuleType("__main__")
    vars(main).pop("__spec__")
    vars(main).update(entries)
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


@pytest.mark.parametrize(
    ("expected", "entries"),
    [
        ("pipeline", {"__file__": "/home/me/pipeline.py", "__spec__": None}),
        ("pipeline", {"__file__": "/home/me/pipeline.py"}),
        ("package.pipeline", {"__spec__": ModuleSpec("package.pipeline", None)}),
        ("package", {"__spec__": ModuleSpec("package.__main__", None)}),
        ("__main__", {"__spec__": ModuleSpec("__main__", None), "__file__": "/home/me/package/__main__.py"}),
        ("__main__", {"__spec__": None}),
    ],
)
def test_a_program_has_the_name_under_which_others_would_import_it(
    expected: str, entries: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    running_as(monkeypatch, **entries)
    assert expected == main_module_name()


def test_without_a_main_module_there_is_a_name_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "__main__")
    assert "__main__" == main_module_name()


def test_a_class_of_the_running_script_is_found_under_the_name_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    main = running_as(monkeypatch, __file__="/home/me/lobster_pot.py")
    catch = vars(main)["Catch"] = type("Catch", (Exception,), {"__module__": "__main__", "__qualname__": "Catch"})
    assert "lobster_pot:Catch" == name_of(catch)
    assert catch is find_class("lobster_pot:Catch")
    assert catch is type(decode(encode(catch())))
    with pytest.raises(ValueNotReadable, match=r"module 'lobster_pot' is not imported"):
        find_class("lobster_pot:Other")


def test_a_script_named_as_another_module_keeps_its_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    main = running_as(monkeypatch, __file__="/home/me/json.py")
    catch = vars(main)["Catch"] = type("Catch", (Exception,), {"__module__": "__main__", "__qualname__": "Catch"})
    assert catch is find_class(name_of(catch))


SCRIPT = """
import sys
from dataclasses import dataclass
from limpet.codec.values import decode, encode

@dataclass
class Catch:
    weight: float

if __name__ == "__main__":
    print(encode(Catch(2.5)).hex() if len(sys.argv) == 1 else decode(bytes.fromhex(sys.argv[1])))
"""


def test_what_a_script_wrote_is_read_by_what_imports_it(tmp_path: Path) -> None:
    (tmp_path / "catching.py").write_text(SCRIPT)
    environment = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path])}

    def run(*command: str) -> str:
        answer = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
        assert "" == answer.stderr
        return answer.stdout.strip()

    written = run("catching.py")
    assert "Catch(weight=2.5)" == run("catching.py", written)
    assert "Catch(weight=2.5)" == run("-m", "catching", written)
    reading = f"import catching; from limpet.codec.values import decode; print(decode(bytes.fromhex('{written}')))"
    assert "Catch(weight=2.5)" == run("-c", reading)
