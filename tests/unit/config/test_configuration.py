"""A configuration that is read again: what counts then, what stays, who is told, and how often a file is looked at."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from limpet.config import Configuration, Reloaded, load_config
from limpet.config.reloading import Change
from limpet.errors import ConfigurationError, UsageError
from limpet.model import BackoffStrategy, Budget, EventType


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "limpet.toml"
    path.write_text("timeout_s = 5\n[retry]\nmax_attempts = 4\n")
    return path


def loaded(file: Path, **arguments: Any) -> Configuration:
    return load_config(folder=file.parent, environment={}, **arguments)


def turned(file: Path) -> tuple[Configuration, Clock]:
    clock = Clock()
    config = Configuration(loaded(file)._sources, clock)
    return config, clock


def rewrite(file: Path, text: str) -> None:
    """Write a file so that it differs by when it was changed, however coarse the clock of the disk is."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 1_000_000, before + 1_000_000))


def test_every_value_says_where_it_comes_from(file: Path) -> None:
    config = loaded(file, on_drift="error", retry={"jitter": False})
    keys = ("timeout_s", "retry.max_attempts", "on_drift", "retry.jitter", "capture")
    assert ["limpet.toml:1", "limpet.toml:3", "argument", "argument", "default"] == [*map(config.origin, keys)]
    assert (4, file) == (config.value("retry.max_attempts"), config.file)
    with pytest.raises(UsageError, match=r"Nearest: 'retry\.max_attempts'"):
        config.origin("retry.max_atempts")


def test_a_reload_tells_what_has_changed(file: Path) -> None:
    config = loaded(file)
    told: list[tuple[Change, ...]] = []
    end = config.subscribe(told.append)
    before = config.values
    file.write_text("timeout_s = 6\n")
    changes = (Change("timeout_s", 5.0, 6.0), Change("retry.max_attempts", 4, None))
    assert Reloaded(changed=changes) == config.reload()
    assert ([changes], 6.0, 5.0) == (told, config.values.timeout_s, before.timeout_s)
    assert Reloaded() == config.reload()
    end()
    file.write_text("timeout_s = 7\n")
    config.reload()
    assert [changes] == told


def test_a_wrong_file_leaves_the_old_values_and_is_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = loaded(file)
    file.write_text("timeout_s = 0\nlease_ttl_s = 9\n")
    with caplog.at_level(logging.WARNING, "limpet.config"):
        reloaded = config.reload()
    assert not reloaded.is_applied
    assert ["limpet.toml:1"] == [problem.where for problem in reloaded.problems]
    assert (5.0, 30.0) == (config.values.timeout_s, config.values.lease_ttl_s)
    assert "limpet.toml:1: timeout_s cannot be 0" in caplog.text


def test_what_cannot_change_stays_and_is_told(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = loaded(file)
    file.write_text('store = "memory://"\ntimeout_s = 8\n[retry]\nmax_attempts = 4\n')
    reloaded = config.reload()
    assert (Change("timeout_s", 5.0, 8.0),) == reloaded.changed
    store = f"sqlite:///{file.parent}/.limpet/runs.db"
    assert (Change("store", store, "memory://"),) == reloaded.fixed
    assert store == config.store
    assert f"store stays {store}" in caplog.text


def test_a_subscriber_that_fails_hurts_nobody(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = loaded(file)
    told: list[object] = []
    config.subscribe(lambda changes: 1 / len(changes[1:]))  # type: ignore[arg-type, return-value]
    config.subscribe(told.append)
    file.write_text("timeout_s = 6\n[retry]\nmax_attempts = 4\n")
    assert config.reload().is_applied
    assert 1 == len(told)
    assert "ZeroDivisionError" in caplog.text


def test_a_file_is_looked_at_no_more_than_every_second(file: Path) -> None:
    config, clock = turned(file)
    rewrite(file, "timeout_s = 6\n")
    clock.now = 0.9
    assert 5.0 == config.current().timeout_s
    clock.now = 1.0
    assert 6.0 == config.current().timeout_s
    rewrite(file, "timeout_s = 7\n")
    assert 6.0 == config.current().timeout_s
    clock.now = 2.0
    assert 7.0 == config.current().timeout_s


def test_a_file_that_appears_or_goes_is_noticed(file: Path) -> None:
    file.unlink()
    config, clock = turned(file)
    assert config.file is None
    rewrite(file, "timeout_s = 6\n")
    clock.now = 1.0
    assert (6.0, file) == (config.current().timeout_s, config.file)
    file.unlink()
    clock.now = 2.0
    assert (None, None) == (config.current().timeout_s, config.file)


def test_watching_tells_of_a_changed_file(file: Path) -> None:
    async def watched() -> Reloaded:
        config = loaded(file)
        told: asyncio.Future[Reloaded] = asyncio.get_running_loop().create_future()
        rewrite(file, "timeout_s = 6\n[retry]\nmax_attempts = 4\n")
        watching = asyncio.create_task(config.watch(told.set_result, every_s=0.001))
        try:
            return await asyncio.wait_for(told, 60)
        finally:
            watching.cancel()

    assert (Change("timeout_s", 5.0, 6.0),) == asyncio.run(watched()).changed


def test_a_budget_and_retries_are_made_of_their_tables(file: Path) -> None:
    file.write_text(
        "[budget]\nevents = 3\n[retry]\nmax_attempts = 4\nretry_on_exceptions = ['OSError']\n"
        "[retry.tool_call]\nbackoff_strategy = 'linear'\n"
    )
    config = loaded(file)
    assert Budget(events=3) == config.budget
    default, by_type = config.retry_configs()
    assert default is not None
    assert (4, (OSError,)) == (default.max_attempts, default.retry_on_exceptions)
    assert [EventType.TOOL_CALL] == list(by_type)
    tools = by_type[EventType.TOOL_CALL]
    assert (4, BackoffStrategy.LINEAR) == (tools.max_attempts, tools.backoff_strategy)


def test_without_tables_nothing_is_limited_or_retried_otherwise(file: Path) -> None:
    file.unlink()
    config = loaded(file)
    assert (None, (None, {})) == (config.budget, config.retry_configs())


def test_a_type_that_is_not_found_when_it_is_needed_is_told_with_its_line(file: Path) -> None:
    file.write_text("[retry]\nexclude_exceptions = ['nowhere_at_all:Torn']\n")
    config = loaded(file)
    with pytest.raises(ConfigurationError) as caught:
        config.retry_configs()
    assert ["limpet.toml:2"] == [problem.where for problem in caught.value.problems]
