"""The one writer of a backend: every commit of the process to it goes through here.

A run that is alone commits for itself, at once. As soon as several runs or branches are under way (``crowd``), what
they write within one turn of the event loop is committed together.

Where a commit is cheap it is made inline. Where it waits for a disk or a network it is made on a thread, so that the
event loop runs on meanwhile. One group is in flight at a time; whatever arrives during it is the next group. There
are no timers and no fixed windows. The thread ends after a second without work. Handing a commit over to a thread and
back can cost as much as a quick disk does: where the backend allows it, a lone run makes its commits inline once the
last few were quick, and as long as they are. A disk that becomes slow then holds the loop up for one commit, and no
more.

Acknowledged means durable: a future is resolved, and ``write`` returns None, only after the backend has committed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, cast

import msgspec

from limpet import processes
from limpet.backends.contract import Append, Claim, Grant, StateBackend
from limpet.engine.lease import LeaseKeeper
from limpet.engine.places import Places
from limpet.errors import LeaseOfParent, LimpetError

IDLE_S = 1.0
"""How long the thread waits for more before it ends."""

QUICK_S = 0.002
"""A commit that takes less than this may be made inline: an event loop that stands still so long is not noticed."""

PROOFS = 3
"""So many quick commits in a row are the proof that the next one will be quick."""

Refused = Callable[[LimpetError], None]


class _Job(msgspec.Struct, eq=False):
    """Something to commit, and where its answer goes."""

    what: Append | Claim
    future: Any
    loop: asyncio.AbstractEventLoop | None
    """None: the future is a thread's own."""
    refused: Refused | None = None
    """Told of a refusal even where nobody waits for the answer any more."""


_Answered = list[tuple[_Job, object]]


