"""What every conformance test stands on: a fresh backend, a clock that is turned by hand, and short ways to call verbs.

Uses plain asserts and pytest's ``setup_method`` and ``teardown_method``, so nothing here imports pytest.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from limpet.backends.contract import Append, Claim, Grant, StateBackend, StateUpdate
from limpet.errors import BackendError
from limpet.model import Base, Holder, Lease, StateHeader, StateMetadata, StateStatus

_Error = TypeVar("_Error", bound=BaseException)

BEGINNING = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)

OURS = Holder("here", "boot-1", "space-1", 100, "1000", "run-1")
THEIRS = Holder("there", "boot-2", "space-2", 200, "2000", "run-2")


class TurnedClock:
    """A clock that stands still until it is turned."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += seconds


class BackendCase:
    """The ground of the suite; see ``StateBackendConformance`` for how it is used."""

    def make_backend(self, clock: Callable[[], float]) -> StateBackend:
        """A backend on a new, empty store that decides by this clock whether a lease has run out."""
        raise NotImplementedError

    def reopen(self, backend: StateBackend, clock: Callable[[], float]) -> StateBackend:
        """The same store opened once more, as by another process; the backend itself where its states die with it."""
        return backend

    def setup_method(self) -> None:
        self.clock = TurnedClock()
        self._opened: list[StateBackend] = []

    def teardown_method(self) -> None:
        for backend in self._opened:
            backend.close()

    @property
    def backend(self) -> StateBackend:
        """The backend of this test, made when it is first asked for: after the fixtures of the subclass have run."""
        if not self._opened:
            self._opened.append(self.make_backend(self.clock))
        return self._opened[0]

    def opened_again(self) -> StateBackend:
        self._opened.append(self.reopen(self.backend, self.clock))
        return self._opened[-1]

    def acquire(
        self,
        state_id: str = "kelp",
        *,
        bodies: tuple[bytes, ...] = (),
        holder: Holder = OURS,
        ttl_s: float = 60.0,
        supersede: int | None = None,
        create: bool = True,
        reopen: bool = False,
        header: StateHeader | None = None,
        base: Base | None = None,
    ) -> Grant:
        claim = Claim(
            header=header or new_header(state_id),
            bodies=bodies,
            holder=holder,
            ttl_s=ttl_s,
            supersede=supersede,
            create=create,
            reopen=reopen,
            base=base,
        )
        (grant,) = self.backend.acquire([claim])
        assert grant is not None
        return grant

    def lease(self, state_id: str = "kelp", *bodies: bytes, header: StateHeader | None = None) -> Lease:
        """The lease of a new state, with its first records."""
        return granted(self.acquire(state_id, bodies=bodies, header=header))

    def fork(self, state_id: str, parent: str, last: int, *bodies: bytes) -> Lease:
        """The lease of a new state that begins with the records of another one, and has some of its own."""
        return granted(self.acquire(state_id, bodies=bodies, base=Base(parent, last)))

    def taken_over(self, lease: Lease) -> Lease:
        """Another holder's lease that supersedes the given one."""
        return granted(self.acquire(lease.state_id, holder=THEIRS, supersede=lease.fence, reopen=True))

    def append(
        self, lease: Lease, first_seq: int, *bodies: bytes, update: StateUpdate | None = None
    ) -> BackendError | None:
        (answer,) = self.backend.append([Append(lease, first_seq, bodies, update)])
        return answer

    def update(
        self,
        lease: Lease,
        *,
        status: StateStatus | None = None,
        metadata: StateMetadata | None = None,
        releases: bool = False,
        timeline: int | None = None,
    ) -> BackendError | None:
        update = StateUpdate(at=self.clock.now, status=status, metadata=metadata, releases=releases, timeline=timeline)
        return self.append(lease, 1, update=update)

    def bodies(self, state_id: str = "kelp") -> list[bytes]:
        return [body for _, body in self.backend.read(state_id)]

    def header(self, state_id: str = "kelp") -> StateHeader:
        header = self.backend.find_state(state_id)
        assert header is not None
        return header

    def listed(
        self,
        *,
        tags: list[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        parent_state_id: str | None = None,
        limit: int = 100,
    ) -> list[str]:
        headers = self.backend.list_states(
            tags=tags, status=status, pipeline_name=pipeline_name, parent_state_id=parent_state_id, limit=limit
        )
        return [header.state_id for header in headers]


def new_header(
    state_id: str,
    *,
    status: StateStatus = StateStatus.RUNNING,
    created_at: datetime = BEGINNING,
    metadata: StateMetadata | None = None,
    agent: str | None = None,
    timeline: int = 0,
) -> StateHeader:
    return StateHeader(
        state_id=state_id,
        status=status,
        created_at=created_at,
        updated_at=created_at,
        metadata=metadata or StateMetadata(),
        agent=agent,
        timeline=timeline,
    )


def fork_claim(state_id: str, base: Base, *bodies: bytes) -> Claim:
    """A claim on a state that begins with the records of another one, for tests that look at the answer."""
    return Claim(header=new_header(state_id), bodies=bodies, holder=OURS, ttl_s=60.0, base=base)


def granted(grant: Grant) -> Lease:
    assert grant.lease is not None
    return grant.lease


def raised(kind: type[_Error], call: Callable[[], object]) -> _Error:
    """The error that the call raises; anything else fails the test."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
