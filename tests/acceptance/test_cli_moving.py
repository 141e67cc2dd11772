"""Copies, backups, exports and imports on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from acceptance.moving_stores import executions, failing, stepping, writing
from click.testing import CliRunner, Result

from limpet import Encryption, Limpet, SQLiteStateBackend, new_key
from limpet.cli.main import commands

SEED_STORE = Path(__file__).parent / "seed_stores" / "finished"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executions.clear()
    failing.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LIMPET_STORE", raising=False)
    with Limpet("sqlite:///runs.db") as client:
        client.run_sync(stepping, 2, state_id="x")
        client.run_sync(writing, "end", state_id="y")


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments)


def printed(*arguments: str) -> dict[str, Any]:
    answer = typed(*arguments, "--json")
    assert 0 == answer.exit_code, answer.output
    return json.loads(answer.stdout)


def break_a_record(path: str, state_id: str) -> None:
    with SQLiteStateBackend(path) as backend:
        query = "UPDATE records SET body = substr(body, 1, length(body) - 1) WHERE seq = 2 AND state = (%s)"
        backend._database.writer.execute(query % "SELECT key FROM states WHERE state_id = ?", (state_id,))


def test_copy_copies_everything_or_the_states_that_are_named() -> None:
    answer = typed("copy", "sqlite:///runs.db", "sqlite:///other.db", "--state", "x")
    assert (0, True) == (answer.exit_code, "Copied 1 state to sqlite:///other.db." in answer.stdout)
    report = printed("copy", "sqlite:///runs.db", "sqlite:///other.db")
    assert (["y"], [], ["x"], {}) == tuple(report[key] for key in ("copied", "updated", "unchanged", "refused"))
    assert (2, True) == (report["artifacts"], report["bytes"] > 350_000)
    listed = printed("list", "--store", "sqlite:///other.db")["states"]
    assert ["y", "x"] == [state["state_id"] for state in listed]


def test_a_source_that_is_not_there_is_an_error_and_nothing_is_made(tmp_path: Path) -> None:
    answer = typed("copy", "sqlite:///nothing.db", "sqlite:///other.db", "--json")
    assert (2, "UnknownStore") == (answer.exit_code, json.loads(answer.stdout)["error"]["type"])
    assert not (tmp_path / "nothing.db").exists()
    assert 2 == typed("copy", "sqlite:///runs.db").exit_code
    answer = typed("copy", "sqlite:///runs.db", "kelp://x")
    assert (2, True) == (answer.exit_code, "kelp://x" in answer.stderr)


def test_backup_is_repeated_at_the_cost_of_what_is_new() -> None:
    first = typed("backup", "sqlite:///deep/backup.db", "--store", "sqlite:///runs.db")
    assert (0, True) == (first.exit_code, "Copied 2 states to sqlite:///deep/backup.db." in first.stdout)
    again = typed("--store", "sqlite:///runs.db", "backup", "sqlite:///deep/backup.db")
    assert "Copied 0 states" in again.stdout
    assert "0 brought up to date, 2 unchanged. Written: 0 records, 0 artifacts, 0 B." in click.unstyle(again.stdout)


def test_a_state_that_cannot_be_copied_is_named_and_the_others_are_copied() -> None:
    break_a_record("runs.db", "x")
    answer = typed("backup", "sqlite:///b.db", "--store", "sqlite:///runs.db")
    assert (1, True) == (answer.exit_code, "Copied 1 state" in answer.stdout)
    assert "Not copied x: State 'x' is damaged at record 2" in click.unstyle(answer.stderr)
    answer = typed("copy", "sqlite:///runs.db", "sqlite:///c.db", "--json")
    assert (1, ["x"]) == (answer.exit_code, list(json.loads(answer.stdout)["refused"]))


@pytest.mark.parametrize("folder", [(), ("--folder",)])
def test_a_state_is_exported_and_imported_elsewhere(tmp_path: Path, folder: tuple[str, ...]) -> None:
    store = ("--store", "sqlite:///runs.db")
    written = typed("export", "y", "y.export", *folder, *store)
    assert (0, "", True) == (written.exit_code, written.stdout, "Wrote y to y.export, " in written.stderr)
    assert (tmp_path / "y.export").is_dir() is bool(folder)
    refused = typed("export", "y", "y.export", *folder, *store)
    assert (2, True) == (refused.exit_code, "There is something at y.export already." in refused.stderr)
    report = printed("export", "y", "y.export", *folder, *store, "--overwrite")
    assert ("y", "y.export") == (report["state_id"], report["path"])
    assert report["bytes"] > 500
    answer = typed("import", "y.export", "--store", "sqlite:///new.db")
    assert (0, "y\n", "") == (answer.exit_code, answer.stdout, answer.stderr)
    (state,) = printed("import", "y.export", "--store", "sqlite:///new.db")["states"]
    assert ("y", "completed") == (state["state_id"], state["status"])


def test_an_unfinished_state_says_how_to_go_on() -> None:
    failing.add("s2")
    with Limpet("sqlite:///runs.db") as client, pytest.raises(LookupError):
        client.run_sync(stepping, 2, state_id="z")
    typed("export", "z", "z.zip", "--store", "sqlite:///runs.db")
    answer = typed("import", "z.zip", "--store", "sqlite:///new.db")
    assert "Go on with: limpet resume z --store sqlite:///new.db\n" == answer.stderr
    assert "" == typed("import", "z.zip", "--store", "sqlite:///new.db", "-q").stderr


def test_what_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kelp").write_text("kelp")
    answer = typed("import", "kelp", "--json", "--store", "sqlite:///runs.db")
    assert (2, "NotImported") == (answer.exit_code, json.loads(answer.stdout)["error"]["type"])
    answer = typed("import", "nothing", "--store", "sqlite:///new.db")
    assert (2, True) == (answer.exit_code, "nothing cannot be imported: it is not there." in answer.stderr)
    assert not (tmp_path / "new.db").exists()
    assert 2 == typed("export", "kelp", "x.zip", "--store", "sqlite:///runs.db").exit_code


def test_an_import_reads_no_more_than_is_allowed(tmp_path: Path) -> None:
    typed("export", "y", "y.zip", "--store", "sqlite:///runs.db")
    for size in ("100B", "300kB"):
        answer = typed("import", "y.zip", "--max-size", size, "--store", "sqlite:///new.db")
        assert (2, True) == (answer.exit_code, "allow more with `limpet import --max-size 10GB`" in answer.stderr)
        assert "" == typed("list", "--store", "sqlite:///new.db", "-q").stdout or not (tmp_path / "new.db").exists()
    assert "is no size" in typed("import", "y.zip", "--max-size", "much", "--store", "sqlite:///new.db").stderr
    assert 0 == typed("import", "y.zip", "--max-size", "2GB", "--store", "sqlite:///new.db").exit_code


def test_an_encrypted_state_needs_the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    key = new_key()
    with Limpet("sqlite:///sealed.db", encryption=Encryption(key)) as client:
        client.run_sync(stepping, 1, state_id="x")
    assert 4 == typed("export", "x", "x.zip", "--store", "sqlite:///sealed.db").exit_code
    monkeypatch.setenv("LIMPET_KEY", key)
    assert 0 == typed("export", "x", "x.zip", "--store", "sqlite:///sealed.db").exit_code
    assert 0 == typed("import", "x.zip", "--store", "sqlite:///new.db").exit_code
    monkeypatch.delenv("LIMPET_KEY")
    assert 4 == typed("import", "x.zip", "--store", "sqlite:///newer.db").exit_code


def test_a_seed_store_is_imported_and_shown() -> None:
    answer = typed("import", str(SEED_STORE), "--store", "sqlite:///new.db")
    assert 2 == len(answer.stdout.split())
    shown = typed("show", answer.stdout.split()[0], "--store", "sqlite:///new.db")
    assert (0, True) == (shown.exit_code, "sum up %5Bshort%5D %231" in shown.stdout)
    assert "{'title': 'Kelp', 'pages': 2}" in shown.stdout


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_shown_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("limpet.cli.copy.sys", SimpleNamespace(stderr=terminal))
    assert 0 == typed("copy", "sqlite:///runs.db", "sqlite:///b.db", "-q").exit_code
    assert "" == terminal.getvalue()
    assert 0 == typed("copy", "sqlite:///runs.db", "sqlite:///c.db").exit_code
    assert "Copying" in terminal.getvalue()
    assert "2/2" in terminal.getvalue()
