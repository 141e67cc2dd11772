"""The frames of one journal: records get their number and their place in the chain of checksums here.

They get them in the order in which they are handed in. What goes together is taken up as a whole or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from limpet.codec import frames
from limpet.codec.encryption import RecordCipher
from limpet.engine.clock import Clock
from limpet.engine.scope import Scope
from limpet.engine.starts import Before, Found, Reads, newest_start
from limpet.errors import LimpetError, UsageError
from limpet.journal.executions import Step
from limpet.journal.history import History
from limpet.journal.tally import Tally
from limpet.model import EventRecord, Lease, Record, StorageRecord


class Framing:
    """The end of the journal of one state. Whoever frames records, and then hands them over, holds the lock."""

    def __init__(
        self,
        history: History,
        link: int,
        state_id: str,
        cipher: RecordCipher | None,
        clock: Clock,
        *,
        reads_only: bool,
    ) -> None:
        self.history = history
        self.state_id = state_id
        self.clock = clock
        self.reads_only = reads_only
        """Whether nothing is recorded, and no lease is taken."""
        self.lease: Lease | None = None
        self.tally: Tally | None = None
        """What of its budget the run has used, where it has one."""
        self.looking_up = threading.Lock()
        """Held while it is looked up in the history what code that is replayed has done."""
        self._reads: dict[Found, Reads] = {}
        """Reads of the storage that go before the next record."""
        self._link = link
        self._owner = frames.first_link(state_id)
        self._cipher = cipher
        self._lock = threading.Lock()
        self._refusal: LimpetError | None = None

    def refuse_writes(self, why: LimpetError) -> None:
        """From now on every write raises this. May be called from any thread."""
        self._refusal = self._refusal or why

    def is_refusing(self, error: LimpetError) -> bool:
        """Whether this error says that the state can no longer be written, rather than that user code failed."""
        return error is self._refusal

    def note_read(self, scope: Scope, step: Step, saw: int) -> None:
        """Record, with the next record, that a read has found the change in that record."""
        if self.reads_only:
            return
        place, is_artifact, key, number = step
        found = place, is_artifact, key, saw, newest_start(self.history, scope)
        with self._lock:
            _, before, count = self._reads.get(found, (scope, 0, 0))
            self._reads[found] = scope, number, count + 1 if before == number - 1 else 1

    def _before(self, scope: Scope | None, fired: Sequence[Scope]) -> Before:
        """What is recorded before anything that happens in a scope: reads, starts of what encloses it, and timers."""
        return Before(self.history, self.clock.now(), self._reads.items(), scope, fired)

    def _frame_all(self, before: Before, record: EventRecord | StorageRecord | None, bodies: list[bytes]) -> None:
        """Take up what is recorded before a record, and that itself: all of it, or, where that raises, nothing."""
        records = before.records if record is None else [*before.records, record]
        self._require_held()
        link, framed = self._link, list[bytes]()
        for each in records:
            body, link = frames.to_frame(each, link, self._owner, self._cipher)
            framed.append(body)
        self.history.add_all(records)
        self._link = link
        bodies += framed
        self._reads.clear()
        before.note_recorded()
        if self.tally is not None:
            for each in records:
                self.tally.note(each)

    def _frame(self, record: Record, bodies: list[bytes]) -> None:
        """Take up a record. Where that raises, nothing has changed."""
        if self.lease is None or self._refusal is not None:
            self._require_held()
        body, link = frames.to_frame(record, self._link, self._owner, self._cipher)
        self.history.add(record)
        self._link = link
        bodies.append(body)
        if self.tally is not None:
            self.tally.note(record)

    def _require_held(self) -> None:
        """Raises why nothing can be recorded any more."""
        if self._refusal is not None:
            raise self._refusal
        if self.lease is None:
            raise UsageError(
                f"State {self.state_id!r} is not held here any more: its run has ended, or it was given back.",
                "Await every call and every task before the run ends, and save with another status than RUNNING only "
                "when nothing goes on.",
            )
