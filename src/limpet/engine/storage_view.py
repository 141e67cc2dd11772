"""What code inside a call sees of the storage: live the newest values, on replay the ones that it saw before.

Code is told things by the records of the journal: by those that stood there when its call began, by the outcomes that
it is given, by what it writes itself. So on replay a read gives the value as of the newest record that the code knows
of. Live it gives the newest value; where that is from a record which the code does not know of yet, since a call beside
it has written it, the read is recorded (``ReadRecord``). A recorded write is not made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet.engine.scope import Scope, current_scope
from limpet.journal.executions import Execution, Step
from limpet.model import EventRecord, ExecutionStatus, StorageRecord

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

_SETTLED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
_ENDS_AN_ATTEMPT = (ExecutionStatus.FAILED, ExecutionStatus.RETRYING)


class StorageView:
    """The storage as the inside of one call sees it."""

    __slots__ = (
        "_counts",
        "_is_found",
        "_last",
        "_own",
        "_position",
        "began",
        "entered",
        "execution",
        "newest",
        "seen",
    )

    def __init__(self, position: int, order: int, *, is_new: bool) -> None:
        self._position = position
        self._is_found = is_new
        self._last = 0
        """The number of the last record that replay comes to."""
        self._counts: dict[tuple[bool, str, bool, str], int] = {}
        self._own: dict[tuple[bool, str], bytes | None] = {}
        """What was written here while recorded things were still to come, although it is not recorded in this place."""
        self.began = position
        """The number of the newest record when the call began."""
        self.entered = 0
        """The number of the newest record of what replay has come to, but for the outcomes that were given."""
        self.execution: Execution | None = None
        """What is recorded of this execution."""
        self.newest = order
        """The newest start of the call and of all that it encloses."""
        self.seen = position
        """The number of the newest record that the code knows of, but for the outcomes that it was given."""

    def find(self, event: Scope) -> None:
        """Look up what is recorded of the execution that goes on here."""
        if self._is_found:
            return
        self._is_found = True
        history = event.live.history
        execution = history.executions_until(self._position).get(event.prefix.removesuffix("::"))
        if execution is not None:
            self.execution = execution
            self.began = self.seen = execution.began
            self.newest = max(self.newest, execution.newest)
            self._last = execution.last(history.to_retry)

    def position(self, event: Scope) -> int:
        """The number of the newest record that the code knows of."""
        return max(event.given, self.seen)

    def is_replaying(self, event: Scope) -> bool:
        """Whether anything that is recorded of this execution is still to come."""
        return max(event.given, self.entered) < self._last

    def note(self, seen: int, entered: int) -> None:
        """Take note that the code knows of a record, and that replay has come to one."""
        self.seen = max(self.seen, seen)
        self.entered = max(self.entered, entered)

    def next_step(self, scope: Scope, is_artifact: bool, key: str, *, is_write: bool) -> Step:
        """Name a read or a write that is made now, as it is named in every process."""
        place = scope.prefix.removesuffix("::")
        counted = (is_write, place, is_artifact, key)
        number = self._counts[counted] = self._counts.get(counted, 0) + 1
        return place, is_artifact, key, number

    def keep(self, step: Step, value: bytes | None) -> None:
        """Let later reads find a value that is not recorded in its place."""
        self._own[step[1:3]] = value

    def forget(self, step: Step) -> None:
        """Let later reads find what is recorded."""
        self._own.pop(step[1:3], None)

    def value_at(self, live: LiveState, is_artifact: bool, key: str, position: int) -> bytes | None:
        """The value that replayed code sees."""
        if (is_artifact, key) in self._own:
            return self._own[is_artifact, key]
        return live.history.changes.value_at(is_artifact, key, position)

    def keys_at(self, live: LiveState, is_artifact: bool, position: int) -> list[str]:
        """The keys that replayed code sees."""
        keys = dict.fromkeys(live.history.changes.keys_at(is_artifact, position))
        for (kind, key), value in self._own.items():
            if kind is is_artifact and value is None:
                keys.pop(key, None)
            elif kind is is_artifact:
                keys[key] = None
        return list(keys)


def begin_inside(child: Scope, order: int, *, is_new: bool) -> None:
    """Take note that a call begins, or is entered again (``is_new`` is False), whose inside that is."""
    history = child.live.history
    view = child.view = StorageView(history.position, order, is_new=is_new)
    if history.changes.newest:
        view.find(child)
    above = child.parent
    while above is not None:
        if (outer := above.event.view) is not None and outer.newest < order:
            outer.newest = order
        above = above.event.parent


def is_new_execution(record: EventRecord | None, *, is_agent: bool) -> bool:
    """Whether a call with this record does not go on with what it had written before."""
    return record is None or (record.status in _ENDS_AN_ATTEMPT and not is_agent)


def note_given(scope: Scope, record: EventRecord | None) -> None:
    """Take note that the outcome in this record is given to the code of a scope; or, without one, that a call of it
    was come to."""
    event = scope.event
    if record is None:
        return
    if record.status in _SETTLED:
        if record.seq > event.given:
            event.given = record.seq
    else:
        note_entered(scope, record)


def note_entered(scope: Scope, record: EventRecord) -> None:
    """Take note that the code of a scope makes a call again that has a record."""
    if (view := scope.event.view) is not None:
        view.note(0, record.seq)


def scope_inside(live: LiveState) -> Scope | None:
    """The scope of the code that is asking, if it is code inside a call; None where storage is not replayed."""
    scope = current_scope.get()
    if scope is None or scope.live is not live or scope.event.parent is None or scope.event.is_closed:
        return None
    return scope


def view_of(event: Scope) -> StorageView:
    """How the inside of a call sees the storage."""
    view = event.view
    if view is None:
        # A call that is executed without being recorded: in a validation, or an agent in a rehearsal.
        view = event.view = StorageView(event.live.history.position, 0, is_new=False)
    view.find(event)
    return view


def position_to_read(scope: Scope, is_artifact: bool, key: str) -> int | None:
    """As of which record code reads an entry, or (with an empty key) the keys; None: the newest."""
    live, event = scope.live, scope.event
    view = view_of(event)
    step = view.next_step(scope, is_artifact, key, is_write=False)
    recorded = None if view.execution is None else view.execution.reads.get(step)
    if recorded is not None:
        view.note(recorded.saw, recorded.seq)
    elif not view.is_replaying(event):
        newest = live.history.changes.newest_of(is_artifact, key)
        if newest > view.position(event):
            live.note_read(scope, step, newest)
            view.note(newest, 0)
        return None
    return view.position(event)


def is_free(scope: Scope, recorded: StorageRecord) -> bool:
    """Whether a write may differ from the recorded one although the code is the same, or was mended.

    A tool that was cut off is executed as a whole again, and may find other things. An agent that failed may have
    written something because of that.
    """
    execution = view_of(scope.event).execution
    return execution is not None and (not execution.is_agent or recorded.seq < execution.ended)
