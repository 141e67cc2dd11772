"""The conformance suite on the backend in memory, and what is special to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.backends.memory import MemoryStateBackend
from holdfast.backends.memory.journals import Journal, Span
from holdfast.errors import UsageError
from holdfast.testing import StateBackendConformance


class TestMemoryStateBackend(StateBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> MemoryStateBackend:
        return MemoryStateBackend(clock)


def test_a_closed_backend_says_that_it_is_closed() -> None:
    backend = MemoryStateBackend()
    backend.close()
    with pytest.raises(UsageError, match="memory:// is closed"):
        backend.find_state("kelp")


def test_a_commit_in_memory_does_not_wait() -> None:
    assert ("memory://", False) == (MemoryStateBackend().name, MemoryStateBackend().commit_waits)


def test_a_journal_refers_to_what_others_wrote_and_gives_it_up_with_the_last_one() -> None:
    parent = Journal((), (b"1", b"2", b"3", b"4"))
    (written,) = parent.sources()
    forks = [Journal((Span(written, last),), (b"own",)) for last in (2, 3, 1)]
    assert [True] * 3 == [next(fork.sources()) is written for fork in forks]
    left: list[list[bytes]] = []
    for journal in (forks.pop(), parent, forks.pop(), forks.pop()):
        journal.delete()
        left.append(list(written.bodies))
    assert [[b"1", b"2", b"3", b"4"], [b"1", b"2", b"3"], [b"1", b"2"], []] == left
