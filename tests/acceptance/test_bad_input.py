"""Bad input gets an error of the right type that says what to do, and nothing is lost or half-written."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from acceptance import filling_program

from limpet import (
    AgentNotFound,
    ExecutionState,
    InvalidMetadata,
    InvalidStateId,
    InvalidStoreUrl,
    Limpet,
    MemoryStateBackend,
    NotAStore,
    StateMetadata,
    UnknownState,
    UnknownStore,
    UsageError,
    agent,
    open_store,
)


@agent
async def nothing() -> None:
    return None


@pytest.fixture
def client(tmp_path: Path) -> Limpet:
    return Limpet(f"sqlite:///{tmp_path}/runs.db")


@pytest.mark.parametrize(
    ("state_id", "why"),
    [
        ("", "it is empty"),
        ("x" * 201, "201 characters"),
        ("a/b", "contains '/'"),
        ("..", "contains '..'"),
        ("a..b", "contains '..'"),
        ("../../etc", "contains '..'"),
        ("a\0b", r"contains '\\x00'"),
        ("a\nb", r"contains '\\n'"),
        ("a b", "contains ' '"),
        ("käse", "contains 'ä'"),
        (".hidden", "begins with '.'"),
        ("-rf", "begins with '-'"),
        (7, "it is int"),
    ],
)
def test_a_state_id_that_could_do_harm_is_refused_everywhere(client: Limpet, state_id: Any, why: str) -> None:
    uses = [
        lambda: client.run_sync(nothing, state_id=state_id),
        lambda: asyncio.run(client.resume(state_id)),
        lambda: client.show(state_id),
        lambda: client.history(state_id),
        lambda: client.delete(state_id),
        lambda: ExecutionState(state_id=state_id),
        lambda: ExecutionState.load_from_state_id(state_id, client.backend),
    ]
    for use in uses:
        with pytest.raises(InvalidStateId, match=why):
            use()
    assert [] == client.list_states()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("runs.db", "no scheme"),
        ("redis://localhost", "no backend for 'redis'"),
        ("sqlite://runs.db", "third slash"),
        ("sqlite:///", "names no file"),
        ("sqlite:///runs.db?synchronous=off", "'full' or 'normal', not 'off'"),
        ("sqlite:///runs.db?cache=1", "cache is no setting"),
        ("memory://there", "neither a path nor settings"),
    ],
)
def test_an_unknown_store_url_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidStoreUrl, match=why):
        open_store(url)


def test_store_urls_are_relative_or_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Limpet("sqlite:///near.db") as near, Limpet(f"sqlite:///{tmp_path}/far%20away.db") as far:
        near.run_sync(nothing)
        far.run_sync(nothing)
    assert (tmp_path / "near.db").exists()
    assert (tmp_path / "far away.db").exists()
    assert isinstance(open_store("memory://"), MemoryStateBackend)


def test_the_configured_store_is_used_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LIMPET_STORE", raising=False)
    asyncio.run(nothing.run(state_id="here"))
    assert (tmp_path / ".limpet" / "runs.db").exists()
    monkeypatch.setenv("LIMPET_STORE", "sqlite:///named.db")
    with Limpet() as limpet:
        limpet.run_sync(nothing)
    assert (tmp_path / "named.db").exists()


def test_a_file_that_is_not_a_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    letter = tmp_path / "letter.db"
    letter.write_text("Dear all, " * 1000)
    with pytest.raises(NotAStore):
        Limpet(f"sqlite:///{letter}")
    assert "Dear all, " * 1000 == letter.read_text()


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_a_full_disk_fails_the_run_visibly_and_it_goes_on_when_there_is_room(synchronous: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db?synchronous={synchronous}"
    command = [sys.executable, filling_program.__file__, store]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "" == done.stderr
    report = json.loads(done.stdout)
    assert report["failed"].startswith("StoreFull: There is no room left")
    assert 0 < report["recorded"] < 100
    assert 2000 * 10 + 4000 * 90 == report["result"]
    # The one whose record found no room is executed again, and no other.
    assert 1 == len(report["again"])


def test_metadata_must_be_plain() -> None:
    with pytest.raises(InvalidMetadata, match=r"custom_data\['when'\] is of type object"):
        StateMetadata(custom_data={"when": object()})


def test_unknown_states_are_told_with_the_nearest(client: Limpet) -> None:
    client.run_sync(nothing, state_id="kelp-42")
    for use in (client.show, client.history, client.delete, lambda state_id: asyncio.run(client.resume(state_id))):
        with pytest.raises(UnknownState, match=r"No state 'kelp-41' is in this store\. Nearest: 'kelp-42'"):
            use("kelp-41")


def test_an_explicit_state_has_no_agent_to_resume(client: Limpet) -> None:
    ExecutionState(state_backend=client.backend, state_id="explicit").save_checkpoint()
    with pytest.raises(UsageError, match="explicit form"):
        asyncio.run(client.resume("explicit"))
    with pytest.raises(UsageError, match="explicit form"):
        client.run_sync(nothing, state_id="explicit")


def test_an_agent_that_is_gone_is_named(client: Limpet) -> None:
    def run_a_passing_one() -> weakref.ref[object]:
        @agent(name="passing")
        async def passing() -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            client.run_sync(passing, state_id="passing")
        return weakref.ref(passing)

    gone = run_a_passing_one()
    for _ in range(10):  # One collection does nothing while another thread is in the middle of one.
        gc.collect()
    assert gone() is None
    with pytest.raises(AgentNotFound, match="declared inside a function"):
        asyncio.run(client.resume("passing"))


def test_the_store_is_closed_at_the_end_of_a_with_block(tmp_path: Path) -> None:
    with Limpet(f"sqlite:///{tmp_path}/runs.db") as limpet:
        limpet.run_sync(nothing)
    with pytest.raises(UsageError, match="closed"):
        limpet.list_states()
    limpet.close()


def test_plain_verbs_are_refused_in_async_code(client: Limpet) -> None:
    async def main() -> None:
        client.run_sync(nothing)

    with pytest.raises(UsageError, match="await"):
        asyncio.run(main())


def test_a_store_that_is_only_looked_at_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UnknownStore, match=r"There is no store at .*missing\.db"):
        Limpet(f"sqlite:///{tmp_path}/missing.db", create=False)
    assert not (tmp_path / "missing.db").exists()
    Limpet(f"sqlite:///{tmp_path}/made.db").close()
    Limpet(f"sqlite:///{tmp_path}/made.db", create=False).close()


def test_a_parameter_that_run_takes_for_itself_is_named(client: Limpet) -> None:
    @agent
    async def clashes(*, metadata: str) -> str:
        return metadata

    with pytest.raises(UsageError, match="has the parameter metadata, which `run` takes for itself"):
        client.run_sync(clashes)


@pytest.mark.parametrize("key", ["", "lone \ud800", 5, None])
def test_a_key_of_the_storage_that_is_no_text_is_refused(key: Any) -> None:
    state = ExecutionState()
    with pytest.raises(UsageError, match="cannot be a key of the storage"):
        state.storage.set(key, 1)
    state.storage.set("kelp", 1)
    assert ["kelp"] == state.storage.keys()
