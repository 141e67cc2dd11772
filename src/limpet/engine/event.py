"""The explicit form of a call: an event object that is given its input and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import msgspec

from limpet.engine.actor_options import check_limits
from limpet.engine.actors import Actor, HandlerActor
from limpet.engine.call import Call
from limpet.engine.keyed import perform_keyed
from limpet.engine.opening import is_rolled_back
from limpet.engine.perform import perform_call
from limpet.engine.scope import Scope, current_scope
from limpet.engine.state import ExecutionState
from limpet.engine.stoppable import stoppable
from limpet.engine.user_threads import require_scope_not_lost
from limpet.errors import RolledBack, UsageError
from limpet.journal.address import label
from limpet.model import ExecutionStatus, RetryConfig


class ExecutionResult(msgspec.Struct, frozen=True):
    """What a call in the explicit form gives. As the input of another call it stands for its ``result``."""

    result: Any
    execution_time: float = 0.0
    ok: bool = True
    error_message: str | None = None


class ExecutionEvent:
    """One call of an actor. After the call it tells what became of it."""

    def __init__(self, actor: Actor[..., Any], tag: str = "", retry_config: RetryConfig | None = None) -> None:
        if not isinstance(cast(object, actor), Actor):
            raise UsageError(f"{actor!r} is no actor.", "Give a Tool, an LLM or an Agent, or put `@tool` above it.")
        check_limits(actor.name, retry_config)
        if actor.once and retry_config is not None:
            actor.options(retry_config=retry_config)  # What contradicts itself is refused here.
        self.actor = actor
        self.tag = tag
        self.retry_config = retry_config
        """How this call is retried, whatever its actor says."""
        self.address = ""
        self.result: Any = None
        self.execution_time = 0.0
        self.execution_status: ExecutionStatus | None = None
        self.is_replayed = False
        self.drift: str | None = None
        """What no longer agrees with the record that was replayed, or None."""

    def __call__(
        self, input_data: Any, extra_context: Any, execution_state: ExecutionState
    ) -> Coroutine[Any, Any, ExecutionResult]:
        """Call the actor in a state; the address is taken now. Raises what the handler raises."""
        if not isinstance(cast(object, execution_state), ExecutionState):
            raise UsageError(
                f"The event of {self.actor.name!r} was called without a state.",
                "Give it an ExecutionState: `await ExecutionEvent(actor)(input, None, state)`.",
            )
        live = execution_state._live  # pyright: ignore[reportPrivateUsage]  # the two forms of one engine
        here = current_scope.get()
        if here is None:
            require_scope_not_lost(self.actor.name)
        scope = here if here is not None and here.live is live else live.top
        value = input_data.result if isinstance(input_data, ExecutionResult) else input_data
        if isinstance(self.actor, HandlerActor):
            args: tuple[Any, ...] = (value, extra_context, execution_state)
        else:
            args = (value,)
        named = label(self.actor.name, self.tag) if self.tag else self.actor.label
        path = scope.take_keyed(named) if self.tag else scope.take(named)
        call = Call(self.actor, path, args, {}, (value,))
        call.retry_config = self.retry_config
        self.address = call.address
        if live.rehearsal is not None:
            live.rehearsal.note_site(call.address)
        performed = perform_keyed(scope, named, self._perform, scope, call) if self.tag else self._perform(scope, call)
        performed.__qualname__ = self.actor.name  # What Python says of an event that is never awaited names that.
        return performed

    async def _perform(self, scope: Scope, call: Call) -> ExecutionResult:
        live = scope.live
        self.execution_status = ExecutionStatus.STARTED
        try:
            if scope is live.top:
                if is_rolled_back(live.header):
                    raise RolledBack(live.state_id)
                live.loop = asyncio.get_running_loop()
                self.result = await stoppable(live, perform_call(scope, call), is_run=False)
            else:
                self.result = await perform_call(scope, call)
        except BaseException as error:
            self.execution_status = _status_of(error, call, live.is_stopping)
            raise
        else:
            self.execution_status = ExecutionStatus.RECOVERED if call.is_replayed else ExecutionStatus.COMPLETED
        finally:
            self.is_replayed = call.is_replayed
            self.drift = call.drift
            self.execution_time = call.execution_time
        return ExecutionResult(self.result, self.execution_time)


def _status_of(error: BaseException, call: Call, is_stopping: bool) -> ExecutionStatus:
    if is_stopping:
        return ExecutionStatus.INTERRUPTED
    if call.news is not None:
        return call.news[0]
    return ExecutionStatus.CANCELLED if isinstance(error, asyncio.CancelledError) else ExecutionStatus.FAILED
