"""What can be declared as an actor: functions of every kind, and what they are called.

What cannot be one is refused here, with what to do instead.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple, cast

from limpet.errors import UsageError
from limpet.model import EventType

_PACKAGE = str(Path(__file__).parents[1])
"""Frames of files in this folder are ours, not the user's."""


class Binding(Enum):
    """What is given to the function first where it is an attribute of a class."""

    INSTANCE = "instance"
    CLASS = "class"
    NOTHING = "nothing"


class Declared(NamedTuple):
    """A function that is declared as an actor."""

    function: Callable[..., Any]
    binding: Binding
    name: str
    qualified_name: str
    module: str
    description: str


def examined(given: object, event_type: EventType) -> Declared:
    """What is to be declared, as a function with its names. Raises UsageError for what cannot be an actor."""
    function, binding = _unwrapped(given)
    inner = innermost(function)
    kind = event_type.removesuffix("_call")
    _require_function(given, function, kind)
    _require_no_generator(inner, kind)
    name = _text_of(inner, "__name__") or type(inner).__name__
    is_function = type(function) is FunctionType
    return Declared(
        function=cast("Callable[..., Any]", function),
        binding=binding,
        name=name,
        qualified_name=_text_of(inner, "__qualname__") or type(inner).__qualname__,
        # What has no place of its own in a module is found where it was declared.
        module=_text_of(function, "__module__") if is_function else _declaring_module(),
        description=inspect.getdoc(inner) or "",
    )


def innermost(function: object) -> object:
    """The function inside of partial ones."""
    while isinstance(function, partial):
        function = cast("object", function.func)
    return function


def _unwrapped(given: object) -> tuple[object, Binding]:
    if isinstance(given, staticmethod):
        return cast("staticmethod[..., Any]", given).__func__, Binding.NOTHING
    if isinstance(given, classmethod):
        return cast("classmethod[Any, ..., Any]", given).__func__, Binding.CLASS
    # As Python has it: an object that is called like a function, or a partial one, does not become a method.
    is_bound = type(given) in (partial, MethodType) or not hasattr(type(given), "__get__")
    return given, Binding.NOTHING if is_bound else Binding.INSTANCE


def _require_function(given: object, function: object, kind: str) -> None:
    if isinstance(given, str):
        raise UsageError(
            f"`@{kind}` was given {given!r}, which is no function.",
            f"Give options by their names: `@{kind}(name={given!r})`.",
        )
    if isinstance(getattr(function, "event_type", None), EventType):
        raise UsageError(
            f"{getattr(function, '__name__', function)} is declared as an actor already.",
            f"Leave `@{kind}` out, or the other decorator.",
        )
    if isinstance(given, type):
        raise UsageError(
            f"`@{kind}` stands above the class {given.__name__}.",
            f"Put it above a method of the class, or above a function that makes one; or write a subclass of "
            f"`{'LLM' if kind == 'llm' else kind.capitalize()}`.",
        )
    if isinstance(given, property):
        raise UsageError(
            f"`@{kind}` stands above the property {_text_of(given.fget, '__name__')}, and a property is not called.",
            "Leave `@property` out, and await the method.",
        )
    if not callable(function):
        raise UsageError(f"{given!r} was declared as an actor, and is no function.", "Decorate a function.")


def _require_no_generator(inner: object, kind: str) -> None:
    for code in (inner, cast("Any", type(inner)).__call__):
        if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
            name = _text_of(inner, "__qualname__") or type(inner).__qualname__
            raise UsageError(
                f"{name} is a generator, and what it yields could not be given again.",
                f"Return a list instead, or make each item by a `@{kind}` of its own.",
            )


def _text_of(thing: object, name: str) -> str:
    found = getattr(thing, name, None)
    return found if isinstance(found, str) else ""


def _declaring_module() -> str:
    """The module of the user's that is declaring an actor."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # what `warnings` itself does
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))
