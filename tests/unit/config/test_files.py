"""The file is the nearest one; what cannot be read is told with its place; a store in it is relative to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet.config import load_config
from limpet.errors import ConfigurationError


def load(folder: Path, **options: str) -> object:
    return load_config(folder=folder, environment={}, **options)


def problems(folder: Path, **options: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigurationError) as caught:
        load(folder, **options)
    return [(problem.where, problem.what) for problem in caught.value.problems]


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    near = tmp_path / "a" / "b"
    near.mkdir(parents=True)
    (tmp_path / "limpet.toml").write_text("timeout_s = 1")
    (near / "pyproject.toml").write_text("[tool.other]\nx = 'limpet'")
    config = load_config(folder=near, environment={})
    assert (1.0, f"{tmp_path}/limpet.toml:1") == (config.values.timeout_s, config.origin("timeout_s"))
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n\n[tool.limpet]\ntimeout_s = 2\n")
    config = load_config(folder=near, environment={})
    assert (2.0, f"{tmp_path}/a/pyproject.toml:5") == (config.values.timeout_s, config.origin("timeout_s"))
    assert "pyproject.toml:5" == load_config(folder=tmp_path / "a", environment={}).origin("timeout_s")


def test_two_files_in_one_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text("timeout_s = 1")
    (tmp_path / "pyproject.toml").write_text("[tool.limpet]\ntimeout_s = 2\n")
    ((where, what),) = problems(tmp_path)
    assert "limpet.toml and pyproject.toml" == where
    assert "both have settings" in what


def test_what_is_not_toml_is_told_with_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text("timeout_s = 1\nstore = = 3\n")
    ((where, what),) = problems(tmp_path)
    assert "limpet.toml:2:9" == where
    assert what.startswith("the file is not TOML: ")


def test_what_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_bytes(b"store = '\xff'")
    assert [("limpet.toml", "the file is not TOML: it is not UTF-8.")] == problems(tmp_path)


def test_a_broken_project_file_is_ours_only_where_it_has_our_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("dependencies = ['limpet'\n[")
    load(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.limpet]\nstore = = 3\n")
    assert [("pyproject.toml:2:9")] == [where for where, _ in problems(tmp_path)]


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    ((where, what),) = problems(tmp_path, file="gone.toml")
    assert ("gone.toml", True) == (where, "cannot be read" in what)


def test_a_newer_file_is_refused_and_nothing_else_is_said_of_it(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text("new_thing = 1\nversion = 99\n")
    ((where, what),) = problems(tmp_path)
    assert ("limpet.toml:2", True) == (where, "of version 99" in what)


def test_problems_of_all_sources_are_told_together(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text("not toml")
    with pytest.raises(ConfigurationError) as caught:
        load_config(folder=tmp_path, environment={"LIMPET_X": "1"}, on_drift="what")
    assert ["limpet.toml:1:5", "LIMPET_X", "argument"] == [problem.where for problem in caught.value.problems]
    assert "in 3 places" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "inside", "below"),
    [
        ("sqlite:///runs.db", "sqlite:///runs.db", "sqlite:///{}/runs.db"),
        ("sqlite:///a%20b.db?synchronous=normal", None, "sqlite:///{}/a%20b.db?synchronous=normal"),
        ("file://states", None, "file://{}/states"),
        ("file:///var/states", None, "file:///var/states"),
        ("sqlite:////var/runs.db", None, "sqlite:////var/runs.db"),
        ("memory://", None, "memory://"),
    ],
)
def test_a_store_in_a_file_is_relative_to_the_file(tmp_path: Path, url: str, inside: str | None, below: str) -> None:
    (tmp_path / "limpet.toml").write_text(f"store = '{url}'")
    (tmp_path / "below").mkdir()
    assert (inside or url) == load_config(folder=tmp_path, environment={}).store
    assert below.format(tmp_path) == load_config(folder=tmp_path / "below", environment={}).store
