"""A call that is being performed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from limpet.model import ExecutionStatus, RetryConfig

if TYPE_CHECKING:
    from limpet.engine.actors import Actor
    from limpet.engine.places import Place
    from limpet.engine.scope import Start


class Call:
    """A call with its address; the explicit form reads what became of it from here."""

    closes = False
    """Whether this is the call that the whole run consists of, so that its outcome is that of the state."""
    attempt = 1
    key = ""
    """Its idempotency key, where that is recorded."""
    retry_config: RetryConfig | None = None
    """How this call is retried, where that was said of it alone."""
    spent_s = 0.0
    """How long the call had taken before this process went on with it, with all attempts and waits."""
    began = 0.0
    """When this process began with it."""
    has_run = False
    """Whether its function was entered."""
    place: Place | None = None
    """Of a plain function: the place that it has got before it was run."""
    execution_time = 0.0
    is_replayed = False
    drift: str | None = None
    start: Start | None = None
    """The start of its attempt, once that began here."""
    attempt_began = 0.0
    is_refused = False
    """Whether its outcome came too late to be recorded."""
    is_settled = False
    """Whether what became of it here is handed to the writer."""
    durable: asyncio.Future[Any] | None = None
    """What is to be awaited before its outcome is given, once that is handed to the writer: its turn in the order."""
    news: tuple[ExecutionStatus, dict[str, Any]] | None = None
    """What observers are told once the outcome is given."""

    def __init__(
        self,
        actor: Actor[..., Any],
        path: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: tuple[Any, ...],
        address: str | None = None,
    ) -> None:
        self.actor = actor
        self.path = path
        self.address = address or path + actor.suffix
        self.args = args
        self.kwargs = kwargs
        self.inputs = inputs
        """What of the arguments is the input that is recorded."""
