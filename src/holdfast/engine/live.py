"""One state while this process writes it: its history, its lease, and the way its records take to the writer.

Records get their number and their place in the chain of checksums here, in the order in which they are handed in.
After a write has failed nothing more is written: a later record must not stand without an earlier one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.artifacts.stored_values import Pending, StoredValues
from holdfast.backends.contract import Append, StateUpdate
from holdfast.codec import frames
from holdfast.engine.bus import EventBus
from holdfast.engine.clock import SYSTEM_CLOCK, Clock
from holdfast.engine.lease import mark_ended, new_holder
from holdfast.engine.rehearsal import Rehearsal
from holdfast.engine.retry_levels import RetryLevels
from holdfast.engine.savings import Savings
from holdfast.engine.scope import Scope, Start
from holdfast.engine.stopping import Stopper
from holdfast.engine.validation import ValidationReport
from holdfast.engine.watching import Watch
from holdfast.engine.writer import Writer
from holdfast.errors import BackendError, HoldfastError
from holdfast.journal.history import History
from holdfast.journal.new_timeline import NewTimeline
from holdfast.journal.tally import Tally
from holdfast.journal.waits import noted_in, open_waits, waiting_of
from holdfast.model import (
    Capture,
    CheckpointRecord,
    Details,
    End,
    EventRecord,
    ExecutionStatus,
    Failure,
    Holder,
    Lease,
    OnDrift,
    Pin,
    Record,
    ReplayMode,
    StateHeader,
    StateMetadata,
    StateStatus,
    StorageRecord,
)
from holdfast.model.waits import Question

if TYPE_CHECKING:
    from holdfast.engine.waits import Waits

PATIENCE_S = 30.0
"""How near a time must be for a run that can only wait to stay in memory for it."""


class LiveState:
    """The engine's hold on one state. It has a lease while it writes; reading what is recorded needs none."""

    capture: Capture | None = None
    """How much of the environment is captured where none was before; None: as it is configured."""

    def __init__(
        self,
        *,
        writer: Writer,
        stored: StoredValues,
        header: StateHeader,
        history: History,
        link: int,
        bus: EventBus,
        mode: ReplayMode = ReplayMode.NORMAL,
        clock: Clock = SYSTEM_CLOCK,
        records_inputs: bool = True,
        is_stored: bool = True,
        holder: Holder | None = None,
        on_drift: OnDrift = OnDrift.WARN,
        retry: RetryLevels | None = None,
    ) -> None:
        self.writer = writer
        self.header = header
        self._take(history)
        self.bus = bus
        self.mode = mode
        self.clock = clock
        self.records_inputs = records_inputs
        self.state_id = header.state_id
        self.lease: Lease | None = None
        self.holder = holder or new_holder()
        self.reads_only = mode in (ReplayMode.VALIDATION, ReplayMode.REHEARSAL)
        """In these modes nothing is recorded, and no lease is taken."""
        self.stored = stored.kept_apart() if self.reads_only else stored
        self.on_drift = on_drift
        self.given = 0
        """How many recorded outcomes were given again."""
        self.replays_quickly = mode in (ReplayMode.NORMAL, ReplayMode.REHEARSAL)
        """Whether a recorded result is given without a word to anybody but the rehearsal."""
        self.validation = ValidationReport(self.stored, history) if mode is ReplayMode.VALIDATION else None
        self.rehearsal = Rehearsal(self.stored, history) if mode is ReplayMode.REHEARSAL else None
        self.top = Scope(self, "", None)
        self.facade: object = None
        """The ExecutionState that handlers get."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop on which the run goes on, once it does."""
        self.is_stored = is_stored
        """Whether the state is known to be in the backend."""
        self.turn_began = 0.0
        self.under_way = 0
        """How many calls are being executed, with those that enclose them."""
        self.has_failed = False
        """Whether any call has failed here: it may fail the run, and be tried again later."""
        self.resume_from_address: str | None = None
        """Where the run is to be run on from, until that call is reached."""
        self.repeats_once = False
        """Whether a person has said that what is declared ``once`` may be executed again."""
        self.next_timeline: NewTimeline | None = None
        """The timeline that the first write begins, where the state was loaded at an earlier point than its end."""
        self.brought_along: Mapping[str, bytes] = {}
        """The contents of artifacts that a snapshot has brought along."""
        self.retry = retry or RetryLevels()
        """How calls are retried that say nothing of it themselves."""
        self._prepare_stopping()
        self.secrets: set[str] = set()
        """The texts of the secrets that this run was given, which no message may repeat."""
        self._put: set[str] = set()
        """The artifacts that were put under this lease."""
        self._link = link
        self._owner = frames.first_link(header.state_id)
        self._cipher = stored.record_cipher(header.state_id)
        self._lock = threading.Lock()
        self._refusal: HoldfastError | None = None

    def _prepare_stopping(self) -> None:
        """What may stop the run, and what must be known then."""
        self.stopper = Stopper(self)
        self.watch = Watch(self)
        self.is_guarded = False
        """Whether something has to be asked before each call is executed: a checker, or a budget."""
        self.is_stopping = False
        """Whether the run is being stopped: its calls ask the stopper what to do."""
        self.has_ended = False
        """Whether the outcome of the whole run is being written: it is too late to stop it."""
        self.agents_under_way = 0
        """How many of the calls under way are agents, which execute nothing but their own code."""
        self.has_cut_off = False
        """Whether any call was given up while it was going on, and may still do something."""
        self.generators: WeakKeyDictionary[AsyncGenerator[Any, Any], Scope] | None = None
        """The async generators that were opened inside the run, with where that was; None before the first one."""
        self.on_first_signal: Callable[[], None] | None = None
        """Called when a signal has stopped the run gracefully: a person may want to know that it takes a while."""
        self.tally: Tally | None = None
        """What of its budget the run has used, where it has one."""
        self.saved = Savings()
        """What replay has saved in this process."""
        self.waits: Waits | None = None
        """What the run waits for outside of itself, from its first wait on."""
        self.on_question: Callable[[Question], Any] | None = None
        """Who is asked first, in this process."""
        self.patience_s = PATIENCE_S
        """For how near a time a run that can only wait stays in memory."""

    def begin_writing(self, lease: Lease) -> None:
        """Hold the state from now on, and keep the lease alive."""
        self.lease = lease
        self._put = set()
        self.is_stored = True
        self._refusal = None
        self.writer.keeper.keep(self)

    def replace_history(self, history: History, link: int) -> None:
        """Go on from what another process has recorded in the meantime."""
        self._take(history)
        self._link = link
        if self.tally is not None:
            self.tally = Tally(self.tally.budget, history.records)

    def _take(self, history: History) -> None:
        self.history = history
        self.loaded = history.position
        """How many records there were before this process adds any."""
        self.settled = len(history.latest) - len(history.open)
        """Of how many calls they hold the outcome."""

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
    ) -> asyncio.Future[None] | None:
        """Record an outcome, and before it the starts of what encloses it. None: durable now; else await the future."""
        with self._lock:
            bodies: list[bytes] = []
            if scope.event.pending_start is not None:
                self._frame_starts(scope, bodies)
            address, _, order, version, fingerprint, input_, named, attempt, kept = start
            seq = self.history.position + 1
            behind = seq - order
            is_settled = status is _COMPLETED or status is _FAILED
            self._frame(
                EventRecord(
                    *(seq, address, status, at, behind, attempt, duration_s, version, fingerprint, input_, result),
                    *(error, causes, named + artifacts, self._beside(scope) if is_settled else -1, details or kept),
                ),
                bodies,
            )
            try:
                return self.writer.write(self._append(bodies, update), self.refuse_writes)
            except HoldfastError as refusal:
                self.refuse_writes(refusal)
                raise

    def _beside(self, scope: Scope) -> int:
        """What the record of a call that was made there says of the calls beside it."""
        if scope.is_mixed:
            return -1
        others = self.under_way - 1 - scope.depth
        return -2 - others if self.has_failed or self.history.to_retry else others

    def write_start(self, child: Scope) -> asyncio.Future[None] | None:
        """Record the start of the call that this is the inside of, by itself. None: durable now; else await."""
        with self._lock:
            bodies: list[bytes] = []
            self._frame_starts(child, bodies)
            try:
                return self.writer.write(self._append(bodies, None), self.refuse_writes)
            except HoldfastError as refusal:
                self.refuse_writes(refusal)
                raise

    async def put_artifacts(self, pending: Sequence[Pending]) -> tuple[str, ...]:
        """Store what a record is going to name, and give the ids. It must be durable before the record is written."""
        artifacts = self.stored.artifacts
        if artifacts is not None and artifacts.waits:
            return await asyncio.to_thread(self.put_artifacts_now, pending)
        return self.put_artifacts_now(pending)

    def put_artifacts_now(self, pending: Sequence[Pending]) -> tuple[str, ...]:
        """As ``put_artifacts``, waiting for it on this thread."""
        assert self.lease is not None, "nothing is recorded without a lease"
        pin = Pin(self.stored.store_id, self.state_id, self.lease.fence)
        try:
            self.stored.put(pending, pin, self._put)
        except BackendError as refusal:
            self.refuse_writes(refusal)
            raise
        ids = tuple(each.artifact_id for each in pending)
        self._put.update(ids)
        return ids

    def write_storage(self, key: str, value: bytes | None, artifacts: tuple[str, ...], is_artifact: bool) -> None:
        """Record a change of the storage, and wait for it."""
        if self.reads_only:
            self.history.put_storage(key, value, is_artifact)
            return
        newest = self.history.next_order - 1
        self._write_record(
            lambda seq, now: StorageRecord(seq, key, now, value, artifacts, is_artifact, seq - newest), None
        )

    def write_checkpoint(self, status: StateStatus, update: StateUpdate) -> None:
        """Mark this point of the journal, and wait for it."""
        metadata = (update.metadata or self.header.metadata).to_json()
        self._write_record(lambda seq, now: CheckpointRecord(seq, status, now, metadata), update)

    def begin_timeline(self, new: NewTimeline) -> None:
        """Go on with the state on a new timeline, and wait until that is durable."""
        self.next_timeline = None
        with self._lock:
            bodies: list[bytes] = []
            number = self.history.timelines.current + 1
            for record in new.records(self.history.position + 1, self.clock.now(), number):
                self._frame(record, bodies)
            self._take(self.history)
            timeline = self.history.position - len(bodies) + 1
            update = StateUpdate(at=self.clock.now(), status=StateStatus.RUNNING, timeline=timeline)
            committed = self._hand_over(bodies, update)
        self._wait_for(committed)

    def put_contents(self, contents: Mapping[str, bytes]) -> None:
        """Store artifacts whose content is at hand, under the lease of this state."""
        assert self.lease is not None, "nothing is recorded without a lease"
        self.stored.put_contents(contents, Pin(self.stored.store_id, self.state_id, self.lease.fence))
        self._put.update(contents)

    def write_event(self, make: Callable[[int, float], EventRecord], update: StateUpdate | None = None) -> None:
        """Record what somebody else says of an event, and wait for it."""
        self._write_record(make, update)

    def write_update(self, update: StateUpdate) -> None:
        """Change the header of the state, and wait for it."""
        self._write_record(None, update)

    def metadata_with_saved(self) -> StateMetadata:
        """The metadata of the state, with what it waits for, and what replay has saved by now."""
        metadata = self.header.metadata
        if self.waits is not None or metadata.waiting:
            records = () if self.has_ended else open_waits(self.history)
            metadata = noted_in(metadata, waiting_of(records, self.header.timeline))
        if not self.saved.calls:
            return metadata
        return msgspec.structs.replace(metadata, replayed=self.saved.added_to(metadata.replayed))

    def metadata_to_keep(self) -> StateMetadata:
        """The same, for whoever writes it: from then on saving is counted anew."""
        metadata = self.metadata_with_saved()
        self.saved = Savings()
        return metadata

    @property
    def can_be_left(self) -> bool:
        """Whether the status of the state can still be changed from here."""
        return not self.reads_only and self._refusal is None and not self.has_ended

    def release(self, status: StateStatus | None) -> None:
        """Give the lease back, if this process still has it, with the status that the state is left in."""
        try:
            if self.lease is not None and self._refusal is None:
                self._write_record(None, StateUpdate(at=self.clock.now(), status=status, releases=True))
        finally:
            self.forget()

    def forget(self) -> None:
        """Hold the state no longer, whether or not the store has been told."""
        self.lease = None
        self.writer.keeper.drop(self)
        mark_ended(self.holder)

    def refuse_writes(self, why: HoldfastError) -> None:
        """From now on every write raises this."""
        self._refusal = self._refusal or why

    def is_refusing(self, error: HoldfastError) -> bool:
        """Whether this error says that the state can no longer be written, rather than that user code failed."""
        return error is self._refusal

    def _frame_starts(self, scope: Scope, bodies: list[bytes]) -> None:
        starts: list[Start] = []
        above: Scope | None = scope.event
        while above is not None and above.pending_start is not None:
            starts.append(above.pending_start)
            above.pending_start = None
            above = above.parent.event if above.parent is not None else None
        for address, at, order, version, fingerprint, input_, named, attempt, details in reversed(starts):
            seq = self.history.position + 1
            started = ExecutionStatus.STARTED
            self._frame(
                EventRecord(
                    *(seq, address, started, at, seq - order, attempt, 0.0, version, fingerprint, input_),
                    artifacts=named,
                    details=details,
                ),
                bodies,
            )

    def _frame(self, record: Record, bodies: list[bytes]) -> None:
        if self._refusal is not None:
            raise self._refusal
        body, self._link = frames.to_frame(record, self._link, self._owner, self._cipher)
        self.history.add(record)
        bodies.append(body)
        if self.tally is not None:
            self.tally.note(record)

    def _append(self, bodies: list[bytes], update: StateUpdate | None) -> Append:
        assert self.lease is not None, "nothing is recorded without a lease"
        first = self.history.position - len(bodies) + 1
        if update is None:
            return Append(self.lease, first, bodies)
        update = msgspec.structs.replace(update, end=End(self.history.position, self._link))
        append = Append(self.lease, first, bodies, update)
        self._apply(update)
        return append

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
            self.writer.keeper.drop(self)

    def _write_record(self, make: Callable[[int, float], Record] | None, update: StateUpdate | None) -> None:
        with self._lock:
            bodies: list[bytes] = []
            if make is not None:
                self._frame(make(self.history.position + 1, self.clock.now()), bodies)
            committed = self._hand_over(bodies, update)
        self._wait_for(committed)

    def _hand_over(self, bodies: list[bytes], update: StateUpdate | None) -> concurrent.futures.Future[None] | None:
        """Give records to the writer, in the order of their numbers: whoever calls holds the lock."""
        append = self._append(bodies, update)
        try:
            return self.writer.write_from_anywhere(append)
        except HoldfastError as refusal:
            self.refuse_writes(refusal)
            raise

    def _wait_for(self, committed: concurrent.futures.Future[None] | None) -> None:
        if committed is None:
            return
        try:
            committed.result()
        except HoldfastError as refusal:
            self.refuse_writes(refusal)
            raise


_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
