"""The way that the records of one state take to the writer.

After a write has failed nothing more is written: a later record must not stand without an earlier one. Where a policy
holds records back, or the run goes on while the store takes none, they go through a ``Saver``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from limpet.artifacts.stored_values import Pending, StoredValues
from limpet.backends.contract import Append, StateUpdate
from limpet.engine.bus import EventBus
from limpet.engine.clock import Clock
from limpet.engine.framing import Framing
from limpet.engine.lease import new_holder
from limpet.engine.reading import JournalReader
from limpet.engine.saver import Saver
from limpet.engine.scope import Scope, Start
from limpet.engine.starts import with_fired
from limpet.engine.writer import Writer
from limpet.errors import BackendError, BackendUnavailable, LimpetError
from limpet.journal import pages
from limpet.journal.history import History
from limpet.journal.new_timeline import NewTimeline
from limpet.journal.progress import events_done
from limpet.journal.saving import Recorded
from limpet.model import (
    CheckpointNote,
    CheckpointPolicy,
    CheckpointRecord,
    CheckpointTrigger,
    Details,
    End,
    EventRecord,
    ExecutionStatus,
    Failure,
    Holder,
    Lease,
    OnSaveError,
    Pin,
    Record,
    StateHeader,
    StateStatus,
)

PROGRESS_S = 1.0
"""How often it is recorded how far a program is, at most, where every step is saved."""

_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
_CANCELLED = ExecutionStatus.CANCELLED


class Recording(Framing):
    """The journal of one state, as this process adds to it. It has a lease while it writes."""

    def __init__(
        self,
        *,
        writer: Writer,
        stored: StoredValues,
        header: StateHeader,
        history: History,
        link: int,
        bus: EventBus,
        clock: Clock,
        holder: Holder | None,
        reads_only: bool,
    ) -> None:
        super().__init__(
            history, link, header.state_id, stored.record_cipher(header.state_id), clock, reads_only=reads_only
        )
        self.writer = writer
        self.stored = stored
        self.header = header
        self._take(history)
        self.bus = bus
        self.held_until = 0.0
        """Until when the lease certainly lasts, as ``since_boot`` counts it. 0: there is none."""
        self.holder = holder or new_holder()
        self.under_way = 0
        """How many calls are being executed, with those that enclose them."""
        self.has_failed = False
        """Whether any call has failed here: it may fail the run, and be tried again later."""
        self.is_stopping = False
        """Whether the run is being stopped: its calls ask the stopper what to do."""
        self.was_left = False
        """Whether it has been noticed that whoever awaits the run has cancelled it."""
        self.next_timeline: NewTimeline | None = None
        """The timeline that the first write begins, where the state was loaded at an earlier point than its end."""
        self.saver: Saver | None = None
        """What holds its records until they are saved, where not every one of them is saved at once."""
        self.progress = (0.0, 0.0)
        """How far the program has said to be: so much done, of so much."""
        self._told_progress_at = -math.inf
        self._put: set[str] = set()
        """The artifacts that were put under this lease."""

    def set_saving(self, policy: CheckpointPolicy, on_error: OnSaveError) -> None:
        """From now on save by this policy, and do this where that fails. What it would have saved by now is saved."""
        if self.saver is None and policy.saves_every_step and on_error is OnSaveError.FAIL:
            return
        with self._lock:
            if self.saver is None:
                self.saver = Saver(self, policy, on_error, self._link)
                return
            is_other = self.saver.policy != policy
            self.saver.policy, self.saver.on_error = policy, on_error
        if is_other:
            self.save_held(CheckpointTrigger.POLICY_CHANGED)

    def _take(self, history: History) -> None:
        self.history = history
        self.loaded = history.position
        """How many records there were before this process adds any."""
        self.settled = events_done(history)
        """Of how many calls they hold the outcome."""
        self._close_pages_at = pages.PAGED_FROM
        """At that record it is looked which of them need not stay in memory."""

    def next_order(self) -> int:
        order = self.history.next_order
        self.history.next_order = order + 1
        return order

    def write_outcome(
        self,
        scope: Scope,
        start: Start,
        status: ExecutionStatus,
        at: float,
        duration_s: float,
        result: bytes | None = None,
        error: Failure | None = None,
        causes: tuple[str, ...] = (),
        artifacts: tuple[str, ...] = (),
        update: StateUpdate | None = None,
        details: Details | None = None,
        inside: Scope | None = None,
    ) -> asyncio.Future[None] | None:
        """Record an outcome, and before it the starts of what encloses it. None: durable now; else await the future.

        ``inside`` is the inside of the call: timers that fired there last are recorded where anything of it is. Where
        it is refused, nothing of it is recorded, and the starts, timers and reads are still to be.
        """
        with self._lock:
            event, before = scope.event, None
            order = event.order
            if (
                event.pending_start is not None
                or self._reads
                or (order is not None and order.fired)
                or (inside is not None and inside.order is not None and inside.order.fired)
            ):
                before = self._before(scope, with_fired(scope, inside))
            address, _, began, version, fingerprint, input_, named, attempt, kept, is_gate = start
            seq = len(self.history.journal) + 1 if before is None else before.next_seq
            is_settled = status is _COMPLETED or status is _FAILED
            is_in_order = is_settled and (details is None or not details.at_once)
            if order is not None and order.next > 0 and (is_in_order or status is _CANCELLED):
                details = msgspec.structs.replace(details or kept or Details(), before=order.next)
            record = EventRecord(
                seq,
                address,
                status,
                at,
                seq - began,
                attempt,
                duration_s,
                version,
                fingerprint,
                input_,
                result,
                error,
                causes,
                named + artifacts,
                self._beside(scope) if is_settled else -1,
                details or kept,
            )
            bodies: list[bytes] = []
            if before is None:
                self._frame(record, bodies)
            else:
                self._frame_all(before, record, bodies)
            if self.saver is not None:
                is_once = kept is not None and bool(kept.key)
                return self._save_outcome(self.saver, Recorded(address, status, is_gate, is_once), bodies, update)
            is_given = is_in_order or (status is _CANCELLED and not self.is_stopping)
            make_turn = order.turn_if_shared if order is not None and is_given else None
            append = self._append(bodies, update)
            try:
                return self.writer.write(append, self.refuse_writes, make_turn)
            except LimpetError as refusal:
                self.refuse_writes(refusal)
                raise

    def _close_pages(self, position: int) -> None:
        """Let completed events that the store has be read from there, rather than stay in memory."""
        self._close_pages_at = position + pages.SIZE
        with suppress(BackendUnavailable):
            header = self.writer.backend.find_state(self.state_id)
            if header is not None and header.damage is None:
                self.history.read_in_pages(self.read_page)
                self.history.close_pages(min(header.position, position - pages.KEPT))

    def read_page(self, page: pages.Page) -> Sequence[Record]:
        """Records that were left out of memory. Where they cannot be read, the run is stopped: it could not go on as it
        had begun."""
        try:
            return JournalReader(self.writer.backend, self.stored, self.header).page(page)
        except LimpetError as error:
            self.refuse_writes(error)
            raise

    def _save_outcome(
        self, saver: Saver, recorded: Recorded, bodies: list[bytes], update: StateUpdate | None
    ) -> asyncio.Future[None] | None:
        """Hold an outcome back, or save it with all that is held, as the policy says."""
        why = saver.hold(bodies, recorded)
        if saver.failure is not None and (error := saver.error_to_note()) is not None:
            self._hold_mark(saver, CheckpointTrigger.SAVE_FAILED, error)
        is_end = update is not None and update.releases
        if not saver.policy.saves_every_step:
            if why is None and update is None:
                return None
            if why is not None and not is_end:
                self._hold_mark(saver, why)
        # What others act on, a question for one, is not told before it is durable, whatever the store does.
        is_needed = is_end or recorded.status is ExecutionStatus.AWAITING
        saved = saver.save(self._append(saver.take_held(), update), is_needed=is_needed)
        return None if saved is None else asyncio.wrap_future(saved)

    def has_other_tasks(self) -> bool:
        """Whether the code has tasks beside the current one: then timing has a say in what is called when."""
        raise NotImplementedError

    def _beside(self, scope: Scope) -> int:
        """What the record of a call that was made there says of the calls beside it."""
        if scope.is_mixed or self.has_other_tasks():
            return -1
        others = self.under_way - 1 - scope.depth
        return -2 - others if self.has_failed or self.history.to_retry else others

    def write_start(self, child: Scope) -> asyncio.Future[None] | None:
        """Record the start of the call that this is the inside of, by itself. None: durable now; else await."""
        with self._lock:
            bodies: list[bytes] = []
            fired = () if child.parent is None else with_fired(child.parent)
            self._frame_all(self._before(child, fired), None, bodies)
            return self._save_now(bodies)

    def write_timers(self, scope: Scope) -> asyncio.Future[None] | None:
        """Record the timers that fired in the code around a scope. None: durable now; else await the future."""
        with self._lock:
            bodies: list[bytes] = []
            self._frame_all(self._before(scope, with_fired(scope)), None, bodies)
            return self._save_now(bodies)

    def _save_now(self, bodies: list[bytes]) -> asyncio.Future[None] | None:
        if self.saver is not None:
            self.saver.hold(bodies)
            saved = self.saver.save(self._append(self.saver.take_held(), None), is_needed=True)
            return None if saved is None else asyncio.wrap_future(saved)
        append = self._append(bodies, None)
        try:
            return self.writer.write(append, self.refuse_writes)
        except LimpetError as refusal:
            self.refuse_writes(refusal)
            raise

    async def put_artifacts(self, pending: Sequence[Pending]) -> tuple[str, ...]:
        """Store what a record is going to name, and give the ids. It must be durable before the record is written."""
        artifacts = self.stored.artifacts
        may_wait = self.saver is not None and self.saver.on_error is OnSaveError.PAUSE
        if artifacts is not None and (artifacts.waits or may_wait):
            return await asyncio.to_thread(self.put_artifacts_now, pending)
        return self.put_artifacts_now(pending)

    def put_artifacts_now(self, pending: Sequence[Pending]) -> tuple[str, ...]:
        """As ``put_artifacts``, waiting for it on this thread."""
        pin = Pin(self.stored.store_id, self.state_id, self._held_lease().fence)
        try:
            if self.saver is None:
                self.stored.put(pending, pin, self._put)
            else:
                self.saver.put_artifacts(pending, pin, self._put)
        except BackendError as refusal:
            self.refuse_writes(refusal)
            raise
        ids = tuple(each.artifact_id for each in pending)
        self._put.update(ids)
        return ids

    def write_checkpoint(self, status: StateStatus, update: StateUpdate) -> None:
        """Mark this point of the journal, and wait for it."""
        metadata = (update.metadata or self.header.metadata).to_json()
        why = CheckpointTrigger.STOPPED if self.is_stopping else CheckpointTrigger.MANUAL
        self._write_record(
            lambda seq, now: CheckpointRecord(seq, status, now, metadata, self._note(why)),
            update,
            is_needed=update.releases,
        )

    def _note(self, why: CheckpointTrigger, error: str = "") -> CheckpointNote:
        """What a checkpoint that is made now says of this moment."""
        history = self.history
        address = next((each.address for each in reversed(history.records) if type(each) is EventRecord), "")
        return CheckpointNote(
            trigger=why,
            address=address,
            events=events_done(history),
            done=self.progress[0],
            total=self.progress[1],
            error=error,
        )

    def _hold_mark(self, saver: Saver, why: CheckpointTrigger, error: str = "") -> None:
        bodies: list[bytes] = []
        self._frame(self._mark(why, error), bodies)
        saver.hold(bodies)

    def _mark(self, why: CheckpointTrigger, error: str = "") -> CheckpointRecord:
        """A checkpoint as a policy makes it: nothing is said of the metadata."""
        note = self._note(why, error)
        return CheckpointRecord(self.history.position + 1, self.header.status, self.clock.now(), "", note)

    def note_failure_to_save(self) -> None:
        """Let the journal say that it could not be saved, where it is still written. It is saved with what is next."""
        with self._lock:
            saver = self.saver
            if saver is None or self.lease is None or self._refusal is not None:
                return
            if (error := saver.error_to_note()) is not None:
                self._hold_mark(saver, CheckpointTrigger.SAVE_FAILED, error)
                saver.queue(self._append(saver.take_held(), None))

    def save_held(self, why: CheckpointTrigger) -> None:
        """Begin to save what is held back, if anything is. Nobody waits for it."""
        with self._lock:
            saver = self.saver
            if saver is not None and saver.held and self.lease is not None and self._refusal is None:
                self._hold_mark(saver, why)
                with suppress(LimpetError):  # The next record raises it.
                    saver.save(self._append(saver.take_held(), None))

    def begin_timeline(self, new: NewTimeline) -> None:
        """Go on with the state on a new timeline, and wait until that is durable."""
        self.next_timeline = None
        with self._lock:
            bodies: list[bytes] = []
            number = self.history.timelines.current + 1
            try:
                for record in new.records(self.history.position + 1, self.clock.now(), number):
                    self._frame(record, bodies)
            except LimpetError as error:
                if bodies:
                    # What was taken up of it is not written, so nothing may be written behind it.
                    self.refuse_writes(error)
                raise
            self._take(self.history)
            timeline = self.history.position - len(bodies) + 1
            update = StateUpdate(at=self.clock.now(), status=StateStatus.RUNNING, timeline=timeline)
            committed = self._hand_over(bodies, update, is_needed=True)
        self._wait_for(committed)

    def put_contents(self, contents: Mapping[str, bytes]) -> None:
        """Store artifacts whose content is at hand, under the lease of this state."""
        self.stored.put_contents(contents, Pin(self.stored.store_id, self.state_id, self._held_lease().fence))
        self._put.update(contents)

    def write_event(self, make: Callable[[int, float], EventRecord], update: StateUpdate | None = None) -> None:
        """Record what somebody else says of an event, and wait for it."""
        self._write_record(make, update)

    def write_update(self, update: StateUpdate) -> None:
        """Change the header of the state, and wait for it."""
        self._write_record(None, update)

    def write_through(self) -> None:
        """Wait, on this thread, until all that was recorded so far is durable."""
        self._write_record(None, None)

    def _held_lease(self) -> Lease:
        """The lease; raises why there is none any more, as in a forked child."""
        self._require_held()
        assert self.lease is not None, "nothing is recorded without a lease"
        return self.lease

    def _append(self, bodies: list[bytes], update: StateUpdate | None) -> Append:
        position = len(self.history.journal)
        if position > self._close_pages_at:
            self._close_pages(position)
        append = Append(self.lease or self._held_lease(), position - len(bodies) + 1, bodies)
        if update is None:
            return append
        update = msgspec.structs.replace(update, end=End(self.history.position, self._link))
        self._apply(update)
        return msgspec.structs.replace(append, update=update)

    def _apply(self, update: StateUpdate) -> None:
        self.header = msgspec.structs.replace(
            self.header,
            status=update.status or self.header.status,
            metadata=update.metadata or self.header.metadata,
            timeline=update.timeline or self.header.timeline,
            end=update.end,
        )
        if update.releases:
            # The run is not marked as ended before the store knows: another one here must not take the lease over.
            self.lease = None
            self.held_until = 0.0
            self.writer.keeper.drop(self.holder)

    def _write_record(
        self, make: Callable[[int, float], Record] | None, update: StateUpdate | None, *, is_needed: bool = False
    ) -> None:
        with self._lock:
            bodies: list[bytes] = []
            if make is not None:
                self._frame(make(self.history.position + 1, self.clock.now()), bodies)
            committed = self._hand_over(bodies, update, is_needed=is_needed)
        self._wait_for(committed)

    def _hand_over(
        self, bodies: list[bytes], update: StateUpdate | None, *, is_needed: bool = False
    ) -> concurrent.futures.Future[None] | None:
        """Give records to the writer, in the order of their numbers: whoever calls holds the lock."""
        if self.saver is not None:
            self.saver.hold(bodies)
            append = self._append(self.saver.take_held(), update)
            return self.saver.save(append, is_needed=is_needed, is_leaving=is_needed)
        append = self._append(bodies, update)
        try:
            return self.writer.write_from_anywhere(append)
        except LimpetError as refusal:
            self.refuse_writes(refusal)
            raise

    def _wait_for(self, committed: concurrent.futures.Future[None] | None) -> None:
        if committed is None:
            return
        try:
            committed.result()
        except LimpetError as refusal:
            self.refuse_writes(refusal)
            raise
