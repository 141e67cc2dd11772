"""The explicit form of a state: made, written to event by event, saved, and loaded again by the user's own code."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Coroutine, Mapping
from typing import Any, Self, cast

import msgspec

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import StateBackend, StateUpdate
from limpet.backends.memory import MemoryStateBackend
from limpet.codec import frames
from limpet.engine.asking import ask_in
from limpet.engine.bus import EventBus
from limpet.engine.environment import with_environment
from limpet.engine.history_set import HistorySet
from limpet.engine.limits import Limits, check_seconds
from limpet.engine.live import LiveState
from limpet.engine.opening import look_again, take_lease
from limpet.engine.reading import read_history
from limpet.engine.retry_levels import RetryLevels
from limpet.engine.scope import current_scope
from limpet.engine.snapshot import StateSnapshot
from limpet.engine.stoppable import stoppable
from limpet.engine.storage import Storage
from limpet.engine.usage_totals import usage_totals
from limpet.engine.validation import ValidationReport
from limpet.engine.values_of import values_of
from limpet.engine.watching import Checker
from limpet.engine.writer import writer_of
from limpet.errors import UnknownState, UsageError
from limpet.journal.address import nearest
from limpet.journal.history import History
from limpet.journal.lifecycle import state_may_become
from limpet.journal.new_timeline import point_of
from limpet.journal.reachable import named_by
from limpet.journal.replay import Decision, decide
from limpet.keys import Encryption
from limpet.model import (
    Budget,
    Checkpoint,
    CheckpointFrequency,
    CheckpointPolicy,
    EventType,
    InterruptReason,
    InterruptSignal,
    OnDrift,
    OnSaveError,
    RehearsalReport,
    ReplayMode,
    RetryConfig,
    StateHeader,
    StateMetadata,
    StateStatus,
    Timeline,
    UsageTotals,
    checked_state_id,
)
from limpet.model.checkpoints import on_save_error_of, policy_of
from limpet.model.header import utc


class ExecutionState:
    """One run's durable identity, and all that it has done.

    Nothing is stored before the first event, storage entry or checkpoint. From then on every event is durable when
    its call returns, whether or not a checkpoint is saved, unless a ``checkpoint_policy`` says otherwise. The state is
    written by one process at a time: a lease is held from the first write until a checkpoint is saved with another
    status than RUNNING.
    """

    def __init__(
        self,
        *,
        state_backend: StateBackend | None = None,
        artifact_backend: ArtifactBackend | None = None,
        encryption: Encryption | None = None,
        state_id: str | None = None,
        metadata: StateMetadata | None = None,
        event_bus: EventBus | None = None,
        record_inputs: bool = True,
        on_drift: OnDrift | str = OnDrift.DEFAULT,
        default_retry_config: RetryConfig | None = None,
        retry_config_by_actor_type: Mapping[EventType, RetryConfig] | None = None,
        budget: Budget | None = None,
        checkpoint_policy: CheckpointPolicy | str = CheckpointFrequency.EVERY_STEP,
        on_save_error: OnSaveError | str = OnSaveError.FAIL,
    ) -> None:
        backend = state_backend or MemoryStateBackend()
        limits = Limits(
            retry=RetryLevels(default_retry_config, retry_config_by_actor_type),
            budget=budget,
            policy=policy_of(checkpoint_policy),
            on_save_error=on_save_error_of(on_save_error),
        )
        state_id = uuid.uuid4().hex if state_id is None else checked_state_id(state_id)
        now = utc(time.time())
        header = StateHeader(
            state_id=state_id,
            status=StateStatus.RUNNING,
            created_at=now,
            updated_at=now,
            metadata=limits.retry.kept_in(with_environment(metadata or StateMetadata())),
        )
        self._hold(
            LiveState(
                writer=writer_of(backend),
                stored=values_of(backend, artifact_backend, encryption),
                header=header,
                history=History(state_id),
                link=frames.first_link(state_id),
                bus=event_bus or EventBus(),
                records_inputs=record_inputs,
                is_stored=False,
                on_drift=OnDrift(on_drift),
                retry=limits.retry,
            )
        )
        limits.apply_to(self._live)

    def _hold(self, live: LiveState) -> None:
        self._live = live
        live.facade = self

    @classmethod
    def around(cls, live: LiveState) -> Self:
        """The state of a run that is under way, as handlers get it."""
        state = cls.__new__(cls)
        state._hold(live)
        return state

    @classmethod
    def load_from_state_id(
        cls,
        state_id: str,
        state_backend: StateBackend,
        artifact_backend: ArtifactBackend | None = None,
        *,
        encryption: Encryption | None = None,
        replay_mode: ReplayMode = ReplayMode.NORMAL,
        resume_from_address: str | None = None,
        checkpoint: int | None = None,
        timeline: int | None = None,
        event_bus: EventBus | None = None,
        record_inputs: bool = True,
        on_drift: OnDrift | str = OnDrift.DEFAULT,
        budget: Budget | None = None,
        checkpoint_policy: CheckpointPolicy | str = CheckpointFrequency.EVERY_STEP,
        on_save_error: OnSaveError | str = OnSaveError.FAIL,
    ) -> Self:
        """Take up a stored state. Looking at it needs no lease; the first new event takes one.

        It is taken up where it stands; or at an event, so that this and all that started after it runs again
        (``resume_from_address``); or as it stood at a checkpoint, or on another of its timelines. Then the first write
        begins a new timeline, and the old one stays in the journal. What was configured for its retries counts again.

        Raises UnknownState, UnknownAddress, AmbiguousAddress, UnknownCheckpoint or UnknownTimeline, with what is known.
        """
        if resume_from_address is not None and checkpoint is not None:
            raise UsageError("A state is loaded at an address or at a checkpoint, not at both.", "Give one of the two.")
        header = state_backend.find_state(checked_state_id(state_id))
        if header is None:
            known = (other.state_id for other in state_backend.list_states(limit=1000))
            raise UnknownState(state_id, nearest(state_id, known))
        stored = values_of(state_backend, artifact_backend, encryption)
        history, link = read_history(header, state_backend.read(state_id), stored)
        new = point_of(history, resume_from_address, checkpoint, timeline)
        live = LiveState(
            writer=writer_of(state_backend),
            stored=stored,
            header=header,
            history=history if new is None else history.on(new.parts),
            link=link,
            bus=event_bus or EventBus(),
            mode=replay_mode,
            records_inputs=record_inputs,
            on_drift=OnDrift(on_drift),
            retry=RetryLevels.recorded(header.metadata),
        )
        limits = Limits(
            budget=budget, policy=policy_of(checkpoint_policy), on_save_error=on_save_error_of(on_save_error)
        )
        limits.apply_to(live)
        live.next_timeline = new
        live.resume_from_address = None if new is None else new.address or None
        return cls.around(live)

    @classmethod
    def from_snapshot(
        cls,
        snapshot: StateSnapshot,
        *,
        state_backend: StateBackend | None = None,
        artifact_backend: ArtifactBackend | None = None,
        encryption: Encryption | None = None,
        replay_mode: ReplayMode = ReplayMode.NORMAL,
        event_bus: EventBus | None = None,
    ) -> Self:
        """A state as it stood in a snapshot; stored with its first write, where the backend does not have it.

        The artifacts of the snapshot are put into the artifact backend, unless the mode is one that records nothing.
        """
        backend = state_backend or MemoryStateBackend()
        stored = values_of(backend, artifact_backend, encryption)
        live = LiveState(
            writer=writer_of(backend),
            stored=stored,
            header=snapshot.header,
            history=History(snapshot.state_id, snapshot.records, snapshot.header.timeline),
            # What it goes on from is known when it is stored, which comes before the first new record.
            link=frames.first_link(snapshot.state_id),
            bus=event_bus or EventBus(),
            mode=replay_mode,
            is_stored=False,
            retry=RetryLevels.recorded(snapshot.header.metadata),
        )
        if snapshot.artifacts:
            live.brought_along = snapshot.artifacts
            live.stored.put_contents(snapshot.artifacts, None)
        return cls.around(live)

    @property
    def state_id(self) -> str:
        return self._live.state_id

    @property
    def status(self) -> StateStatus:
        return self._live.header.status

    @property
    def metadata(self) -> StateMetadata:
        return self._live.header.metadata

    @property
    def checkpoint_policy(self) -> CheckpointPolicy:
        """When what is recorded is saved. Setting another one counts from now on; what is held back is saved then."""
        saver = self._live.saver
        return CheckpointPolicy() if saver is None else saver.policy

    @checkpoint_policy.setter
    def checkpoint_policy(self, policy: CheckpointPolicy | str) -> None:
        saver = self._live.saver
        self._live.follow = None
        self._live.set_saving(policy_of(policy), OnSaveError.FAIL if saver is None else saver.on_error)

    @property
    def save_error(self) -> str | None:
        """Why the store takes no records at the moment; None where it does."""
        failure = None if self._live.saver is None else self._live.saver.failure
        return None if failure is None else str(failure.error)

    @property
    def storage(self) -> Storage:
        """The storage, as it stands: where the state is not held here, with what others have written to it since."""
        look_again(self._live)
        return Storage(self._live)

    @property
    def history(self) -> HistorySet:
        return HistorySet(self._live.history, self._live.stored)

    @property
    def event_bus(self) -> EventBus:
        return self._live.bus

    @property
    def replay_mode(self) -> ReplayMode:
        return self._live.mode

    @property
    def resume_from_address(self) -> str | None:
        """The event that the state was loaded at, until it is reached."""
        return self._live.resume_from_address

    @property
    def timelines(self) -> list[Timeline]:
        """The timelines of the state, in the order of their beginning."""
        return self._live.history.listed_timelines()

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints that were saved, on all timelines, in order."""
        return self._live.history.checkpoints(self._live.header.metadata)

    @property
    def rehearsal(self) -> RehearsalReport | None:
        """What was found so far, in ReplayMode.REHEARSAL; None in the other modes."""
        rehearsal = self._live.rehearsal
        return None if rehearsal is None else rehearsal.report(has_ended=self.status is StateStatus.COMPLETED)

    @property
    def validation(self) -> ValidationReport | None:
        """What differed, in ReplayMode.VALIDATION; None in the other modes."""
        return self._live.validation

    @property
    def default_retry_config(self) -> RetryConfig | None:
        """How calls are retried of which nothing else says it."""
        return self._live.retry.default

    @property
    def retry_config_by_actor_type(self) -> dict[EventType, RetryConfig]:
        return dict(self._live.retry.by_type)

    @property
    def usage(self) -> UsageTotals:
        """What its model calls have used, on all timelines, and what replay has saved."""
        live = self._live
        return usage_totals(live.history.intact_journal(), live.metadata_with_saved())

    def request_interrupt(
        self,
        reason: InterruptReason | str = InterruptReason.REQUESTED,
        message: str = "",
        triggered_by: str = "",
        save_checkpoint: bool = True,
    ) -> None:
        """Stop what goes on in this state, from any thread; where nothing does, the next event.

        Code that awaits is cancelled at once. The state is left as interrupted, with the reason and the time, and a
        checkpoint unless that is not wanted. Whoever awaits the event or the run gets ExecutionInterrupted. Load the
        state again, or run again, to go on.
        """
        self._live.stopper.request(InterruptSignal(str(reason), message, triggered_by, save_checkpoint))

    def set_interrupt_checker(self, checker: Checker | None) -> None:
        """Ask a function, plain or async, before every event and every 50 ms, whether to stop; None: no more.

        It says so by True or an InterruptSignal. One that raises is reported to the log ``limpet.interrupts``, and
        the run goes on.
        """
        if checker is not None and not callable(cast(object, checker)):
            raise UsageError(f"{checker!r} cannot be asked whether to stop.", "Give a function.")
        self._live.watch.set_checker(checker)

    def set_timeout(self, seconds: float | None) -> None:
        """Interrupt what goes on in this state after so many seconds from now; None: no more. Results that are there
        by then are kept."""
        check_seconds(seconds)
        self._live.watch.set_timeout(seconds)

    def ask(self, prompt: str, type: Any = bool, **options: Any) -> Coroutine[Any, Any, Any]:
        """Ask a person, and give the answer; see ``limpet.ask``. Raises AwaitingAnswer where nothing else goes on in
        this state: load it again when the question is answered, and ask again."""
        live, here = self._live, current_scope.get()
        scope = here if here is not None and here.live is live else live.top
        asked = ask_in(scope, prompt, type, **options)
        return asked if scope is not live.top else _alone(live, asked)

    def should_skip_event(self, address: str) -> bool:
        """Whether a call at this address would be given its recorded outcome."""
        history = self._live.history
        record = history.latest.get(address)
        status = None if record is None else record.status
        return decide(self._live.mode, status, address in history.to_retry) is Decision.SKIP

    def save_checkpoint(self, status: StateStatus = StateStatus.RUNNING, metadata: StateMetadata | None = None) -> int:
        """Mark this point of the journal and give its position; it is durable when this returns.

        With any status but RUNNING the lease is given back, so that another process can take the state up.
        """
        live = self._live
        if live.reads_only:
            raise UsageError(
                f"State {live.state_id!r} is open in mode {live.mode}, in which nothing is recorded.",
                "Load it in ReplayMode.NORMAL to save a checkpoint.",
            )
        if live.lease is None:
            take_lease(live)
        if not state_may_become(live.header.status, status):
            raise UsageError(
                f"State {live.state_id!r} is {live.header.status} and cannot become {status}.",
                "Save it as running first.",
            )
        before = live.metadata_to_keep()
        kept = None if before is live.header.metadata else before
        if metadata is not None:
            kept = with_environment(metadata, before, capture=live.capture)
        live.write_checkpoint(
            status,
            StateUpdate(at=live.clock.now(), status=status, metadata=kept, releases=status is not StateStatus.RUNNING),
        )
        return live.history.position

    def to_snapshot(self, *, with_artifacts: bool = True) -> StateSnapshot:
        """The whole state as it stands, independent of the backend.

        The contents of its artifacts are in it, and so in memory, unless they are left out. Raises ArtifactMissing.
        """
        live, history = self._live, self._live.history
        records, timeline = history.intact_journal(), live.header.timeline
        if live.next_timeline is not None:
            # Loaded at an earlier point: what it would go on with is what it is.
            timeline = len(records) + 1
            number = history.timelines.current + 1
            records += tuple(live.next_timeline.records(timeline, live.clock.now(), number))
        contents = {
            artifact_id: b"".join(live.stored.stored_content(artifact_id))
            for artifact_id in (sorted(named_by(records)) if with_artifacts else ())
        }
        header = msgspec.structs.replace(live.header, position=len(records), timeline=timeline)
        return StateSnapshot(header=header, records=records, artifacts=contents)

    def __repr__(self) -> str:
        return f"<ExecutionState {self.state_id} {self.status}, {self._live.history.position} records>"


async def _alone(live: LiveState, asked: Coroutine[Any, Any, Any]) -> Any:
    """A question that is asked outside of every event."""
    live.loop = asyncio.get_running_loop()
    return await stoppable(live, asked, is_run=False)
