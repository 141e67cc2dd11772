"""A store that is used by a process and by the children that it forks: nothing hangs, nothing is lost, and nobody
writes what another process runs.

A hang ends by an alarm that each of the processes sets, and is a failure then.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from acceptance import forking_program

from limpet import Limpet, StateStatus

STORES = (
    "sqlite:///{}/runs.db",
    "sqlite:///{}/runs.db?synchronous=normal",
    "file://{}/states",
    "file://{}/states?synchronous=normal",
)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def fork(folder: Path, way: str, *arguments: str) -> str:
    """What the program prints that forks in some way."""
    command = [sys.executable, forking_program.__file__, way, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def assert_sound(store: str, *state_ids: str) -> None:
    """These states, as another process finds them, are completed, and nothing in the store is damaged."""
    with Limpet(store) as client:
        found = {header.state_id: header.status for header in client.list_states(limit=10_000)}
        assert dict.fromkeys(state_ids, StateStatus.COMPLETED) == {each: found.get(each) for each in state_ids}
        assert client.doctor().is_sound


def test_a_child_of_a_process_that_has_used_a_store_runs_and_resumes_states(store: str, tmp_path: Path) -> None:
    fork(tmp_path, "used_store", store)
    assert_sound(store, "parent", "begun", "child", "child-2", "parent-2")


def test_fifty_forks_in_the_middle_of_commits_lose_nothing_and_do_not_hang(store: str, tmp_path: Path) -> None:
    fork(tmp_path, "in_the_middle", store)
    with Limpet(store) as client:
        ids = [header.state_id for header in client.list_states(limit=10_000)]
    assert {f"child-{number}" for number in range(50)} | {"parent-0", "parent-0-beside"} <= set(ids)
    assert_sound(store, *ids)


def test_a_pool_of_forked_processes_uses_the_store_of_its_parent(store: str, tmp_path: Path) -> None:
    fork(tmp_path, "pool", store)
    assert_sound(store, "parent", *(f"pool-{number}" for number in range(12)))


def test_a_daemon_goes_on_with_the_store_after_the_process_that_opened_it_has_ended(store: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, forking_program.__file__, "daemon", store], cwd=tmp_path, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        # The daemon has it open until it ends.
        process.stdout.read()
    assert "ended" == (tmp_path / "daemon.txt").read_text()
    assert_sound(store, "parent", "parent-2", "daemon")


def test_children_that_are_forked_in_tools_do_not_disturb_the_run(store: str, tmp_path: Path) -> None:
    endings = ("os._exit", "sys.exit", "a run of its own", "a call")
    printed = fork(tmp_path, "forking_tools", store, *endings)
    assert "[2, [7, 7, 7, 7], [7, 7, 7, 7], 6, 'slow']\n" == printed
    assert_sound(store, "forking")


def test_a_child_that_comes_out_of_the_tool_it_was_forked_in_gets_an_error(store: str, tmp_path: Path) -> None:
    assert "[2, [1], [11], 6, 'slow']\n" == fork(tmp_path, "forking_tools", store, "coming out")
    assert_sound(store, "forking")


def test_a_child_leaves_no_handle_of_the_loop_of_its_parent_unclosed(store: str, tmp_path: Path) -> None:
    # From Python 3.12 on a fork beside threads is warned of, whose ever they are.
    warnings = ["-W", "ignore:This process:DeprecationWarning", "-W", "error::ResourceWarning"]
    command = [sys.executable, *warnings, forking_program.__file__, "forking_tools", store]
    done = subprocess.run([*command, "os._exit", "a call"], cwd=tmp_path, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)


def test_a_process_that_a_plain_tool_starts_ends_well(store: str, tmp_path: Path) -> None:
    assert "[0, 2]\n" == fork(tmp_path, "processes_in_tools", store)
    assert_sound(store, "starting", "child")


def test_a_child_is_told_which_process_runs_the_state_although_that_has_ended(store: str, tmp_path: Path) -> None:
    assert "7\n" == fork(tmp_path, "orphaned", store)


def test_a_signal_to_a_child_does_not_stop_the_run_of_its_parent(store: str, tmp_path: Path) -> None:
    assert "[2, -15, 3]\n" == fork(tmp_path, "signalled", store)
    assert_sound(store, "signalled")


def test_a_state_that_the_parent_holds_is_refused_in_a_child_and_others_are_not(store: str, tmp_path: Path) -> None:
    fork(tmp_path, "explicit", store)
    with Limpet(store) as client:
        assert ["held", "idle"] == sorted(header.state_id for header in client.list_states())
        assert client.verify("held").is_sound


def test_a_child_has_a_copy_of_a_store_in_memory(tmp_path: Path) -> None:
    fork(tmp_path, "in_memory", "memory://")
