"""What the contract says of claims and leases."""

from __future__ import annotations

from limpet.backends.contract import Claim
from limpet.errors import LeaseLost
from limpet.model import Holder, Lease, StateMetadata, StateStatus
from limpet.testing.conformance.case import OURS, THEIRS, BackendCase, granted, new_header


class LeaseConformance(BackendCase):
    """``acquire`` and ``renew``."""

    def test_a_claim_creates_a_state_that_does_not_exist(self) -> None:
        metadata = StateMetadata(tags=["a"], description="ü", pipeline_name="p", custom_data={"n": [1, {"x": None}]})
        header = new_header("kelp", status=StateStatus.PAUSED, metadata=metadata, agent="m:kelp")
        grant = self.acquire(header=header)
        assert grant.is_new
        assert grant.lease is not None
        stored = self.header()
        assert ("kelp", StateStatus.PAUSED, metadata) == (stored.state_id, stored.status, stored.metadata)
        assert (header.created_at, header.updated_at) == (stored.created_at, stored.updated_at)
        assert ("m:kelp", header.version) == (stored.agent, stored.version)

    def test_a_created_state_holds_its_first_records_from_1_on(self) -> None:
        self.lease("kelp", b"one", b"two")
        assert [(1, b"one"), (2, b"two")] == self.backend.read("kelp")

    def test_the_grant_of_a_new_state_shows_its_header_as_it_is_found_later(self) -> None:
        grant = self.acquire(bodies=(b"one", b"two"))
        assert (2, OURS) == (grant.header.position, grant.header.holder)
        assert self.header() == grant.header

    def test_a_state_that_is_not_to_be_created_is_answered_with_none(self) -> None:
        claim = Claim(header=new_header("kelp"), bodies=(b"one",), holder=OURS, ttl_s=60.0, create=False)
        assert [None] == self.backend.acquire([claim])
        assert self.backend.find_state("kelp") is None
        assert [] == self.backend.read("kelp")

    def test_a_state_that_exists_is_leased_also_where_it_was_not_to_be_created(self) -> None:
        self.update(self.lease(), releases=True)
        assert granted(self.acquire(create=False)).state_id == "kelp"

    def test_of_a_claim_on_a_state_that_exists_only_the_id_counts(self) -> None:
        self.update(self.lease("kelp", b"one"), releases=True)
        other = new_header("kelp", status=StateStatus.FAILED, metadata=StateMetadata(tags=["x"]), agent="other")
        before = self.header()
        grant = self.acquire(bodies=(b"zzz", b"yyy"), header=other)
        assert (False, before) == (grant.is_new, grant.header)
        self.update(granted(grant), releases=True)
        assert before == self.header()
        assert [b"one"] == self.bodies()
        assert [] == self.listed(tags=["x"])

    def test_a_lease_names_its_state(self) -> None:
        first, second = self.lease("kelp"), self.lease("wrack")
        assert ("kelp", "wrack") == (first.state_id, second.state_id)
        assert first.key != second.key

    def test_a_held_state_is_answered_with_its_holder_and_is_left_alone(self) -> None:
        lease = self.lease()
        self.clock.turn(20.0)
        grant = self.acquire(holder=THEIRS, ttl_s=600.0)
        assert (None, OURS, lease.fence, 40.0) == (grant.lease, grant.held_by, grant.held_fence, grant.held_for_s)
        assert OURS == grant.header.holder
        assert OURS == self.header().holder
        assert self.append(lease, 1, b"one") is None

    def test_a_holder_is_refused_its_own_lease_a_second_time(self) -> None:
        self.lease()
        assert OURS == self.acquire(holder=OURS).held_by

    def test_a_lease_is_free_at_the_moment_it_runs_out(self) -> None:
        self.acquire(ttl_s=60.0)
        self.clock.turn(59.5)
        assert OURS == self.acquire(holder=THEIRS).held_by
        self.clock.turn(0.5)
        assert self.acquire(holder=THEIRS).lease is not None

    def test_a_lease_that_was_given_back_is_free_at_once(self) -> None:
        self.update(self.lease(), releases=True)
        grant = self.acquire(holder=THEIRS)
        assert grant.lease is not None
        assert grant.header.holder is None

    def test_a_lease_that_is_known_to_be_dead_is_taken_over_before_it_runs_out(self) -> None:
        lease = self.lease()
        grant = self.acquire(holder=THEIRS, supersede=lease.fence)
        assert granted(grant).fence > lease.fence
        assert OURS == grant.header.holder
        assert THEIRS == self.header().holder

    def test_superseding_another_lease_than_the_one_that_stands_is_refused(self) -> None:
        lease = self.lease()
        newest = self.taken_over(lease)
        grant = self.acquire(holder=OURS, supersede=lease.fence)
        assert (None, THEIRS, newest.fence) == (grant.lease, grant.held_by, grant.held_fence)

    def test_a_state_that_is_made_again_has_a_greater_fence_than_the_deleted_one_ever_had(self) -> None:
        first = self.lease()
        last = self.taken_over(first)
        assert self.backend.delete_state("kelp", last)
        assert self.lease().fence > last.fence > first.fence

    def test_every_lease_has_a_greater_fence_than_all_before_it(self) -> None:
        fences = [self.lease().fence]
        self.clock.turn(60.0)
        fences.append(granted(self.acquire()).fence)
        lease = granted(self.acquire(supersede=fences[-1]))
        fences.append(lease.fence)
        self.update(lease, releases=True)
        fences.append(granted(self.acquire()).fence)
        assert sorted(set(fences)) == fences

    def test_a_new_lease_changes_nothing_else_of_the_state(self) -> None:
        lease = self.lease("kelp", b"one")
        self.update(lease, status=StateStatus.AWAITING, releases=True)
        before = self.header()
        self.clock.turn(10.0)
        lease = granted(self.acquire(holder=OURS))
        self.update(lease, releases=True)
        assert before == self.header()

    def test_a_completed_state_is_shown_and_not_leased(self) -> None:
        self.update(self.lease(), status=StateStatus.COMPLETED, releases=True)
        grant = self.acquire()
        assert (False, None, None) == (grant.is_new, grant.lease, grant.held_by)
        assert StateStatus.COMPLETED is grant.header.status
        assert self.header().holder is None

    def test_a_completed_state_is_leased_where_it_is_to_be_reopened(self) -> None:
        self.update(self.lease(), status=StateStatus.COMPLETED, releases=True)
        grant = self.acquire(reopen=True)
        assert StateStatus.COMPLETED is grant.header.status
        assert self.append(granted(grant), 1, b"one") is None

    def test_a_completed_state_whose_lease_stands_is_not_reopened(self) -> None:
        lease = self.lease()
        self.update(lease, status=StateStatus.COMPLETED)
        assert OURS == self.acquire(holder=THEIRS, reopen=True).held_by

    def test_the_claims_of_one_call_are_answered_each(self) -> None:
        held = self.lease("held")
        claims = [
            Claim(header=new_header("new"), holder=THEIRS, ttl_s=60.0),
            Claim(header=new_header("missing"), holder=THEIRS, ttl_s=60.0, create=False),
            Claim(header=new_header("held"), holder=THEIRS, ttl_s=60.0),
        ]
        new, missing, refused = self.backend.acquire(claims)
        assert new is not None
        assert new.is_new
        assert missing is None
        assert refused is not None
        assert (OURS, held.fence) == (refused.held_by, refused.held_fence)

    def test_of_two_claims_on_one_state_in_one_call_the_second_sees_the_lease_of_the_first(self) -> None:
        claims = [Claim(header=new_header("kelp"), holder=holder, ttl_s=60.0) for holder in (OURS, THEIRS)]
        first, second = self.backend.acquire(claims)
        assert first is not None
        assert first.lease is not None
        assert second is not None
        assert (False, None, OURS) == (second.is_new, second.lease, second.held_by)

    def test_no_claims_are_answered_with_nothing(self) -> None:
        assert [] == self.backend.acquire([])

    def test_a_holder_comes_back_as_it_was_given(self) -> None:
        holder = Holder('höst"', "", "", 7, "", "")
        self.acquire(holder=holder)
        assert holder == self.header().holder
        assert holder == self.acquire().held_by

    def test_a_renewed_lease_lasts_from_now_on(self) -> None:
        lease = self.lease()
        self.clock.turn(50.0)
        assert [True] == self.backend.renew([lease], 60.0)
        self.clock.turn(50.0)
        assert 10.0 == self.acquire(holder=THEIRS).held_for_s

    def test_a_lease_that_ran_out_and_was_not_taken_can_be_renewed(self) -> None:
        lease = self.lease()
        self.clock.turn(100.0)
        assert self.header().holder is None
        assert [True] == self.backend.renew([lease], 60.0)
        assert OURS == self.header().holder

    def test_a_lease_that_was_taken_over_is_not_renewed_and_does_not_hinder_others(self) -> None:
        lost, good = self.lease("kelp"), self.lease("wrack")
        self.taken_over(lost)
        assert [False, True] == self.backend.renew([lost, good], 600.0)
        assert 60.0 == self.acquire("kelp").held_for_s

    def test_a_lease_that_was_given_back_is_not_renewed(self) -> None:
        lease = self.lease()
        self.update(lease, releases=True)
        assert [False] == self.backend.renew([lease], 60.0)
        assert self.header().holder is None

    def test_the_lease_of_a_deleted_state_is_not_renewed(self) -> None:
        lease = self.lease()
        self.backend.delete_state("kelp", lease)
        assert [False] == self.backend.renew([lease], 60.0)

    def test_renewing_changes_nothing_else_of_the_state(self) -> None:
        lease = self.lease("kelp", b"one")
        before = self.header()
        self.clock.turn(10.0)
        self.backend.renew([lease], 60.0)
        assert before == self.header()

    def test_the_lease_of_a_deleted_state_does_not_fit_a_later_state_of_that_id(self) -> None:
        lease = self.lease("kelp", b"one")
        self.backend.delete_state("kelp", lease)
        self.lease("kelp")
        assert isinstance(self.append(lease, 1, b"stray"), LeaseLost)
        assert [False] == self.backend.renew([lease], 60.0)
        assert [] == self.bodies()

    def test_a_lease_that_no_state_ever_had_may_write_nothing(self) -> None:
        assert isinstance(self.append(Lease("kelp", 12345, 1), 1, b"one"), LeaseLost)
        assert self.backend.find_state("kelp") is None