class Writer:
    """Commits for all states of one backend in this process."""

    def __init__(self, backend: StateBackend) -> None:
        self.backend = backend
        self.keeper = LeaseKeeper(backend)
        self.crowd = 0
        """How many runs and branches are under way."""
        self.places = Places()
        """The places of the plain functions of all runs."""
        self.idle_s = IDLE_S
        self._turns: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._groups: queue.SimpleQueue[list[_Job]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._has_thread = False
        self._handed_over: list[list[_Job]] = []
        """The groups that the thread has not finished. A commit must not overtake them."""
        self._quick_commits = 0
        """How many of the last commits in a row were quick."""
        self._process = os.getpid()
        processes.tell_of_forks(self)

    def after_fork(self) -> None:
        """In a forked child nothing of the parent's is written. Whoever waits for it there on a loop that goes on all
        the same is told that it will not be."""
        lost = [job for jobs in (*self._handed_over, *self._turns.values()) for job in jobs]
        self._lock = threading.Lock()
        self._groups = queue.SimpleQueue()
        self._turns, self._handed_over = {}, []
        self._has_thread = False
        self.crowd = self._quick_commits = 0
        parent, self._process = self._process, os.getpid()
        for job in lost:
            if job.loop is not None and not job.loop.is_closed():
                answers: _Answered = [(job, _of_parent(job.what, parent))]
                job.loop.call_soon(_resolve, answers)

    def write(
        self, append: Append, refused: Refused, make_future: Callable[[], asyncio.Future[None] | None] | None = None
    ) -> asyncio.Future[None] | None:
        """Commit, or begin to: None if it is durable now, else a future to await. Raises why it was refused.

        ``make_future`` makes that future, where it gives one that is not the loop's.
        """
        if self.crowd <= 1 and not self._turns:
            if not self.backend.commit_waits:
                return self._commit_inline(append)
            if self._is_quick():
                return self._commit_quickly(append)
        return self._enqueue(append, refused, make_future)

    def _is_quick(self) -> bool:
        return self._quick_commits >= PROOFS and not self._handed_over and self.backend.inline_when_quick

    def write_from_anywhere(self, append: Append) -> concurrent.futures.Future[None] | None:
        """As ``write``, for plain code on whatever thread: the future, if there is one, is a thread's to wait for."""
        loop = _running_loop()
        if loop is not None:
            self._end_turn(loop, is_locked=True)
        elif (future := self._join_turn_of_state(append)) is not None:
            return future
        if not self.backend.commit_waits:
            return self._commit_inline(append)
        if self.crowd <= 1 and not self._turns and self._is_quick():
            return self._commit_quickly(append)
        return self._put(append)

    async def acquire(self, claim: Claim) -> Grant | None:
        """Answer a claim; many that come at once are answered in one commit."""
        if self.crowd <= 1 and not self.backend.commit_waits:
            return self.backend.acquire((claim,))[0]
        return cast("Grant | None", await self._enqueue(claim, None))

    def acquire_now(self, claim: Claim) -> Grant | None:
        """Answer a claim and wait for it, whatever thread this is."""
        if self.backend.commit_waits:
            return cast("Grant | None", self._put(claim).result())
        return self.backend.acquire((claim,))[0]

    async def read(self, state_id: str, after: int = 0) -> list[tuple[int, bytes]]:
        """The frames of a journal, read without holding up the event loop where reading waits."""
        if self.backend.commit_waits:
            return await asyncio.to_thread(self.backend.read, state_id, after)
        return self.backend.read(state_id, after)

    def _commit_inline(self, append: Append) -> None:
        error = self.backend.append((append,))[0]
        if error is not None:
            raise error

    def _commit_quickly(self, append: Append) -> None:
        began = perf_counter()
        self._commit_inline(append)
        self._take_time(perf_counter() - began)

    def _take_time(self, seconds: float) -> None:
        self._quick_commits = self._quick_commits + 1 if seconds < QUICK_S else 0

    def _enqueue(
        self,
        what: Append | Claim,
        refused: Refused | None,
        make_future: Callable[[], asyncio.Future[None] | None] | None = None,
    ) -> asyncio.Future[Any]:
        """Begin to commit: with the others of this turn of the loop; where there are none, on the thread at once."""
        loop = asyncio.get_running_loop()
        future = (None if make_future is None else make_future()) or loop.create_future()
        job = _Job(what, future, loop, refused)
        if self.crowd <= 1 and not self._turns:
            self._hand_over([job])
            return job.future
        jobs = self._turns.get(loop)
        if jobs is not None:
            jobs.append(job)  # Nobody else ends the turn of this loop, so this needs no lock.
            return job.future
        with self._lock:
            self._turns[loop] = [job]
        loop.call_soon(self._end_turn, loop)
        return job.future

    def _join_turn_of_state(self, append: Append) -> concurrent.futures.Future[None] | None:
        """Queue up behind records of the same state that wait for the end of their loop's turn, if any do."""
        with self._lock:
            for jobs in self._turns.values():
                if any(isinstance(job.what, Append) and job.what.lease == append.lease for job in jobs):
                    future: concurrent.futures.Future[None] = concurrent.futures.Future()
                    jobs.append(_Job(append, future, None))
                    return future
        return None

    def _end_turn(self, loop: asyncio.AbstractEventLoop, *, is_locked: bool = False) -> None:
        with self._lock:
            jobs = self._turns.pop(loop, None)
        if not jobs:
            return
        if self.backend.commit_waits:
            self._hand_over(jobs)
        elif is_locked:
            # Code goes on with the answers. It may write too, which it cannot while whoever calls holds its state.
            loop.call_soon(_resolve, self._commit(jobs))
        else:
            _resolve(self._commit(jobs))

    def _put(self, what: Append | Claim) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._hand_over([_Job(what, future, None)])
        return future

    def _hand_over(self, jobs: list[_Job]) -> None:
        with self._lock:
            self._handed_over.append(jobs)
            self._groups.put(jobs)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="limpet-writer", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                groups = [self._groups.get(timeout=self.idle_s)]
            except queue.Empty:
                with self._lock:
                    if self._groups.empty():
                        self._has_thread = False
                        return
                continue
            while not self._groups.empty():
                groups.append(self._groups.get())
            began = perf_counter()
            answered = self._commit([job for jobs in groups for job in jobs])
            self._take_time(perf_counter() - began)
            with self._lock:
                del self._handed_over[: len(groups)]
            _deliver(answered)
            del groups, answered

    def _commit(self, jobs: list[_Job]) -> _Answered:
        # Appends first: one that gives a lease back makes room for a claim that came after it.
        claims = [job for job in jobs if type(job.what) is Claim]
        appends = [job for job in jobs if type(job.what) is Append] if claims else jobs
        answered: _Answered = []
        for group, commit in ((appends, self.backend.append), (claims, self.backend.acquire)):
            if group:
                answered += zip(group, _answers(cast(Any, commit), group), strict=True)
        return answered


def _answers(commit: Callable[[Sequence[object]], Sequence[object]], jobs: Sequence[_Job]) -> Sequence[object]:
    try:
        return commit([job.what for job in jobs])
    except BaseException as error:  # It is raised again where the answer is awaited.
        return [error] * len(jobs)


def _deliver(answered: _Answered) -> None:
    by_loop: dict[asyncio.AbstractEventLoop | None, _Answered] = {}
    for job, answer in answered:
        by_loop.setdefault(job.loop, []).append((job, answer))
    for loop, answers in by_loop.items():
        if loop is None:
            _resolve(answers)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, answers)


def _resolve(answers: _Answered) -> None:
    for job, answer in answers:
        future = job.future
        if job.refused is not None and isinstance(answer, LimpetError):
            job.refused(answer)
        if future.done():
            continue  # Whoever waited was cancelled; what it wrote is durable all the same.
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _of_parent(what: Append | Claim, parent: int) -> LeaseOfParent:
    if isinstance(what, Append):
        return LeaseOfParent(what.lease.state_id, what.lease.fence, parent)
    return LeaseOfParent(what.header.state_id, 0, parent)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_WRITER = "_limpet_writer"
_writers_lock = processes.new_lock()


def writer_of(backend: StateBackend) -> Writer:
    """The writer of a backend: the same one for all that use the backend object."""
    with _writers_lock:
        # An attribute of the backend, so that the two go together when nobody needs them any more.
        writer: Writer | None = vars(backend).get(_WRITER)
        if writer is None:
            writer = Writer(backend)
            setattr(backend, _WRITER, writer)
        return writer
