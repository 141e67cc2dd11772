"""The demonstration kills a real process, and its bill is that of an undisturbed run."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from limpet import Limpet, StateStatus
from limpet.cli.main import commands
from limpet.demo import driver
from limpet.demo.pipeline import research

DEMO = [sys.executable, "-m", "limpet.cli.main", "demo"]


def run_demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", "TMPDIR": str(folder), "PYTHONPATH": ":".join(filter(None, sys.path)), "COLUMNS": "120"}
    return subprocess.run([*DEMO, *options], capture_output=True, text=True, timeout=60, env=environment)


def test_the_demo_is_killed_goes_on_and_pays_once(tmp_path: Path) -> None:
    shown = run_demo(tmp_path)
    assert 0 == shown.returncode, shown.stdout + shown.stderr
    assert "" == shown.stderr
    assert re.search(r"Process \d+ was killed with SIGKILL after 4 model calls\.", shown.stdout)
    before, after = shown.stdout.split("was killed with SIGKILL")
    executed_before = set(re.findall(r"✓ (\S+)", before))
    recorded = set(re.findall(r"↺ (\S+) recorded$", after, re.M))
    executed_after = set(re.findall(r"✓ (\S+)", after))
    # The kill may come before the last line is printed, never before its result is recorded.
    assert executed_before <= recorded
    assert 8 == len(recorded)
    assert set() == recorded & executed_after
    assert "research::agent_call" in executed_after
    assert re.search(r"model calls on the bill +8 +8\n", shown.stdout)
    assert re.search(r"result +the same\n", shown.stdout)
    assert [] == list(tmp_path.iterdir())


def test_the_demo_can_be_looked_into_afterwards(tmp_path: Path) -> None:
    shown = run_demo(tmp_path, "--keep")
    (store,) = re.findall(r"limpet show kelp-42 --store (\S+)", shown.stdout)
    with Limpet(store) as client:
        killed, undisturbed = client.show(driver.STATE_ID), client.show(driver.UNDISTURBED_ID)
    assert (StateStatus.COMPLETED, StateStatus.COMPLETED) == (killed.header.status, undisturbed.header.status)
    assert killed.history.addresses() != []
    assert set(killed.history.addresses()) == set(undisturbed.history.addresses())
    bills = [(tmp_path.glob(f"*/{state_id}/bill.txt")) for state_id in (driver.STATE_ID, driver.UNDISTURBED_ID)]
    killed_bill, undisturbed_bill = ([path.read_text() for path in paths] for paths in bills)
    assert 8 == killed_bill[0].count("\n")
    assert killed_bill == undisturbed_bill


def test_the_demo_fails_if_the_model_is_asked_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    honest = driver.Place.bill

    def dishonest(place: driver.Place, state_id: str) -> list[str]:
        return [*honest(place, state_id), *(["again"] if state_id == driver.STATE_ID else [])]

    monkeypatch.setattr(driver.Place, "bill", dishonest)
    assert not driver.run_demo()
    assert [] == list(tmp_path.iterdir())


def test_a_demo_that_is_not_right_ends_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limpet.cli.demo.run_demo", lambda *, is_kept: is_kept)
    assert 1 == CliRunner().invoke(commands, ["demo"]).exit_code
    assert 0 == CliRunner().invoke(commands, ["demo", "--keep"]).exit_code


def test_the_pipeline_runs_by_itself_too() -> None:
    with Limpet("memory://") as client:
        report = client.run_sync(research, "kelp")
    assert ("kelp", 3) == (report.topic, len(report.notes))
    assert all(note.is_supported for note in report.notes)
