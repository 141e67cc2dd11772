"""Tasks that code inside a run creates in a context of its own choice, by ``create_task(…, context=…)``.

Such a task runs in a copy, since its place in the run is a variable of the context, and several tasks may be given the
same one. Before each of its steps it gets what changed in the given context, and behind it that has what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, Token
from typing import Any

from limpet.engine.scope import current_scope
from limpet.engine.user_threads import lent_work

_OURS: frozenset[ContextVar[Any]] = frozenset({current_scope, lent_work})
_MISSING: Any = object()


class InGivenContext(Coroutine[Any, Any, Any]):
    """A coroutine whose changes of context variables are those of the given context. It says all else of itself."""

    def __init__(self, coro: Any, given: Context, own: Context) -> None:
        self._coro = coro
        self._given = given
        self._own = own
        self._added: dict[ContextVar[Any], Token[Any]] = {}
        """What was added to the given context, and so may be taken out of it."""

    def send(self, value: Any) -> Any:
        return self._step(self._coro.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._coro.throw, *error)

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Any:
        return self._coro.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coro, name)

    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        own = self._own
        for variable, value in list(self._given.items()):
            if variable not in _OURS and own.get(variable, _MISSING) is not value:
                variable.set(value)
        try:
            return step(*args)
        finally:
            # Code that is inside the given context itself has it changed by the next step.
            with suppress(RuntimeError):
                self._given.run(self._take_over)

    def _take_over(self) -> None:
        """Change the given context, which is the current one, as the code has changed its own."""
        own, given, added = self._own, self._given, self._added
        for variable, value in list(own.items()):
            if variable not in _OURS and (before := given.get(variable, _MISSING)) is not value:
                token = variable.set(value)
                if before is _MISSING:
                    added[variable] = token
        for variable in [each for each in added if each not in own and each in given]:
            variable.reset(added.pop(variable))
