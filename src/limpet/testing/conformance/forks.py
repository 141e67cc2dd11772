"""What the contract says of states that begin with the records of other ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec

from limpet.backends.contract import Append, Claim, StateUpdate
from limpet.errors import BackendError, LeaseLost, PositionTaken
from limpet.model import Base, Lease, StateMetadata, StateStatus
from limpet.testing.conformance.case import OURS, THEIRS, BackendCase, fork_claim, granted, new_header

_MANY = 2000


class ForkConformance(BackendCase):
    """``Claim.base``, and what every verb makes of a state that was created with one."""

    def test_a_fork_reads_the_shared_records_and_then_its_own(self) -> None:
        self.lease("kelp", b"1", b"2", b"3")
        lease = self.fork("fork", "kelp", 2, b"own 3")
        assert self.append(lease, 4, b"own 4", b"own 5") is None
        assert [(1, b"1"), (2, b"2"), (3, b"own 3"), (4, b"own 4"), (5, b"own 5")] == self.backend.read("fork")
        assert [b"1", b"2", b"3"] == self.bodies("kelp")

    def test_the_grant_of_a_fork_shows_its_header_as_it_is_found_and_listed_later(self) -> None:
        self.lease("kelp", b"1", b"2", b"3")
        grant = self.acquire("fork", bodies=(b"own",), base=Base("kelp", 2))
        assert (True, 3, (Base("kelp", 2),)) == (grant.is_new, grant.header.position, grant.header.bases)
        assert grant.header == self.header("fork")
        assert [grant.header, self.header("kelp")] == self.backend.list_states()
        assert () == self.header("kelp").bases

    def test_a_fork_without_records_of_its_own_is_at_the_last_shared_one(self) -> None:
        self.lease("kelp", b"1", b"2", b"3")
        lease = self.fork("fork", "kelp", 2)
        assert (2, [b"1", b"2"]) == (self.header("fork").position, self.bodies("fork"))
        assert self.append(lease, 3, b"own") is None
        assert (3, [b"1", b"2", b"own"]) == (self.header("fork").position, self.bodies("fork"))

    def test_a_state_is_forked_at_its_last_record(self) -> None:
        kelp = self.lease("kelp", b"1", b"2")
        fork = self.fork("fork", "kelp", 2)
        assert (None, None) == (self.append(kelp, 3, b"kelp 3"), self.append(fork, 3, b"fork 3"))
        assert ([b"1", b"2", b"kelp 3"], [b"1", b"2", b"fork 3"]) == (self.bodies("kelp"), self.bodies("fork"))

    def test_the_bases_of_a_header_are_those_of_the_store_and_not_of_the_claim(self) -> None:
        header = msgspec.structs.replace(new_header("kelp"), bases=(Base("nowhere", 7),))
        assert () == self.acquire(header=header).header.bases == self.header().bases

    def test_a_fork_is_not_created_without_the_records_that_it_is_to_share(self) -> None:
        self.lease("kelp", b"1", b"2")
        self.lease("empty")
        bases = (Base("nowhere", 1), Base("fork", 1), Base("kelp", 3), Base("kelp", 0), Base("kelp", -1))
        for base in (*bases, Base("empty", 1), Base("empty", 0)):
            assert [None] == self.backend.acquire([fork_claim("fork", base, b"own")])
            assert (None, []) == (self.backend.find_state("fork"), self.bodies("fork"))
        assert ["empty", "kelp"] == self.listed()

    def test_a_claim_that_creates_nothing_does_not_hinder_the_others(self) -> None:
        self.lease("kelp", b"1", b"2")
        bases = {"first": Base("kelp", 1), "none": Base("kelp", 9), "last": Base("kelp", 2)}
        grants = self.backend.acquire([fork_claim(state_id, base) for state_id, base in bases.items()])
        assert [True, None, True] == [grant and grant.is_new for grant in grants]
        assert ([b"1"], [], [b"1", b"2"]) == (self.bodies("first"), self.bodies("none"), self.bodies("last"))

    def test_a_fork_that_is_not_to_be_created_is_not(self) -> None:
        self.lease("kelp", b"1")
        claim = Claim(header=new_header("fork"), holder=OURS, ttl_s=60.0, create=False, base=Base("kelp", 1))
        assert [None] == self.backend.acquire([claim])
        assert self.backend.find_state("fork") is None

    def test_a_claim_may_fork_a_state_that_an_earlier_claim_of_the_call_created(self) -> None:
        first = Claim(header=new_header("kelp"), bodies=(b"1", b"2"), holder=OURS, ttl_s=60.0)
        forks = [fork_claim("fork", Base("kelp", 1), b"own 2"), fork_claim("again", Base("fork", 2), b"own 3")]
        grants = self.backend.acquire([first, *forks])
        assert [True] * 3 == [grant is not None and grant.is_new for grant in grants]
        assert ([b"1", b"own 2"], [b"1", b"own 2", b"own 3"]) == (self.bodies("fork"), self.bodies("again"))

    def test_of_a_claim_on_a_state_that_exists_the_base_does_not_count(self) -> None:
        self.lease("kelp", b"1", b"2")
        self.update(self.lease("wrack", b"w1"), releases=True)
        before = self.header("wrack")
        for base in (Base("kelp", 2), Base("nowhere", 1), Base("kelp", 0)):
            grant = self.acquire("wrack", bodies=(b"zzz",), base=base)
            assert (False, before) == (grant.is_new, grant.header)
            self.update(granted(grant), releases=True)
        assert ([b"w1"], ()) == (self.bodies("wrack"), self.header("wrack").bases)

    def test_a_state_that_is_held_or_completed_is_forked_and_left_as_it_is(self) -> None:
        self.lease("held", b"1")
        self.update(self.lease("done", b"1"), status=StateStatus.COMPLETED, releases=True)
        before = [self.header("held"), self.header("done")]
        self.fork("a", "held", 1)
        self.fork("b", "done", 1)
        assert before == [self.header("held"), self.header("done")]
        assert (StateStatus.RUNNING, StateStatus.RUNNING) == (self.header("a").status, self.header("b").status)

    def test_a_fork_does_not_see_what_its_parent_appends_later(self) -> None:
        kelp = self.lease("kelp", b"1", b"2")
        self.fork("fork", "kelp", 2)
        assert self.append(kelp, 3, b"3", b"4") is None
        assert ([b"1", b"2"], 2) == (self.bodies("fork"), self.header("fork").position)
        assert [b"1", b"2", b"3", b"4"] == self.bodies("kelp")

    def test_a_parent_goes_on_whatever_its_fork_does(self) -> None:
        kelp = self.lease("kelp", b"1", b"2")
        fork = self.fork("fork", "kelp", 1, b"own")
        assert self.update(fork, status=StateStatus.COMPLETED, releases=True) is None
        newest = self.taken_over(kelp)
        assert isinstance(self.append(kelp, 3, b"late"), LeaseLost)
        assert self.append(newest, 3, b"3") is None
        assert (StateStatus.RUNNING, THEIRS) == (self.header("kelp").status, self.header("kelp").holder)
        assert ([b"1", b"2", b"3"], [b"1", b"own"]) == (self.bodies("kelp"), self.bodies("fork"))

    def test_a_fork_goes_on_whatever_its_parent_does(self) -> None:
        kelp = self.lease("kelp", b"1")
        fork = self.fork("fork", "kelp", 1)
        assert self.update(kelp, status=StateStatus.COMPLETED, releases=True) is None
        newest = self.taken_over(fork)
        assert isinstance(self.append(fork, 2, b"late"), LeaseLost)
        assert self.append(newest, 2, b"own") is None
        assert ([b"1"], [b"1", b"own"]) == (self.bodies("kelp"), self.bodies("fork"))

    def test_two_forks_of_one_state_are_written_at_the_same_time(self) -> None:
        self.lease("kelp", b"1", b"2")
        leases = [self.fork(state_id, "kelp", 2) for state_id in ("a", "b")]

        def write(lease: Lease) -> set[BackendError | None]:
            return {self.append(lease, seq, b"%s %d" % (lease.state_id.encode(), seq)) for seq in range(3, 43)}

        with ThreadPoolExecutor(2) as threads:
            assert [{None}, {None}] == list(threads.map(write, leases))
        for name in ("a", "b"):
            assert [b"1", b"2", *(f"{name} {seq}".encode() for seq in range(3, 43))] == self.bodies(name)

    def test_one_call_appends_to_a_state_and_its_forks(self) -> None:
        kelp = self.lease("kelp", b"1")
        forks = [self.fork(state_id, "kelp", 1) for state_id in ("a", "b")]
        answers = self.backend.append([Append(lease, 2, (lease.state_id.encode(),)) for lease in (kelp, *forks)])
        assert [None, None, None] == answers
        assert [[b"1", b"kelp"], [b"1", b"a"], [b"1", b"b"]] == [self.bodies(name) for name in ("kelp", "a", "b")]

    def test_other_bytes_at_a_shared_position_are_refused_with_its_number(self) -> None:
        self.lease("kelp", b"1", b"2", b"3")
        lease = self.fork("fork", "kelp", 3)
        for first, bodies, taken in (
            (1, (b"x",), 1),
            (2, (b"2", b"x", b"4"), 3),
            (3, (b"x", b"4"), 3),
            (5, (b"5",), 5),
        ):
            answer = self.append(lease, first, *bodies, update=StateUpdate(at=0.0, status=StateStatus.FAILED))
            assert isinstance(answer, PositionTaken)
            assert ("fork", taken) == (answer.state_id, answer.seq)
        assert isinstance(self.append(lease, 0, b"zero"), PositionTaken)
        assert ([b"1", b"2", b"3"], StateStatus.RUNNING) == (self.bodies("fork"), self.header("fork").status)
        assert [b"1", b"2", b"3"] == self.bodies("kelp")

    def test_appending_again_what_stands_succeeds_also_across_the_boundary(self) -> None:
        self.lease("kelp", b"1", b"2", b"3")
        lease = self.fork("fork", "kelp", 2, b"own 3")
        assert self.append(lease, 1, b"1", b"2", b"own 3") is None
        assert self.append(lease, 2, b"2", b"own 3", b"own 4") is None
        assert [(1, b"1"), (2, b"2"), (3, b"own 3"), (4, b"own 4")] == self.backend.read("fork")
        assert self.append(lease, 5, b"own 5") is None
        assert [b"1", b"2", b"3"] == self.bodies("kelp")

    def test_reading_a_fork_begins_behind_any_position_and_ends_at_any_limit(self) -> None:
        expected = self._generations()
        for after in range(-1, 11):
            for limit in (None, 0, 1, 2, 3, 5, 100):
                start = max(after, 0)
                wanted = expected[start:] if limit is None else expected[start : start + limit]
                assert wanted == self.backend.read("d", after, limit)

    def test_a_fork_of_a_fork_of_a_fork_names_those_that_wrote_the_records(self) -> None:
        self._generations()
        assert (Base("a", 2), Base("b", 4), Base("c", 6)) == self.header("d").bases
        assert 8 == self.header("d").position
        assert [b"a1", b"a2", b"b3", b"b4", b"c5", b"c6", b"c7"] == self.bodies("c")

    def test_a_fork_may_begin_inside_what_its_parent_shares(self) -> None:
        records = self._generations()
        expected = {
            1: (Base("a", 1),),
            2: (Base("a", 2),),
            3: (Base("a", 2), Base("b", 3)),
            4: (Base("a", 2), Base("b", 4)),
            5: (Base("a", 2), Base("b", 4), Base("c", 5)),
            6: (Base("a", 2), Base("b", 4), Base("c", 6)),
            7: (Base("a", 2), Base("b", 4), Base("c", 6), Base("d", 7)),
        }
        for last, bases in expected.items():
            lease = self.fork(f"at-{last}", "d", last)
            assert (bases, last) == (self.header(f"at-{last}").bases, self.header(f"at-{last}").position)
            assert self.append(lease, last + 1, b"own") is None
            assert [*records[:last], (last + 1, b"own")] == self.backend.read(f"at-{last}")

    def test_a_fork_of_a_fork_without_own_records_names_only_those_that_wrote_some(self) -> None:
        self.lease("kelp", b"1", b"2")
        self.fork("silent", "kelp", 2)
        self.fork("fork", "silent", 2, b"own")
        assert (Base("kelp", 2),) == self.header("fork").bases
        assert [b"1", b"2", b"own"] == self.bodies("fork")

    def test_a_long_journal_is_shared_whole(self) -> None:
        bodies = [str(number).encode() for number in range(_MANY)]
        assert [None] == self.backend.append([Append(self.lease("kelp"), 1, bodies)])
        lease = self.fork("fork", "kelp", _MANY)
        assert [None] == self.backend.append([Append(lease, _MANY + 1, bodies)])
        assert list(enumerate(bodies * 2, 1)) == self.backend.read("fork")

    def test_a_fork_has_the_metadata_and_the_timeline_of_its_claim(self) -> None:
        self.lease("kelp", b"1", header=new_header("kelp", metadata=StateMetadata(tags=["kelp"]), timeline=1))
        metadata = StateMetadata(tags=["fork"], parent_state_id="kelp")
        header = new_header("fork", metadata=metadata, timeline=2)
        self.acquire("fork", bodies=(b"own",), header=header, base=Base("kelp", 1))
        assert (metadata, 2) == (self.header("fork").metadata, self.header("fork").timeline)
        assert (["fork"], ["kelp"]) == (self.listed(parent_state_id="kelp"), self.listed(tags=["kelp"]))
        self.fork("other", "kelp", 1)
        assert (["fork"], 0) == (self.listed(parent_state_id="kelp"), self.header("other").timeline)

    def test_forks_are_there_when_the_store_is_opened_again(self) -> None:
        expected = self._generations()
        header = self.header("d")
        again = self.opened_again()
        assert (header, expected) == (again.find_state("d"), again.read("d"))
        newest = granted(self.acquire("d", holder=THEIRS, supersede=self.acquire("d").held_fence))
        assert [None] == again.append([Append(newest, 9, (b"d9",))])
        assert [*expected, (9, b"d9")] == self.backend.read("d")

    def _generations(self) -> list[tuple[int, bytes]]:
        """Four states, each but the first a fork of the one before and written further; the records of the last, d."""
        self.lease("a", b"a1", b"a2", b"a3")
        self.append(self.fork("b", "a", 2, b"b3"), 4, b"b4", b"b5")
        self.fork("c", "b", 4, b"c5", b"c6", b"c7")
        self.fork("d", "c", 6, b"d7", b"d8")
        return list(enumerate((b"a1", b"a2", b"b3", b"b4", b"c5", b"c6", b"d7", b"d8"), 1))
