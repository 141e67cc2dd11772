"""Where an actor can be imported from: 'module:name', or 'file.py:name' for the running script."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from limpet.codec.names import main_module_name
from limpet.model.notebooks import NOTEBOOK, is_cell


def reference_of(module: str, qualified_name: str, function: Callable[..., Any] | None = None) -> str | None:
    """Where a thing declared in a module can be imported from; the running script is named by its file.

    What is declared in a notebook can be imported from nowhere, and is named as that.
    """
    if not module or "<locals>" in qualified_name:
        return None
    if module != "__main__":
        return f"{module}:{qualified_name}"
    code = None if function is None else getattr(inspect.unwrap(function), "__code__", None)
    if code is not None and is_cell(code.co_filename):
        return f"{NOTEBOOK}:{qualified_name}"
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None:
        return f"{main_module_name()}:{qualified_name}"
    return f"{_whole_path(file)}:{qualified_name}" if file else None


def reference_to(
    is_it: Callable[[object], bool], module: str, qualified_name: str, function: Callable[..., Any]
) -> str | None:
    """As ``reference_of``, for what may stand in its module under another name than its own; None where it does not."""
    space = sys.modules.get(module)
    if is_it(_followed(space, qualified_name)):
        return reference_of(module, qualified_name, function)
    other = None if space is None else next((name for name, value in vars(space).items() if is_it(value)), None)
    return None if other is None else reference_of(module, other, function)


def imported_module(reference: str) -> ModuleType | None:
    """The module that a reference names, if it is imported already; it may be the running script."""
    place, _, qualified_name = reference.rpartition(":")
    if reference_of("__main__", qualified_name) == reference:
        place = "__main__"
    modules = (module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == place)
    return sys.modules.get(place) or next(modules, None)


def _followed(start: object, qualified_name: str) -> object:
    for part in qualified_name.split("."):
        start = getattr(start, part, None)
    return start


@lru_cache(maxsize=1)
def _whole_path(file: str) -> Path:
    """Where the running script lies, found once: asking the file system takes longer than recording an event."""
    return Path(file).resolve()
