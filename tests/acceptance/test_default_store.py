"""Whoever names no store gets that of the project, from any folder in it, and is told where it lies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from limpet import Limpet, agent, load_config


@agent
async def nothing() -> None: ...


def limpet(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "limpet.cli.main", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False)


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder inside of a project."""
    (tmp_path / "my project" / "pyproject.toml").parent.mkdir()
    (tmp_path / "my project" / "pyproject.toml").touch()
    deep = tmp_path / "my project" / "flows" / "north"
    deep.mkdir(parents=True)
    return deep


def test_the_store_of_the_project_is_found_from_a_folder_in_it(
    deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "my project")
    with Limpet() as client:
        client.run_sync(nothing, state_id="kelp-42")
    monkeypatch.chdir(deep)
    with Limpet() as client:
        assert ["kelp-42"] == [header.state_id for header in client.list_states()]
    assert not (deep / ".limpet").exists()
    assert (tmp_path / "my project" / ".limpet" / "runs.db").is_file()


def test_the_default_store_is_told_with_its_whole_path(deep: Path, tmp_path: Path) -> None:
    expected = f"sqlite:///{tmp_path}/my%20project/.limpet/runs.db"
    assert expected == load_config(folder=deep, environment={}).store
    assert expected in limpet(deep, "config").stdout
    assert expected in limpet(deep, "list").stderr
    assert not (tmp_path / "my project" / ".limpet").exists(), "looking made a store"


def test_without_a_project_the_store_lies_in_the_current_folder(tmp_path: Path) -> None:
    assert f"sqlite:///{tmp_path}/.limpet/runs.db" == load_config(folder=tmp_path, environment={}).store


def test_a_store_that_is_named_is_relative_to_the_current_folder(deep: Path) -> None:
    assert "sqlite:///mine.db" == load_config(folder=deep, environment={"LIMPET_STORE": "sqlite:///mine.db"}).store
