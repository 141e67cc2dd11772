"""Every word that is shown for how a state stands can be given back, to choose the states that stand so."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from limpet.cli import standing
from limpet.cli.choosing import STATUS_WORDS
from limpet.cli.main import commands
from limpet.model import StateStatus

PROGRAM = """
import os
from limpet import InterruptSignal, Limpet, MemoryStateBackend, SQLiteStateBackend, StateMetadata, StateStatus
from limpet import ExecutionState, agent, ask, tool

def give_back(what):
    pass

@tool(undo=give_back)
async def reserve(what):
    return what

@agent
async def good():
    return await reserve("kelp")

@agent
async def failing():
    await reserve("kelp")
    raise LookupError("nothing there")

@agent
async def asking():
    return await ask("Publish?")

@agent
async def dying():
    await reserve("kelp")
    os._exit(0)

if __name__ == "__main__":
    with Limpet("sqlite:///runs.db") as client:
        client.run_sync(good, state_id="completed")
        client.run_sync(good, state_id="damaged")
        for run, state_id in ((failing, "failed"), (failing, "rolled-back"), (asking, "awaiting")):
            try:
                client.run_sync(run, state_id=state_id)
            except Exception:
                pass
        try:
            client.run_sync(good, state_id="interrupted", interrupt_checker=lambda: InterruptSignal())
        except Exception:
            pass
        state = ExecutionState(state_backend=client.backend, state_id="paused")
        state.save_checkpoint(StateStatus.PAUSED)
        client.run_sync(dying, state_id="stopped")
"""
STATES = ("completed", "damaged", "failed", "rolled-back", "awaiting", "interrupted", "paused", "stopped")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a state that stands in each way."""
    folder = tmp_path_factory.mktemp("standing")
    (folder / "standing_program.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "standing_program.py"], cwd=folder, check=True, timeout=60)
    line = [
        sys.executable,
        "-m",
        "limpet.cli.main",
        "roll-back",
        "rolled-back",
        "--yes",
        "--store",
        "sqlite:///runs.db",
    ]
    subprocess.run(line, cwd=folder, check=True, timeout=60, capture_output=True)
    damaged_header(folder / "runs.db")
    return folder


def damaged_header(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("update states set metadata = '{' where state_id = 'damaged'")
    connection.close()


def listed(folder: Path, *options: str) -> list[str]:
    line = ["list", "--json", "--store", f"sqlite:///{folder / 'runs.db'}", *options]
    result = CliRunner().invoke(commands, line)
    assert 0 == result.exit_code, result.output
    return [state["state_id"] for state in json.loads(result.stdout)["states"]]


def words_shown(folder: Path) -> dict[str, set[str]]:
    """The words that `list` and `show` have for each state."""
    store = f"sqlite:///{folder / 'runs.db'}"
    table = CliRunner().invoke(commands, ["list", "--store", store]).output.splitlines()[1:]
    shown = {line.split()[0]: {re.split(r"\s\s+", line)[1]} for line in table}
    for state_id in STATES:
        first, *_ = CliRunner().invoke(commands, ["show", state_id, "--store", store]).output.splitlines()
        if first.startswith(f"{state_id}  "):
            shown[state_id].add(re.split("[;:]| by ", first.removeprefix(f"{state_id}  "))[0])
    return shown


def test_every_word_that_is_shown_is_accepted_and_finds_the_state(folder: Path) -> None:
    shown = words_shown(folder)
    assert set(STATES) == set(shown)
    for state_id, words in shown.items():
        for word in words:
            assert state_id in listed(folder, "--status", word), (state_id, word)


def test_each_word_finds_the_states_that_stand_so(folder: Path) -> None:
    found = {word: set(listed(folder, "--status", word)) for word in STATUS_WORDS}
    assert {"stopped"} == found["stopped"]
    assert {"damaged"} == found["damaged"]
    assert {"rolled-back"} == found["rolled back"]
    assert {"failed", "rolled-back"} == found["failed"]
    assert {"stopped"} == found["running"]
    assert ["paused"] == listed(folder, "--status", "PAUSED", "--limit", "1")
    assert ["stopped"] == listed(folder, "--status", "stopped", "--limit", "1")


def test_the_words_are_all_that_there_are() -> None:
    of_standing = {value for name, value in vars(standing).items() if name.isupper() and isinstance(value, str)}
    assert {*map(str, StateStatus), *of_standing} == set(STATUS_WORDS)


@pytest.mark.parametrize("word", ["Stopped", "ROLLED BACK", "rolled-back", "rolled_back", " damaged "])
def test_a_word_is_taken_in_whatever_case_and_spelling(folder: Path, word: str) -> None:
    assert listed(folder, "--status", word.lower().strip().replace("-", " ").replace("_", " ")) == listed(
        folder, "--status", word
    )


def test_another_word_is_refused_with_all_that_there_are(folder: Path) -> None:
    result = CliRunner().invoke(commands, ["list", "--status", "dead", "--store", f"sqlite:///{folder / 'runs.db'}"])
    assert 2 == result.exit_code
    assert [] == [word for word in STATUS_WORDS if f"'{word}'" not in result.output]


def test_every_command_with_a_status_takes_what_can_be_asked_of_it() -> None:
    options = {
        name: option.type
        for name, command in commands.commands.items()
        for option in command.params
        if "--status" in option.opts
    }
    assert {"list", "validate", "rehearse", "cleanup"} == set(options)
    for name, kind in options.items():
        assert isinstance(kind, click.Choice)
        left_out = {"damaged", "rolled back"} if name == "cleanup" else set[str]()
        assert set(STATUS_WORDS) - left_out == set(kind.choices)


def test_a_cleanup_takes_stopped_states_for_what_is_stored_of_them(folder: Path) -> None:
    store = f"sqlite:///{folder / 'runs.db'}"
    line = ["cleanup", "--older-than", "0s", "--status", "Stopped", "--dry-run", "--json", "--store", store]
    report = json.loads(CliRunner().invoke(commands, line).stdout)
    assert ["stopped"] == [each["state_id"] for each in report["removed"]]
