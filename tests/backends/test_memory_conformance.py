"""The conformance suite on the backend in memory, and what is special to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.backends.memory import MemoryStateBackend
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
