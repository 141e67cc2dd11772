"""Names for the user's classes in stored data, and classes for those names.

A name in data is looked up in what the program has already imported. Nothing is imported, called or executed because
data names it: only plain entries of modules and classes are followed, and only a class comes back.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from types import ModuleType
from typing import cast

from holdfast.errors import ValueNotReadable


def main_module_name() -> str:
    """The name under which others would import the program that is running as ``__main__``."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return PurePath(file).stem if file else "__main__"


def name_of(cls: type) -> str:
    """``module:qualified.name``. A class of the running script is named as if the script were imported."""
    module = main_module_name() if cls.__module__ == "__main__" else cls.__module__
    return f"{module}:{cls.__qualname__}"


def find_class(name: str) -> type:
    """The class of that name. Raises ValueNotReadable where the program has not imported one."""
    module_name, _, qualified = name.partition(":")
    found = _follow(sys.modules.get(module_name), qualified)
    if found is None and module_name == main_module_name():
        found = _follow(sys.modules.get("__main__"), qualified)
    if found is not None:
        return found
    if module_name in sys.modules:
        raise ValueNotReadable(name, f"module {module_name!r} has no such class")
    raise ValueNotReadable(name, f"module {module_name!r} is not imported in this program")


def _follow(module: ModuleType | None, qualified: str) -> type | None:
    # Entries are read from the dictionaries: attribute access could run a module's own __getattr__.
    space = vars(module) if module is not None else {}
    found: object = None
    for part in qualified.split("."):
        found = space.get(part)
        # Not isinstance: that would ask the object for its __class__, which a stand-in for another object computes.
        if not issubclass(type(found), type):
            return None
        space = vars(found)
    return cast(type, found)
