"""The files of a store are deleted or replaced while a run writes there: the run stops before it tells that anything
was stored which nobody will find, and it goes on from what is stored once the right files are back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from limpet import Limpet, StateStatus, StoreReplaced, agent, tool

MANY = 150
"""So many commits come in quick succession, and are not all confirmed one by one."""


def delete(path: Path) -> None:
    path.unlink()


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace_by_copy(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def delete_all(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replace_log(path: Path) -> None:
    replace_by_copy(Path(f"{path}-wal"))


def close_reader_and_open_elsewhere(path: Path) -> None:
    """A reader in this process drops SQLite's locks when it closes, and then another process clears the log away."""
    reader = sqlite3.connect(path)
    reader.execute("SELECT count(*) FROM records").fetchall()
    reader.close()
    program = (
        "import sqlite3, sys; it = sqlite3.connect(sys.argv[1]); it.execute('SELECT count(*) FROM records'); it.close()"
    )
    subprocess.run([sys.executable, "-c", program, path], check=True)
    assert not Path(f"{path}-wal").exists()


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def move_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replace_folder(folder: Path) -> None:
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    shutil.rmtree(folder)
    copy.rename(folder)


def journal_in(folder: Path) -> Path:
    return folder / "states" / "kelp" / "journal-000000001.jsonl"


def delete_state(folder: Path) -> None:
    shutil.rmtree(folder / "states" / "kelp")


def delete_journal(folder: Path) -> None:
    journal_in(folder).unlink()


def replace_journal(folder: Path) -> None:
    replace_by_copy(journal_in(folder))


OF_SQLITE = (
    *(delete, move_away, replace_by_copy, delete_log, delete_all, replace_log),
    close_reader_and_open_elsewhere,
)
OF_FOLDERS = (delete_folder, move_folder, replace_folder, delete_state, delete_journal, replace_journal)

executed: list[str] = []
interfere: list[Callable[[], None]] = []


@tool
async def before(number: int) -> int:
    executed.append(f"before {number}")
    return number


@tool
async def in_between() -> str:
    executed.append("in between")
    for each in interfere:
        each()
        # As anything takes that is worth a call: of commits in quicker succession not every one is confirmed by itself.
        await asyncio.sleep(0.001)
    return "done"


@tool
async def after() -> str:
    executed.append("after")
    return "ended"


@agent
async def disturbed(commits: int) -> list[object]:
    return [sum([await before(number) for number in range(commits)]), await in_between(), await after()]


@pytest.fixture(autouse=True)
def _nothing_executed() -> None:
    executed.clear()
    interfere.clear()


def opened(folder: Path, scheme: str, synchronous: str) -> tuple[Path, Limpet]:
    path = folder / ("runs.db" if scheme == "sqlite" else "states")
    return path, Limpet(f"{scheme}://{'/' if scheme == 'sqlite' else ''}{path}?synchronous={synchronous}")


