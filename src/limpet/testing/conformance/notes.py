"""What the contract says of notes, which belong to a store as a whole."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps

from limpet.backends.contract import StateBackend
from limpet.errors import UsageError
from limpet.testing.conformance.case import BackendCase, raised
from limpet.testing.conformance.letters import NOT_NAMES

_THREADS = 8


def _where_notes_are_kept(test: Callable[[NoteConformance], None]) -> Callable[[NoteConformance], None]:
    """The verbs need not be there: a backend without them is asked for no more than the contract gives it."""

    @wraps(test)
    def run(case: NoteConformance) -> None:
        if case.keeps_notes():
            test(case)

    return run


class NoteConformance(BackendCase):
    """``note`` and ``swap_note``."""

    def keeps_notes(self) -> bool:
        try:
            self.backend.swap_note("never", "there was none", "")
        except UsageError:
            return False
        return True

    def test_a_store_begins_without_notes(self) -> None:
        assert (None, None) == (self.backend.note("cleanup"), self.opened_again().note("cleanup"))

    @_where_notes_are_kept
    def test_a_note_takes_the_place_of_the_one_that_was_read(self) -> None:
        assert self.backend.swap_note("cleanup", None, "first")
        assert "first" == self.backend.note("cleanup")
        assert self.backend.swap_note("cleanup", "first", "second")
        assert self.backend.swap_note("cleanup", "second", "second")
        assert "second" == self.backend.note("cleanup")

    @_where_notes_are_kept
    def test_a_note_that_is_another_than_was_read_stays(self) -> None:
        assert not self.backend.swap_note("cleanup", "", "x")
        assert self.backend.note("cleanup") is None
        assert self.backend.swap_note("cleanup", None, "first")
        for before in (None, "", "First", "first "):
            assert not self.backend.swap_note("cleanup", before, "x")
        assert "first" == self.backend.note("cleanup")

    @_where_notes_are_kept
    def test_notes_are_swapped_and_read_by_any_backend_on_the_store(self) -> None:
        again = self.opened_again()
        assert again.swap_note("cleanup", None, "first")
        assert "first" == self.backend.note("cleanup")
        assert self.backend.swap_note("cleanup", "first", "second")
        assert not again.swap_note("cleanup", "first", "third")
        assert ("second", "second") == (again.note("cleanup"), self.opened_again().note("cleanup"))

    @_where_notes_are_kept
    def test_a_note_comes_back_as_it_was_written(self) -> None:
        names = (
            "x",
            "x" * 200,
            "🌊" * 200,
            "a b/../c",
            "../cleanup",
            "'); DROP TABLE notes; --",
            "%",
            ".",
            "..",
            '"\\',
        )
        texts = ("", "Tang – 海藻 🌊", "two\nlines\r\n\ttabs", '{"quoted": "\\"}', "nul \x00 inside", "x" * 100_000)
        for number, name in enumerate((*names, "é", "e\u0301")):
            assert self.backend.swap_note(name, None, texts[number % len(texts)])
        again = self.opened_again()
        for number, name in enumerate((*names, "é", "e\u0301")):
            assert texts[number % len(texts)] == again.note(name)
            assert again.swap_note(name, texts[number % len(texts)], name)

    @_where_notes_are_kept
    def test_what_is_no_name_or_no_text_is_refused(self) -> None:
        for name in NOT_NAMES:
            assert "cannot be the name of a note" in str(raised(UsageError, lambda name=name: self.backend.note(name)))
            raised(UsageError, lambda name=name: self.backend.swap_note(name, None, ""))
        for text in (b"bytes", None, 7, "half \ud83c"):
            raised(UsageError, lambda text=text: self.backend.swap_note("cleanup", None, text))  # type: ignore[arg-type]  # on purpose
        assert not self.backend.swap_note("cleanup", "half \ud83c", "x")
        assert self.backend.note("cleanup") is None

    @_where_notes_are_kept
    def test_notes_have_nothing_to_do_with_states(self) -> None:
        self.backend.swap_note("kelp", None, "a note")
        assert (None, [], []) == (self.backend.find_state("kelp"), self.backend.list_states(), self.backend.arrivals())
        lease = self.lease("kelp", b"one")
        before = self.backend.find_state("kelp")
        self.backend.swap_note("kelp", "a note", "another note")
        assert before == self.backend.find_state("kelp")
        self.backend.delete_state("kelp", lease)
        assert "another note" == self.backend.note("kelp")

    @_where_notes_are_kept
    def test_of_many_threads_that_swap_one_note_exactly_one_succeeds(self) -> None:
        backends: list[StateBackend] = [self.backend, self.opened_again()]

        def swap(turn: int, number: int) -> bool:
            return backends[number % 2].swap_note("turn", str(turn) if turn else None, str(turn + 1))

        with ThreadPoolExecutor(_THREADS) as pool:
            for turn in range(5):
                swapped = [pool.submit(swap, turn, number) for number in range(_THREADS)]
                assert 1 == sum(each.result() for each in swapped)
        assert "5" == self.backend.note("turn")
