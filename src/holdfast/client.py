"""The verbs: what people do with states."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import msgspec

from holdfast.artifacts.stored_values import ARTIFACT_THRESHOLD, StoredValues
from holdfast.backends.artifact_contract import ArtifactBackend
from holdfast.backends.contract import Claim, StateBackend
from holdfast.config import configured_store
from holdfast.engine.actors import Actor
from holdfast.engine.bus import EventBus
from holdfast.engine.clock import SYSTEM_CLOCK
from holdfast.engine.collect import Collected, Collector
from holdfast.engine.declared import find_actor
from holdfast.engine.history_set import HistorySet
from holdfast.engine.lease import LEASE_TTL_S, new_holder
from holdfast.engine.opening import acquire_now, read_history
from holdfast.engine.run import Run, run_to_end
from holdfast.engine.values_of import values_of
from holdfast.engine.writer import writer_of
from holdfast.errors import UnknownState, UsageError
from holdfast.journal.address import nearest, parse
from holdfast.keys import Encryption
from holdfast.model import StateHeader, StateMetadata, StateStatus, checked_artifact_id, checked_state_id
from holdfast.stores import open_store

P = ParamSpec("P")
R = TypeVar("R")


GRACE = timedelta(hours=1)
"""How long artifacts that nothing names stay, unless another time is asked for."""

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

    Values of more than ``artifact_threshold`` bytes are stored as artifacts: in ``artifact_backend``, else where the
    store keeps them by itself. With ``encryption`` records and artifacts are encrypted; without, the keys in
    HOLDFAST_KEY are used if it is set.
    """

    def __init__(
        self,
        store: str | StateBackend | None = None,
        *,
        artifact_backend: ArtifactBackend | None = None,
        artifact_threshold: int = ARTIFACT_THRESHOLD,
        encryption: Encryption | None = None,
        lease_ttl_s: float = LEASE_TTL_S,
        create: bool = True,
    ) -> None:
        if isinstance(store, StateBackend):
            self.backend = store
            self._is_owner = False
        else:
            self.backend = open_store(configured_store() if store is None else store, create=create)
            self._is_owner = True
        self._stored = values_of(self.backend, artifact_backend, encryption, artifact_threshold)
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
            stored=self._stored,
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
        history, _ = read_history(state_id, frames, self._stored)
        first = history.first_event()
        if first is None or first.input is None:
            raise UsageError(
                f"State {state_id!r} was made in the explicit form, so there is no agent to resume.",
                "Load it with `ExecutionState.load_from_state_id`.",
            )
        actor = agent or find_actor(header.agent, parse(first.address).name)
        args, kwargs = actor.arguments_of(await self._stored.decode_record(first.input, first.artifacts))
        run = Run(
            stored=self._stored,
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
        history, _ = read_history(state_id, self.backend.read(state_id), self._stored)
        return HistorySet(history, self._stored)

    def collect(
        self,
        *,
        grace: timedelta = GRACE,
        dry_run: bool = False,
        also: Sequence[str | StateBackend] = (),
    ) -> Collected:
        """Delete the artifacts that no state names any more, and say which. Safe while other processes run states.

        What was put within the last ``grace`` stays. A dry run deletes nothing, and lists just what would go. ``also``
        names the other stores that use the same artifacts. Raises ArtifactsShared where one of them is missing, and
        StateCorrupted or WrongKey where a state cannot be read: then nothing is deleted.
        """
        if self.artifacts is None:
            raise UsageError(
                f"The store {self.backend.name} has no artifacts.", "Give it some with `artifact_backend=…`."
            )
        with ExitStack() as opened:
            others = [
                opened.enter_context(open_store(other, create=False)) if isinstance(other, str) else other
                for other in also
            ]
            cipher = self._stored.cipher
            stores = [(other, StoredValues(None, store_id=other.store_id, cipher=cipher)) for other in others]
            collector = Collector(self.artifacts, [(self.backend, self._stored), *stores])
            return collector.collect(put_before=SYSTEM_CLOCK.now() - grace.total_seconds(), is_dry_run=dry_run)

    @property
    def artifacts(self) -> ArtifactBackend | None:
        """Where large values are stored; None where they stay in the journal."""
        return self._stored.artifacts

    def open_artifact(self, artifact_id: str) -> Iterator[bytes]:
        """The content of an artifact in pieces, verified and decrypted. Raises ArtifactMissing, ArtifactCorrupted."""
        return self._stored.open_artifact(checked_artifact_id(artifact_id))

    def delete(self, state_id: str) -> None:
        """Delete a state for good. Raises UnknownState, or LeaseHeld while it is being run.

        Its artifacts stay until they are collected, as other states may name them too.
        """
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
