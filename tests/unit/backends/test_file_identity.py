"""Files are told apart without asking for their times, and as ``os.stat`` tells them apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from limpet.backends.sqlite import file_identity
from limpet.backends.sqlite.file_identity import identity_of


@pytest.fixture(params=["asked for the number", "asked for everything"])
def any_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "asked for everything":
        monkeypatch.setattr(file_identity, "_asked_for_number", lambda: None)


@pytest.mark.usefixtures("any_way")
def test_a_file_has_the_identity_that_stat_gives_it(tmp_path: Path) -> None:
    path = tmp_path / "rüns.db"
    path.touch()
    assert (os.stat(path).st_dev, os.stat(path).st_ino) == identity_of(str(path))


@pytest.mark.usefixtures("any_way")
def test_another_file_in_its_place_has_another_identity(tmp_path: Path) -> None:
    path, other = tmp_path / "runs.db", tmp_path / "other.db"
    path.touch()
    other.touch()
    before = identity_of(str(path))
    other.replace(path)
    assert before != identity_of(str(path))


@pytest.mark.usefixtures("any_way")
def test_no_file_has_no_identity(tmp_path: Path) -> None:
    assert identity_of(str(tmp_path / "nothing.db")) is None


def test_a_system_that_refuses_the_question_is_asked_for_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    monkeypatch.setattr(file_identity, "_asked_for_number", lambda: lambda _: None)
    assert (os.stat(path).st_dev, os.stat(path).st_ino) == identity_of(str(path))
