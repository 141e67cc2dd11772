"""A backend that dies at a chosen write, for tests that a program survives being stopped anywhere.

total = count the writes of an undisturbed run: CrashingBackend(backend).writes
for each write, before it and after it: run on CrashingBackend(backend, stop_at=write, when=…), catch SimulatedCrash,
run again on the bare backend, and compare the result and the number of executions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from holdfast.backends.contract import Append, Claim, Grant, StateBackend
from holdfast.errors import BackendError
from holdfast.model import Lease, StateHeader, StateStatus

T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The process is to be thought dead from here on. Not an Exception, so that no program handles it."""


class CrashingBackend(StateBackend):
    """Hands everything on to another backend until it is stopped; from then on every use raises SimulatedCrash."""

    def __init__(
        self, backend: StateBackend, stop_at: int | None = None, when: Literal["before", "after"] = "before"
    ) -> None:
        self._backend = backend
        self._stop_at = stop_at
        self._when = when
        self.writes = 0
        """How many writes (claims and appends, each a commit) have been made."""
        self.is_stopped = False
        self.commit_waits = backend.commit_waits
        self.inline_when_quick = backend.inline_when_quick
        self.name = backend.name

    def _write(self, write: Callable[[], T]) -> T:
        self._require_alive()
        self.writes += 1
        is_the_one = self.writes == self._stop_at
        if is_the_one and self._when == "before":
            self._stop()
        answer = write()
        if is_the_one:
            self._stop()
        return answer

    def _stop(self) -> None:
        self.is_stopped = True
        raise SimulatedCrash

    def _require_alive(self) -> None:
        if self.is_stopped:
            raise SimulatedCrash

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        return self._write(lambda: self._backend.acquire(claims))

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        return self._write(lambda: self._backend.append(appends))

    def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
        # Called from a thread of the engine, which a dead process does not have.
        return [True] * len(leases) if self.is_stopped else self._backend.renew(leases, ttl_s)

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        self._require_alive()
        return self._backend.read(state_id, after, limit)

    def find_state(self, state_id: str) -> StateHeader | None:
        self._require_alive()
        return self._backend.find_state(state_id)

    def list_states(
        self,
        *,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        limit: int = 100,
    ) -> list[StateHeader]:
        self._require_alive()
        return self._backend.list_states(tags=tags, status=status, pipeline_name=pipeline_name, limit=limit)

    def delete_state(self, state_id: str, lease: Lease | None = None) -> bool:
        return self._write(lambda: self._backend.delete_state(state_id, lease))

    def close(self) -> None:
        self._backend.close()
