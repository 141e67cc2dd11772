"""What the contract says of records."""

from __future__ import annotations

from limpet.backends.contract import Append, StateUpdate
from limpet.errors import BackendError, LeaseLost, PositionTaken
from limpet.model import StateMetadata, StateStatus
from limpet.testing.conformance.case import OURS, BackendCase


class JournalConformance(BackendCase):
    """``append`` and ``read``."""

    def test_appended_records_are_read_in_order_with_their_numbers(self) -> None:
        lease = self.lease("kelp", b"one")
        assert self.append(lease, 2, b"two", b"three") is None
        assert self.append(lease, 4, b"four") is None
        assert [(1, b"one"), (2, b"two"), (3, b"three"), (4, b"four")] == self.backend.read("kelp")
        assert 4 == self.header().position

    def test_any_bytes_come_back_as_they_were(self) -> None:
        bodies = (b"", b"\x00", bytes(range(256)), b"\xff" * 100_000)
        assert self.append(self.lease(), 1, *bodies) is None
        assert list(bodies) == self.bodies()

    def test_a_journal_of_many_records_is_read_whole(self) -> None:
        bodies = [str(number).encode() for number in range(3000)]
        assert [None] == self.backend.append([Append(self.lease(), 1, bodies)])
        assert list(enumerate(bodies, 1)) == self.backend.read("kelp")

    def test_reading_begins_behind_a_position_and_ends_at_the_limit(self) -> None:
        self.lease("kelp", b"1", b"2", b"3", b"4")
        assert [(3, b"3"), (4, b"4")] == self.backend.read("kelp", after=2)
        assert [(2, b"2"), (3, b"3")] == self.backend.read("kelp", after=1, limit=2)
        assert [] == self.backend.read("kelp", limit=0)
        assert [] == self.backend.read("kelp", after=4)
        assert [(4, b"4")] == self.backend.read("kelp", after=3, limit=10)

    def test_a_state_that_does_not_exist_has_no_records(self) -> None:
        assert [] == self.backend.read("nowhere")

    def test_one_call_appends_to_several_states(self) -> None:
        kelp, wrack = self.lease("kelp"), self.lease("wrack")
        answers = self.backend.append([Append(kelp, 1, (b"k1", b"k2")), Append(wrack, 1, (b"w1",))])
        assert [None, None] == answers
        assert ([b"k1", b"k2"], [b"w1"]) == (self.bodies("kelp"), self.bodies("wrack"))

    def test_two_appends_of_one_call_may_be_of_one_state_in_order(self) -> None:
        lease = self.lease()
        update = StateUpdate(at=self.clock.now, status=StateStatus.FAILED)
        answers = self.backend.append([Append(lease, 1, (b"1", b"2")), Append(lease, 3, (b"3",), update)])
        assert [None, None] == answers
        assert ([b"1", b"2", b"3"], StateStatus.FAILED) == (self.bodies(), self.header().status)

    def test_no_appends_are_answered_with_nothing(self) -> None:
        assert [] == self.backend.append([])

    def test_a_lease_that_was_taken_over_may_write_nothing(self) -> None:
        lost = self.lease("kelp", b"one")
        newest = self.taken_over(lost)
        answer = self.append(lost, 2, b"late")
        assert isinstance(answer, LeaseLost)
        assert ("kelp", lost.fence) == (answer.state_id, answer.fence)
        assert [b"one"] == self.bodies()
        assert self.append(newest, 2, b"two") is None

    def test_a_lost_lease_is_told_apart_even_where_the_same_bytes_stand(self) -> None:
        lost = self.lease("kelp", b"one")
        self.taken_over(lost)
        assert isinstance(self.append(lost, 1, b"one"), LeaseLost)

    def test_a_lost_lease_may_not_change_the_header(self) -> None:
        lost = self.lease()
        self.taken_over(lost)
        before = self.header()
        assert isinstance(self.update(lost, status=StateStatus.FAILED, releases=True), LeaseLost)
        update = StateUpdate(at=0.0, metadata=StateMetadata(tags=["x"]))
        assert isinstance(self.append(lost, 1, b"one", update=update), LeaseLost)
        assert before == self.header()

    def test_an_append_of_nothing_still_tells_whether_the_lease_is_good(self) -> None:
        lost = self.lease()
        assert self.append(lost, 1) is None
        newest = self.taken_over(lost)
        assert isinstance(self.append(lost, 1), LeaseLost)
        assert self.append(newest, 1) is None

    def test_a_lease_that_ran_out_and_was_not_taken_may_still_write(self) -> None:
        lease = self.lease()
        self.clock.turn(1000.0)
        assert self.append(lease, 1, b"one") is None
        assert [b"one"] == self.bodies()

    def test_a_refused_append_does_not_hinder_the_others(self) -> None:
        lost, taken, good = self.lease("lost"), self.lease("taken", b"one"), self.lease("good")
        self.taken_over(lost)
        update = StateUpdate(at=self.clock.now, status=StateStatus.PAUSED)
        answers = self.backend.append(
            [
                Append(lost, 1, (b"x",)),
                Append(taken, 1, (b"other",)),
                Append(good, 1, (b"1", b"2")),
                Append(good, 3, (b"3",), update),
            ]
        )
        assert [LeaseLost, PositionTaken, None, None] == [answer and type(answer) for answer in answers]
        assert ([], [b"one"], [b"1", b"2", b"3"]) == (self.bodies("lost"), self.bodies("taken"), self.bodies("good"))
        assert StateStatus.PAUSED is self.header("good").status

    def test_appending_the_same_bytes_again_succeeds_and_changes_nothing(self) -> None:
        lease = self.lease()
        assert self.append(lease, 1, b"one", b"two") is None
        assert self.append(lease, 1, b"one", b"two") is None
        assert self.append(lease, 2, b"two") is None
        assert [(1, b"one"), (2, b"two")] == self.backend.read("kelp")
        assert self.append(lease, 3, b"three") is None

    def test_appending_the_first_records_again_succeeds(self) -> None:
        lease = self.lease("kelp", b"one")
        assert self.append(lease, 1, b"one") is None
        assert [b"one"] == self.bodies()

    def test_a_repeated_append_may_add_records_behind_those_that_stand(self) -> None:
        lease = self.lease("kelp", b"one", b"two")
        assert self.append(lease, 2, b"two", b"three", b"four") is None
        assert [b"one", b"two", b"three", b"four"] == self.bodies()

    def test_an_append_that_gave_its_lease_back_can_be_repeated(self) -> None:
        lease = self.lease()
        update = StateUpdate(at=self.clock.now, status=StateStatus.COMPLETED, releases=True)
        assert self.append(lease, 1, b"one", update=update) is None
        after = self.header()
        assert self.append(lease, 1, b"one", update=update) is None
        assert ([b"one"], after) == (self.bodies(), self.header())

    def test_other_bytes_at_a_position_are_refused_with_its_number(self) -> None:
        lease = self.lease("kelp", b"one", b"two")
        self._assert_taken(self.append(lease, 1, b"one", b"other", b"three"), 2)
        self._assert_taken(self.append(lease, 2, b"other"), 2)
        assert [b"one", b"two"] == self.bodies()

    def test_a_refused_append_does_not_change_the_header(self) -> None:
        lease = self.lease("kelp", b"one")
        before = self.header()
        update = StateUpdate(
            at=self.clock.now, status=StateStatus.FAILED, metadata=StateMetadata(tags=["x"]), releases=True
        )
        self._assert_taken(self.append(lease, 1, b"other", update=update), 1)
        assert before == self.header()
        assert [] == self.listed(tags=["x"])

    def test_a_position_is_never_left_out(self) -> None:
        lease = self.lease("kelp", b"one")
        self._assert_taken(self.append(lease, 3, b"three"), 3)
        self._assert_taken(self.append(self.lease("wrack"), 2, b"two"), 2)
        assert ([b"one"], []) == (self.bodies("kelp"), self.bodies("wrack"))
        assert self.append(lease, 2, b"two") is None

    def test_there_is_no_position_before_the_first(self) -> None:
        lease = self.lease()
        self._assert_taken(self.append(lease, 0, b"zero"), 0)
        self._assert_taken(self.append(lease, -1, b"x", b"y", b"z"), -1)
        assert [] == self.bodies()

    def test_an_append_behind_a_refused_one_of_its_state_is_refused_too(self) -> None:
        lease = self.lease("kelp", b"one")
        first, second = self.backend.append([Append(lease, 1, (b"other", b"two")), Append(lease, 3, (b"three",))])
        self._assert_taken(first, 1)
        self._assert_taken(second, 3)
        assert [b"one"] == self.bodies()

    def test_a_state_taken_over_goes_on_where_its_journal_ends(self) -> None:
        lease = self.lease("kelp", b"one")
        self.append(lease, 2, b"two")
        newest = self.taken_over(lease)
        assert self.append(newest, 3, b"three") is None
        assert [b"one", b"two", b"three"] == self.bodies()

    def test_records_of_one_state_are_not_read_with_another(self) -> None:
        kelp, wrack = self.lease("kelp", b"k1"), self.lease("wrack", b"w1")
        self.append(kelp, 2, b"k2")
        self.append(wrack, 2, b"w2")
        assert ([b"k1", b"k2"], [b"w1", b"w2"]) == (self.bodies("kelp"), self.bodies("wrack"))

    def test_a_lease_handed_to_another_backend_on_the_store_is_as_good_there(self) -> None:
        lease = self.lease("kelp", b"one")
        again = self.opened_again()
        assert [None] == again.append([Append(lease, 2, (b"two",))])
        assert self.append(lease, 2, b"two") is None
        assert isinstance(self.append(lease, 2, b"other"), PositionTaken)
        assert [None] == again.append([Append(lease, 3, (b"three",))])
        answers = self.backend.append([Append(lease, 3, (b"three", b"four")), Append(lease, 5, (b"five",))])
        assert [None, None] == answers
        assert [b"one", b"two", b"three", b"four", b"five"] == self.bodies()
        assert OURS == self.header().holder

    def test_a_refusal_names_the_state(self) -> None:
        lease = self.lease("kelp", b"one")
        answer = self.append(lease, 1, b"other")
        assert isinstance(answer, PositionTaken)
        assert "kelp" == answer.state_id

    def _assert_taken(self, answer: BackendError | None, seq: int) -> None:
        assert isinstance(answer, PositionTaken)
        assert seq == answer.seq
