"""The conformance suite on the backend in memory, and what is special to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from limpet.backends.contract import StateBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.backends.memory.journals import Journal, Span
from limpet.errors import UsageError
from limpet.testing import StateBackendConformance


class TestMemoryStateBackend(StateBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> MemoryStateBackend:
        return MemoryStateBackend(clock)


class _OnlyWhatItMust(MemoryStateBackend):
    """Leaves out what the contract has a default for."""

    delete_states = StateBackend.delete_states
    measure = StateBackend.measure


class TestDefaults(StateBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> MemoryStateBackend:
        return _OnlyWhatItMust(clock)

    def test_a_store_that_gives_room_back_by_itself_has_nothing_to_compact(self) -> None:
        assert (None, False) == (self.backend.disk_use(), self.backend.compact())


def test_a_closed_backend_says_that_it_is_closed() -> None:
    backend = MemoryStateBackend()
    backend.close()
    with pytest.raises(UsageError, match="memory:// is closed"):
        backend.find_state("kelp")


def test_a_commit_in_memory_does_not_wait() -> None:
    assert ("memory://", False) == (MemoryStateBackend().name, MemoryStateBackend().commit_waits)


def test_a_journal_refers_to_what_others_wrote_and_gives_it_up_with_the_last_one() -> None:
    parent = Journal(1, (), (b"1", b"2", b"3", b"4"))
    (written,) = parent.sources()
    forks = [Journal(last + 1, (Span(written, last),), (b"own",)) for last in (2, 3, 1)]
    assert [True] * 3 == [next(fork.sources()) is written for fork in forks]
    left: list[list[bytes]] = []
    for journal in (forks.pop(), parent, forks.pop(), forks.pop()):
        journal.delete()
        left.append(list(written.bodies))
    assert [[b"1", b"2", b"3", b"4"], [b"1", b"2", b"3"], [b"1", b"2"], []] == left
