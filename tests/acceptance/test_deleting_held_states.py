"""A state that an idle object of this process holds can be deleted; not one that is under way, or held elsewhere."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.stores import opener

from limpet import (
    CheckpointFrequency,
    ExecutionEvent,
    ExecutionState,
    LeaseHeld,
    Limpet,
    StateBackend,
    StateDeleted,
    StateStatus,
    UnknownState,
    agent,
    tool,
)

executed: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


@tool
async def note(text: str) -> str:
    executed.append(text)
    return text


def call(state: ExecutionState, text: str) -> Any:
    return asyncio.run(ExecutionEvent(actor=note)(text, None, state))


def held(backend: StateBackend, **options: Any) -> ExecutionState:
    state = ExecutionState(state_id="s", state_backend=backend, **options)
    call(state, "first")
    return state


WAYS: list[Callable[[StateBackend], object]] = [
    lambda backend: backend.delete_state("s"),
    lambda backend: Limpet(backend).delete("s"),
]


@pytest.mark.parametrize("delete", WAYS)
def test_a_state_that_is_held_and_idle_is_deleted(
    delete: Callable[[StateBackend], object], reopen: Callable[[], StateBackend]
) -> None:
    state = held(reopen())
    assert delete(reopen()) in (True, None)
    assert [] == Limpet(reopen()).list_states()
    with pytest.raises(StateDeleted, match="was deleted while this object held it"):
        call(state, "second")
    for use in (
        lambda: state.storage.set("key", 1),
        lambda: state.save_checkpoint(status=StateStatus.PAUSED),
        lambda: call(state, "third"),
    ):
        with pytest.raises((StateDeleted, UnknownState), match="'s'"):
            use()
    assert ["first"] == executed
    assert [] == Limpet(reopen()).list_states()


def test_a_state_of_that_id_can_be_made_anew(reopen: Callable[[], StateBackend]) -> None:
    backend = reopen()
    old = held(backend)
    backend.delete_state("s")
    new = held(backend)
    with pytest.raises(StateDeleted):
        call(old, "of the old one")
    call(new, "of the new one")
    assert ["first", "first", "of the new one"] == executed
    assert 2 == len({event.address for event in new.history.get_event_list()})


def test_what_a_policy_holds_back_goes_with_the_state(reopen: Callable[[], StateBackend]) -> None:
    state = held(reopen(), checkpoint_policy=CheckpointFrequency.MANUAL)
    state.save_checkpoint()
    call(state, "second")
    reopen().delete_state("s")
    with pytest.raises(StateDeleted):
        state.save_checkpoint()
    assert [] == Limpet(reopen()).list_states()


@pytest.mark.parametrize("delete", WAYS)
def test_a_state_that_was_given_back_and_deleted_is_not_made_again(
    delete: Callable[[StateBackend], object], reopen: Callable[[], StateBackend]
) -> None:
    state = held(reopen())
    state.save_checkpoint(status=StateStatus.PAUSED)
    delete(reopen())
    for use in (lambda: call(state, "second"), lambda: state.storage.set("key", 1), state.save_checkpoint):
        with pytest.raises(UnknownState):
            use()
    assert ["first"] == executed
    assert [] == Limpet(reopen()).list_states()


@pytest.mark.parametrize("delete", WAYS)
def test_a_state_in_which_an_event_is_under_way_is_not_deleted(
    delete: Callable[[StateBackend], object], reopen: Callable[[], StateBackend]
) -> None:
    @tool
    async def deletes(_: object) -> str:
        with pytest.raises(LeaseHeld) as refused:
            delete(reopen())
        return str(refused.value)

    state = held(reopen())
    said = asyncio.run(ExecutionEvent(actor=deletes)(None, None, state)).result
    assert "'s'" in said
    call(state, "second")
    assert ["s"] == [header.state_id for header in Limpet(reopen()).list_states()]


@pytest.mark.parametrize("delete", WAYS)
def test_a_run_that_is_under_way_is_not_deleted(
    delete: Callable[[StateBackend], object], reopen: Callable[[], StateBackend]
) -> None:
    @agent
    async def deletes() -> str:
        await note("first")
        with pytest.raises(LeaseHeld):
            delete(reopen())
        return await note("second")

    assert "second" == Limpet(reopen()).run_sync(deletes, state_id="s")


def test_a_state_whose_object_was_dropped_is_deleted(reopen: Callable[[], StateBackend]) -> None:
    state = held(reopen())
    del state
    gc.collect()
    assert reopen().delete_state("s")
    assert [] == Limpet(reopen()).list_states()


HOLDING = """
import asyncio, sys
from limpet import ExecutionEvent, ExecutionState, tool
from limpet.stores import open_store


@tool
async def note(text: str) -> str:
    return text


state = ExecutionState(state_id="s", state_backend=open_store(sys.argv[1]))
asyncio.run(ExecutionEvent(actor=note)("first", None, state))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("url", ["sqlite:///{}/runs.db", "file://{}/states"])
def test_a_state_that_another_process_holds_is_not_deleted_before_that_is_dead(url: str, tmp_path: Path) -> None:
    url = url.format(tmp_path)
    command = [sys.executable, "-c", HOLDING, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdout is not None
        assert "held\n" == holding.stdout.readline()
        with Limpet(url) as client:
            for delete in WAYS:
                with pytest.raises(LeaseHeld, match=f"process {holding.pid}"):
                    delete(client.backend)
            assert ["s"] == [header.state_id for header in client.list_states()]
            holding.kill()
            holding.wait()
            assert client.backend.delete_state("s")
            assert [] == client.list_states()
