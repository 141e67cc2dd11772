"""Every example runs in an empty folder, and again where it has run before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


def printed(name: str, folder: Path) -> list[str]:
    answer = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert (0, "") == (answer.returncode, answer.stderr)
    return answer.stdout.splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_twice(name: str, tmp_path: Path) -> None:
    assert [] != printed(name, tmp_path)
    assert [] != printed(name, tmp_path)


def test_research_executes_nothing_the_second_time(tmp_path: Path) -> None:
    first, second = printed("research.py", tmp_path), printed("research.py", tmp_path)
    assert 6 == sum(line.startswith(("fetching", "asking")) for line in first)
    assert [f"WHAT STANDS AT HTTPS://EXAMPLE.ORG/KELP/{number}." for number in (1, 2, 3)] == second
    assert second == first[-3:]


def test_plain_functions_go_on_after_the_failure(tmp_path: Path) -> None:
    assert [
        "measuring at bay",
        "measuring at reef",
        "failed: there is no map of the reef",
        "measuring at reef",
        "measuring at strait",
        "{'bay': 3, 'reef': 4, 'strait': 6}",
    ] == printed("plain_functions.py", tmp_path)


def test_the_explicit_form_adds_only_once(tmp_path: Path) -> None:
    assert [
        "adding one to 5",
        "adding one to 6",
        "7",
        "7 from the journal: add_one::tool_call, add_one[again]::tool_call",
    ] == printed("explicit_form.py", tmp_path)


def test_large_values_are_stored_once_and_fetched_once(tmp_path: Path) -> None:
    first, second = printed("large_values.py", tmp_path), printed("large_values.py", tmp_path)
    assert 3 == sum(line.startswith("fetching") for line in first)
    assert first[3:] == second
    assert ["2 artifacts, the page among them once", "to collect: 0"] == second[1:]
    assert b"sk-123" not in (tmp_path / "pages.db").read_bytes()


def test_saving_less_often_repeats_what_was_not_saved(tmp_path: Path) -> None:
    first, second = printed("saving_less_often.py", tmp_path), printed("saving_less_often.py", tmp_path)
    assert "killed; 67%, 8 of 12 was saved" in first
    # Pages 9 and 10 were measured after the last save, and no model call was made twice.
    assert 14 == sum(line.startswith("measuring") for line in first)
    assert 3 == first.count("asking the model")
    assert "approved: 7800 words so far" == second[0]
    assert first[-len(second) :] == second
