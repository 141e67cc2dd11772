"""What code inside a call sees of the storage: live the newest values, on replay the ones that it saw before.

Code is told things by the records of the journal: by those that stood there when its call began, by the outcomes that
it is given, by what it writes itself. So on replay a read gives the value as of the newest record that the code knows
of. Live it gives the newest value. A read of which that does not say what it found is recorded with the next record
(``ReadRecord``): it found what a call beside it had written, or there are branches, which it may tell what it found.
A recorded write is not made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet.engine.scope import Scope, current_scope
from limpet.journal.address import SEPARATOR
from limpet.journal.executions import Execution, Step, branches_of, is_made
from limpet.model import EventRecord, ExecutionStatus, StorageRecord

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

_SETTLED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
_ENDS_AN_ATTEMPT = (ExecutionStatus.FAILED, ExecutionStatus.RETRYING)


class StorageView:
    """The storage as the inside of one call sees it. What the code of each branch knows of is noted in its scope."""

    __slots__ = (
        "_branches",
        "_counts",
        "_is_found",
        "_lasts",
        "_own",
        "_position",
        "_reached",
        "began",
        "ended",
        "execution",
        "may_replay",
    )

    def __init__(self, position: int, *, is_new: bool) -> None:
        self._position = position
        self._is_found = is_new
        self.may_replay = not is_new
        """Whether anything is recorded that replay comes to, as far as that is looked up."""
        self._lasts: dict[str, int] = {}
        """By the place of a branch: the number of the last record that replay comes to there."""
        self._reached: dict[str, int] = {}
        """By place: the newest of these that it has come to, but for outcomes that the branch was given."""
        self._branches: dict[str, set[str]] = {}
        """By place: the branches that were made there and have anything recorded."""
        self._counts: dict[tuple[bool, str, bool, str], int] = {}
        self._own: dict[tuple[str, bool, str], bytes | None] = {}
        """By place: what was written while recorded things were still to come there, although it is not recorded."""
        self.began = position
        """The number of the newest record when the call began."""
        self.ended = 0
        """The number of the record of its outcome, where a call that has ended is executed without being recorded."""
        self.execution: Execution | None = None
        """What is recorded of this execution."""

    def find(self, event: Scope) -> None:
        """Look up what is recorded of the execution that goes on here."""
        if not self._is_found:
            with event.live.looking_up:
                self._find(event)
            self._is_found = True

    def _find(self, event: Scope) -> None:
        history = event.live.history
        execution = history.executions_until(self._position).get(place_of(event))
        if execution is not None:
            self.execution = execution
            self.began = execution.began
            event.newest = max(event.newest, execution.newest)
            self._lasts = execution.lasts(history.to_retry)
            self._branches = branches_of(self._lasts, place_of(event))
        elif self.ended:
            self.began = self.ended - 1
        self.may_replay = bool(self._lasts)

    def is_replaying(self, scope: Scope) -> bool:
        """Whether anything that is recorded of a branch is still to come."""
        if self.ended:
            return True
        if not self._lasts:
            return False
        place = place_of(scope)
        if max(scope.seen, self._reached.get(place, 0)) < self._lasts.get(place, 0):
            return True
        return not all(is_made(branch, scope.counts) for branch in self._branches.get(place, ()))

    def note_reached(self, place: str, seq: int) -> None:
        """Take note that replay has come to a record of a branch."""
        if seq > self._reached.get(place, 0):
            self._reached[place] = seq

    def next_step(self, scope: Scope, is_artifact: bool, key: str, *, is_write: bool) -> Step:
        """Name a read or a write that is made now, as it is named in every process."""
        place = place_of(scope)
        counted = (is_write, place, is_artifact, key)
        number = self._counts[counted] = self._counts.get(counted, 0) + 1
        return place, is_artifact, key, number

    def keep(self, step: Step, value: bytes | None) -> None:
        """Let later reads find a value that is not recorded in its place."""
        self._own[step[:3]] = value

    def forget(self, step: Step) -> None:
        """Let later reads find what is recorded."""
        self._own.pop(step[:3], None)

    def value_at(self, scope: Scope, is_artifact: bool, key: str, position: int) -> bytes | None:
        """The value that replayed code sees."""
        entry = (place_of(scope), is_artifact, key)
        if entry in self._own:
            return self._own[entry]
        return scope.live.history.changes.value_at(is_artifact, key, position)

    def keys_at(self, scope: Scope, is_artifact: bool, position: int) -> list[str]:
        """The keys that replayed code sees."""
        keys = dict.fromkeys(scope.live.history.changes.keys_at(is_artifact, position))
        for (place, kind, key), value in self._own.items():
            if place == place_of(scope) and kind is is_artifact:
                if value is None:
                    keys.pop(key, None)
                else:
                    keys[key] = None
        return list(keys)


def place_of(scope: Scope) -> str:
    """What the place of a branch is called in the journal."""
    return scope.prefix.removesuffix(SEPARATOR)


def compare_inside(child: Scope, record: EventRecord | None) -> None:
    """Take note that a call with this record is executed without being recorded, whose inside that is."""
    view = child.view = StorageView(child.live.history.position, is_new=record is None)
    view.ended = record.seq if record is not None and record.status in _SETTLED else 0
    view.find(child)
    child.seen = view.began


def begin_inside(child: Scope, order: int, *, is_new: bool) -> None:
    """Take note that a call begins, or is entered again (``is_new`` is False), whose inside that is."""
    history = child.live.history
    child.newest = order
    child.seen = position = len(history.journal)
    # Where the journal is one record long, that is the start of this.
    child.begun = position, is_new or position == 1
    if history.changes.newest:
        child.seen = view_of(child).began
    above = child.parent
    while above is not None and (event := above.event).depth:
        if event.newest < order:
            event.newest = order
        above = event.parent


def is_new_execution(record: EventRecord | None, *, is_agent: bool) -> bool:
    """Whether a call with this record does not go on with what it had written before."""
    return record is None or (record.status in _ENDS_AN_ATTEMPT and not is_agent)


def note_given(scope: Scope, record: EventRecord | None) -> None:
    """Take note that the outcome in this record is given to the code of a scope. A record that is none is come to."""
    if record is None:
        return
    if record.seq > scope.seen and record.status in _SETTLED:
        scope.seen = record.seq
    if (begun := scope.event.begun) is None or not begun[1]:
        note_entered(scope, record)


def note_entered(scope: Scope, record: EventRecord) -> None:
    """Take note that the code of a scope makes a call that has a record."""
    if (view := _view_in(scope.event)) is not None and view.may_replay:
        # A call with a key has the address that it would have outside of its branch.
        view.note_reached(record.address.rsplit(SEPARATOR, 2)[0], record.seq)


def scope_inside(live: LiveState) -> Scope | None:
    """The scope of the code that is asking, if it is code inside a call; None where storage is not replayed."""
    scope = current_scope.get()
    if scope is None or scope.live is not live or scope.event.is_closed or _view_in(scope.event) is None:
        return None
    return scope


def _view_in(event: Scope) -> StorageView | None:
    """How the code of a call sees the storage; None where that is not replayed. Most calls never ask for it."""
    if event.view is None and event.begun is not None:
        with event.live.looking_up:
            if event.view is None:
                position, is_new = event.begun
                event.view = StorageView(position, is_new=is_new)
    return event.view


def view_of(scope: Scope) -> StorageView:
    """How the code of a scope inside a call sees the storage."""
    view = _view_in(scope.event)
    assert view is not None, "every call that is executed has one"
    view.find(scope.event)
    return view


def position_to_read(scope: Scope, is_artifact: bool, key: str) -> int | None:
    """As of which record code reads an entry, or (with an empty key) the keys; None: the newest."""
    live, view = scope.live, view_of(scope)
    step = view.next_step(scope, is_artifact, key, is_write=False)
    recorded = None if view.execution is None else view.execution.read(step)
    if recorded is not None:
        view.note_reached(recorded.place, recorded.seq)
        scope.seen = max(scope.seen, recorded.saw)
        return recorded.saw
    if view.ended or (not scope.event.has_branches and view.is_replaying(scope)):
        return scope.seen
    newest = live.history.changes.newest_of(is_artifact, key)
    if newest > scope.seen or scope.event.has_branches:
        live.note_read(scope, step, newest)
        scope.seen = max(scope.seen, newest)
    return None


def is_free(scope: Scope, recorded: StorageRecord) -> bool:
    """Whether a write may differ from the recorded one although the code is the same, or was mended.

    A tool that was cut off is executed as a whole again, and may find other things. An agent that failed may have
    written something because of that.
    """
    execution = view_of(scope).execution
    return execution is not None and (not execution.is_agent or recorded.seq < execution.ended)
