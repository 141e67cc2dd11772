"""The table ``[retention]`` makes a retention, and what is wrong in it is told key by key."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet.config import Configuration, load_config
from limpet.config.model import RetentionSettings
from limpet.config.retention_table import retention_of
from limpet.errors import ConfigurationError
from limpet.model import Retention, Schedule, StateStatus


def loaded(folder: Path, text: str = "", **environment: str) -> Configuration:
    (folder / "limpet.toml").write_text(text)
    return load_config(folder=folder, environment={f"LIMPET_RETENTION__{key}": environment[key] for key in environment})


def test_every_key_is_read_from_a_file(tmp_path: Path) -> None:
    text = """
        [retention]
        max_age = "30d"
        max_per_pipeline = 50
        max_total_size = "1GB"
        keep_latest = 5
        statuses = ["completed", "failed"]
        tags = ["nightly"]
        keep_tags = ["gold", "release"]
        schedule = "weekly"
        compact_file = true
    """
    config = loaded(tmp_path, text)
    expected = Retention(
        max_age=timedelta(days=30),
        max_per_pipeline=50,
        max_total_size=10**9,
        keep_latest=5,
        statuses=["completed", "failed"],
        tags=["nightly"],
        keep_tags=["gold", "release"],
    )
    assert expected == config.retention
    assert (Schedule.WEEKLY, True) == (config.values.retention.schedule, config.values.retention.compact_file)


def test_every_key_is_read_from_the_environment(tmp_path: Path) -> None:
    config = loaded(tmp_path, MAX_AGE="12h", STATUSES="completed, failed", KEEP_TAGS="gold,release", SCHEDULE="daily")
    assert Retention(max_age=timedelta(hours=12), statuses=["completed", "failed"], keep_tags=["gold", "release"]) == (
        config.retention
    )
    assert Schedule.DAILY is config.values.retention.schedule


@pytest.mark.parametrize(("given", "seconds"), [("3600", 3600), ("90.5", 90.5), ("15min", 900)])
def test_a_plain_number_is_seconds(given: str, seconds: float, tmp_path: Path) -> None:
    number = given if given[-1].isdigit() else f"'{given}'"
    for config in (loaded(tmp_path, f"retention.max_age = {number}"), loaded(tmp_path, MAX_AGE=given)):
        assert timedelta(seconds=seconds) == config.values.retention.max_age


def test_without_a_limit_there_is_no_retention(tmp_path: Path) -> None:
    assert loaded(tmp_path).retention is None
    assert loaded(tmp_path, "[retention]\nkeep_latest = 5\nmax_age = 'none'\nschedule = 'daily'").retention is None
    assert Retention(max_per_pipeline=0) == loaded(tmp_path, "retention.max_per_pipeline = 0").retention


@pytest.mark.parametrize(
    "value",
    ["30", "30y", "", "soon"],
)
def test_text_that_is_no_time_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"max_age cannot be .* Allowed is text such as '12h' or '30d'"):
        loaded(tmp_path, f"retention.max_age = {value!r}")


@pytest.mark.parametrize("value", ["-1", "1e300", "nan", "inf", "true", "[1]"])
def test_a_number_that_is_no_time_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="max_age"):
        loaded(tmp_path, f"retention.max_age = {value}")
    if value not in ("true", "[1]"):
        with pytest.raises(ConfigurationError, match="LIMPET_RETENTION__MAX_AGE"):
            loaded(tmp_path, MAX_AGE=value)


def test_all_that_is_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = """[retention]
max_age = "30 moons"
max_per_pipeline = -1
max_total_size = "huge"
statuses = []
tags = [""]
keep_tags = "gold"
schedule = "hourly"
keep_last = 3
"""
    with pytest.raises(ConfigurationError) as raised:
        loaded(tmp_path, text)
    names = ("max_age", "max_per_pipeline", "max_total_size", "statuses", "tags", "keep_tags", "schedule", "keep_last")
    expected = [(f"limpet.toml:{line}", f"retention.{name}") for line, name in enumerate(names, 2)]
    assert expected == [(problem.where, problem.key) for problem in raised.value.problems]
    assert "Nearest: 'retention.keep_latest'" in raised.value.problems[-1].what


TABLE = RetentionSettings(
    max_age=timedelta(days=90), max_per_pipeline=100, keep_latest=3, keep_tags=("gold",), statuses=(StateStatus.FAILED,)
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"max_age": timedelta(days=90), "max_per_pipeline": 100, "keep_latest": 3, "keep_tags": ["gold"]}),
        ({"max_age": timedelta(1)}, {"max_age": timedelta(1), "keep_latest": 3, "keep_tags": ["gold"]}),
        (
            {"keep_latest": 0, "keep_tags": ["x"]},
            {"max_age": timedelta(days=90), "max_per_pipeline": 100, "keep_tags": ["x"]},
        ),
    ],
)
def test_a_limit_that_is_given_takes_the_place_of_all_and_the_rest_key_by_key(given: Any, expected: Any) -> None:
    assert Retention(statuses=["failed"], **expected) == retention_of(TABLE, given)


def test_every_rule_of_a_retention_can_be_configured() -> None:
    assert set(Retention.__struct_fields__) <= {field.name for field in fields(RetentionSettings)}
