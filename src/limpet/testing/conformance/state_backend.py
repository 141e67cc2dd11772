"""The whole suite, with what the contract says of backends as such: reopening, threads, closing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from limpet.backends.contract import Append, Claim, Grant
from limpet.errors import BackendError
from limpet.model import Holder, StateMetadata, StateStatus
from limpet.testing.conformance.case import OURS, THEIRS, granted, new_header
from limpet.testing.conformance.fork_deletion import ForkDeletionConformance
from limpet.testing.conformance.forks import ForkConformance
from limpet.testing.conformance.headers import HeaderConformance
from limpet.testing.conformance.journals import JournalConformance
from limpet.testing.conformance.leases import LeaseConformance
from limpet.testing.conformance.letters import LetterConformance
from limpet.testing.conformance.notes import NoteConformance
from limpet.testing.conformance.rooms import RoomConformance
from limpet.testing.conformance.states import StateConformance
from limpet.testing.conformance.wishes import WishConformance

_Answer = TypeVar("_Answer")

_THREADS = 8


class StateBackendConformance(
    LeaseConformance,
    JournalConformance,
    StateConformance,
    ForkConformance,
    ForkDeletionConformance,
    HeaderConformance,
    RoomConformance,
    WishConformance,
    LetterConformance,
    NoteConformance,
):
    """Every sentence of ``limpet.backends.contract`` as a test that pytest collects from a subclass::

        class TestMyBackend(StateBackendConformance):
            @pytest.fixture(autouse=True)
            def _folder(self, tmp_path):
                self.folder = tmp_path

            def make_backend(self, clock):
                return MyBackend(self.folder / "states", clock=clock)

            def reopen(self, backend, clock):
                return MyBackend(self.folder / "states", clock=clock)

    ``clock`` is the store's clock, in seconds since 1970; the suite turns it.
    ``pytest.register_assert_rewrite("limpet.testing.conformance")`` in a conftest makes failures tell more.
    """

    def test_a_backend_says_what_it_is_called_and_whether_a_commit_waits(self) -> None:
        assert self.backend.name != ""
        assert self.backend.commit_waits in (True, False)

    def test_a_store_has_an_id_that_stays_when_it_is_opened_again(self) -> None:
        store_id = self.backend.store_id
        assert (32, set()) == (len(store_id), set(store_id) - set("0123456789abcdef"))
        assert store_id == self.backend.store_id
        assert store_id == self.opened_again().store_id

    def test_everything_is_there_when_the_store_is_opened_again(self) -> None:
        metadata = StateMetadata(tags=["x"], pipeline_name="p", custom_data={"k": 1})
        lease = self.lease(header=new_header("kelp", metadata=metadata, agent="m:a"))
        self.append(lease, 1, b"one", b"two")
        self.update(lease, status=StateStatus.AWAITING)
        expected = self.header()
        again = self.opened_again()
        assert expected == again.find_state("kelp")
        assert [expected] == again.list_states(tags=["x"])
        assert [(1, b"one"), (2, b"two")] == again.read("kelp")

    def test_a_lease_stands_and_its_fence_is_remembered_when_the_store_is_opened_again(self) -> None:
        lease = self.lease("kelp", b"one")
        again = self.opened_again()
        claim = Claim(header=new_header("kelp"), holder=THEIRS, ttl_s=60.0)
        (refused,) = again.acquire([claim])
        assert refused is not None
        assert (OURS, lease.fence) == (refused.held_by, refused.held_fence)
        self.clock.turn(60.0)
        (grant,) = again.acquire([claim])
        assert grant is not None
        assert granted(grant).fence > lease.fence
        assert [None] == again.append([Append(granted(grant), 2, (b"two",))])
        assert isinstance(self.append(lease, 3, b"late"), BackendError)

    def test_what_one_backend_writes_another_on_the_store_reads_at_once(self) -> None:
        again = self.opened_again()
        lease = self.lease()
        for number in range(1, 4):
            self.append(lease, number, b"%d" % number)
            assert number == len(again.read("kelp"))

    def test_of_many_threads_that_claim_one_state_exactly_one_gets_the_lease(self) -> None:
        def claim(number: int) -> Grant:
            return self.acquire(holder=Holder("here", "", "", number, "", ""))

        grants = self._from_threads(claim)
        assert 1 == sum(grant.lease is not None for grant in grants)
        assert 1 == sum(grant.is_new for grant in grants)

    def test_what_many_threads_append_at_once_is_all_there(self) -> None:
        leases = [self.lease(f"kelp-{number}") for number in range(_THREADS)]

        def append(number: int) -> list[BackendError | None]:
            return [self.append(leases[number], seq, b"%d:%d" % (number, seq)) for seq in range(1, 31)]

        assert [[None] * 30] * _THREADS == self._from_threads(append)
        for number in range(_THREADS):
            assert [b"%d:%d" % (number, seq) for seq in range(1, 31)] == self.bodies(f"kelp-{number}")

    def test_a_thread_that_reads_sees_each_append_whole_or_not_at_all(self) -> None:
        lease = self.lease()

        def work(number: int) -> list[int]:
            if number:
                return [len(self.backend.read("kelp")) for _ in range(50)]
            return [seq for seq in range(1, 150, 3) if self.append(lease, seq, b"a", b"b", b"c") is not None]

        refused, *lengths = self._from_threads(work)
        assert [] == refused
        assert {0} == {length % 3 for seen in lengths for length in seen}
        assert all(sorted(seen) == seen for seen in lengths)

    def test_a_backend_made_in_one_thread_serves_and_closes_in_another(self) -> None:
        backend = self.backend
        with ThreadPoolExecutor(1) as thread:
            lease = thread.submit(self.lease, "kelp", b"one").result()
            assert thread.submit(self.append, lease, 2, b"two").result() is None
            assert [b"one", b"two"] == self.bodies()
            thread.submit(backend.close).result()

    def test_closing_twice_is_harmless(self) -> None:
        self.lease()
        self.backend.close()
        self.backend.close()

    def test_a_backend_closes_at_the_end_of_its_with_block(self) -> None:
        with self.backend as backend:
            assert [] == backend.list_states()
        backend.close()

    def _from_threads(self, call: Callable[[int], _Answer]) -> list[_Answer]:
        """What the call gives for each of some numbers, all called at the same time."""
        together = Barrier(_THREADS)

        def work(number: int) -> _Answer:
            together.wait()
            return call(number)

        _ = self.backend
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(work, range(_THREADS)))
