"""The project folder, and how people name code."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet.config import load_config
from limpet.config.project import anchored_code, is_path, project_folder


@pytest.mark.parametrize("marker", ["limpet.toml", "pyproject.toml", ".git", ".git/", ".limpet/"])
def test_the_nearest_folder_with_a_marker_is_the_project(marker: str, tmp_path: Path) -> None:
    deep = tmp_path / "project" / "deep" / "deeper"
    deep.mkdir(parents=True)
    place = tmp_path / "project" / marker
    if marker.endswith("/"):
        place.mkdir()
    else:
        place.touch()
    assert tmp_path / "project" == project_folder(deep)


def test_without_a_marker_the_folder_itself_is_the_project(tmp_path: Path) -> None:
    (tmp_path / ".limpet").touch()  # Only as a folder does that mean something.
    (tmp_path / "deep").mkdir()
    assert tmp_path / "deep" == project_folder(tmp_path / "deep")


def test_what_others_put_into_a_shared_folder_makes_no_project_of_it(tmp_path: Path) -> None:
    mine = tmp_path / "shared" / "mine"
    mine.mkdir(parents=True)
    (tmp_path / "shared" / "limpet.toml").write_text('store = "memory://"')
    assert (tmp_path / "shared", "memory://") == (project_folder(mine), load_config(folder=mine, environment={}).store)
    (tmp_path / "shared").chmod(0o1777)
    assert (mine, None) == (project_folder(mine), load_config(folder=mine, environment={}).file)


def test_modules_files_and_folders_are_told_apart() -> None:
    assert [False, False, True, True, True, True] == [
        is_path(entry) for entry in ("flows", "flows.deep", "flows.py", "flows/", "./flows", ".")
    ]
    assert ["flows", "flows.deep", "/here/flows.py", "/srv/flows"] == [
        anchored_code(entry, Path("/here")) for entry in ("flows:run", "flows.deep", "flows.py:run", "/srv/flows")
    ]


def test_a_path_in_a_file_of_settings_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "limpet.toml").write_text('[run]\nmodules = ["flows", "own/flow.py", "../others/"]\n')
    found = load_config(folder=tmp_path / "deep", environment={})
    assert ("flows", f"{tmp_path}/own/flow.py", f"{tmp_path}/../others") == found.values.run.modules
    found = load_config(folder=tmp_path / "deep", environment={"LIMPET_RUN_MODULES": "flows, own/flow.py"})
    assert ("flows", "own/flow.py") == found.values.run.modules
