"""What is recorded of a state beside its events: its storage, and how far its program says to be."""

from __future__ import annotations

import concurrent.futures

from limpet.engine.recording import PROGRESS_S, Recording
from limpet.engine.scope import Scope
from limpet.engine.starts import newest_start, with_fired
from limpet.errors import LimpetError
from limpet.journal.executions import Step
from limpet.model import CheckpointTrigger, StorageRecord


class FurtherRecording(Recording):
    """The journal of one state, as this process adds to it, with what its program says of itself."""

    def write_storage(self, step: Step, scope: Scope | None, value: bytes | None, artifacts: tuple[str, ...]) -> int:
        """Record a change of the storage, wait for it, and give the number of its record. ``scope`` is where code
        inside a call made it."""
        place, is_artifact, key, number = step
        if self.reads_only:
            self.history.put_storage(key, value, is_artifact)
            return 0
        committed = None
        with self._lock:
            bodies: list[bytes] = []
            before = self._before(scope, () if scope is None else with_fired(scope))
            seq, now = before.next_seq, self.clock.now()
            behind = seq - newest_start(self.history, scope)
            record = StorageRecord(seq, key, now, value, artifacts, is_artifact, behind, place, number)
            self._frame_all(before, record, bodies)
            if self.saver is None or self.saver.policy.saves_every_step:
                committed = self._hand_over(bodies, None)
            else:
                self.saver.hold(bodies)
        self._wait_for(committed)
        return seq

    def say_progress(self, done: float, total: float) -> None:
        """Take note of how far the program is. It is told with the next save; where every step is one, by itself."""
        self.progress = done, total
        if self.reads_only or (self.saver is not None and not self.saver.policy.saves_every_step):
            return
        now = self.clock.elapsed()
        if now - self._told_progress_at < PROGRESS_S and done < total:
            return
        with self._lock:
            if self.lease is None or self._refusal is not None:
                return
            self._told_progress_at = now
            bodies: list[bytes] = []
            self._frame(self._mark(CheckpointTrigger.PROGRESS), bodies)
            committed = self._hand_over(bodies, None)
        if committed is not None:
            # Nobody waits for it; where it fails, the next record says so.
            committed.add_done_callback(self._look_at_answer)

    def _look_at_answer(self, committed: concurrent.futures.Future[None]) -> None:
        error = None if committed.cancelled() else committed.exception()
        if isinstance(error, LimpetError):
            self.refuse_writes(error)
