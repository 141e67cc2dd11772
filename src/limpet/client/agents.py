"""What a run is given as its agent: an actor, or a call of one, with arguments that fit. Anything else is refused, with
what to do instead."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from functools import partial
from types import CoroutineType, FrameType, MethodType
from typing import Any, TypeVar, cast

from limpet.engine.actors import Actor, HandlerActor
from limpet.engine.unawaited import is_call
from limpet.errors import UsageError

R = TypeVar("R")
Given = Actor[..., R] | Coroutine[Any, Any, R] | partial[Coroutine[Any, Any, R]]
"""An agent, or a call of one that is not awaited: ``client.run(research("kelp"))``; or one with some arguments."""

_OUTSIDE = cast("Any", Actor)._execute_outside.__code__
"""What the coroutine of such a call executes."""


def call_of(
    given: Given[R], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Actor[..., R], tuple[Any, ...], dict[str, Any]]:
    """The agent and the arguments of a run. Raises UsageError, or TypeError where the arguments do not fit."""
    if isinstance(given, Actor):
        actor = given
    elif isinstance(given, CoroutineType):
        actor, made_args, made_kwargs = _call_in(given)
        if args or kwargs:
            raise UsageError(
                f"`run` was given a call of {actor.name!r}, and {', '.join((*map(repr, args), *kwargs))} beside it.",
                "Give all arguments in the call; the options of `run` are in its documentation.",
            )
        args, kwargs = made_args, made_kwargs
    elif isinstance(given, partial):
        actor, args, kwargs = checked_agent(given.func), (*given.args, *args), {**given.keywords, **kwargs}
    else:
        actor = checked_agent(given)
    actor.require_arguments(args, kwargs)
    return actor, args, kwargs


def checked_agent(given: object) -> Actor[..., Any]:
    """What is given as an agent. Raises UsageError that says what is to be given instead."""
    if isinstance(given, Actor):
        return cast("Actor[..., Any]", given)
    if isinstance(given, MethodType) and isinstance(given.__func__, Actor):
        # What newer versions of Python make of ``@agent`` below ``@classmethod``.
        return cast("Any", given.__func__).__get__(given.__self__)
    name = getattr(given, "__name__", None)
    if isinstance(given, type):
        remedy = f"Give an object of it: `{name}(…)`." if issubclass(given, Actor) else "Give a function with `@agent`."
        raise UsageError(f"The class {name} is no agent.", remedy)
    if isinstance(getattr(given, "__self__", None), Actor):
        raise UsageError(f"`{name}` of an agent was given instead of the agent.", "Give the agent itself.")
    if isinstance(given, str):
        raise UsageError(
            f"The text {given!r} is no agent.", "Give the agent itself; `limpet run module:agent` takes its name."
        )
    if callable(given):
        raise UsageError(
            f"{name or given!r} is not declared as an agent.", f"Put `@agent` above `{_head(given, name)}`."
        )
    raise UsageError(f"{given!r} is no agent.", "Give a function with `@agent`, and its arguments behind it.")


def _head(function: object, name: object) -> str:
    return f"async def {name}" if inspect.iscoroutinefunction(function) else f"def {name or 'function'}"


def _call_in(coro: CoroutineType[Any, Any, Any]) -> tuple[Actor[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The actor and the arguments of a call that was made outside of every run, which is closed."""
    name = coro.__qualname__.rpartition("<locals>.")[2]
    if inspect.getcoroutinestate(coro) != inspect.CORO_CREATED:
        raise UsageError(f"The call of {name!r} has begun already.", "Give a new call, or the agent and its arguments.")
    is_ours, frame = is_call(coro), cast(FrameType, coro.cr_frame)
    given = dict(frame.f_locals)
    coro.close()
    if coro.cr_code is _OUTSIDE:
        actor, args = given["self"], given["args"]
        # The explicit form has a context and the state behind its input.
        return actor, args[:1] if isinstance(actor, HandlerActor) else args, given["kwargs"]
    if is_ours:
        raise UsageError(
            f"The call of {name!r} was made inside a run, and belongs to that.",
            "Await it; or give the agent and its arguments: `run(agent, …)`.",
        )
    raise UsageError(
        f"{name!r} was called, and is not declared as an agent.", f"Put `@agent` above `async def {name}`."
    )
