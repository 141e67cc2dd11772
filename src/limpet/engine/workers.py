"""The worker threads of this process. They are made as they are needed, used again, and end after an idle while.

How many there are is decided by ``places.py``. They are daemons, so that idle ones hold up no end of the process; it
waits for what they still do all the same.
"""

from __future__ import annotations

import atexit
import itertools
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from limpet import processes

IDLE_S = 10.0
"""After so long without work a thread ends."""

Job = Callable[[], Callable[[], object]]
"""What a thread is to do. It returns what is called once the thread is free for another one."""


class _Worker(threading.Thread):
    """A thread that does one job after the other."""

    def __init__(self, workers: Workers, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._workers = workers

    def run(self) -> None:
        while (job := self._next_job()) is not None:
            finish = job()
            self._workers.is_free(self)
            finish()
            del job, finish  # A thread that waits keeps nothing of what it has done.

    def _next_job(self) -> Job | None:
        try:
            return self.jobs.get(timeout=IDLE_S)
        except Empty:
            return None if self._workers.retire(self) else self.jobs.get()


class Workers:
    """Threads that do jobs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = itertools.count()
        self._free: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._lock = processes.new_lock()
        processes.tell_of_forks(self)
        atexit.register(self._end)

    def after_fork(self) -> None:
        """Only the thread that forked goes on in a child, and it does no more jobs."""
        self._free.clear()
        self._all.clear()

    def do(self, job: Job) -> None:
        """Do a job at once: on the thread that became free last, or on a new one."""
        with self._lock:
            worker = self._free.pop() if self._free else None
        if worker is not None:
            worker.jobs.put(job)
            return
        worker = _Worker(self, f"{self._name}_{next(self._numbers)}")
        worker.jobs.put(job)
        with self._lock:
            self._all.add(worker)
        try:
            worker.start()
        except BaseException:
            with self._lock:
                self._all.discard(worker)
            raise

    def is_free(self, worker: _Worker) -> None:
        """A thread has done its job."""
        with self._lock:
            if worker in self._all:
                self._free.append(worker)

    @property
    def is_any_at_work(self) -> bool:
        with self._lock:
            return len(self._all) > len(self._free)

    def retire(self, worker: _Worker) -> bool:
        """Let a thread end that has waited for long. False if it was given a job meanwhile."""
        with self._lock:
            if worker not in self._free:
                return False
            self._free.remove(worker)
            self._all.discard(worker)
        return True

    def _end(self) -> None:
        """Wait, at the end of the process, for what the threads still do."""
        with self._lock:
            workers = list(self._all)
        for worker in workers:
            worker.jobs.put(None)
        for worker in workers:
            worker.join()
