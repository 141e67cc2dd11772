"""What calls are called where Python itself speaks of them: of one that is never awaited, or in the repr of its task.

Python names a coroutine after the function that made it. A copy of that function for each actor has the name of the
actor, and costs a call next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def named(function: Callable[P, R], name: str) -> Callable[P, R]:
    """A copy of a plain function of ours under another name."""
    original = cast(FunctionType, function)
    made = FunctionType(original.__code__, original.__globals__, name)
    made.__qualname__ = name
    return cast("Callable[P, R]", made)


def short_name(qualified_name: str) -> str:
    """What users call a function: without the functions that it was declared in."""
    return qualified_name.rpartition("<locals>.")[2]
