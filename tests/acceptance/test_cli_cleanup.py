"""``limpet cleanup`` shows what goes, asks, deletes, and says what is wrong with what it was given."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from limpet import Limpet, StateMetadata, agent
from limpet.cli.main import commands


@agent
async def nothing() -> int:
    return 1


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMPET_STORE", "sqlite:///runs.db")
    with Limpet() as client:
        for number in range(30):
            metadata = StateMetadata(tags=["even" if number % 2 == 0 else "odd"], pipeline_name="p")
            client.run_sync(nothing, state_id=f"s{number:02}", metadata=metadata)


def limpet(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments)


def told(*arguments: str) -> Any:
    return json.loads(limpet(*arguments, "--json").stdout)


def left() -> list[str]:
    with Limpet() as client:
        return sorted(header.state_id for header in client.list_states())


def test_a_dry_run_lists_what_goes_with_the_reason_and_deletes_nothing() -> None:
    result = limpet("cleanup", "--max-per-pipeline", "5", "--dry-run")
    assert 0 == result.exit_code
    assert "WHY" in result.stdout.splitlines()[0]
    assert "more than 5 in 'p'" in result.stdout.splitlines()[1]
    assert "and 5 more" in result.stdout
    assert "Would delete 25 states" in result.stdout
    assert "Kept: 5 within the limits." in result.stdout
    assert 30 == len(left())


def test_json_says_the_same_of_a_dry_run_and_of_the_real_one() -> None:
    rules = ("cleanup", "--max-per-pipeline", "2", "--keep-latest", "1", "--tag", "even", "--keep-tag", "gold")
    planned = told(*rules, "--dry-run")
    done = told(*rules, "--yes", "--compact")
    assert planned["removed"] == done["removed"]
    assert (planned["freed"], planned["kept"]) == (done["freed"], done["kept"])
    assert (True, False) == (planned["is_dry_run"], done["is_dry_run"])
    assert [f"s{number:02}" for number in range(0, 26, 2)] == [each["state_id"] for each in done["removed"]]
    assert 0 == done["disk_after"]["free"]
    assert 17 == len(left())


def test_nothing_old_enough_is_deleted() -> None:
    result = limpet("cleanup", "--older-than", "1d", "--max-size", "1GB", "--yes")
    assert (0, 30) == (result.exit_code, len(left()))
    assert "Deleted 0 states" in result.stdout


def test_the_oldest_go_until_a_size_is_kept() -> None:
    total = told("cleanup", "--max-per-pipeline", "0", "--dry-run")["freed"]
    done = told("cleanup", "--max-size", f"{total // 2}B", "--yes")
    assert total // 2 <= done["freed"] < total * 0.6
    assert "s29" in left()


def test_the_question_is_answered_before_anything_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limpet.cli.cleanup._can_be_asked", lambda: True)
    result = CliRunner().invoke(commands, ["cleanup", "--max-per-pipeline", "5"], input="n\n")
    assert (130, 30) == (result.exit_code, len(left()))
    assert "Delete 25 states" in result.output
    result = CliRunner().invoke(commands, ["cleanup", "--max-per-pipeline", "5"], input="y\n")
    assert (0, 5) == (result.exit_code, len(left()))
    assert "Deleted 25 states" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--keep-latest", "5", "--yes"], "No limit is given or configured, so nothing can go. Give --older-than"),
        (["--max-per-pipeline", "5"], "Nobody can be asked whether states are to be deleted. Say so with --yes"),
        (["--older-than", "30", "--yes"], "'30' is no time. Write it as 90s"),
        (["--older-than", "30y", "--yes"], "'30y' is no time."),
        (["--older-than", "99999999999w", "--yes"], "longer than time is counted"),
        (["--max-size", "much", "--yes"], "'much' is no size. Write it as 500kB"),
        (["--max-per-pipeline", "-1", "--yes"], "--max-per-pipeline"),
        (["--max-per-pipeline", "1", "--status", "done", "--yes"], "'done' is not one of 'running'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(arguments: list[str], said: str) -> None:
    result = limpet("cleanup", *arguments)
    assert (2, 30) == (result.exit_code, len(left()))
    assert said in result.stderr
    assert 1 == len(result.stderr.splitlines())


def test_without_a_limit_the_configured_ones_count() -> None:
    Path("limpet.toml").write_text("[retention]\nmax_per_pipeline = 10\nkeep_tags = ['odd']\n")
    result = limpet("cleanup", "--yes")
    assert (0, 25) == (result.exit_code, len(left()))
    result = limpet("cleanup", "--keep-tag", "nothing", "--yes")
    assert (0, 10) == (result.exit_code, len(left()))


def test_a_limit_that_is_given_takes_the_place_of_those_that_are_configured() -> None:
    Path("limpet.toml").write_text("[retention]\nmax_per_pipeline = 1\nkeep_tags = ['odd']\n")
    assert 0 == limpet("cleanup", "--older-than", "1d", "--yes").exit_code
    assert 30 == len(left())
    # What keeps states still does.
    done = told("cleanup", "--max-size", "0B", "--yes")
    assert {"tagged 'odd'": 15} == done["kept"]
    assert [f"s{number:02}" for number in range(1, 30, 2)] == left()


def test_the_configured_retention_is_shown_with_its_units() -> None:
    Path("limpet.toml").write_text("[retention]\nmax_age = '720h'\nstatuses = ['failed']\n")
    lines = [line.split() for line in limpet("config").stdout.splitlines()]
    assert ["retention.max_age", "30d", "limpet.toml:2"] in lines
    assert ["retention.statuses", "failed", "limpet.toml:3"] in lines
    assert "30d" == told("config")["settings"]["retention.max_age"]["value"]


def test_records_that_go_are_listed_dropped_and_told() -> None:
    with Limpet() as client:
        for number in range(25):
            asyncio.run(client.rerun(f"s{number:02}", "nothing"))
    rules = ("cleanup", "--compact-after", "0s", "--prune-after", "0s")
    shown = limpet(*rules, "--dry-run")
    assert "LOSES RECORDS" in shown.stdout.splitlines()[0]
    assert "completed, and not changed for more than 0 seconds" in shown.stdout.splitlines()[1]
    assert "and 5 more" in shown.stdout
    assert "Would delete 0 states, 0 B; 0 artifacts, 0 B." in shown.stdout
    assert "With all their records: 5 nothing to drop." in shown.stdout
    planned, done = told(*rules, "--dry-run"), told(*rules, "--yes")
    assert planned["compacted"] == done["compacted"]
    assert ({"nothing to drop": 5}, 25) == (done["left_whole"], len(done["compacted"]))
    assert {"state_id", "reason", "records", "bytes"} == set(done["compacted"][0])
    assert done["freed"] == sum(each["bytes"] for each in done["compacted"])
    assert "With all their records: 30 nothing to drop." in limpet(*rules, "--yes").stdout


def test_it_is_asked_before_records_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limpet.cli.cleanup._can_be_asked", lambda: True)
    with Limpet() as client:
        asyncio.run(client.rerun("s00", "nothing"))
    rules = ["cleanup", "--max-per-pipeline", "29", "--prune-after", "0s"]
    asked = CliRunner().invoke(commands, ["cleanup", "--prune-after", "0s"], input="n\n")
    assert 130 == asked.exit_code
    assert "Drop 1 record of 1 state," in asked.stderr
    asked = CliRunner().invoke(commands, [*rules, "--keep-tag", "even"], input="y\n")
    assert 0 == asked.exit_code, asked.stderr
