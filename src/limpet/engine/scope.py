"""Where code stands in the tree of calls, and the counting that gives each call its address.

The scope travels in a context variable: a nested call, an awaited coroutine and a worker thread all find their own. Two
calls of one scope are told apart by their order, which is the order in which the code makes them; code that runs
concurrently therefore needs a scope of its own, and gets one where its task is created (``branches.py``).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.errors import UsageError
from limpet.model.records import Details

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState
    from limpet.engine.order import Order
    from limpet.engine.storage_view import StorageView


AnyCoroutine = Coroutine[Any, Any, Any]


class Start(NamedTuple):
    """The start of an attempt, as it will be recorded."""

    address: str
    at: float
    order: int
    version: str | None
    fingerprint: bytes
    input: bytes | None
    artifacts: tuple[str, ...] = ()
    """The ids of the artifacts that the input names."""
    attempt: int = 1
    details: Details | None = None
    """What every record of the call carries."""
    is_gate: bool = False
    """Whether a policy may ask that all is saved with its outcome."""


new_start: Callable[[tuple[object, ...]], Start] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]  # generic in what the tuple has
    Start,
)
"""A start of all its fields, in a third of the time that the class itself takes."""


class Scope:
    """The inside of one call, of one branch, or (``prefix`` empty) of a state."""

    # What most scopes leave as it is stands in the class: one is made for every call.

    reached = 0
    """Of the recorded calls that were given again here, each by itself when it was made: the latest start."""
    has_new = False
    """Whether a call was made here that has no record."""
    tried_again: int | None = None
    """The earliest start of a failed call that was tried again here: behind it the code may go another way."""
    is_mixed = False
    """Whether calls made here stand, in the journal, behind others that the code makes after them."""
    seen = 0
    """The number of the newest record that the code here knows of: of an outcome that it was given, for one."""
    newest = 0
    """Of an event: its start, or the newest one of all that it encloses."""
    view: StorageView | None = None
    """Of an event: how its code sees the storage, once that matters."""
    begun: tuple[int, bool] | None = None
    """Of an event that is executed: the number of the newest record when it began, and whether nothing is recorded
    of what it does."""
    has_branches = False
    """Of an event: whether any task was created inside it: what its code reads may then decide what others do."""
    keyed: dict[str, tuple[Scope, list[Callable[[], AnyCoroutine | None]]]] | None = None
    """Of an event, by the label of each call with a key that is under way inside it: the branch that made it, and
    references to its coroutines, as one branch may make it several times in order."""
    order: Order | None = None
    """Of an event: the order in which its code is given its results, from the first time that it matters."""
    expects = -1
    """Of an event: the number of the recorded outcome that its code is given first, where that is certain; 0: it
    has none."""
    task: asyncio.Task[Any] | None = None
    """Of an event: the task that its handler runs in."""
    is_ended = False
    """Whether the engine ends what goes on here: what is cancelled by that was not cancelled by the code."""
    failed: list[str] | None = None
    """The addresses of calls made here, and in branches of this, that failed."""
    pending_start: Start | None = None
    """The start of the enclosing event until it is written. What encloses a written one is written."""
    is_closed = False
    is_cut_off = False
    """Whether the call was given up while it was going on: what it still does is not recorded any more."""
    call: Call | None = None
    """The call that this is the inside of, once it is executed."""

    def __init__(self, live: LiveState, prefix: str, parent: Scope | None, depth: int = 0) -> None:
        self.live = live
        self.prefix = prefix
        """What stands before the label of a call made here."""
        self.parent = parent
        self.depth = depth
        """How many calls enclose what happens here."""
        self.event: Scope = self
        """The scope of the enclosing event; of a branch, that of the event it is a branch of."""
        self.counts: dict[str, int] = {}

    def take(self, label: str) -> str:
        """The path of a call that is being made here: its label, numbered from the second one on."""
        if self.event.is_closed:
            self._refuse(label)
        counts = self.counts
        number = counts.get(label, 0) + 1
        counts[label] = number
        return self.prefix + label if number == 1 else f"{self.prefix}{label}#{number}"

    def take_keyed(self, label: str) -> str:
        """The path of a call with a key: the same in the enclosing event, whatever task makes it.

        Raises UsageError where another branch makes the same call at the same time, as no order tells the two apart.
        """
        event = self.event
        if event.is_closed:
            self._refuse(label)
        if event.keyed is None:
            event.keyed = {}
        elif (held := event.keyed.get(label)) is not None and held[0] is not self and any(map(_is_open, held[1])):
            raise key_in_use(self, label, "Two branches")
        number = event.counts.get(label, 0) + 1
        event.counts[label] = number
        return event.prefix + label if number == 1 else f"{event.prefix}{label}#{number}"

    def hold_key(self, label: str, held: Callable[[], AnyCoroutine | None]) -> None:
        """No other branch makes a call with this key until it is released, or the coroutine of the call is closed."""
        keyed = self.event.keyed
        assert keyed is not None
        before = keyed.get(label)
        if before is None or before[0] is not self:
            keyed[label] = self, [held]
        else:
            before[1].append(held)

    def release_key(self, label: str) -> None:
        """A call with a key has ended, and its coroutine is about to: then any branch may make it again."""
        keyed = self.event.keyed
        if keyed is None or (held := keyed.get(label)) is None or held[0] is not self:
            return
        going = held[1]
        if len(going) > 1:
            going[:] = [each for each in going if _is_open(each, but_running=True)]
            if going:
                return
        del keyed[label]

    def _refuse(self, label: str) -> None:
        raise UsageError(
            f"{label!r} was called inside {self.event.prefix.removesuffix('::')!r} after that call had ended.",
            "Await every call and every task before the enclosing actor returns.",
        )

    def branch(self, label: str) -> Scope:
        """A scope for code that runs concurrently with what goes on here."""
        branch = Scope(self.live, self.take(label) + "::", self, self.depth)
        branch.event = self.event
        branch.seen = self.seen
        self.event.has_branches = True
        return branch

    def inside(self, path: str) -> Scope:
        """The scope of what a call that is made here does."""
        return Scope(self.live, path + "::", self, self.depth + 1)

    def is_inside(self, other: Scope) -> bool:
        """Whether this is that scope, or stands somewhere inside it."""
        above: Scope | None = self
        while above is not None and above is not other:
            above = above.parent
        return above is not None

    def cut_off(self) -> None:
        """Give up the call that this is the inside of, although it goes on."""
        self.is_closed = self.is_cut_off = self.live.has_cut_off = True

    @property
    def is_being_ended(self) -> bool:
        """Whether the engine ends what goes on here, or in anything that encloses it."""
        above: Scope | None = self
        while above is not None and not above.is_ended:
            above = above.parent
        return above is not None

    @property
    def is_given_up(self) -> bool:
        """Whether this, or anything that encloses it, was cut off."""
        above: Scope | None = self
        while above is not None and not above.is_cut_off:
            above = above.parent
        return above is not None

    def note_failed(self, address: str) -> None:
        event = self.event
        if event.failed is None:
            event.failed = [address]
        else:
            event.failed.append(address)


def key_in_use(scope: Scope, label: str, who: str) -> UsageError:
    """The error where the same call with a key is made twice at the same time."""
    return UsageError(
        f"{who} of {scope.event.prefix.removesuffix('::')!r} call {label!r} at the same time, and a key stands for one "
        "call.",
        "Give each call a key of its own, or make the calls one after the other.",
    )


def _is_open(held: Callable[[], AnyCoroutine | None], but_running: bool = False) -> bool:
    """Whether a coroutine may still go on: one whose task was cancelled before it began does not."""
    coro = held()
    state = inspect.CORO_CLOSED if coro is None else inspect.getcoroutinestate(coro)
    return state != inspect.CORO_CLOSED and not (but_running and state == inspect.CORO_RUNNING)


current_scope: ContextVar[Scope | None] = ContextVar("limpet_scope", default=None)
