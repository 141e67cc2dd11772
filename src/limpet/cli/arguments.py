"""From ``key=value`` on the command line to the arguments of an agent.

The text is taken as it is where the parameter is annotated as ``str``. Otherwise it is JSON if it can be read as that,
else text. Nothing is converted further.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

from limpet.engine.actors import Actor, HandlerActor
from limpet.errors import UsageError

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_TEXT = (str, "str")
_OPTIONAL_TEXT = (str | None, "str | None", "Optional[str]")


def arguments_of(actor: Actor[..., Any], given: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments to run the agent with. Raises UsageError, naming the parameters that it has.

    An agent of the explicit form has one parameter, ``input``; with an ``input_model``, the parameters of that.
    """
    if not isinstance(actor, HandlerActor):
        return _bound(actor.name, inspect_parameters(actor.function), given)
    if actor.input_model is None:
        return _bound(actor.name, {"input": Parameter("input", Parameter.POSITIONAL_ONLY)}, given)
    args, kwargs = _bound(actor.name, inspect_parameters(actor.input_model), given)
    try:
        return (actor.input_model(*args, **kwargs),), {}
    except Exception as error:
        problem = f"The input of {actor.name!r} cannot be made of these values: {' '.join(str(error).split())}."
        raise UsageError(problem, f"{_takes(inspect_parameters(actor.input_model))}") from error


def inspect_parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, TypeError, SyntaxError):
        signature = inspect.signature(function)
    return dict(signature.parameters)


def _bound(name: str, parameters: dict[str, Parameter], given: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    texts = _pairs(given)
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    named = {
        key: one for key, one in parameters.items() if one.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    }
    unknown = [key for key in texts if key not in named]
    if unknown and not takes_any:
        raise UsageError(f"{name!r} has no parameter {unknown[0]!r}.", _takes(named))
    missing = [key for key, one in named.items() if one.default is Parameter.empty and key not in texts]
    if missing:
        raise UsageError(f"{name!r} needs a value for {', '.join(map(repr, missing))}.", _takes(named))
    values = {key: _value(text, named.get(key)) for key, text in texts.items()}
    return _placed(named, values)


def _placed(named: dict[str, Parameter], values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What can stand by position does, up to the first one left out: then an agent may call one ``state_id``."""
    args: list[Any] = []
    kwargs = dict(values)
    for key, one in named.items():
        if one.kind not in _BY_POSITION or (key not in kwargs and one.kind is not Parameter.POSITIONAL_ONLY):
            break
        args.append(kwargs.pop(key, one.default))
    return tuple(args), kwargs


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(
                f"{text!r} is not of the form key=value.",
                "Write each argument as key=value, in quotes if it has spaces.",
            )
        if key in pairs:
            raise UsageError(f"{key!r} is given twice.", "Give each argument once.")
        pairs[key] = value
    return pairs


def _value(text: str, parameter: Parameter | None) -> Any:
    annotation = Parameter.empty if parameter is None else parameter.annotation
    if annotation in _TEXT or (annotation in _OPTIONAL_TEXT and text != "null"):
        return text
    try:
        return read_json(text)
    except ValueError:
        return text


def read_json(text: str) -> Any:
    """What JSON says. Raises ValueError where it is none."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    # Python reads NaN and Infinity as JSON, which they are not: they are text here.
    raise ValueError(f"{constant} is not a value of JSON")


def _takes(parameters: dict[str, Parameter]) -> str:
    if not parameters:
        return "It takes no arguments."
    shown = [
        key if one.default is Parameter.empty else f"{key} (default {one.default!r})" for key, one in parameters.items()
    ]
    return f"It takes: {', '.join(shown)}. Give each as key=value."
