"""``limpet key`` makes a key that works, prints it once, and says what to do with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from limpet.cli.main import commands
from limpet.keys import Encryption, key_id


def test_a_new_key_is_printed_and_explained() -> None:
    shown = CliRunner().invoke(commands, ["key"])
    assert 0 == shown.exit_code
    key = shown.stdout.strip()
    assert f"{key}\n" == shown.stdout
    assert 44 == len(key)
    assert key not in shown.stderr
    assert f"Its id is {key_id(key)}; " in shown.stderr
    for word in ("LIMPET_KEY", "chmod 600", "Keep a copy apart from the store", "LIMPET_KEY=new,old"):
        assert word in shown.stderr


def test_a_new_key_is_given_to_programs() -> None:
    told = json.loads(CliRunner().invoke(commands, ["key", "--json"]).stdout)
    assert {"key", "key_id"} == set(told)
    assert key_id(told["key"]) == told["key_id"]


def test_every_key_is_another() -> None:
    assert 5 == len({CliRunner().invoke(commands, ["key"]).stdout for _ in range(5)})


def test_a_key_goes_from_the_shell_to_where_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"umask 077 && {sys.executable} -m limpet.cli.main key > limpet.key"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=60, stderr=subprocess.DEVNULL)
    path = tmp_path / "limpet.key"
    monkeypatch.setenv("LIMPET_KEY", path.read_text())
    sealed = Encryption.from_file(path).seal(b"kelp", b"here")
    assert b"kelp" == Encryption.from_environment().open(sealed, b"here", "It")


def test_the_command_needs_no_store_and_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert 0 == CliRunner().invoke(commands, ["key"]).exit_code
    assert [] == list(tmp_path.iterdir())
