"""A backend that dies at a chosen write, for tests that a program survives being stopped anywhere.

total = count the writes of an undisturbed run: CrashingBackend(backend).writes
for each write, before it and after it: run on CrashingBackend(backend, stop_at=write, when=…), catch SimulatedCrash,
run again on the bare backend, and compare the result and the number of executions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import Append, Claim, Grant, StateBackend
from limpet.errors import BackendError
from limpet.model import ArtifactInfo, Content, DiskUse, Holder, Lease, Letter, Pin, Room, StateHeader, StateStatus
from limpet.stores import artifacts_of

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
        """How many writes (claims, appends, letters and artifacts, each durable by itself) have been made."""
        self.is_stopped = False
        self.commit_waits = backend.commit_waits
        self.inline_when_quick = backend.inline_when_quick
        self.name = backend.name
        artifacts = artifacts_of(backend)
        # Large artifacts go there as well, so that they are counted: this store has no folder beside it.
        self.own_artifacts = None if artifacts is None else _CrashingArtifacts(artifacts, self)

    @property
    def store_id(self) -> str:
        return self._backend.store_id

    def write(self, write: Callable[[], T]) -> T:
        """Count a write, and make it unless the backend is stopped before it."""
        self.require_alive()
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

    def require_alive(self) -> None:
        if self.is_stopped:
            raise SimulatedCrash

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        return self.write(lambda: self._backend.acquire(claims))

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        return self.write(lambda: self._backend.append(appends))

    def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
        # Called from a thread of the engine, which a dead process does not have.
        return [True] * len(leases) if self.is_stopped else self._backend.renew(leases, ttl_s)

    def leave_wish(self, state_id: str, wish: str) -> Holder | None:
        self.require_alive()
        return self._backend.leave_wish(state_id, wish)

    def wishes(self, leases: Sequence[Lease]) -> list[str | None]:
        # Called from a thread of the engine, too.
        return [None] * len(leases) if self.is_stopped else self._backend.wishes(leases)

    def deliver(self, state_id: str, name: str, body: bytes) -> Letter | None:
        return self.write(lambda: self._backend.deliver(state_id, name, body))

    def letters(self, state_id: str, after: int = 0) -> list[Letter]:
        self.require_alive()
        return self._backend.letters(state_id, after)

    def arrivals(self, after: int = 0, limit: int = 1000) -> list[tuple[int, str]]:
        # Called from a thread of the engine, too.
        return [] if self.is_stopped else self._backend.arrivals(after, limit)

    def note(self, name: str) -> str | None:
        self.require_alive()
        return self._backend.note(name)

    def swap_note(self, name: str, before: str | None, after: str) -> bool:
        return self.write(lambda: self._backend.swap_note(name, before, after))

    def discard_letters(self, lease: Lease, names: Sequence[str]) -> None:
        self.write(lambda: self._backend.discard_letters(lease, names))

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        self.require_alive()
        return self._backend.read(state_id, after, limit)

    def find_state(self, state_id: str) -> StateHeader | None:
        self.require_alive()
        return self._backend.find_state(state_id)

    def list_states(
        self,
        *,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        parent_state_id: str | None = None,
        before: StateHeader | None = None,
        limit: int = 100,
    ) -> list[StateHeader]:
        self.require_alive()
        return self._backend.list_states(
            tags=tags,
            status=status,
            pipeline_name=pipeline_name,
            parent_state_id=parent_state_id,
            before=before,
            limit=limit,
        )

    def delete_state(self, state_id: str, lease: Lease | None = None) -> bool:
        return self.write(lambda: self._backend.delete_state(state_id, lease))

    def delete_states(self, leases: Sequence[Lease]) -> list[bool]:
        return self.write(lambda: self._backend.delete_states(leases))

    def rewrite(self, appends: Sequence[Append]) -> None:
        self.write(lambda: self._backend.rewrite(appends))

    def measure(self, state_ids: Sequence[str]) -> list[Room | None]:
        self.require_alive()
        return self._backend.measure(state_ids)

    def disk_use(self) -> DiskUse | None:
        self.require_alive()
        return self._backend.disk_use()

    def compact(self) -> bool:
        return self.write(self._backend.compact)

    def close(self) -> None:
        self._backend.close()


class _CrashingArtifacts(ArtifactBackend):
    """The artifacts of a store that dies: a put is one of its writes."""

    def __init__(self, artifacts: ArtifactBackend, store: CrashingBackend) -> None:
        self._artifacts = artifacts
        self._store = store
        self.name = artifacts.name
        self.waits = artifacts.waits

    def _alive(self) -> ArtifactBackend:
        self._store.require_alive()
        return self._artifacts

    def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
        return self._store.write(lambda: self._artifacts.put(artifact_id, content, pin))

    def read(self, artifact_id: str) -> Iterator[bytes]:
        return self._alive().read(artifact_id)

    def find(self, artifact_id: str) -> ArtifactInfo | None:
        return self._alive().find(artifact_id)

    def list_artifacts(self, after: str = "", limit: int = 1000) -> list[ArtifactInfo]:
        return self._alive().list_artifacts(after, limit)

    def delete(self, artifact_id: str, put_at: float) -> bool:
        return self._alive().delete(artifact_id, put_at)

    def pins(self) -> Mapping[Pin, frozenset[str]]:
        return self._alive().pins()

    def unpin(self, pins: Sequence[Pin]) -> None:
        self._alive().unpin(pins)

    def enlist(self, store_id: str, name: str) -> None:
        self._alive().enlist(store_id, name)

    def stores(self) -> Mapping[str, str]:
        return self._alive().stores()

    def close(self) -> None:
        self._artifacts.close()
