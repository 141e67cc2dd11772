"""What the contract says of deleting states that share records."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from limpet.errors import LeaseHeld, LeaseLost
from limpet.model import Base, Lease
from limpet.testing.conformance.case import BackendCase, fork_claim, raised


class ForkDeletionConformance(BackendCase):
    """``delete_state`` of forks and of what they fork."""

    def test_a_deleted_parent_vanishes_and_its_fork_is_read_and_written_further(self) -> None:
        kelp, fork = self._forked()
        assert self.backend.delete_state("kelp", kelp) is True
        assert (None, [], ["fork"]) == (self.backend.find_state("kelp"), self.bodies("kelp"), self.listed())
        assert [b"1", b"2", b"own 3"] == self.bodies("fork")
        assert self.append(fork, 4, b"own 4") is None
        assert [(2, b"2"), (3, b"own 3"), (4, b"own 4")] == self.backend.read("fork", after=1)
        assert ((Base("kelp", 2),), 4) == (self.header("fork").bases, self.header("fork").position)
        assert isinstance(self.append(kelp, 4, b"late"), LeaseLost)

    def test_a_fork_without_own_records_keeps_its_position_when_its_parent_is_deleted(self) -> None:
        kelp = self.lease("kelp", b"1", b"2", b"3")
        fork = self.fork("fork", "kelp", 2)
        self.backend.delete_state("kelp", kelp)
        assert (2, [b"1", b"2"]) == (self.header("fork").position, self.bodies("fork"))
        assert self.append(fork, 3, b"own") is None

    def test_a_deleted_parent_is_not_forked_and_not_deleted_again(self) -> None:
        kelp, _ = self._forked()
        self.backend.delete_state("kelp", kelp)
        assert self.backend.delete_state("kelp") is False
        assert [None] == self.backend.acquire([fork_claim("other", Base("kelp", 1))])

    def test_a_new_state_of_the_id_of_a_deleted_parent_shares_nothing_with_the_old_one(self) -> None:
        kelp, fork = self._forked()
        self.backend.delete_state("kelp", kelp)
        new = self.lease("kelp", b"new 1")
        assert new.fence > kelp.fence
        assert self.append(new, 2, b"new 2", b"new 3") is None
        assert self.append(fork, 4, b"own 4") is None
        assert [b"new 1", b"new 2", b"new 3"] == self.bodies("kelp")
        assert [b"1", b"2", b"own 3", b"own 4"] == self.bodies("fork")
        self.fork("of-new", "kelp", 3)
        self.fork("of-old", "fork", 2)
        assert ([b"new 1", b"new 2", b"new 3"], [b"1", b"2"]) == (self.bodies("of-new"), self.bodies("of-old"))
        assert self.backend.delete_state("kelp", new) is True
        assert [b"1", b"2", b"own 3", b"own 4"] == self.bodies("fork")

    def test_a_deleted_parent_may_come_back_as_a_fork_of_its_fork(self) -> None:
        kelp, fork = self._forked()
        self.backend.delete_state("kelp", kelp)
        again = self.fork("kelp", "fork", 3, b"again 4")
        self.backend.delete_state("fork", fork)
        assert [b"1", b"2", b"own 3", b"again 4"] == self.bodies("kelp")
        assert (Base("kelp", 2), Base("fork", 3)) == self.header("kelp").bases
        assert self.append(again, 5, b"again 5") is None

    def test_deleting_a_fork_does_not_touch_its_parent_or_other_forks(self) -> None:
        kelp, fork = self._forked()
        self.fork("other", "kelp", 1, b"other 2")
        assert self.backend.delete_state("fork", fork) is True
        assert (None, []) == (self.backend.find_state("fork"), self.bodies("fork"))
        assert ([b"1", b"2", b"3"], [b"1", b"other 2"]) == (self.bodies("kelp"), self.bodies("other"))
        assert self.append(kelp, 4, b"4") is None

    def test_an_id_of_a_deleted_fork_is_used_by_a_state_that_shares_nothing(self) -> None:
        _, fork = self._forked()
        self.backend.delete_state("fork", fork)
        self.lease("fork", b"new")
        assert ([(1, b"new")], ()) == (self.backend.read("fork"), self.header("fork").bases)

    def test_forks_of_a_deleted_parent_are_deleted_one_by_one(self) -> None:
        kelp = self.lease("kelp", b"1", b"2", b"3")
        leases = [self.fork(f"fork-{last}", "kelp", last, b"own") for last in (1, 3, 2)]
        self.backend.delete_state("kelp", kelp)
        journals = {lease.state_id: self.bodies(lease.state_id) for lease in leases}
        for lease in (leases[1], leases[0], leases[2]):
            assert journals == {state_id: self.bodies(state_id) for state_id in journals}
            assert self.backend.delete_state(lease.state_id, lease) is True
            del journals[lease.state_id]
            assert [] == self.bodies(lease.state_id)
        assert [] == self.listed()

    def test_a_middle_generation_is_deleted_and_the_last_one_reads_on(self) -> None:
        for order in (("a", "b"), ("b", "a")):
            leases = {"a": self.lease("a", b"a1", b"a2")}
            leases["b"] = self.fork("b", "a", 1, b"b2", b"b3")
            leases["c"] = self.fork("c", "b", 2, b"c3")
            for state_id in order:
                self.backend.delete_state(state_id, leases[state_id])
                assert [b"a1", b"b2", b"c3"] == self.bodies("c")
            self.fork("d", "c", 3, b"d4")
            self.backend.delete_state("c", leases["c"])
            assert [b"a1", b"b2", b"c3", b"d4"] == self.bodies("d")
            self.clock.turn(60.0)
            assert self.backend.delete_state("d") is True
            assert [] == self.listed()

    def test_leases_guard_a_parent_and_a_fork_from_being_deleted(self) -> None:
        kelp, fork = self._forked()
        raised(LeaseHeld, lambda: self.backend.delete_state("kelp"))
        raised(LeaseLost, lambda: self.backend.delete_state("kelp", fork))
        raised(LeaseLost, lambda: self.backend.delete_state("fork", kelp))
        assert ([b"1", b"2", b"3"], [b"1", b"2", b"own 3"]) == (self.bodies("kelp"), self.bodies("fork"))

    def test_a_deletion_is_seen_when_the_store_is_opened_again(self) -> None:
        kelp, _ = self._forked()
        self.backend.delete_state("kelp", kelp)
        again = self.opened_again()
        assert again.find_state("kelp") is None
        assert [(1, b"1"), (2, b"2"), (3, b"own 3")] == again.read("fork")

    def test_a_journal_that_is_deleted_while_it_is_read_comes_back_whole_or_not_at_all(self) -> None:
        reading = self.opened_again()

        def write(state_id: str) -> set[int]:
            for _ in range(40):
                leases = [self.lease("kelp", b"1", b"2", b"3"), self.fork("fork", "kelp", 2, b"own 3")]
                for lease in leases:
                    self.backend.delete_state(lease.state_id, lease)
                leases = [self.lease("other", b"1", b"2"), self.fork("kelp", "other", 2, b"own 3")]
                for lease in leases:
                    self.backend.delete_state(lease.state_id, lease)
            return {len(self.backend.read(state_id))}

        def read(state_id: str) -> set[int]:
            return {len(reading.read(state_id)) for _ in range(400)}

        with ThreadPoolExecutor(3) as threads:
            jobs = [threads.submit(work, name) for work, name in ((write, "kelp"), (read, "kelp"), (read, "fork"))]
            lengths = [job.result() for job in jobs]
        assert {0} == lengths[0]
        assert lengths[1] | lengths[2] <= {0, 3}

    def _forked(self) -> tuple[Lease, Lease]:
        """The leases of a state of three records and of a fork of it that shares two."""
        return self.lease("kelp", b"1", b"2", b"3"), self.fork("fork", "kelp", 2, b"own 3")
