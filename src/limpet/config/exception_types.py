"""Exception types by their names in a configuration: ``TimeoutError``, or ``module:name``.

Only the text and what is already imported is looked at when a configuration is read. A module that is not imported yet
is imported when a run needs its type, and only where it is part of Python or installed: no file of the working folder
is run because a configuration names it. The class itself is found as in stored data (``codec/names.py``).
"""

from __future__ import annotations

import builtins
import difflib
import re
import sys
import sysconfig
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from limpet.codec.names import find_class
from limpet.config.kinds import Kind, NotAllowed
from limpet.errors import ValueNotReadable

_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_BUILTIN: Final = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


def checked_name(value: object) -> str:
    """A name that means an exception type, as far as can be told without importing anything. Raises NotAllowed."""
    if not isinstance(value, str):
        raise NotAllowed
    if ":" not in value:
        if value not in _BUILTIN:
            near = difflib.get_close_matches(value, _BUILTIN, n=1)
            raise NotAllowed(f"no exception {value!r} is built in{f'; nearest: {near[0]!r}' if near else ''}")
        return value
    if not _NAME.fullmatch(value):
        raise NotAllowed
    if value.partition(":")[0] in sys.modules:
        _class_of(value)
    return value


EXCEPTION_NAME: Final = Kind(allowed="the name of a built-in exception, or 'module:name'", read=checked_name)


def exception_types(names: Iterable[str]) -> tuple[type[BaseException], ...]:
    """The types that names mean. Raises NotAllowed where a module is neither imported nor installed, or has no such."""
    return tuple(_found(name) for name in names)


def _found(name: str) -> type[BaseException]:
    if ":" not in name:
        return _BUILTIN[name]
    module = name.partition(":")[0]
    if module not in sys.modules:
        _import_installed(module, name)
    return _class_of(name)


def _class_of(name: str) -> type[BaseException]:
    try:
        found = find_class(name)
    except ValueNotReadable as error:
        raise NotAllowed(f"{name!r} is not there: {error.why}") from error
    if not issubclass(found, BaseException):
        raise NotAllowed(f"{name!r} is no exception type")
    return found


def _import_installed(module: str, name: str) -> None:
    if not is_installed(module.partition(".")[0]):
        raise NotAllowed(
            f"the module of {name!r} is neither imported in this program nor installed; import it before the run"
        )
    try:
        import_module(module)
    except Exception as error:
        raise NotAllowed(f"the module of {name!r} cannot be imported ({type(error).__name__}: {error})") from error


def is_installed(package: str) -> bool:
    """Whether a package at the top is part of Python or installed, and so not a file of whoever runs a program here."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    origin = Path(spec.origin).resolve()
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(origin.is_relative_to(folder) for folder in folders)
