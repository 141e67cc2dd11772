"""What a store remembers of its cleanups, and who may make the next one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from acceptance.turned_clock import Turned, turned_clock

from limpet.backends.contract import StateBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.engine.cleanup_notes import NAME, CleanupNotes, begun, ended, failed
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.lease import mark_ended, mark_running, new_holder
from limpet.errors import BackendUnavailable
from limpet.model import Cleanup, Holder, Removed
from limpet.model.header import utc

REPORT = Cleanup(removed=[Removed("a", "old", 70), Removed("b", "old", 30)], kept={}, duration_s=0.1, is_dry_run=False)
ELSEWHERE = Holder("another machine", "b", "s", 7, "1", "t")


@pytest.fixture
def clock() -> Iterator[Turned]:
    with turned_clock() as turned:
        yield turned


@pytest.fixture
def backend() -> MemoryStateBackend:
    return MemoryStateBackend()


@pytest.fixture
def notes(backend: StateBackend) -> CleanupNotes:
    return CleanupNotes(backend)


def is_free(notes: CleanupNotes) -> bool:
    return notes.read().noted.is_free(utc(SYSTEM_CLOCK.now()))


def test_a_store_that_was_never_cleaned_up_says_so(notes: CleanupNotes) -> None:
    assert notes.newest() is None
    assert is_free(notes)


def test_a_cleanup_is_noted_with_how_it_ended(notes: CleanupNotes, clock: Turned) -> None:
    run = begun(ELSEWHERE)
    clock.turn(5.0)
    notes.finish(ended(run, REPORT), None, is_configured=True)
    noted = notes.newest()
    assert noted is not None
    assert noted.finished_at is not None
    assert timedelta(seconds=5) <= noted.finished_at - run.began_at < timedelta(seconds=60)
    assert (2, 100, None, "process 7 on another machine") == (noted.removed, noted.freed, noted.error, noted.by)
    assert run.began_at == notes.read().noted.configured_at


def test_one_that_failed_or_had_another_retention_puts_nothing_off(notes: CleanupNotes, clock: Turned) -> None:
    notes.finish(failed(begun(ELSEWHERE), OSError("the tide\ud83c" + "!" * 5000)), None, is_configured=True)
    noted = notes.newest()
    assert noted is not None
    assert noted.error is not None
    assert (True, 1000) == (noted.error.startswith("OSError: the tide?!!!"), len(noted.error))
    notes.finish(ended(begun(ELSEWHERE), REPORT), None, is_configured=False)
    assert (notes.read().noted.last, None) == (notes.newest(), notes.read().noted.configured_at)


def test_a_claim_is_given_once_and_back_when_it_ended(notes: CleanupNotes) -> None:
    first, second = new_holder(), new_holder()
    mark_running(first)
    standing, run = notes.read(), begun(first)
    assert notes.claim(standing, run, first)
    assert not notes.claim(standing, begun(second), second)
    assert (False, run) == (is_free(notes), notes.newest())
    notes.finish(ended(run, REPORT), second, is_configured=True)
    assert not is_free(notes), "only its holder gives it back"
    notes.finish(ended(run, REPORT), first, is_configured=True)
    mark_ended(first)
    assert notes.read().noted.claim is None


def test_the_claim_of_the_dead_counts_for_nothing(notes: CleanupNotes) -> None:
    holder = new_holder()
    mark_running(holder)
    notes.claim(notes.read(), begun(holder), holder)
    assert not is_free(notes)
    mark_ended(holder)
    assert is_free(notes)


def test_a_claim_from_elsewhere_counts_for_an_hour(notes: CleanupNotes, clock: Turned) -> None:
    notes.claim(notes.read(), begun(ELSEWHERE), ELSEWHERE)
    clock.turn(3500)
    assert not is_free(notes)
    clock.turn(200)
    assert is_free(notes)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"last": 7}', '{"configured_at": "2024-05-01T12:00:00"}'])
def test_a_note_that_cannot_be_read_is_none_and_is_replaced(
    text: str, backend: MemoryStateBackend, notes: CleanupNotes, caplog: pytest.LogCaptureFixture
) -> None:
    backend.swap_note(NAME, None, text)
    assert notes.newest() is None
    assert "cannot be read" in caplog.text
    run = ended(begun(ELSEWHERE), REPORT)
    notes.finish(run, None, is_configured=True)
    assert run == notes.newest()


def test_what_a_later_version_adds_is_no_hindrance(backend: MemoryStateBackend, notes: CleanupNotes) -> None:
    run = ended(begun(ELSEWHERE), REPORT)
    later = {"last": {**msgspec.to_builtins(run), "states": 3}, "more": True}
    backend.swap_note(NAME, None, msgspec.json.encode(later).decode())
    assert run == notes.newest()


class _Crowded(MemoryStateBackend):
    """Somebody else is always faster."""

    def swap_note(self, name: str, before: str | None, after: str) -> bool:
        return False


class _Gone(MemoryStateBackend):
    def swap_note(self, name: str, before: str | None, after: str) -> bool:
        raise BackendUnavailable(self.name, "the tide is out")


@pytest.mark.parametrize("kind", [_Crowded, _Gone])
def test_what_cannot_be_noted_hurts_nobody(kind: type[MemoryStateBackend], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "limpet.cleanup"):
        CleanupNotes(kind()).note(begun(ELSEWHERE), is_configured=True)
    assert "was not noted" in caplog.text
