"""Names for the user's classes in stored data, and classes for those names.

A name in data is looked up in what the program has already imported, or has declared as an alias. Nothing is imported,
called or executed because data names it: only plain entries of modules and classes are followed, read past whatever
these do when they are asked for an attribute, and only a class comes back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final, cast

from limpet.errors import ValueNotReadable

Space = Mapping[str, Any]

_MAIN: Final = "__main__"
_entries_of_module = cast("Callable[[ModuleType], Space]", vars(ModuleType)["__dict__"].__get__)
entries_of_class: Final = cast("Callable[[type], Space]", vars(type)["__dict__"].__get__)
"""What a class itself defines. Its metaclass is not asked."""

_modules: Final = sys.modules

# Names that were looked up: the class, the entries and the key that it was found under, and the module whose entries
# they are, by its name. While these are as they were, so is what the name means.
_found: Final[dict[str, tuple[type, Space, str, str, ModuleType]]] = {}
_aliases: Final[dict[str, type]] = {}


def main_module_name() -> str:
    """The name under which others would import the program that is running as ``__main__``."""
    main = _modules.get(_MAIN)
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != _MAIN:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return PurePath(file).stem if file else _MAIN


def name_of(cls: type) -> str:
    """``module:qualified.name``. A class of the running script is named as if the script were imported."""
    module = main_module_name() if cls.__module__ == _MAIN else cls.__module__
    return f"{module}:{cls.__qualname__}"


def find_class(name: str) -> type:
    """The class of that name. Raises ValueNotReadable where the program has not imported one."""
    known = _found.get(name)
    if known is not None:
        cls, space, key, module_name, module = known
        if space.get(key) is cls and _modules.get(module_name) is module:
            return cls
    return _look_up(name)


def let_stand_for(name: str, cls: type | None) -> None:
    """From now on a name in data means this class, wherever it is declared; None takes that back."""
    _found.pop(name, None)
    if cls is None:
        _aliases.pop(name, None)
    else:
        _aliases[name] = cls


def find_entry(name: str) -> object:
    """What a module has under a name, which need not be a class; None where there is nothing."""
    module_name, _, key = name.partition(":")
    module = _modules.get(module_name)
    return None if module is None else entries_of_module(module).get(key)


def _look_up(name: str) -> type:
    alias = _aliases.get(name)
    if alias is not None:
        return alias
    module_name, _, qualified = name.partition(":")
    for place in (module_name, _MAIN) if module_name == main_module_name() else (module_name,):
        module = _modules.get(place)
        found = _follow(module, qualified)
        if found is not None:
            if "." not in qualified:
                module = cast(ModuleType, module)
                _found[name] = (found, entries_of_module(module), qualified, place, module)
            return found
    why = "has no such class" if module_name in _modules else "is not imported in this program"
    raise ValueNotReadable(name, f"module {module_name!r} {why}")


def entries_of_module(module: object) -> Space:
    """What a module itself has. Its ``__getattr__`` is not asked, and what stands in its place has nothing."""
    # Programs put other objects in the place of modules. What those have is computed, so it is left alone.
    cls = type(module)
    return _entries_of_module(cast(ModuleType, module)) if issubclass(cls, ModuleType) else {}


def _follow(module: ModuleType | None, qualified: str) -> type | None:
    # Entries are read from the dictionaries: attribute access could run a module's own __getattr__.
    space: Space = entries_of_module(module) if module is not None else {}
    found: Any = None
    for part in qualified.split("."):
        found = space.get(part)
        # Not isinstance: that would ask the object for its __class__, which a stand-in for another object computes.
        if not issubclass(cast("type[object]", type(found)), type):
            return None
        space = entries_of_class(cast(type, found))
    return cast(type, found)
