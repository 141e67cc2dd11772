"""Checking, recovering and migrating on the command line, on a store of readable files."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from limpet import Limpet, agent, tool
from limpet.cli.main import commands

VERSIONS = Path(__file__).parents[1] / "versions" / "stores"


@tool
async def step(name: str) -> str:
    return f"{name}!"


@agent
async def stepping(count: int) -> list[str]:
    return [await step(f"s{number}") for number in range(1, count + 1)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMPET_STORE", "file://store")
    with Limpet() as client:
        client.run_sync(stepping, 3, state_id="kelp")
        client.run_sync(stepping, 2, state_id="wrack")
    return tmp_path


def limpet(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments)


def told(*arguments: str) -> Any:
    return json.loads(limpet(*arguments, "--json").stdout)


def journal(folder: Path, state_id: str = "kelp") -> Path:
    (path,) = (folder / "store" / "states" / state_id).glob("journal-*.jsonl")
    return path


def damage(folder: Path, text: bytes) -> None:
    """Changes one letter of a result in a journal, as a person with an editor might."""
    path = journal(folder)
    data = path.read_bytes()
    assert 1 == data.count(text)
    path.write_bytes(data.replace(text, text.upper()))


def test_a_sound_state_and_a_sound_store_are_said_to_be(folder: Path) -> None:
    result = limpet("verify", "kelp")
    assert (0, "✓ kelp is sound: 5 records.\n") == (result.exit_code, result.stdout)
    result = limpet("doctor")
    assert (0, True) == (result.exit_code, "2 states checked in file://" in result.stdout)
    assert result.stdout.endswith(": all sound.\n")
    assert (True, 5) == (told("verify", "kelp")["is_sound"], told("verify", "kelp")["records"])
    assert (True, 2) == (told("doctor")["is_sound"], told("doctor")["states"])


def test_a_damaged_state_is_named_with_the_way_out(folder: Path) -> None:
    damage(folder, b'"result":"s2!"')
    result = limpet("verify", "kelp")
    assert 1 == result.exit_code
    assert "✗ kelp is damaged." in result.stdout
    assert "record 3: Line 4 of journal-000000001.jsonl" in result.stdout
    assert "2 of 5 records stand before the damage: `limpet recover kelp` goes on from there." in result.stdout
    found = told("verify", "kelp")
    assert ([3], 2, True) == ([each["seq"] for each in found["damaged"]], found["usable"], found["needs_recovery"])
    result = limpet("doctor")
    assert (1, True) == (result.exit_code, result.stdout.endswith(": 1 damaged.\n"))
    assert ["kelp"] == [each["state_id"] for each in told("doctor")["unsound"]]
    shown = limpet("show", "kelp")
    assert 4 == shown.exit_code
    assert "`limpet verify kelp` says what is intact" in shown.stderr
    assert 0 == limpet("show", "wrack").exit_code


def test_a_damaged_state_is_recovered_and_goes_on(folder: Path) -> None:
    damage(folder, b'"result":"s2!"')
    result = limpet("recover", "kelp")
    assert 0 == result.exit_code
    assert "kelp goes on from before the damage: 2 records kept." in result.stdout
    assert "Executed again when it is resumed: stepping::step#3::tool_call, stepping::agent_call." in result.stdout
    assert "Go on with `limpet resume kelp`." in result.stdout
    with Limpet() as client:
        assert ["s1!", "s2!", "s3!"] == asyncio.run(client.resume("kelp"))
    again = limpet("recover", "kelp")
    assert "kelp needs no recovery: nothing that it needs is damaged.\n" == again.stdout
    assert False is told("recover", "kelp")["was_needed"]
    assert "can be used as it is" in limpet("verify", "kelp").stdout


def test_a_damaged_header_is_listed_and_mended(folder: Path) -> None:
    lines = journal(folder).read_bytes().splitlines(keepends=True)
    journal(folder).write_bytes(b"".join([lines[0].replace(b'"key"', b'"kez"'), *lines[1:]]))
    (folder / "store" / "states" / "kelp" / "header.json").unlink()
    listed = limpet("list").stdout.splitlines()
    assert [True] == ["damaged" in line for line in listed if line.startswith("kelp")]
    assert [True, False] == [
        bool(each["damage"]) for each in sorted(told("list")["states"], key=lambda s: s["state_id"])
    ]
    result = limpet("recover", "kelp")
    assert "Its header was made anew from its journal." in result.stdout
    with Limpet() as client:
        assert ["s1!", "s2!", "s3!"] == asyncio.run(client.resume("kelp", agent=stepping))


def test_a_state_of_which_nothing_is_left_is_deleted_and_run_again(folder: Path) -> None:
    journal(folder).unlink()
    assert "Nothing stands before the damage." in limpet("verify", "kelp").stdout
    assert 2 == limpet("recover", "kelp").exit_code
    result = limpet("delete", "kelp")
    assert (2, True) == (result.exit_code, "--yes" in result.stderr)
    result = limpet("delete", "kelp", "--yes")
    assert (0, "Deleted kelp.\n") == (result.exit_code, result.stdout)
    assert {"deleted": "wrack"} == told("delete", "wrack", "--yes")
    assert [] == told("list")["states"]
    with Limpet() as client:
        assert ["s1!", "s2!", "s3!"] == client.run_sync(stepping, 3, state_id="kelp")


def test_what_a_crash_left_is_told_as_harmless(folder: Path) -> None:
    with journal(folder).open("ab") as file:
        file.write(b'{"sum":"1234')
    result = limpet("verify", "kelp")
    assert 0 == result.exit_code
    assert "12 bytes" in result.stdout


def test_a_doctor_puts_right_what_is_derived(folder: Path) -> None:
    # What is kept of a deleted state for its forks, of which there are none.
    shutil.copytree(folder / "store" / "states" / "kelp", folder / "store" / "deleted" / "7777")
    first = told("doctor")
    assert (True, []) == (first["is_sound"], first["mended"])
    assert first["harmless"]
    assert told("doctor", "--repair")["mended"]
    assert [] == told("doctor")["harmless"]


def test_an_older_store_is_migrated(tmp_path: Path) -> None:
    shutil.copytree(VERSIONS / "schema-3", tmp_path / "old")
    url = f"sqlite:///{tmp_path}/old/plain.db"
    result = limpet("migrate", "--store", url)
    assert 0 == result.exit_code, result.stderr
    first, second = result.stdout.splitlines()
    backup = first.removeprefix("Everything as it was: ")
    assert "rewritten;" in second
    assert Path(backup.removeprefix("sqlite:///")).exists()
    again = told("migrate", "--store", url)
    assert (0, None) == (again["records"], again["backup"])


def test_bad_input_is_refused_with_what_to_do(folder: Path) -> None:
    for command in ("verify", "recover"):
        result = limpet(command, "kelb")
        assert (2, True) == (result.exit_code, "kelp" in result.stderr)
    result = limpet("migrate", "--backup", "file://x", "--no-backup")
    assert (2, True) == (result.exit_code, "Give --backup or --no-backup." in result.stderr)
    assert 2 == limpet("doctor", "--store", "file://nowhere").exit_code
    assert not (folder / "nowhere").exists()
