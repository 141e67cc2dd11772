"""The records of a state that are not saved yet: held back by a policy, or because the store takes none at the moment.

A state has a saver only where its policy is another than to save every step and to fail where that fails; all others
go straight to the writer. Whoever records something holds the lock of the state. What is to be saved goes to the
writer as one append at a time; what comes meanwhile is the next one. An append that the store did not take stays the
next one, and is tried again from the thread that keeps leases, in growing intervals: appending the same records again
is harmless.

Records that are held back are checked before they are written: each must be intact and follow the one before it.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from limpet.artifacts.stored_values import Pending
from limpet.backends.contract import Append, StateUpdate
from limpet.codec import frames
from limpet.engine.notices import tell_of_saving
from limpet.errors import BackendUnavailable, LimpetError, StateCorrupted
from limpet.journal.saving import Recorded, Unsaved, is_due, why_save
from limpet.logs import logger
from limpet.model import CheckpointPolicy, CheckpointTrigger, OnSaveError, Pin

if TYPE_CHECKING:
    from limpet.engine.recording import Recording

log = logger("limpet.saving")

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
"""How long after a save that failed the next one is tried, at first and at most."""
END_PATIENCE_S = 60.0
"""How long a run that goes on without its store waits for it where it cannot go on: at its end, for one."""
LEAVE_PATIENCE_S = 5.0
"""How long whoever is told to stop waits for the store."""

Committed = concurrent.futures.Future[None]


class _Waiter(msgspec.Struct, eq=False):
    """Somebody who waits for a save."""

    ticket: int
    future: Committed
    until: float | None
    """How long at most while saving fails, as durations are counted; None: as long as it takes."""
    is_needed: bool
    """Whether it waits on where the run is to go on without its store."""


class SaveFailure(msgspec.Struct):
    """That records could not be saved, since when, and when that is tried again."""

    error: LimpetError
    since: float
    """As durations are counted."""
    retry_at: float
    delay_s: float
    is_noted: bool = False
    """Whether the journal says so."""


class Saver:
    """Holds the records of one state until they are durable."""

    def __init__(self, live: Recording, policy: CheckpointPolicy, on_error: OnSaveError, link: int) -> None:
        self._live = live
        self.policy = policy
        self.on_error = on_error
        self.unsaved = Unsaved()
        self.held: list[bytes] = []
        """What is in no append yet, the newest records of the state."""
        self.last = Recorded("")
        """The event that was recorded last."""
        self.failure: SaveFailure | None = None
        self._link = link
        """The chain that the first record that is not durable follows."""
        self._next: Append | None = None
        self._next_ticket = 0
        self._in_flight: Append | None = None
        self._in_flight_ticket = 0
        self._tickets = 0
        self._waiters: list[_Waiter] = []
        self._artifacts: list[tuple[Sequence[Pending], Pin]] = []
        """What has to be stored before the records that name it."""
        self._broken: BaseException | None = None
        """Why nothing is saved any more."""
        self._lock = threading.Lock()

    def begin(self, link: int) -> None:
        """The state was taken up anew, and goes on from a record with that chain. Nothing is held back."""
        self._link = link
        self._broken = None

    def hold(self, bodies: Sequence[bytes], recorded: Recorded | None = None) -> CheckpointTrigger | None:
        """Keep records; of an outcome, say why it is to be saved now, if the policy has a reason."""
        self.held += bodies
        now = self._live.clock.elapsed()
        if recorded is None:
            self.unsaved.begin(now)
            return None
        self.last = recorded
        self.unsaved.note(now)
        return why_save(self.policy, recorded, self.unsaved, now)

    def put_artifacts(self, pending: Sequence[Pending], pin: Pin, known: Collection[str]) -> None:
        """Store what the next record names; later, where the run goes on without its store. Raises what that says."""
        largest = max((each.reference.size for each in pending), default=0)
        self.unsaved.largest_artifact = max(self.unsaved.largest_artifact, largest)
        delay_s, since = FIRST_DELAY_S, self._live.clock.elapsed()
        while True:
            try:
                self._live.stored.put(pending, pin, known)
                break
            except BackendUnavailable as error:
                if self.on_error is OnSaveError.FAIL or self._live.is_stopping:
                    raise
                if self.on_error is OnSaveError.CONTINUE:
                    with self._lock:
                        self._artifacts.append((pending, pin))
                    self._note_failure(error)
                    return
                if delay_s == FIRST_DELAY_S:
                    self._tell_failing(error)
            time.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)
        if delay_s > FIRST_DELAY_S:
            self._tell_caught_up(since)

    def take_held(self) -> list[bytes]:
        """What is held back, which goes into an append now."""
        held, self.held = self.held, []
        self.unsaved = Unsaved()
        return held

    def queue(self, append: Append) -> None:
        """Save this with whatever is saved next."""
        with self._lock:
            self._next = append if self._next is None else merged(self._next, append)
            self._next_ticket = max(self._next_ticket, self._tickets)

    def save(self, append: Append, *, is_needed: bool = False, is_leaving: bool = False) -> Committed | None:
        """Save, or begin to: None where nobody need wait; else a future. Raises why it was refused.

        ``is_needed``: also a run that goes on without its store waits for this, for as long as its patience. One that
        waits for its store has no end of it, but where it is about to be left (``is_leaving``).
        """
        with self._lock:
            if self._broken is not None:
                raise self._broken
            self._tickets += 1
            ticket = self._tickets
            self._next = append if self._next is None else merged(self._next, append)
            self._next_ticket = ticket
            is_free = self._in_flight is None and self.failure is None
        if is_free:
            self._send()
        with self._lock:
            if self._broken is not None:
                raise self._broken
            is_done = self._next_ticket < ticket and self._in_flight_ticket < ticket
            # A run that is being stopped waits for its store once, when it is left.
            goes_on = self.on_error is OnSaveError.CONTINUE or self._live.is_stopping
            is_passed_over = self.failure is not None and goes_on and not is_needed
            if is_done or is_passed_over:
                return None
            is_leaving = is_leaving or self._live.was_left
            has_end = is_leaving or (is_needed and self.on_error is not OnSaveError.PAUSE)
            patience_s = LEAVE_PATIENCE_S if is_leaving else END_PATIENCE_S
            until = self._live.clock.elapsed() + patience_s if has_end else None
            waiter = _Waiter(ticket, concurrent.futures.Future(), until, is_needed)
            self._waiters.append(waiter)
        return waiter.future

    def _send(self) -> None:
        """Give the next append to the writer."""
        with self._lock:
            # No record is written before the artifacts that it may name.
            if self._next is None or self._in_flight is not None or self._artifacts:
                return
            self._in_flight, self._in_flight_ticket = self._next, self._next_ticket
            self._next, self._next_ticket = None, 0
            append = self._in_flight
        try:
            self._check(append)
            committed = self._live.writer.write_from_anywhere(append)
        except BaseException as error:
            self._answered(error)
            return
        if committed is None:
            self._answered(None)
        else:
            committed.add_done_callback(lambda future: self._answered(future.exception()))

    def _check(self, append: Append) -> None:
        """Raises StateCorrupted where what is about to be written is not what was recorded."""
        reader = frames.FrameReader(self._link, append.first_seq)
        for flawed in reader.check(append.lease.state_id, enumerate(append.bodies, append.first_seq)):
            raise StateCorrupted(flawed.state_id, flawed.seq, f"it was not written, as in memory {flawed.why}")

    def _answered(self, error: BaseException | None) -> None:
        """The writer has answered: go on with what comes next, or see to what failed."""
        if error is not None and self._is_tolerated(error):
            assert isinstance(error, LimpetError)
            with self._lock:
                self._take_back()
            self._note_failure(error)
            return
        with self._lock:
            append, ticket = self._in_flight, self._in_flight_ticket
            self._in_flight, self._in_flight_ticket = None, 0
            failure = self.failure
            if error is not None or not self._artifacts:
                self.failure = None
            if error is None:
                assert append is not None
                self._link = frames.link_of(append.bodies[-1]) if append.bodies else self._link
                told = [each for each in self._waiters if each.ticket <= ticket]
            else:
                self._broken = error
                told = list(self._waiters)
            self._waiters = [each for each in self._waiters if each not in told]
        if isinstance(error, LimpetError):
            self._live.refuse_writes(error)
        if error is None and failure is not None and self.failure is None:
            self._tell_caught_up(failure.since)  # Before the run goes on, which may be its end.
        _resolve(told, error)
        if error is None:
            self._send()

    def _take_back(self) -> None:
        """What the store did not take is what is sent next."""
        append, ticket = self._in_flight, self._in_flight_ticket
        assert append is not None
        self._in_flight, self._in_flight_ticket = None, 0
        self._next = append if self._next is None else merged(append, self._next)
        self._next_ticket = max(ticket, self._next_ticket)

    def _is_tolerated(self, error: BaseException) -> bool:
        return self.on_error is not OnSaveError.FAIL and isinstance(error, BackendUnavailable)

    def _note_failure(self, error: LimpetError) -> None:
        now = self._live.clock.elapsed()
        with self._lock:
            failure, is_new = self.failure, self.failure is None
            if failure is None:
                failure = self.failure = SaveFailure(error, now, now + FIRST_DELAY_S, FIRST_DELAY_S)
            else:
                failure.delay_s = min(2 * failure.delay_s, LONGEST_DELAY_S)
                failure.error, failure.retry_at = error, now + failure.delay_s
            goes_on = self.on_error is OnSaveError.CONTINUE
            told = [each for each in self._waiters if goes_on and not each.is_needed]
            self._waiters = [each for each in self._waiters if each not in told]
        self._live.writer.keeper.keep_saving(self)
        if is_new:
            self._tell_failing(error)
        _resolve(told, None)

    def _tell_failing(self, error: LimpetError) -> None:
        does = "goes on without its store" if self.on_error is OnSaveError.CONTINUE else "waits for its store"
        log.warning("State %s cannot be saved, and %s: %s", self._live.state_id, does, error)
        tell_of_saving(self._live.bus, self._live.state_id, self.last, str(error))

    def _tell_caught_up(self, since: float) -> None:
        late_s = self._live.clock.elapsed() - since
        log.warning("State %s is saved again, after %.1f s.", self._live.state_id, late_s)
        tell_of_saving(self._live.bus, self._live.state_id, self.last, None)

    def error_to_note(self) -> str | None:
        """Why saving fails, for the journal, which says it once; None where there is nothing to say."""
        failure = self.failure
        if failure is None or failure.is_noted:
            return None
        failure.is_noted = True
        return str(failure.error)

    def after_fork(self, error: LimpetError) -> None:
        """In a forked child nothing of the parent's is saved."""
        self._lock = threading.Lock()
        self._broken = error
        self._next = self._in_flight = self.failure = None
        self._next_ticket = self._in_flight_ticket = 0
        self.held, self._artifacts = [], []

    def tell_waiters(self, error: LimpetError) -> None:
        """Tell all who wait for a save that it will not be."""
        told, self._waiters = self._waiters, []
        _resolve(told, error)

    def tick(self) -> bool:
        """Do what is due by now, and say whether there is something to try again. Called on a thread of its own."""
        now = self._live.clock.elapsed()
        failure = self.failure
        if failure is None:
            if is_due(self.policy, self.unsaved, now):
                self._live.save_held(CheckpointTrigger.TIME_BASED)
            return False
        if self._give_up_waiting(failure, now):
            return False
        if now >= failure.retry_at and self._in_flight is None:
            self._live.note_failure_to_save()
            self._try_again()
        return True

    def _try_again(self) -> None:
        while self._artifacts:
            pending, pin = self._artifacts[0]
            try:
                self._live.stored.put(pending, pin)
            except BackendUnavailable as error:
                self._note_failure(error)
                return
            except LimpetError as error:
                self.refuse(error)
                return
            with self._lock:
                del self._artifacts[0]
        if self._next is None:
            # What failed was an artifact, and it is stored now; the record that names it is yet to come.
            failure, self.failure = self.failure, None
            if failure is not None:
                self._tell_caught_up(failure.since)
            return
        self._send()

    def _give_up_waiting(self, failure: SaveFailure, now: float) -> bool:
        """Whether somebody has waited for the store for as long as they may: then the run fails."""
        with self._lock:
            ends = [each.until for each in self._waiters if each.until is not None]
        if not ends or now < min(ends):
            return False
        self.refuse(failure.error)
        return True

    def refuse(self, error: LimpetError) -> None:
        """Nothing is saved any more: tell all who wait for it."""
        with self._lock:
            told, self._waiters = self._waiters, []
            self._broken = error
            self._next, self._next_ticket, self.failure = None, 0, None
        self._live.refuse_writes(error)
        _resolve(told, error)


def merged(first: Append, second: Append) -> Append:
    """Two appends of one state that follow each other, as one."""
    before, after = first.update, second.update
    update = after or before
    if before is not None and after is not None:
        update = StateUpdate(
            at=after.at,
            status=after.status or before.status,
            metadata=after.metadata or before.metadata,
            releases=before.releases or after.releases,
            timeline=after.timeline or before.timeline,
            end=after.end or before.end,
            header=after.header or before.header,
        )
    first_seq = first.first_seq if first.bodies else second.first_seq
    return Append(second.lease, first_seq, [*first.bodies, *second.bodies], update)


def _resolve(waiters: Sequence[_Waiter], error: BaseException | None) -> None:
    for waiter in waiters:
        # Whoever was cancelled waits no longer.
        if waiter.future.set_running_or_notify_cancel():
            if error is None:
                waiter.future.set_result(None)
            else:
                waiter.future.set_exception(error)
