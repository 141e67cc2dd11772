"""Where the recorded order of a call cannot be kept: what is recorded next is not asked for, and nothing else can move.

That is drift, unless the code awaits something of which nothing is known; then it is given a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from limpet.engine.live_outcomes import LiveOutcomes
from limpet.engine.quiet import can_only_wait
from limpet.engine.turns import IN_ORDER, Given, Turn
from limpet.model import EventRecord, ExecutionStatus

if TYPE_CHECKING:
    from limpet.journal.order import Entry

PATIENCE_S = 1.0
"""How long the next recorded outcome is waited for where code awaits something of which nothing is known."""

_CANCELLED = ExecutionStatus.CANCELLED


class Stalls(LiveOutcomes):
    """The part of an order that finds out what has drifted."""

    __slots__ = ()

    parked: dict[int, Turn]
    deferred: list[Turn]
    overdue: list[Turn]
    _entries: list[Entry] | None
    _places: dict[int, int]
    _passed: set[int]
    _at: int
    _patience: Any
    _is_impatient: bool

    def _step(self) -> None:
        raise NotImplementedError

    def _has_given(self) -> bool:
        raise NotImplementedError

    def _begin_deferred(self, given: Given) -> None:
        raise NotImplementedError

    def _let_go(self, turn: Turn, record: EventRecord, given: Given = IN_ORDER) -> None:
        raise NotImplementedError

    def drop(self, turn: Turn) -> None:
        """Let nothing wait any more for a call."""
        if turn.record is not None and self.parked.get(turn.record.seq) is turn:
            del self.parked[turn.record.seq]
            if self._entries is not None and self.next == turn.record.seq:
                self._step()
        elif turn in self.overdue:
            self.overdue.remove(turn)
        elif turn in self.deferred:
            self.deferred.remove(turn)
        elif turn in self.queue:
            self.queue.remove(turn)
        self.wake()

    def _stall(self) -> bool:
        """Nothing can move, and what is recorded next was not asked for. Drift, unless the code awaits something."""
        if wished := [turn for turn in self.deferred if turn.is_wished]:
            for turn in wished:
                self.deferred.remove(turn)
                turn.cut_off()
            return self._has_given()
        if self.executing:
            return self._give_head() and self._has_given()
        if not self._is_impatient and not self._is_certain():
            if self._patience is None:
                self._patience = self.hooks.call_after(PATIENCE_S, self._lose_patience)
            return False
        if self.deferred:
            self._begin_deferred(Given(self.place_taken()))
            return self._has_given()
        if self._give_head() and self._has_given():
            return True
        return self._release() or self._release_overdue() or self._release_timers()

    def place_taken(self) -> str | None:
        """What is recorded in the place of a call that is not, if anything is."""
        missed = self._missed(self._at + 1) if self.is_replaying else None
        return None if missed is None else f"it is not recorded, and {missed} was recorded in its place"

    def _missed(self, until: int) -> str | None:
        """What of the recorded up to a place has not come. A call that came, and is not cancelled any more, has.

        A tool does I/O, which sets other timers in every execution.
        """
        assert self._entries is not None
        for entry in self._entries[self._at : until]:
            if type(entry) is int:
                if self._is_of_agent:
                    return "a timer that fires"
                continue
            record = cast(EventRecord, entry)
            if record.status is not _CANCELLED or record.seq not in self.parked:
                return repr(record.address)
        return None

    @property
    def _is_of_agent(self) -> bool:
        """Whether the code is that of an agent, which must go the same way again."""
        call = self._scope.call
        return call is None or call.actor.is_agent

    def _is_certain(self) -> bool:
        """Whether all tasks of the code certainly wait for what is given here, and for each other."""
        scope = self._scope
        if self.is_foreign:
            return False
        if not self.count.alive and not self._is_of_agent:
            return bool(self.parked or self.deferred)  # There is no task but that of its caller, which awaits a call.
        tasks = {task for task, each in scope.live.stopper.tasks.items() if each.event is scope}
        if scope.task is not None:
            tasks.add(scope.task)
        awaited = (getattr(task, "_fut_waiter", None) for task in tasks)
        waits = {each for each in awaited if isinstance(each, Turn) and each.order is self}
        return bool(tasks) and can_only_wait(tasks, waits)

    def _release(self) -> bool:
        """Give the earliest of the recorded outcomes that are asked for; a cancellation only where that is all."""
        entries = self._entries
        assert entries is not None
        asked = sorted(self._places[seq] for seq in self.parked)
        records = [(at, cast(EventRecord, entries[at])) for at in asked]
        for at, record in records:
            is_stale = record.status is _CANCELLED and not self.parked[record.seq].is_wished
            if is_stale and any(other.status is not _CANCELLED for _, other in records):
                continue
            missed = self._missed(at)
            turn = self.parked.pop(record.seq)
            for each in entries[self._at : at]:
                if type(each) is EventRecord:
                    self._pass_over(each.seq)
            drift = None if missed is None else f"{missed} was recorded before it, and is not called"
            self._at = at
            self._step()
            if is_stale:
                turn.give()
            else:
                self._let_go(turn, record, Given(drift))
            return self._has_given()
        return False

    def _pass_over(self, seq: int) -> None:
        """Take note that a recorded outcome was not given in its place."""
        turn = self.parked.pop(seq, None)
        if turn is None:
            self._passed.add(seq)
        else:
            self.overdue.append(turn)

    def _release_overdue(self) -> bool:
        """Execute again the first of the calls that the code has not cancelled in their recorded place."""
        if not self.overdue:
            return False
        turn = self.overdue.pop(0)
        turn.give()
        return self._has_given()

    def _release_timers(self) -> bool:
        """Let the timers go on that are not recorded."""
        unarmed, self._unarmed = self._unarmed, {}
        for timer in unarmed.values():
            if timer.callback is not None:
                self._arm(timer)
        if not self._late:
            return False
        self._fire(self._late.pop(0))
        return self._has_given()

    def _lose_patience(self) -> None:
        self._patience = None
        self._is_impatient = True
        self.go_on()
