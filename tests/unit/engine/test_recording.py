"""A record that is refused leaves nothing behind: not in the history, not in the chain, not in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from limpet import Limpet, MemoryStateBackend, StateCorrupted, UsageError, ValueNotStorable
from limpet.artifacts.stored_values import StoredValues
from limpet.codec import frames
from limpet.engine.bus import EventBus
from limpet.engine.live import LiveState
from limpet.engine.opening import take_lease
from limpet.engine.scope import Scope, Start
from limpet.engine.writer import writer_of
from limpet.journal.history import History
from limpet.model import EventRecord, ExecutionStatus, ReadRecord, StateHeader, StateStatus
from limpet.model.header import utc


@pytest.fixture
def backend() -> MemoryStateBackend:
    return MemoryStateBackend()


@pytest.fixture
def live(backend: MemoryStateBackend) -> LiveState:
    now = utc(0.0)
    live = LiveState(
        writer=writer_of(backend),
        stored=StoredValues(None, store_id=backend.store_id),
        header=StateHeader(state_id="s", status=StateStatus.RUNNING, created_at=now, updated_at=now),
        history=History("s"),
        link=frames.first_link("s"),
        bus=EventBus(),
        is_stored=False,
    )
    take_lease(live)
    return live


def start(live: LiveState, path: str) -> Start:
    return Start(f"{path}::tool_call", 1.0, live.next_order(), None, b"", b"\xc0")


def complete(live: LiveState, scope: Scope, of: Start, result: Any = b"\xc0") -> None:
    assert live.write_outcome(scope, of, ExecutionStatus.COMPLETED, 2.0, 1.0, result) is None


def entered(live: LiveState, scope: Scope, path: str) -> Scope:
    inside = scope.inside(path)
    inside.pending_start = start(live, path)
    return inside


def is_sound(backend: MemoryStateBackend, records: int) -> None:
    report = Limpet(backend).verify("s")
    assert report.is_sound
    header = backend.find_state("s")
    assert header is not None
    assert records == header.position


def test_a_record_that_cannot_follow_leaves_the_chain_as_it_was(backend: MemoryStateBackend, live: LiveState) -> None:
    fetched = start(live, "fetch")
    complete(live, live.top, fetched)
    with pytest.raises(StateCorrupted, match="was completed and cannot become completed"):
        complete(live, live.top, fetched)
    complete(live, live.top, start(live, "store"))
    is_sound(backend, 2)


@pytest.mark.parametrize("break_", ["outcome", "start"])
def test_the_starts_of_what_encloses_a_refused_record_are_still_to_be_written(
    backend: MemoryStateBackend, live: LiveState, monkeypatch: pytest.MonkeyPatch, break_: str
) -> None:
    outer = entered(live, live.top, "outer")
    inner = entered(live, outer, "outer::inner")
    to_frame, framed = frames.to_frame, list[str]()

    def failing(record: Any, *more: Any) -> Any:
        framed.append(record.address)
        if record.address.startswith("outer::inner::fetch" if break_ == "outcome" else "outer::inner"):
            raise ValueNotStorable(record.address, "it is too large", "a test")
        return to_frame(record, *more)

    fetched = start(live, "outer::inner::fetch")
    monkeypatch.setattr(frames, "to_frame", failing)
    with pytest.raises(ValueNotStorable):
        complete(live, inner, fetched)
    monkeypatch.undo()
    assert ["outer::tool_call"] == framed[:1]
    assert (0, True, True) == (live.history.position, bool(outer.pending_start), bool(inner.pending_start))
    complete(live, inner, fetched)
    assert (None, None) == (outer.pending_start, inner.pending_start)
    is_sound(backend, 3)


def test_starts_are_not_taken_up_where_what_comes_after_them_cannot_follow(
    backend: MemoryStateBackend, live: LiveState
) -> None:
    fetched = start(live, "outer::fetch")
    complete(live, live.top, fetched)
    outer = entered(live, live.top, "outer")
    with pytest.raises(StateCorrupted):
        complete(live, outer, fetched)
    assert (1, True) == (live.history.position, bool(outer.pending_start))
    complete(live, outer, start(live, "outer::fetch#2"))
    is_sound(backend, 3)


def test_reads_are_still_to_be_written_where_what_comes_after_them_is_refused(
    backend: MemoryStateBackend, live: LiveState
) -> None:
    fetched = start(live, "outer::fetch")
    complete(live, live.top, fetched)
    outer = entered(live, live.top, "outer")
    live.note_read(outer, ("outer", False, "key", 1), 0)
    with pytest.raises(StateCorrupted):
        complete(live, outer, fetched)
    assert (1, True) == (live.history.position, bool(outer.pending_start))
    complete(live, outer, start(live, "outer::fetch#2"))
    assert [EventRecord, EventRecord, ReadRecord, EventRecord] == [type(each) for each in live.history.records]
    is_sound(backend, 4)


WRITES: list[Callable[[LiveState], object]] = [
    lambda live: complete(live, live.top, start(live, "fetch")),
    lambda live: live.write_start(entered(live, live.top, "outer")),
    lambda live: live.write_storage(("", False, "key", 0), None, b"\xc0", ()),
]


@pytest.mark.parametrize("write", WRITES)
def test_a_state_that_was_given_back_records_nothing(
    backend: MemoryStateBackend, live: LiveState, write: Callable[[LiveState], object]
) -> None:
    complete(live, live.top, start(live, "first"))
    live.release(StateStatus.PAUSED)
    with pytest.raises(UsageError, match="is not held here any more"):
        write(live)
    assert 1 == live.history.position
    is_sound(backend, 1)
