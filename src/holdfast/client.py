"""The verbs: what people do with states."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import msgspec

from holdfast.backends.contract import Claim, StateBackend
from holdfast.codec import values
from holdfast.config import configured_store
from holdfast.engine.actors import Actor
from holdfast.engine.bus import EventBus
from holdfast.engine.declared import find_actor
from holdfast.engine.history_set import HistorySet
from holdfast.engine.lease import LEASE_TTL_S, new_holder
from holdfast.engine.opening import acquire_now, read_history
from holdfast.engine.run import Run, run_to_end
from holdfast.engine.writer import writer_of
from holdfast.errors import UnknownState, UsageError
from holdfast.journal.address import nearest, parse
from holdfast.model import StateHeader, StateMetadata, StateStatus, checked_state_id
from holdfast.stores import open_store

P = ParamSpec("P")
R = TypeVar("R")


_OPTIONS_OF_RUN = frozenset({"state_id", "metadata", "event_bus", "record_inputs", "wait_s", "store"})


class StateView(msgspec.Struct, frozen=True):
    """One state as a person looks at it."""

    header: StateHeader
    history: HistorySet


class Holdfast:
    """A store, and everything that can be done with the states in it.

    ``store`` is a URL, a backend object, or None for the configured store (HOLDFAST_STORE, else a SQLite file in the
    folder ``.holdfast``). A store that was opened from a URL is closed by ``close`` or at the end of a ``with``
    block; a backend object stays its owner's. ``lease_ttl_s`` is how long a state stays reserved for this process after
    it was last heard of; on the same machine, the states of a dead process are free at once. With ``create=False`` a
    store that does not exist is an error, and is not made.
    """

    def __init__(
        self, store: str | StateBackend | None = None, *, lease_ttl_s: float = LEASE_TTL_S, create: bool = True
    ) -> None:
        if isinstance(store, StateBackend):
            self.backend = store
            self._is_owner = False
        else:
            self.backend = open_store(configured_store() if store is None else store, create=create)
            self._is_owner = True
        self._writer = writer_of(self.backend)
        self._writer.keeper.ttl_s = lease_ttl_s

    async def run(
        self,
        agent: Actor[..., R],
        *args: Any,
        state_id: str | None = None,
        metadata: StateMetadata | None = None,
        event_bus: EventBus | None = None,
        record_inputs: bool = True,
        wait_s: float | None = None,
        **kwargs: Any,
    ) -> R:
        """Run an agent durably and give its result.

        Idempotent by ``state_id``: an unknown one starts, an unfinished one is taken up where it stands, a completed
        one gives its recorded result without running anything. Without an id a new one is made.

        Raises what the run fails of, StateMismatch where the id belongs to another agent or input, LeaseHeld where
        another process is running it (after waiting ``wait_s``, if given), ValueNotStorable where the input cannot be
        stored. An ``async def`` agent runs on the current event loop.
        """
        taken = agent.only_named & _OPTIONS_OF_RUN
        if taken:
            raise UsageError(
                f"The agent {agent.name!r} has the parameter {', '.join(sorted(taken))}, which `run` takes for itself.",
                "Give the parameter another name.",
            )
        run = Run(
            actor=agent,
            args=args,
            kwargs=kwargs,
            state_id=new_state_id(agent.name) if state_id is None else checked_state_id(state_id),
            metadata=metadata or StateMetadata(),
            bus=event_bus or EventBus(),
            wait_s=wait_s,
            records_inputs=record_inputs,
        )
        return await run_to_end(self._writer, run)

    def run_sync(self, agent: Actor[..., R], *args: Any, **kwargs: Any) -> R:
        """As ``run``, from plain code."""
        _require_no_loop("run_sync", "run")
        return asyncio.run(self.run(agent, *args, **kwargs))

    async def resume(
        self,
        state_id: str,
        *,
        agent: Actor[..., R] | None = None,
        event_bus: EventBus | None = None,
        record_inputs: bool = True,
        wait_s: float | None = None,
    ) -> R:
        """Take a stored run up again, with the input it was begun with, and give its result.

        The agent is the one given, else one that this process has declared, else the one that the state names to
        import. Raises UnknownState, AgentNotFound, and what ``run`` raises.
        """
        header = self._header(state_id)
        frames = self.backend.read(state_id, 0, 1)
        history, _ = read_history(state_id, frames)
        first = history.first_event()
        if first is None or first.input is None:
            raise UsageError(
                f"State {state_id!r} was made in the explicit form, so there is no agent to resume.",
                "Load it with `ExecutionState.load_from_state_id`.",
            )
        actor = agent or find_actor(header.agent, parse(first.address).name)
        args, kwargs = actor.arguments_of(values.decode(first.input))
        run = Run(
            actor=actor,
            args=args,
            kwargs=kwargs,
            state_id=state_id,
            metadata=header.metadata,
            bus=event_bus or EventBus(),
            wait_s=wait_s,
            records_inputs=record_inputs,
            create=False,
        )
        return await run_to_end(self._writer, run)

    def list_states(
        self,
        *,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        limit: int = 100,
    ) -> list[StateHeader]:
        """The states that have every tag, the status and the pipeline name asked for, the newest first."""
        return self.backend.list_states(tags=tags, status=status, pipeline_name=pipeline_name, limit=limit)

    def show(self, state_id: str) -> StateView:
        """One state: its header and its history. Raises UnknownState."""
        return StateView(self._header(state_id), self.history(state_id))

    def history(self, state_id: str) -> HistorySet:
        """What a state has done. Raises UnknownState, StateCorrupted."""
        self._header(state_id)
        history, _ = read_history(state_id, self.backend.read(state_id))
        return HistorySet(history)

    def delete(self, state_id: str) -> None:
        """Delete a state for good. Raises UnknownState, or LeaseHeld while it is being run."""
        header = self._header(state_id)
        claim = Claim(header=header, holder=new_holder(), ttl_s=self._writer.keeper.ttl_s, create=False, reopen=True)
        grant = acquire_now(self._writer, claim)
        if grant is not None:
            self.backend.delete_state(state_id, grant.lease)

    def close(self) -> None:
        """Close the store, if it was opened from a URL. Closing twice is harmless."""
        if self._is_owner:
            self.backend.close()

    def _header(self, state_id: str) -> StateHeader:
        header = self.backend.find_state(checked_state_id(state_id))
        if header is None:
            known = (other.state_id for other in self.backend.list_states(limit=1000))
            raise UnknownState(state_id, nearest(state_id, known))
        return header

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def new_state_id(name: str) -> str:
    """An id that nobody has, beginning with what can be read of the name."""
    readable = "".join(
        character for character in name if (character.isascii() and character.isalnum()) or character in "-_"
    )
    return f"{readable.strip('-_')[:40] or 'run'}-{secrets.token_hex(6)}"


def _require_no_loop(verb: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"`{verb}` was called in async code, where it would stop the event loop.", f"Use `await …{instead}`."
    )
