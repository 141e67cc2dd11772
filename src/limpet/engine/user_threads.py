"""The threads that code inside a run starts: whether what they call is part of the run, and has a certain address.

A thread has a context of its own, so it does not know the scope of the call that started it. A call there would be
executed without being recorded: it is refused. A thread that was given a copy of the context makes calls of the run.
Which of several threads comes first is chance, so the same call in two of them at once needs keys, or is refused.

What threads do for a run is known from the hooks in ``thread_hooks.py``, as long as the run goes on.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from limpet.engine.scope import Scope, current_scope, key_in_use
from limpet.errors import UsageError
from limpet.logs import logger

if TYPE_CHECKING:
    from limpet.engine.actors import Actor

R = TypeVar("R")

log = logger("limpet.threads")

_MOST_REMEMBERED = 8
"""Of so many pieces of work that have ended it is known what they called, for each call."""

_Place = tuple[Scope, str]
"""What calls have in common that chance would number: their scope and their label."""


class Work:
    """What one thread does for a run: a function that was submitted to a pool, or all that a thread does."""

    __slots__ = ("began", "calls", "ended", "is_piece", "parent", "scope", "threads")

    def __init__(self, threads: UserThreads, scope: Scope, parent: Work | None, began: int, is_piece: bool) -> None:
        self.threads = threads
        self.scope = scope
        """Where it was submitted."""
        self.parent = parent
        """The work that submitted it; None: the run's own thread did."""
        self.began = began
        self.is_piece = is_piece
        """Whether it is one function with a beginning and an end. A thread may also do one thing after the other, in
        one context after the other, as those of a pool do; then it says nothing of their order."""
        self.ended: int | None = None
        self.calls: set[_Place] = set()

    def run(self, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
        """Run the function, on the thread on which it is to run."""
        before, _here.work = _here.work, self if self.is_piece else None
        token = lent_work.set(self)
        try:
            return function(*args, **kwargs)
        finally:
            lent_work.reset(token)
            _here.work = before
            self.threads.end(self)

    def enclosing(self) -> Iterator[Work]:
        """This, and the work that it is part of, from the inside."""
        work: Work | None = self
        while work is not None:
            yield work
            work = work.parent


class _Called(NamedTuple):
    """The last call of its kind that some work has made; no work: the run's own thread."""

    work: Work | None
    at: int
    thread: str


class _Here(threading.local):
    work: Work | None = None


_here = _Here()
"""The work that this thread does, whatever context its code has."""

lent_work: ContextVar[Work | None] = ContextVar("limpet_lent", default=None)
"""The work that code does for a run. Where there is no scope beside it, the scope is lost."""


class UserThreads:
    """What the threads of one run are doing for it."""

    def __init__(self) -> None:
        self.outstanding: set[Work] = set()
        """The pieces of work that were handed over and have not ended."""
        self.users = 0
        """How many calls at the top are under way: of a run one, in the explicit form perhaps several."""
        self._lock = threading.Lock()
        self._ticks = itertools.count(1)
        self._called: dict[_Place, dict[Work | None, _Called]] = {}
        self._called_before: dict[_Place, deque[_Called]] = {}
        """The same, of work that has ended."""
        self._keys: set[_Place] = set()
        """The calls with a key that threads are waiting for."""
        self._is_told = False

    @property
    def is_under_way(self) -> bool:
        return self.users > 0

    def begin(self, scope: Scope, parent: Work | None, is_piece: bool) -> Work:
        with self._lock:
            work = Work(self, scope, parent, next(self._ticks), is_piece)
            if is_piece:
                self.outstanding.add(work)
        return work

    def end(self, work: Work) -> None:
        """The work has ended, or will never begin."""
        with self._lock:
            if work not in self.outstanding:
                return
            self.outstanding.discard(work)
            work.ended = next(self._ticks)
            for place in work.calls:
                before = self._called_before.setdefault(place, deque(maxlen=_MOST_REMEMBERED))
                before.append(self._called[place].pop(work))
            if not self.outstanding:
                # Whatever is submitted from now on comes behind all of this.
                self._called.clear()
                self._called_before.clear()

    def note_call(self, scope: Scope, label: str, remedy: str) -> None:
        """Take note of a call without a key. Raises UsageError if another thread makes it at the same time."""
        work = _here.work
        if work is not None and work.threads is not self:
            work = None
        place, thread = (scope, label), threading.current_thread().name
        with self._lock:
            if not self.outstanding:
                return
            other = self._unordered(place, work)
            if other is None:
                self._called.setdefault(place, {})[work] = _Called(work, next(self._ticks), thread)
                if work is not None:
                    work.calls.add(place)
                return
        raise UsageError(
            f"{label!r} is called inside {_name(scope)!r} by the threads {other.thread!r} and {thread!r} at once: "
            "which of them comes first would decide the addresses of these calls.",
            remedy,
        )

    @contextmanager
    def using_key(self, scope: Scope, label: str) -> Generator[None]:
        """While a thread makes a call with a key. Raises UsageError if another thread is making the same call."""
        place = (scope.event, label)
        with self._lock:
            if place in self._keys:
                raise key_in_use(scope, label, "Two threads")
            self._keys.add(place)
        try:
            yield
        finally:
            with self._lock:
                self._keys.discard(place)

    def _unordered(self, place: _Place, work: Work | None) -> _Called | None:
        """The call of another thread, if there is one, before or behind which this one comes by chance."""
        now = self._called.get(place, {}).values()
        before = self._called_before.get(place, ())
        return next((call for call in (*now, *before) if call.work is not work and not _is_ordered(call, work)), None)

    def tell_once(self, error: UsageError) -> None:
        """Log what may be raised where nobody looks: in a future that nobody asks, for one."""
        if not self._is_told:
            self._is_told = True
            log.error("%s", error)


def _is_ordered(call: _Called, work: Work | None) -> bool:
    """Whether a call that was made has come before what that work does now, in every run of the program."""
    other = call.work
    others = () if other is None else tuple(other.enclosing())
    if work is None or work in others:
        # Whoever hands work over can wait for its end.
        return other is None or other.ended is not None
    # What both are part of, or the run itself, has handed this one over at that time.
    branch = work
    while branch.parent is not None and branch.parent not in others:
        branch = branch.parent
    if other is None or branch.parent is other:
        return call.at < branch.began
    return other.ended is not None and other.ended < branch.began


def begin_work(*, is_piece: bool) -> Work | None:
    """The work that is being handed over here for a run; None outside a run that goes on."""
    scope, parent = current_scope.get(), _here.work
    if scope is None:
        lent = lent_work.get()
        if lent is None:
            return None
        scope = lent.scope
    threads = scope.live.threads
    if not threads.is_under_way:
        return None
    return threads.begin(scope, parent if parent is not None and parent.threads is threads else None, is_piece)


@contextmanager
def outside() -> Generator[None]:
    """While this lasts, a thread that a pool starts is not taken for one of the run: it serves everybody later."""
    scope, lent = current_scope.set(None), lent_work.set(None)
    try:
        yield
    finally:
        current_scope.reset(scope)
        lent_work.reset(lent)


def scope_of_thread(actor: Actor[..., Any]) -> Scope | None:
    """The scope of a call that is made here, which waits for its result.

    Raises UsageError if the scope was lost, and if the call needs a key to have a certain address.
    """
    scope = current_scope.get()
    if scope is None:
        require_scope_not_lost(actor.name)
    elif actor.key is None and scope.live.threads.outstanding:
        remedy = f"Give each of them a key that says which one it is: `{actor.name}.options(key=…).call(…)`."
        scope.live.threads.note_call(scope, actor.label, remedy)
    return scope


def using_key(scope: Scope | None, actor: Actor[..., Any]) -> AbstractContextManager[None]:
    """While a thread waits for a call that is made there: if that has a key, no other thread may make it meanwhile."""
    if scope is None or actor.key is None:
        return nullcontext()
    return scope.live.threads.using_key(scope, actor.label)


def require_scope_not_lost(name: str) -> None:
    """Raises UsageError where there is no scope because a thread was started without its context, inside a run."""
    work = lent_work.get()
    if work is None or not work.threads.is_under_way:
        return
    error = UsageError(
        f"{name!r} was called in the thread {threading.current_thread().name!r}, which works for "
        f"{_name(work.scope)!r} in state {work.scope.live.state_id!r} without having its context: the call would not "
        "be part of the run, and nothing of it would be recorded.",
        "Give the thread a copy of the context, and each call a key: `pool.submit(contextvars.copy_context().run, "
        "fetch.options(key=url).call, url)`. `asyncio.to_thread` copies it by itself, and `asyncio.gather` needs no "
        "threads. What is not to be part of the run is started with `contextvars.Context().run(…)`.",
    )
    work.threads.tell_once(error)
    raise error


def _name(scope: Scope) -> str:
    return scope.event.prefix.removesuffix("::")
