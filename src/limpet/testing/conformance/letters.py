"""What the contract says of letters, which anybody may put into the inbox of a state."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps

from limpet.backends.contract import StateBackend, StateUpdate
from limpet.errors import LeaseLost, UsageError
from limpet.model import Lease, Letter, StateMetadata, StateStatus
from limpet.testing.conformance.case import THEIRS, BackendCase, granted, new_header, raised

NOT_NAMES = ("", "x" * 201, "two\nlines", "nul\x00", "tab\t", "\x7f", "\x85", "half \ud83c")


def _where_letters_are_taken(test: Callable[[LetterConformance], None]) -> Callable[[LetterConformance], None]:
    """The verbs need not be there: a backend without them is asked for no more than the contract gives it."""

    @wraps(test)
    def run(case: LetterConformance) -> None:
        if case.takes_letters():
            test(case)

    return run


class LetterConformance(BackendCase):
    """``deliver``, ``letters``, ``arrivals`` and ``discard_letters``."""

    def takes_letters(self) -> bool:
        try:
            self.backend.deliver("nowhere", "hello", b"")
        except UsageError:
            return False
        return True

    def deliver(self, name: str, body: bytes = b"", state_id: str = "kelp", by: StateBackend | None = None) -> Letter:
        letter = (by or self.backend).deliver(state_id, name, body)
        assert letter is not None
        return letter

    def names(self, state_id: str = "kelp") -> list[str]:
        return [letter.name for letter in self.backend.letters(state_id)]

    def test_a_state_begins_with_an_empty_inbox(self) -> None:
        self.lease()
        assert [] == self.backend.letters("kelp")
        assert ([], []) == (self.backend.letters("nowhere"), self.backend.arrivals())

    @_where_letters_are_taken
    def test_a_letter_is_delivered_and_read_as_often_as_one_likes(self) -> None:
        self.lease()
        letter = self.deliver("question", b"yes")
        assert ("kelp", "question", b"yes", self.clock.now) == (letter.state_id, letter.name, letter.body, letter.at)
        assert letter.number > 0
        assert [[letter]] * 3 == [self.backend.letters("kelp") for _ in range(3)]
        assert [(letter.number, "kelp")] == self.backend.arrivals()

    @_where_letters_are_taken
    def test_letters_are_delivered_and_read_by_any_backend_on_the_store(self) -> None:
        again, _ = self.opened_again(), self.lease()
        letters = [
            self.deliver("one", b"1", by=again),
            self.deliver("two", b"2"),
            self.deliver("three", b"3", by=again),
        ]
        for backend in (self.backend, again, self.opened_again()):
            assert letters == backend.letters("kelp")
            assert [(letter.number, "kelp") for letter in letters] == backend.arrivals()

    @_where_letters_are_taken
    def test_a_letter_comes_back_as_it_was_delivered(self) -> None:
        self.lease()
        names = (
            "x",
            "x" * 200,
            "🌊" * 200,
            "a b/../c",
            "'); DROP TABLE letters; --",
            "%",
            ".",
            "..",
            '"\\',
            "é",
            "e\u0301",
        )
        bodies = (b"", b"\x00", b"\xff" * 100_000, bytes(range(256)))
        for number, name in enumerate(names):
            body = bodies[number % len(bodies)]
            assert (name, body) == (self.deliver(name, body).name, self.deliver(name, b"other").body)
        assert list(names) == [letter.name for letter in self.opened_again().letters("kelp")]
        assert [bodies[number % len(bodies)] for number in range(len(names))] == [
            letter.body for letter in self.opened_again().letters("kelp")
        ]

    @_where_letters_are_taken
    def test_the_first_letter_of_a_name_stays_and_is_given_back(self) -> None:
        self.lease()
        first = self.deliver("question", b"yes")
        self.clock.turn(10.0)
        assert first == self.deliver("question", b"yes")
        assert first == self.deliver("question", b"no", by=self.opened_again())
        assert [first] == self.backend.letters("kelp")
        assert 1 == len(self.backend.arrivals())

    @_where_letters_are_taken
    def test_the_same_name_is_another_letter_in_another_state(self) -> None:
        self.lease("kelp")
        self.lease("wrack")
        kelp, wrack = self.deliver("question", b"yes"), self.deliver("question", b"no", "wrack")
        assert ([kelp], [wrack]) == (self.backend.letters("kelp"), self.backend.letters("wrack"))
        assert [(kelp.number, "kelp"), (wrack.number, "wrack")] == self.backend.arrivals()

    @_where_letters_are_taken
    def test_numbers_grow_through_the_whole_store(self) -> None:
        again = self.opened_again()
        for state_id in ("kelp", "wrack", "dulse"):
            self.lease(state_id)
        numbers = [
            self.deliver(f"{number}", b"", state_id, by=backend).number
            for number in range(10)
            for state_id, backend in (("kelp", self.backend), ("wrack", again), ("dulse", self.opened_again()))
        ]
        assert sorted(set(numbers)) == numbers
        assert numbers[::3] == [letter.number for letter in self.backend.letters("kelp")]

    @_where_letters_are_taken
    def test_letters_and_arrivals_are_given_behind_a_number(self) -> None:
        self.lease("kelp")
        self.lease("wrack")
        letters = [self.deliver(f"{number}", b"", ("kelp", "wrack")[number % 2]) for number in range(6)]
        expected = [(letter.number, letter.state_id) for letter in letters]
        for count, letter in enumerate(letters, 1):
            assert expected[count:] == self.backend.arrivals(letter.number)
            behind = [other for other in letters[count:] if other.state_id == "kelp"]
            assert behind == self.backend.letters("kelp", letter.number)
        assert expected[1:3] == self.backend.arrivals(letters[0].number, 2)
        assert ([], []) == (self.backend.arrivals(limit=0), self.backend.arrivals(limit=-1))
        assert ([], []) == (self.backend.arrivals(1 << 60), self.backend.letters("kelp", 1 << 60))

    @_where_letters_are_taken
    def test_a_state_that_does_not_exist_has_no_inbox(self) -> None:
        for state_id in ("nowhere", "../kelp", "'); DROP TABLE letters; --", ""):
            assert self.backend.deliver(state_id, "hello", b"x") is None
            assert [] == self.backend.letters(state_id)
        assert self.backend.find_state("nowhere") is None
        self.lease("nowhere")
        assert ([], []) == (self.backend.letters("nowhere"), self.backend.arrivals())

    @_where_letters_are_taken
    def test_what_is_no_name_is_refused(self) -> None:
        lease = self.lease()
        for name in NOT_NAMES:
            error = raised(UsageError, lambda name=name: self.backend.deliver("kelp", name, b""))
            assert "cannot be the name of a letter" in str(error)
            self.backend.discard_letters(lease, [name])
        assert [] == self.backend.letters("kelp")

    @_where_letters_are_taken
    def test_letters_are_delivered_whoever_holds_the_state_and_whatever_became_of_it(self) -> None:
        lease = self.lease("kelp", b"one")
        self.deliver("held")
        self.update(lease, status=StateStatus.COMPLETED, releases=True)
        self.deliver("completed")
        newest = granted(self.acquire(holder=THEIRS, reopen=True))
        self.deliver("taken over")
        self.clock.turn(60.0)
        self.deliver("run out")
        assert ["held", "completed", "taken over", "run out"] == self.names()
        self.backend.discard_letters(newest, ["held"])
        assert ["completed", "taken over", "run out"] == self.names()

    @_where_letters_are_taken
    def test_a_letter_stays_whatever_the_holder_writes(self) -> None:
        lease = self.lease("kelp", b"one")
        letter = self.deliver("question", b"yes")
        assert [True] == self.backend.renew([lease], 600.0)
        assert self.append(lease, 2, b"two") is None
        assert self.update(lease, status=StateStatus.PAUSED, metadata=StateMetadata(tags=["x"]), timeline=1) is None
        assert self.append(lease, 1, update=StateUpdate(at=self.clock.now, header=new_header("kelp"))) is None
        self.taken_over(lease)
        assert [letter] == self.backend.letters("kelp")

    @_where_letters_are_taken
    def test_a_letter_changes_nothing_else_of_the_state(self) -> None:
        metadata = StateMetadata(tags=["x"], custom_data={"n": 1})
        lease = self.lease("kelp", b"one", header=new_header("kelp", metadata=metadata))
        before = self.header()
        self.clock.turn(10.0)
        self.deliver("question", b"yes")
        assert (before, [b"one"]) == (self.header(), self.bodies())
        assert [before] == self.opened_again().list_states(tags=["x"])
        assert 50.0 == self.acquire(holder=THEIRS).held_for_s
        assert self.append(lease, 2, b"two") is None
        self.backend.discard_letters(lease, ["question"])
        flaws = [*self.backend.examine("kelp"), *self.backend.examine_store()]
        assert [] == [flaw for flaw in flaws if not flaw.is_harmless]

    @_where_letters_are_taken
    def test_letters_are_discarded_by_their_names_and_the_others_stay(self) -> None:
        lease = self.lease()
        letters = [self.deliver(f"{number}") for number in range(5)]
        self.backend.discard_letters(lease, ["1", "nothing", "3", "3"])
        self.backend.discard_letters(lease, [])
        left = [letters[0], letters[2], letters[4]]
        assert left == self.opened_again().letters("kelp")
        assert [(letter.number, "kelp") for letter in left] == self.backend.arrivals()

    @_where_letters_are_taken
    def test_a_number_is_not_used_again_when_its_letter_is_gone(self) -> None:
        lease = self.lease()
        first = self.deliver("question", b"yes")
        self.backend.discard_letters(lease, ["question"])
        second = self.deliver("question", b"no")
        assert second.number > first.number
        assert b"no" == second.body
        self.backend.delete_state("kelp", lease)
        self.lease("wrack")
        assert self.deliver("question", b"", "wrack", by=self.opened_again()).number > second.number

    @_where_letters_are_taken
    def test_only_the_newest_lease_discards_letters(self) -> None:
        lost = self.lease()
        letter = self.deliver("question")
        newest = self.taken_over(lost)
        for lease in (lost, Lease("kelp", lost.key + 1, newest.fence), Lease("nowhere", 12345, 1)):
            assert lease.state_id in str(raised(LeaseLost, lambda lease=lease: self._discard(lease, "question")))
        assert [letter] == self.backend.letters("kelp")
        self.update(newest, releases=True)
        self._discard(newest, "question")
        assert [] == self.backend.letters("kelp")

    @_where_letters_are_taken
    def test_letters_of_other_states_are_not_discarded(self) -> None:
        kelp, _ = self.lease("kelp"), self.lease("wrack")
        self.deliver("question")
        letter = self.deliver("question", b"no", "wrack")
        self._discard(kelp, "question")
        assert ([], [letter]) == (self.backend.letters("kelp"), self.backend.letters("wrack"))

    @_where_letters_are_taken
    def test_letters_go_with_their_state_and_a_later_one_of_its_id_has_none(self) -> None:
        lease = self.lease("kelp", b"one")
        self.fork("fork", "kelp", 1)
        self.deliver("question", b"yes")
        self.backend.delete_state("kelp", lease)
        assert ([], []) == (self.backend.letters("kelp"), self.backend.arrivals())
        assert self.backend.deliver("kelp", "late", b"") is None
        self.lease("kelp")
        assert ([], []) == (self.backend.letters("kelp"), self.opened_again().arrivals())
        assert b"no" == self.deliver("question", b"no").body
        raised(LeaseLost, lambda: self._discard(lease, "question"))

    @_where_letters_are_taken
    def test_letters_go_with_states_that_are_deleted_together(self) -> None:
        leases = [self.lease("kelp"), self.lease("wrack")]
        for name in ("kelp", "wrack"):
            self.deliver("question", b"yes", name)
        assert [True, True] == self.backend.delete_states(leases)
        self.lease("kelp")
        assert ([], []) == (self.backend.letters("kelp"), self.opened_again().arrivals())

    @_where_letters_are_taken
    def test_letters_take_room(self) -> None:
        self.lease("kelp")
        (before,) = self.backend.measure(["kelp"])
        self.deliver("question", b"x" * 1000)
        (after,) = self.backend.measure(["kelp"])
        assert before is not None
        assert after is not None
        assert after.bytes >= before.bytes + 1000

    @_where_letters_are_taken
    def test_a_fork_begins_with_an_empty_inbox(self) -> None:
        self.lease("kelp", b"one")
        letter = self.deliver("question", b"yes")
        lease = self.fork("fork", "kelp", 1)
        assert [] == self.backend.letters("fork")
        self.deliver("question", b"no", "fork")
        self._discard(lease, "question")
        assert ([letter], []) == (self.backend.letters("kelp"), self.backend.letters("fork"))

    @_where_letters_are_taken
    def test_of_many_threads_that_deliver_one_name_exactly_one_wins(self) -> None:
        self.lease()
        backends = [self.backend, *(self.opened_again() for _ in range(3))]
        for name in ("a", "b", "c", "d"):
            with ThreadPoolExecutor(8) as threads:
                work = [threads.submit(self.deliver, name, b"%d" % n, by=backends[n % 4]) for n in range(8)]
                letters = {(letter.number, letter.body) for letter in (each.result() for each in work)}
            assert 1 == len(letters)
        assert ["a", "b", "c", "d"] == self.names()

    @_where_letters_are_taken
    def test_whoever_follows_the_arrivals_misses_none(self) -> None:
        again, reader = self.opened_again(), self.opened_again()
        lease = self.lease()

        def deliver_many(number: int, backend: StateBackend) -> list[Letter]:
            return [self.deliver(f"{number} {each}", by=backend) for each in range(50)]

        with ThreadPoolExecutor(2) as threads:
            work = [threads.submit(deliver_many, *each) for each in enumerate((self.backend, again))]
            seen: list[int] = []
            for seq in range(1, 101):
                assert self.append(lease, seq, b"x") is None
                seen += [number for number, _ in reader.arrivals(max(seen, default=0))]
            delivered = sorted(letter.number for each in work for letter in each.result())
        seen += [number for number, _ in reader.arrivals(max(seen, default=0))]
        assert delivered == seen
        assert delivered == [letter.number for letter in reader.letters("kelp")]

    def _discard(self, lease: Lease, *names: str) -> None:
        self.backend.discard_letters(lease, names)
