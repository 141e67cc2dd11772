"""Which optional libraries the program has imported. They are looked up here, and never imported."""

from __future__ import annotations

import sys
from typing import Any

from limpet.errors import ValueNotReadable


def imported(name: str) -> Any:
    """A library of which the program has values, so that it has imported it."""
    return sys.modules[name]


def required(name: str, type_name: str) -> Any:
    """The library that a recorded value needs. Raises ValueNotReadable where the program has not imported it."""
    library = sys.modules.get(name)
    if library is None:
        raise ValueNotReadable(type_name, f"module {name!r} is not imported in this program")
    return library