@pytest.mark.parametrize("synchronous", ["full", "normal"])
@pytest.mark.parametrize(
    ("scheme", "change"),
    [*(("sqlite", change) for change in OF_SQLITE), *(("file", change) for change in OF_FOLDERS)],
)
@pytest.mark.parametrize("commits", [2, MANY])
def test_a_run_whose_store_is_changed_under_it_stops_before_the_next_record_is_acknowledged(
    tmp_path: Path, scheme: str, change: Callable[[Path], None], synchronous: str, commits: int
) -> None:
    path, client = opened(tmp_path, scheme, synchronous)
    interfere.append(lambda: change(path))
    with pytest.raises(StoreReplaced, match=r"was changed from outside while it was open: .*limpet verify"):
        client.run_sync(disturbed, commits, state_id="kelp")
    assert ["in between"] == executed[commits:]
    if scheme == "sqlite":
        with pytest.raises(StoreReplaced):
            client.run_sync(disturbed, 1, state_id="other")
        with pytest.raises(StoreReplaced):
            client.list_states()
    client.close()


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_nothing_acknowledged_is_lost_where_a_reader_of_this_process_has_dropped_the_locks(
    tmp_path: Path, synchronous: str
) -> None:
    path, client = opened(tmp_path, "sqlite", synchronous)
    beside = Limpet(f"sqlite:///{path}")
    assert [] == beside.list_states()
    interfere.append(lambda: close_reader_and_open_elsewhere(path))
    with pytest.raises(StoreReplaced, match=r"its log .* was deleted"):
        client.run_sync(disturbed, MANY, state_id="kelp")
    interfere.clear()
    executed.clear()
    # The other one has not noticed yet, and must not be in the way of who opens the store now.
    with Limpet(f"sqlite:///{path}") as anew:
        assert [sum(range(MANY)), "done", "ended"] == anew.run_sync(disturbed, MANY, state_id="kelp")
        assert ["in between", "after"] == executed
        assert anew.doctor().is_sound
    with pytest.raises(StoreReplaced):
        beside.list_states()
    client.close()
    beside.close()


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_a_run_goes_on_from_the_files_that_were_put_back(tmp_path: Path, synchronous: str) -> None:
    path, client = opened(tmp_path, "file", synchronous)
    interfere.append(lambda: move_folder(path))
    with pytest.raises(StoreReplaced):
        client.run_sync(disturbed, 2, state_id="kelp")
    (tmp_path / "elsewhere").rename(path)
    interfere.clear()
    executed.clear()
    with client:
        assert [1, "done", "ended"] == client.run_sync(disturbed, 2, state_id="kelp")
        assert ["in between", "after"] == executed
        assert StateStatus.COMPLETED == client.show("kelp").header.status
        assert client.doctor().is_sound


def test_a_store_that_is_changed_while_nothing_is_written_is_noticed_before_anything_is(tmp_path: Path) -> None:
    path, client = opened(tmp_path, "sqlite", "normal")
    client.run_sync(disturbed, 2, state_id="kelp")
    os.replace(shutil.copy(path, tmp_path / "copy"), path)
    with pytest.raises(StoreReplaced, match="another file was put in the place of the file"):
        client.run_sync(disturbed, 2, state_id="other")
    assert "before 0" == executed[0]
    assert 4 == len(executed)
    client.close()


def test_every_run_on_a_store_that_was_deleted_is_told(tmp_path: Path) -> None:
    path, client = opened(tmp_path, "sqlite", "full")

    async def side_by_side() -> list[object]:
        runs = (client.run(disturbed, 20, state_id=f"kelp-{number}") for number in range(5))
        return await asyncio.gather(*runs, return_exceptions=True)

    interfere.append(lambda: path.unlink(missing_ok=True))
    assert {StoreReplaced} == {type(error) for error in asyncio.run(side_by_side())}
    assert "after" not in executed
    client.close()


@agent
async def in_quick_succession(commits: int) -> int:
    for number in range(commits):
        await before(number)
        if number == commits - 3:
            for each in interfere:
                each()
    return commits


@pytest.mark.parametrize("change", [delete, replace_by_copy, delete_log])
def test_a_run_does_not_end_well_where_its_last_commits_came_in_quick_succession(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path, client = opened(tmp_path, "sqlite", "normal")
    interfere.append(lambda: change(path))
    with pytest.raises(StoreReplaced):
        client.run_sync(in_quick_succession, MANY, state_id="kelp")
    client.close()


def test_a_mode_that_is_changed_is_no_harm(tmp_path: Path) -> None:
    path, client = opened(tmp_path, "sqlite", "normal")
    interfere.append(lambda: path.chmod(0o640))
    with client:
        assert [sum(range(MANY)), "done", "ended"] == client.run_sync(disturbed, MANY, state_id="kelp")
        assert [1, "done", "ended"] == client.run_sync(disturbed, 2, state_id="other")
