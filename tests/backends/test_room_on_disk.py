"""What a store takes on the disk: less than one and a half times the data that was given to it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from limpet import FileSystemStateBackend, Limpet, SQLiteStateBackend, StateBackend, agent, tool

EVENTS = 500
LENGTH = 4096
AT_MOST = 1.5

PROSE = (
    'She said: "A limpet grips the rock.\nWhat it holds is still there after the storm, and takes nothing from it."\n'
)
ABROAD = "Der Blasentang hält sich am Fels fest, über Jahre; 海藻は岩にしがみつく。Морская капуста держится за скалу.\n"


def prose(number: int) -> str:
    return (f"{number}: {PROSE}" * 50)[:LENGTH]


def abroad(number: int) -> str:
    """Text that is not ASCII, of so many bytes in UTF-8."""
    return (f"{number}: {ABROAD}" * 50).encode()[:LENGTH].decode(errors="ignore")


def noise(number: int) -> bytes:
    return random.Random(number).randbytes(LENGTH)


CONTENTS: dict[str, Callable[[int], str | bytes]] = {"prose": prose, "abroad": abroad, "noise": noise}


@tool
async def given(kind: str, number: int) -> str | bytes:
    return CONTENTS[kind](number)


@agent
async def gather_all(kind: str) -> int:
    for number in range(EVENTS):
        await given(kind, number)
    return EVENTS


def size_of(content: str | bytes) -> int:
    return len(content.encode() if isinstance(content, str) else content)


def taken(folder: Path) -> int:
    """The sizes of all files in a folder, with whatever is derived."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def filled(backend: StateBackend, kind: str) -> int:
    """Run on a store, and give the size of the data that is then in it."""
    assert EVENTS == Limpet(backend).run_sync(gather_all, kind, state_id="large")
    data = sum(size_of(CONTENTS[kind](number)) for number in range(EVENTS))
    assert data > 0.99 * EVENTS * LENGTH
    return data


@pytest.mark.parametrize("kind", CONTENTS)
def test_files_take_less_than_one_and_a_half_times_their_data(kind: str, tmp_path: Path) -> None:
    with FileSystemStateBackend(tmp_path / "store", "normal") as backend:
        data = filled(backend, kind)
        assert taken(tmp_path) < AT_MOST * data
    assert taken(tmp_path) < AT_MOST * data


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_closed_file_of_sqlite_takes_less_than_one_and_a_half_times_its_data(kind: str, tmp_path: Path) -> None:
    with SQLiteStateBackend(tmp_path / "runs.db", "normal") as backend:
        data = filled(backend, kind)
    assert taken(tmp_path) < AT_MOST * data


@pytest.mark.parametrize("kind", ["prose", "abroad"])
def test_compressed_files_take_less_than_their_data(kind: str, tmp_path: Path) -> None:
    with FileSystemStateBackend(tmp_path / "store", "normal", compression="zstd", segment_size=1 << 18) as backend:
        data = filled(backend, kind)
    assert taken(tmp_path) < data
