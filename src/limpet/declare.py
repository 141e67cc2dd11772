"""Declaring work: the decorators ``@tool``, ``@llm`` and ``@agent``, and the classes of the explicit form."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from limpet.backends.contract import StateBackend
from limpet.client import Limpet, StoppingOptions
from limpet.engine.actor_options import Options
from limpet.engine.actors import Actor, FunctionActor, HandlerActor
from limpet.engine.bus import EventBus
from limpet.engine.declared import declare
from limpet.model import EventType, StateMetadata

P = ParamSpec("P")
R = TypeVar("R")


async def _run(
    actor: Actor[..., R],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    store: str | StateBackend | None,
    **options: Any,
) -> R:
    with Limpet(store) as limpet:
        return await limpet.run(actor, *args, **options, **kwargs)


class AgentFunction(FunctionActor[P, R]):
    """A function decorated with ``@agent``."""

    async def run(
        self,
        *args: Any,
        state_id: str | None = None,
        metadata: StateMetadata | None = None,
        event_bus: EventBus | None = None,
        wait_s: float | None = None,
        store: str | StateBackend | None = None,
        **kwargs: Any,
    ) -> R:
        """Run durably in the configured store, or the one given. All that ``Limpet.run`` takes can be given."""
        options = {"state_id": state_id, "metadata": metadata, "event_bus": event_bus, "wait_s": wait_s}
        return await _run(self, args, kwargs, store, **options)


class Tool(HandlerActor):
    """A tool of the explicit form: ``handler(input, context, state)``, given or declared as a method."""

    event_type = EventType.TOOL_CALL


class LLM(HandlerActor):
    """A model call of the explicit form: ``handler(input, context, state)``, given or declared as a method."""

    event_type = EventType.LLM_CALL


class Agent(HandlerActor):
    """An agent of the explicit form: ``handler(input, context, state)``, given or declared as a method."""

    event_type = EventType.AGENT_CALL

    def __init__(self, *, name: str, **options: Any) -> None:
        super().__init__(name=name, **options)
        declare(self)

    async def run(
        self,
        input: Any,
        *,
        state_id: str | None = None,
        metadata: StateMetadata | None = None,
        event_bus: EventBus | None = None,
        wait_s: float | None = None,
        store: str | StateBackend | None = None,
        **stopping: Unpack[StoppingOptions],
    ) -> Any:
        """Run durably in the configured store, or the one given. See ``Limpet.run``, also for what may stop it."""
        options = {"state_id": state_id, "metadata": metadata, "event_bus": event_bus, "wait_s": wait_s, **stopping}
        return await _run(self, (input,), {}, store, **options)


class _Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> FunctionActor[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionActor[P, R]: ...


class _AgentDecorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AgentFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> AgentFunction[P, R]: ...


@overload
def tool(function: Callable[P, Coroutine[Any, Any, R]], /) -> FunctionActor[P, R]: ...
@overload
def tool(function: Callable[P, R], /) -> FunctionActor[P, R]: ...
@overload
def tool(**options: Unpack[Options]) -> _Decorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a tool: ``@tool`` or ``@tool(version="2")`` on a function of any signature, ``async def`` or ``def``."""
    return _declare_function(FunctionActor, EventType.TOOL_CALL, function, options)


@overload
def llm(function: Callable[P, Coroutine[Any, Any, R]], /) -> FunctionActor[P, R]: ...
@overload
def llm(function: Callable[P, R], /) -> FunctionActor[P, R]: ...
@overload
def llm(**options: Unpack[Options]) -> _Decorator: ...
def llm(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a model call: ``@llm`` or ``@llm(version="2")`` on a function of any signature."""
    return _declare_function(FunctionActor, EventType.LLM_CALL, function, options)


@overload
def agent(function: Callable[P, Coroutine[Any, Any, R]], /) -> AgentFunction[P, R]: ...
@overload
def agent(function: Callable[P, R], /) -> AgentFunction[P, R]: ...
@overload
def agent(**options: Unpack[Options]) -> _AgentDecorator: ...
def agent(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare an agent: ``@agent`` or ``@agent(version="2")`` on a function of any signature. It has ``run``."""
    return _declare_function(AgentFunction, EventType.AGENT_CALL, function, options)


def _declare_function(
    kind: type[FunctionActor[..., Any]],
    event_type: EventType,
    function: Callable[..., Any] | None,
    options: dict[str, Any],
) -> Any:
    def decorate(function: Callable[..., Any]) -> FunctionActor[..., Any]:
        actor = kind(function, event_type, **options)
        declare(actor)
        return actor

    return decorate if function is None else decorate(function)
