"""What the signature of a function says of its parameters, and whether calling it gives something to await."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def parameters_of(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    """The parameters; none where a function of C does not tell them."""
    try:
        return inspect.signature(function).parameters.values()
    except ValueError:
        return ()


def positional_names(function: Callable[..., Any]) -> tuple[tuple[str, ...], int]:
    """The parameters that can be given by their place, and how many of them have a default."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [parameter for parameter in parameters_of(function) if parameter.kind in kinds]
    defaults = sum(parameter.default is not inspect.Parameter.empty for parameter in found)
    return tuple(parameter.name for parameter in found), defaults


def require_fit(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises TypeError, as Python does and with the name of the function, where it cannot be called with these."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None


def only_named(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(
        parameter.name
        for parameter in parameters_of(function)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is inspect.Parameter.empty
    )


def with_defaults(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments, and the defaults of the parameters that they leave out. Those that do not fit are left as they are."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    bound.apply_defaults()
    return bound.args, bound.kwargs
