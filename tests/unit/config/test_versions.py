"""Files of older versions are brought up to date, step by step, and newer ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from limpet.config.versions import STEPS, VERSION, UnknownVersion, migrated


def rename(data: dict[str, Any]) -> dict[str, Any]:
    return {("on_drift" if key == "drift" else key): value for key, value in data.items()}


def shout(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "on_drift": data["on_drift"].lower()}


STEPS_TO_3 = {1: rename, 2: shout}


def test_an_old_file_goes_through_every_step() -> None:
    old = {"version": 1, "drift": "ERROR"}
    assert {"on_drift": "error"} == migrated(old, STEPS_TO_3, 3)
    assert {"version": 1, "drift": "ERROR"} == old


def test_a_file_goes_only_through_the_steps_that_it_lacks() -> None:
    assert {"on_drift": "error"} == migrated({"version": 2, "on_drift": "ERROR"}, STEPS_TO_3, 3)
    assert {"on_drift": "ERROR"} == migrated({"version": 3, "on_drift": "ERROR"}, STEPS_TO_3, 3)


def test_a_file_without_a_version_is_of_the_first() -> None:
    assert {"on_drift": "error"} == migrated({"drift": "ERROR"}, STEPS_TO_3, 3)


def test_a_newer_file_is_refused() -> None:
    with pytest.raises(UnknownVersion, match=f"of version {VERSION + 1}, and this Limpet knows versions up to"):
        migrated({"version": VERSION + 1})


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None])
def test_what_is_no_version_is_refused(version: object) -> None:
    with pytest.raises(UnknownVersion, match="whole number"):
        migrated({"version": version})


def test_there_is_a_step_from_every_older_version() -> None:
    assert set(range(1, VERSION)) == set(STEPS)
