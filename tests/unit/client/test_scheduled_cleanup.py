"""A supervisor cleans up when that is due, by the settings of now, and never beside another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from acceptance.turned_clock import Turned, turned_clock

from limpet.backends.contract import StateBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.client.scheduled_cleanup import ScheduledCleanup
from limpet.config import Configuration, load_config
from limpet.engine.cleanup_notes import NAME, CleanupNotes, begun, ended
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.progress import Told
from limpet.errors import BackendUnavailable
from limpet.model import Cleanup, Holder, Removed, Retention, Schedule

HOUR = 3600.0
DAY = 24 * HOUR
ELSEWHERE = Holder("another machine", "b", "s", 7, "1", "t")
REPORT = Cleanup(removed=[Removed("a", "old", 70)], kept={}, duration_s=0.1, is_dry_run=False)


@pytest.fixture(autouse=True)
def clock() -> Iterator[Turned]:
    with turned_clock() as turned:
        yield turned


class Store:
    """A store, its settings, and the cleanups that were made of it."""

    def __init__(self, folder: Path) -> None:
        self.backend: StateBackend = MemoryStateBackend()
        self.file = folder / "limpet.toml"
        self.made: list[tuple[Retention, bool]] = []
        self.fails_with: Exception | None = None

    def configure(self, **retention: Any) -> None:
        lines = [
            f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
            for key, value in retention.items()
        ]
        self.file.write_text("\n".join(["[retention]", *lines]))

    def config(self) -> Configuration:
        return load_config(folder=self.file.parent, environment={})

    def supervisor(self, config: Configuration | None = None) -> ScheduledCleanup:
        return ScheduledCleanup(self.backend, config or self.config(), self.clean)

    def clean(self, retention: Retention, compacts: bool, told: Told) -> Cleanup:
        self.made.append((retention, compacts))
        told(1, 1, "a")
        if self.fails_with is not None:
            raise self.fails_with
        return REPORT


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path)
    made.configure(max_age="30d", schedule="daily")
    return made


def test_the_first_is_due_at_once_and_the_next_after_a_day(store: Store, clock: Turned) -> None:
    supervisor = store.supervisor()
    run = supervisor.look()
    assert run is not None
    assert (Schedule.DAILY, 1, 70, None) == (run.schedule, run.removed, run.freed, run.error)
    assert run == CleanupNotes(store.backend).newest()
    for _ in range(23):
        clock.turn(HOUR)
        assert supervisor.look() is None
    clock.turn(HOUR)
    assert supervisor.look() is not None
    assert [(store.config().retention, False)] * 2 == store.made


def test_the_last_one_is_remembered_by_the_store(store: Store, clock: Turned) -> None:
    store.supervisor().look()
    clock.turn(DAY - HOUR)
    assert store.supervisor().look() is None
    clock.turn(HOUR)
    assert store.supervisor().look() is not None


@pytest.mark.parametrize(("schedule", "days"), [("daily", 1), ("weekly", 7), ("monthly", 31)])
def test_every_schedule_comes_round(schedule: str, days: int, store: Store, clock: Turned) -> None:
    store.configure(max_per_pipeline=5, schedule=schedule, compact_file=True)
    supervisor = store.supervisor()
    assert supervisor.look() is not None
    assert supervisor.look() is None
    clock.turn(days * DAY)
    assert supervisor.look() is not None
    assert [(Retention(max_per_pipeline=5), True)] * 2 == store.made


def test_by_hand_nothing_happens_and_nothing_is_read(store: Store, clock: Turned) -> None:
    store.configure(max_age="30d")
    store.backend.close()
    supervisor = store.supervisor()
    assert supervisor.look() is None
    clock.turn(400 * DAY)
    assert supervisor.look() is None


def test_on_start_it_is_made_once_by_each_supervisor(store: Store, clock: Turned) -> None:
    store.configure(max_age="30d", schedule="on_start")
    supervisor = store.supervisor()
    assert supervisor.look() is not None
    clock.turn(400 * DAY)
    assert supervisor.look() is None
    assert store.supervisor().look() is not None


def test_supervisors_that_start_together_make_the_one_on_start_once(store: Store) -> None:
    store.configure(max_age="30d", schedule="on_start")
    supervisors = [store.supervisor() for _ in range(3)]
    assert [1, 0, 0] == [0 if supervisor.look() is None else 1 for supervisor in supervisors]


def test_a_schedule_that_becomes_on_start_later_starts_nothing(store: Store) -> None:
    store.configure(max_age="30d")
    config = store.config()
    supervisor = store.supervisor(config)
    assert supervisor.look() is None
    store.configure(max_age="30d", schedule="on_start")
    config.reload()
    assert supervisor.look() is None


def test_changed_settings_count_at_once(store: Store, clock: Turned) -> None:
    store.configure(max_age="30d")
    config = store.config()
    supervisor = store.supervisor(config)
    assert supervisor.look() is None
    store.configure(max_per_pipeline=2, schedule="weekly")
    config.reload()
    assert supervisor.look() is not None
    clock.turn(2 * DAY)
    assert supervisor.look() is None
    store.configure(max_per_pipeline=1, schedule="daily")
    config.reload()
    assert supervisor.look() is not None
    assert [2, 1] == [retention.max_per_pipeline for retention, _ in store.made]


def test_a_schedule_without_a_limit_is_warned_of_once(
    store: Store, clock: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    store.configure(keep_latest=5, schedule="daily")
    supervisor = store.supervisor()
    for _ in range(3):
        assert supervisor.look() is None
        clock.turn(DAY)
    assert 1 == caplog.text.count("Cleanups are scheduled (daily), but [retention] sets no limit.")


def test_one_that_fails_is_noted_and_made_again_after_an_hour(
    store: Store, clock: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = store.supervisor()
    store.fails_with = OSError("the tide is out")
    run = supervisor.look()
    assert run is not None
    assert "OSError: the tide is out" == run.error
    assert (run, "The scheduled cleanup failed") == (CleanupNotes(store.backend).newest(), caplog.messages[0][:28])
    clock.turn(HOUR - 60)
    assert supervisor.look() is None
    store.fails_with = None
    clock.turn(60)
    again = supervisor.look()
    assert again is not None
    assert again.error is None


def test_a_clock_that_is_put_right_holds_nothing_up(store: Store, clock: Turned) -> None:
    clock.turn(400 * DAY)
    supervisor = store.supervisor()
    assert supervisor.look() is not None
    elapsed = clock.elapsed()
    clock.turn(-400 * DAY)
    msgspec.structs.force_setattr(SYSTEM_CLOCK, "elapsed", lambda: elapsed + 60)
    assert supervisor.look() is not None


def test_another_supervisor_is_waited_for(store: Store, clock: Turned) -> None:
    notes = CleanupNotes(store.backend)
    theirs = begun(ELSEWHERE)
    assert notes.claim(notes.read(), theirs, ELSEWHERE)
    supervisor = store.supervisor()
    assert supervisor.look() is None
    clock.turn(60)
    notes.finish(ended(theirs, REPORT), ELSEWHERE, is_configured=True)
    assert supervisor.look() is None
    assert [] == store.made


def test_what_another_left_in_the_middle_is_made_again(store: Store, clock: Turned) -> None:
    notes = CleanupNotes(store.backend)
    assert notes.claim(notes.read(), begun(ELSEWHERE), ELSEWHERE)
    supervisor = store.supervisor()
    clock.turn(HOUR - 60)
    assert supervisor.look() is None
    clock.turn(120)
    assert supervisor.look() is not None
    assert notes.read().noted.claim is None


def test_who_is_slower_by_a_moment_makes_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    faster, slower = store.supervisor(), store.supervisor()
    read = CleanupNotes.read

    def read_and_wait(notes: CleanupNotes) -> Any:
        standing = read(notes)
        monkeypatch.setattr(CleanupNotes, "read", read)
        assert faster.look() is not None
        return standing

    monkeypatch.setattr(CleanupNotes, "read", read_and_wait)
    assert slower.look() is None
    assert 1 == len(store.made)


def test_what_a_supervisor_ends_in_the_middle_of_is_made_by_the_next(store: Store) -> None:
    supervisor = store.supervisor()
    clean = store.clean

    def end_in_the_middle(retention: Retention, compacts: bool, told: Told) -> Cleanup:
        supervisor.end()
        return clean(retention, compacts, told)

    supervisor._clean = end_in_the_middle
    run = supervisor.look()
    assert run is not None
    assert "SupervisorEnded: it was stopped in the middle, and is made again" == run.error
    assert supervisor.look() is None
    again = store.supervisor().look()
    assert again is not None
    assert again.error is None


class _WithoutNotes(MemoryStateBackend):
    note = StateBackend.note
    swap_note = StateBackend.swap_note


def test_a_store_without_notes_is_not_cleaned_up_by_a_schedule(
    store: Store, clock: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    store.backend = _WithoutNotes()
    supervisor = store.supervisor()
    assert [None, None] == [supervisor.look(), supervisor.look()]
    clock.turn(HOUR)
    assert supervisor.look() is None
    assert ([], 1) == (store.made, caplog.text.count("The store memory:// keeps no notes."))


def test_a_store_that_does_not_answer_is_asked_again(
    store: Store, clock: Turned, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = store.supervisor()

    def gone(name: str) -> str:
        raise BackendUnavailable("memory://", "the tide is out")

    with monkeypatch.context() as patched:
        patched.setattr(store.backend, "note", gone)
        with pytest.raises(BackendUnavailable):
            supervisor.look()
    clock.turn(60)
    assert supervisor.look() is not None
    assert store.backend.note(NAME) is not None
