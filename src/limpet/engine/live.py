"""One state while this process runs it: its history, its lease, and all that must be known of what goes on in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from limpet import processes
from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateUpdate
from limpet.engine.bus import EventBus
from limpet.engine.clock import SYSTEM_CLOCK, Clock
from limpet.engine.forked import give_up_copy
from limpet.engine.further_recording import FurtherRecording
from limpet.engine.lease import mark_ended, new_holder
from limpet.engine.rehearsal import Rehearsal
from limpet.engine.retry_levels import RetryLevels
from limpet.engine.savings import Savings
from limpet.engine.scope import Scope
from limpet.engine.stopping import Stopper
from limpet.engine.user_threads import UserThreads
from limpet.engine.validation import ValidationReport
from limpet.engine.watching import Watch
from limpet.engine.writer import Writer
from limpet.errors import LeaseOfParent, LimpetError
from limpet.journal.history import History
from limpet.journal.order import RecordedOrder
from limpet.journal.tally import Tally
from limpet.journal.waits import noted_in, open_waits, waiting_of
from limpet.model import (
    Capture,
    CheckpointPolicy,
    Holder,
    Lease,
    OnDrift,
    OnSaveError,
    ReplayMode,
    StateHeader,
    StateMetadata,
    StateStatus,
)
from limpet.model.waits import Question

if TYPE_CHECKING:
    from limpet.engine.loops import Hooks
    from limpet.engine.waits import Waits

PATIENCE_S = 30.0
"""How near a time must be for a run that can only wait to stay in memory for it."""


class LiveState(FurtherRecording):
    """The engine's hold on one state. It has a lease while it writes; reading what is recorded needs none."""

    capture: Capture | None = None
    """How much of the environment is captured where none was before; None: as it is configured."""
    is_of_parent = False
    """Whether this process was forked from the one that held the state then."""

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
        on_drift: OnDrift = OnDrift.DEFAULT,
        retry: RetryLevels | None = None,
    ) -> None:
        reads_only = mode in (ReplayMode.VALIDATION, ReplayMode.REHEARSAL)
        super().__init__(
            writer=writer,
            stored=stored.kept_apart() if reads_only else stored,
            header=header,
            history=history,
            link=link,
            bus=bus,
            clock=clock,
            holder=holder,
            reads_only=reads_only,
        )
        self.mode = mode
        self.records_inputs = records_inputs
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
        self._given_back: set[str] = set()
        """The paths of calls that were not decided on, while later ones of the same name were."""
        self.users = 0
        """How many events of the explicit form are under way, that no run encloses."""
        self.is_stored = is_stored
        """Whether the state is known to be in the backend."""
        self.turn_began = 0.0
        self.unconfirmed: asyncio.Future[None] | None = None
        """The newest commit of a value that was given before it was durable."""
        self.resume_from_address: str | None = None
        """Where the run is to be run on from, until that call is reached."""
        self.repeats_once = False
        """Whether a person has said that what is declared ``once`` may be executed again."""
        self.brought_along: Mapping[str, bytes] = {}
        """The contents of artifacts that a snapshot has brought along."""
        self.retry = retry or RetryLevels()
        """How calls are retried that say nothing of it themselves."""
        self._prepare_stopping()
        self._prepare_order()
        self.threads = UserThreads()
        """What threads that were started inside the run are doing for it."""
        self.secrets: set[str] = set()
        """The texts of the secrets that this run was given, which no message may repeat."""
        processes.tell_of_forks(self)

    def _prepare_order(self) -> None:
        """What must be known to give results in their order."""
        self.root: asyncio.Task[Any] | None = None
        """The task that awaits the run; None in the explicit form."""
        self.hooks: Hooks | None = None
        """The loop of the run, as its code sees it."""
        self.cancelling: int = 0
        """How often that task had been cancelled when that was last looked at."""
        self._recorded_order: RecordedOrder | None = None

    def _prepare_stopping(self) -> None:
        """What may stop the run, and what must be known then."""
        self.stopper = Stopper(self)
        self.watch = Watch(self)
        self.is_guarded = False
        """Whether something has to be asked before each call is executed: a checker, or a budget."""
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
        self.saved = Savings()
        """What replay has saved in this process."""
        self.follow: Callable[[], tuple[CheckpointPolicy, OnSaveError]] | None = None
        """Says how the run is to be saved by now; asked now and then, on the thread that keeps leases."""
        self.waits: Waits | None = None
        """What the run waits for outside of itself, from its first wait on."""
        self.on_question: Callable[[Question], Any] | None = None
        """Who is asked first, in this process."""
        self.patience_s = PATIENCE_S
        """For how near a time a run that can only wait stays in memory."""

    def after_fork(self) -> None:
        """In a forked child: what the parent holds is its own, and is never written here."""
        self._lock, self.looking_up = threading.Lock(), threading.Lock()
        loop, self.loop = self.loop, None
        if self.lease is None:
            self.holder = new_holder()
            return
        error = LeaseOfParent(self.state_id, self.lease.fence, self.holder.pid)
        # Not told to anybody: what goes on here goes on in the parent.
        self.lease, self._refusal = None, error
        self.is_of_parent = True
        if self.saver is not None:
            self.saver.after_fork(error)
        if loop is not None and loop.is_running():
            give_up_copy(self, loop, error)

    def require_own(self) -> None:
        """Raises LeaseOfParent where this is a copy, in a forked child, of a state that the parent held then, and
        UsageError where it is that of a run which has ended: what such a run has left behind takes no lease."""
        if self.is_of_parent and self._refusal is not None:
            raise self._refusal
        if self.root is not None:
            self._require_held()

    def refuse_writes(self, why: LimpetError) -> None:
        """From now on every write raises this, and nothing more is executed."""
        super().refuse_writes(why)
        self.stopper.refuse(self._refusal or why)

    def begin_writing(self, lease: Lease, held_until: float) -> None:
        """Hold the state from now on, and keep the lease alive."""
        self.lease = lease
        self.held_until = held_until
        self._put = set()
        self.unconfirmed = None
        self.is_stored = True
        self._refusal = None
        self.stopper.taken_up_anew()
        if self.saver is not None:
            self.saver.begin(self._link)
        self.writer.keeper.keep(self)

    def replace_history(self, history: History, link: int) -> None:
        """Go on from what another process has recorded in the meantime."""
        self._take(history)
        self._link = link
        if self.waits is not None:
            self.waits.forget_letters()
        if self.saver is not None:
            self.saver.begin(link)
        if self.tally is not None:
            self.tally = Tally(self.tally.budget, history.records)

    def has_other_tasks(self) -> bool:
        """Whether the code has tasks beside the current one: then timing has a say in what is called when."""
        tasks = self.stopper.tasks
        if not tasks:
            return False
        if len(tasks) > 1:
            return True
        try:
            return len(tasks) == 1 and asyncio.current_task() not in tasks
        except RuntimeError:
            return True  # A forked process is in no loop.

    @property
    def recorded_order(self) -> RecordedOrder:
        """The order in which the code was given its results, as far as it is recorded."""
        if self._recorded_order is None or self._recorded_order.history is not self.history:
            self._recorded_order = RecordedOrder(self.history)
        return self._recorded_order

    def note_cancelling(self, *, before: bool) -> None:
        """Look who cancels the task of the run: its own code, if it happens during one of its callbacks."""
        assert self.root is not None
        cancelling = self.root.cancelling()
        # Code that takes the cancellation back goes on: what it cancels from then on is its own doing again.
        self.was_left = cancelling > 0 and (self.was_left or (before and cancelling > self.cancelling))
        self.cancelling = cancelling

    @property
    def is_left(self) -> bool:
        """Whether whoever awaits the run has cancelled it: what is cancelled from then on is not the code's doing.

        Asked on the loop of the run. What waits for a commit is woken outside of the order, which has not noticed yet.
        """
        if self.root is not None and not (self.hooks is not None and self.hooks.is_in_step):
            self.note_cancelling(before=True)
        return self.was_left

    def give_address_back(self, path: str) -> None:
        """Nothing was decided on a call at the top, as the state is held elsewhere: made again, it is the same one."""
        label, counts, given_back = path.partition("#")[0], self.top.counts, self._given_back
        if label not in counts:
            return
        given_back.add(path)
        number = counts[label]
        while number and (newest := label if number == 1 else f"{label}#{number}") in given_back:
            given_back.discard(newest)
            number -= 1
        counts[label] = number

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
                update = StateUpdate(at=self.clock.now(), status=status, releases=True)
                self._write_record(None, update, is_needed=True)
        finally:
            self.forget()

    def forget(self) -> None:
        """Hold the state no longer, whether or not the store has been told."""
        if self.lease is not None or self._refusal is not None:  # Else the keeper has dropped it already.
            self.lease = None
            self.held_until = 0.0
            self.writer.keeper.drop(self.holder)
        mark_ended(self.holder)
