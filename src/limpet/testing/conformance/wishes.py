"""What the contract says of wishes that are left for the holder of a state."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps

from limpet.backends.contract import StateUpdate
from limpet.errors import UsageError
from limpet.model import Lease, StateMetadata, StateStatus
from limpet.testing.conformance.case import OURS, THEIRS, BackendCase, granted, new_header


def _where_wishes_are_taken(test: Callable[[WishConformance], None]) -> Callable[[WishConformance], None]:
    """The verbs need not be there: a backend without them is asked for no more than the contract gives it."""

    @wraps(test)
    def run(case: WishConformance) -> None:
        if case.takes_wishes():
            test(case)

    return run


class WishConformance(BackendCase):
    """``leave_wish`` and ``wishes``."""

    def takes_wishes(self) -> bool:
        try:
            self.backend.leave_wish("nowhere", "stop")
        except UsageError:
            return False
        return True

    def test_a_lease_has_no_wish_before_one_is_left(self) -> None:
        assert [None, None] == self.backend.wishes([self.lease("kelp"), self.lease("wrack")])
        assert [] == self.backend.wishes([])

    @_where_wishes_are_taken
    def test_a_wish_is_left_for_the_holder_and_stays(self) -> None:
        lease = self.lease("kelp", b"one")
        assert OURS == self.backend.leave_wish("kelp", "stop")
        assert [["stop"]] * 3 == [self.backend.wishes([lease]) for _ in range(3)]

    @_where_wishes_are_taken
    def test_a_wish_is_left_and_read_by_any_backend_on_the_store(self) -> None:
        lease, again = self.lease(), self.opened_again()
        assert OURS == again.leave_wish("kelp", "stop")
        assert (["stop"], ["stop"]) == (self.backend.wishes([lease]), again.wishes([lease]))
        assert ["stop"] == self.opened_again().wishes([lease])

    @_where_wishes_are_taken
    def test_the_newest_wish_takes_the_place_of_an_earlier_one(self) -> None:
        lease = self.lease()
        for wish in ("a long wish, with reasons for it", "short", ""):
            assert OURS == self.backend.leave_wish("kelp", wish)
            assert [wish] == self.backend.wishes([lease])

    @_where_wishes_are_taken
    def test_a_wish_comes_back_as_it_was_left(self) -> None:
        lease = self.lease()
        for wish in ("", "null", '"für" \\ \'$.wish\' {"wish": 1}', "🌊\n\t\x00 end", "x" * 5000):
            self.backend.leave_wish("kelp", wish)
            assert [wish] == self.backend.wishes([lease])
            assert OURS == self.header().holder

    @_where_wishes_are_taken
    def test_a_wish_for_a_state_that_does_not_exist_is_not_left(self) -> None:
        for name in ("nowhere", "../kelp", "'); DROP TABLE states; --", ""):
            assert self.backend.leave_wish(name, "stop") is None
        assert self.backend.find_state("nowhere") is None
        assert [None] == self.backend.wishes([self.lease("nowhere")])

    @_where_wishes_are_taken
    def test_a_wish_for_a_state_that_nobody_holds_is_not_left(self) -> None:
        lease = self.lease()
        self.update(lease, releases=True)
        assert self.backend.leave_wish("kelp", "stop") is None
        assert [None, None] == self.backend.wishes([lease, granted(self.acquire())])

    @_where_wishes_are_taken
    def test_a_wish_for_a_lease_that_ran_out_is_not_left(self) -> None:
        lease = self.lease()
        self.clock.turn(59.5)
        assert OURS == self.backend.leave_wish("kelp", "in time")
        self.clock.turn(0.5)
        assert self.backend.leave_wish("kelp", "too late") is None
        assert [True] == self.backend.renew([lease], 60.0)
        assert ["in time"] == self.backend.wishes([lease])

    @_where_wishes_are_taken
    def test_a_wish_stays_whatever_its_holder_does(self) -> None:
        lease = self.lease("kelp", b"one")
        self.backend.leave_wish("kelp", "stop")
        assert [True] == self.backend.renew([lease], 600.0)
        assert self.append(lease, 2, b"two") is None
        assert self.update(lease, status=StateStatus.PAUSED, metadata=StateMetadata(tags=["x"]), timeline=1) is None
        assert self.append(lease, 1, update=StateUpdate(at=self.clock.now, header=new_header("kelp"))) is None
        self.fork("fork", "kelp", 1)
        assert (["stop"], OURS) == (self.backend.wishes([lease]), self.header().holder)

    @_where_wishes_are_taken
    def test_a_wish_is_gone_when_its_lease_is_given_back(self) -> None:
        lease = self.lease()
        self.backend.leave_wish("kelp", "stop")
        update = StateUpdate(at=self.clock.now, status=StateStatus.FAILED, releases=True)
        for _ in range(2):
            assert self.append(lease, 1, b"one", update=update) is None
            assert [None] == self.backend.wishes([lease])
        newest = granted(self.acquire(holder=THEIRS))
        assert [None, None] == self.opened_again().wishes([lease, newest])

    @_where_wishes_are_taken
    def test_a_wish_is_gone_when_its_lease_is_taken_over(self) -> None:
        lost = self.lease()
        self.backend.leave_wish("kelp", "stop")
        newest = self.taken_over(lost)
        assert [None, None] == self.backend.wishes([lost, newest])
        assert THEIRS == self.backend.leave_wish("kelp", "stop, too")
        assert [None, "stop, too"] == self.backend.wishes([lost, newest])

    @_where_wishes_are_taken
    def test_a_wish_is_gone_when_another_has_the_lease_that_ran_out(self) -> None:
        lost = self.lease()
        self.backend.leave_wish("kelp", "stop")
        self.clock.turn(60.0)
        newest = granted(self.acquire(holder=THEIRS))
        assert [None, None] == self.backend.wishes([lost, newest])

    @_where_wishes_are_taken
    def test_a_wish_is_gone_with_its_state(self) -> None:
        lease = self.lease("kelp", b"one")
        self.fork("fork", "kelp", 1)
        self.backend.leave_wish("kelp", "stop")
        self.backend.delete_state("kelp", lease)
        assert [None] == self.backend.wishes([lease])
        assert [None, None] == self.backend.wishes([lease, self.lease("kelp")])

    @_where_wishes_are_taken
    def test_a_claim_that_is_refused_leaves_the_wish(self) -> None:
        lease = self.lease()
        self.backend.leave_wish("kelp", "stop")
        assert OURS == self.acquire(holder=THEIRS).held_by
        assert ["stop"] == self.backend.wishes([lease])

    @_where_wishes_are_taken
    def test_the_wishes_for_many_leases_are_given_in_their_order(self) -> None:
        leases = [self.lease(f"kelp-{number}") for number in range(40)]
        for number in range(0, 40, 3):
            self.backend.leave_wish(f"kelp-{number}", f"wish {number}")
        expected = [None if number % 3 else f"wish {number}" for number in range(40)]
        assert expected == self.backend.wishes(leases)
        assert expected[::-1] == self.backend.wishes(leases[::-1])
        stray = Lease("kelp-0", 12345, 1)
        assert ["wish 3", None, "wish 3"] == self.backend.wishes([leases[3], stray, leases[3]])

    @_where_wishes_are_taken
    def test_a_wish_changes_nothing_else_of_the_state(self) -> None:
        metadata = StateMetadata(tags=["x"], custom_data={"n": 1})
        lease = self.lease("kelp", b"one", header=new_header("kelp", metadata=metadata))
        before = self.header()
        self.clock.turn(10.0)
        self.backend.leave_wish("kelp", "stop")
        assert (before, [b"one"]) == (self.header(), self.bodies())
        assert [before] == self.opened_again().list_states(tags=["x"])
        assert 50.0 == self.acquire(holder=THEIRS).held_for_s
        assert self.append(lease, 2, b"two") is None
        flaws = [*self.backend.examine("kelp"), *self.backend.examine_store()]
        assert [] == [flaw for flaw in flaws if not flaw.is_harmless]

    @_where_wishes_are_taken
    def test_wishes_are_left_and_read_while_the_holder_appends(self) -> None:
        lease, again = self.lease(), self.opened_again()
        with ThreadPoolExecutor(1) as thread:
            appended = thread.submit(lambda: [self.append(lease, seq, b"x") for seq in range(1, 101)])
            for number in range(20):
                again.leave_wish("kelp", str(number))
                assert [str(number)] == self.backend.wishes([lease])
            assert [None] * 100 == appended.result()
        assert 100 == self.header().position
