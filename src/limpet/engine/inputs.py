"""Inputs as their callers gave them: whether two are the same, and how they differ, in words.

An argument that is given by its name, or that says what is its default anyway, is no other input.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from limpet.codec.secrets import MissingSecret
from limpet.engine.comparing import differences, shown
from limpet.engine.signatures import with_defaults
from limpet.errors import LimpetError, ValueNotReadable
from limpet.model import EventRecord, fingerprint

if TYPE_CHECKING:
    from limpet.artifacts.stored_values import StoredValues
    from limpet.engine.actors import Actor

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

SELF = "self"
"""Where, in the recorded input of a method, the object stands."""

_LONGEST_CALL = 300
"""So many characters of the arguments of a call are shown."""


def is_same_input(
    stored: StoredValues, actor: Actor[..., Any], record: EventRecord, encoded: bytes, given: Arguments
) -> bool:
    """Whether these arguments are the recorded input, although that may have other bytes."""
    value = actor.input_of(*given)
    if record.input is not None:
        return stored.is_same(record.input, encoded, value) or _is_same_with_defaults(
            stored, actor, record.input, given
        )
    return record.fingerprint in (fingerprint(encoded), fingerprint(stored.canonical(value)))


def _is_same_with_defaults(stored: StoredValues, actor: Actor[..., Any], recorded: bytes, given: Arguments) -> bool:
    """Whether arguments only say what had been left to a default, or the other way."""
    if not hasattr(actor, "function"):
        return False  # A question, for one, says all that it is.
    try:
        was = stored.decode(recorded)
        before: Any = actor.input_of(*with_defaults(actor.function, *actor.arguments_of(was)))
        if isinstance(was, dict) and SELF in was:
            before |= {SELF: was[SELF]}
        now = actor.input_of(*with_defaults(actor.function, *given))
        return stored.canonical(before) == stored.canonical(now)
    except (ValueNotReadable, RecursionError):
        return False


def other_input(stored: StoredValues, actor: Actor[..., Any], recorded: bytes | None, given: Arguments) -> str:
    """How a recorded input differs from the given one: both calls, cut short and without secrets, and where they first
    differ."""
    said = f"{actor.name!r} runs there with another input"
    if recorded is None:
        return f"{said}, which is not recorded"
    try:
        was = _named(actor, stored.decode(recorded))
    except (LimpetError, RecursionError) as error:
        return f"{said}, which cannot be read ({error})"
    now = _named(actor, actor.input_of(*given))
    found = differences(was, now, "input", most=1)
    first = f"; they differ first at {found[0]}" if found else ""
    return f"{said}: {_call_shown(actor.name, was)}, not {_call_shown(actor.name, now)}{first}"


def _named(actor: Actor[..., Any], recorded: Any) -> dict[str, Any]:
    """The arguments of an input by the names of their parameters, with defaults, and with a note for each secret."""
    args, kwargs = actor.arguments_of(recorded)
    named: dict[str, Any] = {SELF: recorded[SELF]} if isinstance(recorded, dict) and SELF in recorded else {}
    try:
        signature = inspect.signature(actor.function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        # One input, as in the explicit form; or code that has other parameters by now.
        return {**named, "input": args[0]} if len(args) == 1 and not kwargs else {**named, "args": args, **kwargs}
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = MissingSecret(f"{actor.name}({name})") if name in actor.secret_parameters else value
    return named


def _call_shown(name: str, arguments: dict[str, Any]) -> str:
    text = ", ".join(f"{key}={shown(value)}" for key, value in arguments.items())
    return f"{name}({text if len(text) <= _LONGEST_CALL else text[: _LONGEST_CALL - 1] + '…'})"
