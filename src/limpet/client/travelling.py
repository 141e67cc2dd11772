"""The verbs of time travel: run on from an earlier point, in place or in a state of its own, and see beforehand what
that would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, Unpack

import msgspec

from limpet.artifacts.stored_values import Pending
from limpet.client.running import Running, StoppingOptions, new_state_id
from limpet.engine.actors import Actor
from limpet.engine.bus import EventBus
from limpet.engine.declared import names_declared_once
from limpet.engine.fork import ForkPoint, fork_state, require_not_again
from limpet.engine.opening import is_rolled_back
from limpet.engine.replacement import NOTHING, replacement_of
from limpet.engine.run import run_to_end
from limpet.errors import RolledBack, UsageError
from limpet.journal.history import History
from limpet.journal.new_timeline import NewTimeline, from_event, on_timeline
from limpet.journal.plan import plan_of
from limpet.journal.rollback import require_not_rolled_back
from limpet.model import OnDrift, RerunPlan, StateHeader, StateMetadata, checked_state_id

R = TypeVar("R")


class Travelling(Running):
    """``rerun``, ``plan_rerun`` and ``fork``."""

    async def rerun(
        self,
        state_id: str,
        at: str | None = None,
        *,
        replace: object = NOTHING,
        any_type: bool = False,
        again: bool = False,
        timeline: int | None = None,
        agent: Actor[..., R] | None = None,
        event_bus: EventBus | None = None,
        record_inputs: bool | None = None,
        wait_s: float | None = None,
        on_drift: OnDrift | str | None = None,
        **stopping: Unpack[StoppingOptions],
    ) -> R:
        """Run a state on from an event, in place, and give the result: the event and all that started after it.

        What started before it is reused. With ``replace`` the event is not executed: it gives that value, of the type
        that it gave before, and what started after it runs again. Without ``at`` the whole run runs again. The old
        timeline stays in the journal; a crash from here on goes on with the new one.

        ``at`` is an address, or the end of one that only one event has: ``fetch#2``. ``timeline`` is the one to run on
        from, if not the current one. ``again`` says that what is declared ``once`` may be executed again. Raises
        UnknownState, UnknownAddress, AmbiguousAddress, UnknownTimeline, WrongReplacement, OnceAgain, or RolledBack
        where it is not run from the start, before anything runs; and what ``resume`` raises.
        """
        reader = self._reader(state_id)
        if at is not None and timeline is None:
            _require_not_rolled_back(reader.header)

        def make(history: History) -> tuple[NewTimeline, Sequence[Pending]]:
            new = from_event(history, _from_start(history) if at is None else at, timeline)
            assert new.event is not None
            replacement, pending = replacement_of(self._stored, new.event, replace, any_type)
            return msgspec.structs.replace(new, replacement=replacement), pending

        # Before the lease is taken, so that what cannot be done changes nothing.
        history, _ = reader.history()
        if at is not None:
            require_not_rolled_back(on_timeline(history, timeline))
        new, _ = make(history)
        if not again:
            require_not_again(on_timeline(history, timeline), new)
        run = await self._recorded_run(
            reader.header,
            agent,
            event_bus=event_bus,
            record_inputs=record_inputs,
            wait_s=wait_s,
            on_drift=on_drift,
            new_timeline=make,
            repeats_once=again,
            **stopping,
        )
        return await run_to_end(self._writer, run)

    def plan_rerun(
        self, state_id: str, at: str | None = None, *, replace: object = NOTHING, timeline: int | None = None
    ) -> RerunPlan:
        """What ``rerun`` or a fork at that place would reuse and what it would execute again, by what is recorded.

        Raises what ``rerun`` raises before anything runs.
        """
        history, _ = self._reader(state_id).history()
        new = from_event(history, _from_start(history) if at is None else at, timeline)
        assert new.event is not None
        replacement, _ = replacement_of(self._stored, new.event, replace, any_type=True)
        new = msgspec.structs.replace(new, replacement=replacement)
        return plan_of(on_timeline(history, timeline), new, names_declared_once())

    def fork(
        self,
        state_id: str,
        at: str | None = None,
        *,
        replace: object = NOTHING,
        any_type: bool = False,
        again: bool = False,
        checkpoint: int | None = None,
        timeline: int | None = None,
        new_state_id: str | None = None,
        metadata: StateMetadata | None = None,
    ) -> str:
        """Make a new state that goes on from an event of another, and give its id. Run it with ``resume``.

        It shares the earlier records and artifacts of its parent; nothing is copied, and the parent is not changed. Its
        metadata is that of the parent, unless other is given, and names the parent. With ``replace`` the event at the
        address gives that value, of the type that it gave before. Instead of an address a ``checkpoint`` can be given;
        without either, the fork goes on from the end. ``again`` says that the fork may execute what is declared
        ``once`` and was executed in its parent.

        Raises UnknownState, UnknownAddress, AmbiguousAddress, UnknownCheckpoint, UnknownTimeline, WrongReplacement,
        OnceAgain, RolledBack, ValueNotStorable, or UsageError where the new id is taken; then nothing is made.
        """
        parent = self._header(state_id)
        if timeline is None:
            _require_not_rolled_back(parent)
        else:
            history, _ = self._reader(state_id).history()
            require_not_rolled_back(on_timeline(history, timeline))
        if at is not None and checkpoint is not None:
            raise UsageError("A state is forked at an address or at a checkpoint, not at both.", "Give one of the two.")
        if at is None and replace is not NOTHING:
            raise UsageError("There is no telling what `replace` is to replace.", "Name the event with `at=…`.")
        new_id = _fork_id(state_id) if new_state_id is None else checked_state_id(new_state_id)
        point = ForkPoint(
            address=at, checkpoint=checkpoint, timeline=timeline, replace=replace, any_type=any_type, again=again
        )
        fork_state(self.backend, self._stored, parent, new_id, point, metadata)
        return new_id


def _fork_id(state_id: str) -> str:
    return new_state_id(f"{state_id[:34]}-fork")


def _require_not_rolled_back(header: StateHeader) -> None:
    """Raises RolledBack: results that were undone must not be given again on another timeline."""
    if is_rolled_back(header):
        raise RolledBack(header.state_id)


def _from_start(history: History) -> str:
    """The address of the run as a whole."""
    first = history.first_event()
    if first is None:
        raise UsageError(f"State {history.state_id!r} has no events.", "Run something in it first.")
    return first.address
