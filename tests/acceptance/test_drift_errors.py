"""Drift that is an error stops its run, whatever the code makes of it, and is found in the state afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from limpet import (
    Drift,
    DriftWarning,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryStateBackend,
    RetryConfig,
    SQLiteStateBackend,
    StateBackend,
    StateStatus,
    agent,
    tool,
)
from limpet.cli.main import commands

done: list[str] = []
code = {"version": 1}


@tool
async def fetch(page: str) -> str:
    done.append(page)
    return page


@tool
async def store(page: str) -> str:
    done.append(f"store {page}")
    if code.get("fails"):
        raise RuntimeError("no room")
    return page


@pytest.fixture(autouse=True)
def fresh() -> None:
    done.clear()
    code.clear()


@agent(retry_config=RetryConfig(max_attempts=3, retry_on_exceptions=(Drift,)))
async def pipeline() -> str:
    await fetch("a")
    with suppress(Exception):
        await fetch("changed" if code.get("changed") else "b")
    with suppress(Exception):
        await fetch("c")
    return await store("d")


@agent
async def beside() -> str:
    pages = ["a", "changed" if code.get("changed") else "b", "c"]
    await asyncio.gather(*(fetch(page) for page in pages), return_exceptions=True)
    return await store("d")


@agent
def plain() -> str:
    for page in ["a", "changed" if code.get("changed") else "b", "c"]:
        with suppress(Exception):
            fetch.call(page)
    return store.call("d")


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateBackend]:
    with MemoryStateBackend() if request.param == "memory" else SQLiteStateBackend(tmp_path / "s.db") as opened:
        yield opened


@pytest.mark.parametrize("program", [pipeline, beside, plain])
def test_drift_stops_a_run_that_swallows_it_and_the_state_says_why(backend: StateBackend, program: Any) -> None:
    client = Limpet(backend, on_drift="error")
    code["fails"] = True
    with pytest.raises(RuntimeError):
        client.run_sync(program, state_id="s")
    executed = done.copy()
    code["fails"], code["changed"] = False, True
    with pytest.raises(Drift, match="its input changed") as caught:
        client.run_sync(program, state_id="s")
    assert executed == done
    header = client.show("s").header
    assert StateStatus.FAILED is header.status
    assert "drift" == header.metadata.stopped["reason"]
    assert str(caught.value) == header.metadata.stopped["message"]
    assert client.checkpoints("s")[-1].trigger == "stopped"


@pytest.mark.parametrize("program", [pipeline, beside, plain])
def test_a_run_that_drifted_goes_on_when_the_code_fits_again(backend: StateBackend, program: Any) -> None:
    client = Limpet(backend, on_drift="error")
    code["fails"] = True
    with pytest.raises(RuntimeError):
        client.run_sync(program, state_id="s")
    code["fails"], code["changed"] = False, True
    with pytest.raises(Drift):
        client.run_sync(program, state_id="s")
    code["changed"] = False
    done.clear()
    assert "d" == client.run_sync(program, state_id="s")
    assert ["store d"] == done
    header = client.show("s").header
    assert (StateStatus.COMPLETED, {}) == (header.status, header.metadata.stopped)
    assert client.verify("s").is_sound


def test_people_are_shown_that_a_state_has_drifted(tmp_path: Path) -> None:
    store_url = f"sqlite:///{tmp_path}/s.db"
    with Limpet(store_url, on_drift="error") as client:
        code["fails"] = True
        with pytest.raises(RuntimeError):
            client.run_sync(pipeline, state_id="s")
        code["fails"], code["changed"] = False, True
        with pytest.raises(Drift):
            client.run_sync(pipeline, state_id="s")
    shown = CliRunner().invoke(commands, ["show", "s", "--store", store_url]).output
    assert "drift: State 's' has drifted" in " ".join(shown.split())
    listed = CliRunner().invoke(commands, ["list", "--store", store_url, "--json"]).output
    assert '"drift"' in listed


def test_a_run_that_ends_before_it_has_come_to_where_it_is_run_on_from_is_not_completed(backend: StateBackend) -> None:
    client = Limpet(backend, on_drift="error")

    @agent
    async def shrinks() -> list[str]:
        return [await fetch(page) for page in ("abc" if not code.get("changed") else "ab")]

    client.run_sync(shrinks, state_id="s")
    code["changed"] = True
    with pytest.raises(Drift, match="no longer makes that call"):
        asyncio.run(client.rerun("s", "fetch#3", agent=shrinks))
    header = client.show("s").header
    assert (StateStatus.FAILED, "drift") == (header.status, header.metadata.stopped["reason"])
    code["changed"] = False
    assert ["a", "b", "c"] == asyncio.run(client.resume("s", agent=shrinks))
    assert [*"abc", "c"] == done


async def fetch_in(state: ExecutionState, *pages: str) -> None:
    for page in pages:
        with suppress(Exception):
            await ExecutionEvent(fetch)(page, None, state)


def test_the_explicit_form_stops_at_drift_too(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="s")
    asyncio.run(fetch_in(state, "a", "b"))
    state.save_checkpoint(StateStatus.PAUSED)
    drifting = ExecutionState.load_from_state_id("s", backend, on_drift="error")
    asyncio.run(fetch_in(drifting, "a", "changed", "c"))
    assert ["a", "b"] == done
    assert "drift" == ExecutionState.load_from_state_id("s", backend).metadata.stopped["reason"]
    asyncio.run(fetch_in(ExecutionState.load_from_state_id("s", backend, on_drift="error"), "a", "b", "c"))
    assert ["a", "b", "c"] == done


def test_drift_of_a_completed_state_leaves_it_completed(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="s")
    asyncio.run(fetch_in(state, "a"))
    state.save_checkpoint(StateStatus.COMPLETED)
    drifting = ExecutionState.load_from_state_id("s", backend, on_drift="error")
    asyncio.run(fetch_in(drifting, "changed", "b"))
    assert ["a"] == done
    assert StateStatus.COMPLETED is ExecutionState.load_from_state_id("s", backend).status


@tool
async def fetch_slowly(page: str) -> str:
    await asyncio.sleep(0.02)
    return page


@agent
async def beside_to_the_end() -> str:
    last = fetch_slowly("changed" if code.get("changed") else "a")
    await asyncio.gather(last, fetch("b"), fetch("c"))
    return await store("d")


@agent
async def one_after_the_other() -> str:
    await asyncio.create_task(fetch("b"))
    await fetch_slowly("changed" if code.get("changed") else "a")
    return await store("d")


def test_another_input_of_the_last_call_of_several_to_end_is_an_error_as_well(backend: StateBackend) -> None:
    client = Limpet(backend)
    code["fails"] = True
    for program in (beside_to_the_end, one_after_the_other):
        with pytest.raises(RuntimeError):
            client.run_sync(program, state_id=program.name)
    code["fails"], code["changed"] = False, True
    with pytest.raises(Drift, match="its input changed"):
        client.run_sync(beside_to_the_end, state_id="beside_to_the_end")
    with pytest.warns(DriftWarning, match="its input changed"):
        assert "d" == client.run_sync(one_after_the_other, state_id="one_after_the_other")
