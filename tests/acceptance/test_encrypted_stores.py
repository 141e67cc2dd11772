"""A store with a key: no payload is on the disk in clear, and without the key nothing is read or forged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from limpet import (
    Encryption,
    ExecutionState,
    Limpet,
    MemoryArtifactBackend,
    MemoryStateBackend,
    NotEncrypted,
    SQLiteStateBackend,
    StateSnapshot,
    WrongKey,
    agent,
    new_key,
    tool,
)
from limpet.cli.main import commands
from limpet.testing import CrashingBackend

TREASURE = "the treasure lies under the kelp"
KEY = new_key()
OTHER = new_key()


@tool
async def dig(place: str) -> str:
    if place == "nowhere":
        raise LookupError(TREASURE)
    return TREASURE


@agent
async def hunt(place: str) -> dict[str, Any]:
    return {"found": await dig(place), "map": TREASURE * 5000}


def stored_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_nothing_of_inputs_results_errors_and_artifacts_is_in_clear(tmp_path: Path) -> None:
    with SQLiteStateBackend(tmp_path / "runs.db") as backend:
        client = Limpet(backend, encryption=Encryption(KEY))
        result = client.run_sync(hunt, "under the pier", state_id="x")
        with pytest.raises(LookupError):
            client.run_sync(hunt, "nowhere", state_id="y")
        state = ExecutionState(state_backend=backend, encryption=Encryption(KEY), state_id="z")
        state.storage.set("treasure key", TREASURE)
        state.storage.set_artifact("map", TREASURE * 100_000)
    found = stored_bytes(tmp_path)
    for text in (b"treasure", b"under the pier", b"LookupError", b"hunt::dig"):
        assert text not in found
    with SQLiteStateBackend(tmp_path / "runs.db") as backend:
        client = Limpet(backend, encryption=Encryption(KEY))
        assert result == client.run_sync(hunt, "under the pier", state_id="x")
        assert result == asyncio.run(client.resume("x", agent=hunt))
        again = ExecutionState.load_from_state_id("z", backend, encryption=Encryption(KEY))
        assert TREASURE == again.storage.get("treasure key")
        assert TREASURE * 100_000 == again.storage.get_artifact("map")


def test_equal_artifacts_are_stored_once_although_they_are_encrypted() -> None:
    artifacts = MemoryArtifactBackend()
    for state_id in ("x", "y"):
        state = ExecutionState(artifact_backend=artifacts, encryption=Encryption(KEY), state_id=state_id)
        state.storage.set_artifact("map", TREASURE * 5000)
    assert 1 == len(artifacts.list_artifacts())


def test_a_wrong_key_and_no_key_are_clear_errors(tmp_path: Path) -> None:
    backend = MemoryStateBackend()
    Limpet(backend, encryption=Encryption(KEY)).run_sync(hunt, "pier", state_id="x")
    with pytest.raises(WrongKey, match=r"Record 1 of state 'x' cannot be decrypted: it needs the key with the id"):
        Limpet(backend, encryption=Encryption(OTHER)).history("x")
    with pytest.raises(WrongKey, match="no key is given"):
        Limpet(backend).history("x")
    for client in (Limpet(backend), Limpet(backend, encryption=Encryption(OTHER))):
        with pytest.raises(WrongKey):
            client.run_sync(hunt, "pier", state_id="x")
        with pytest.raises(WrongKey):
            client.collect()


def test_after_a_rotation_old_states_go_on_with_the_new_key() -> None:
    backend = MemoryStateBackend()
    crashing = CrashingBackend(backend, stop_at=3)
    with pytest.raises(BaseException, match=r".*"):
        Limpet(crashing, encryption=Encryption(KEY)).run_sync(hunt, "pier", state_id="x")
    rotated = Encryption([OTHER, KEY])
    result = Limpet(backend, encryption=rotated).run_sync(hunt, "pier", state_id="x")
    assert TREASURE == result["found"]
    assert result == Limpet(backend, encryption=rotated).run_sync(hunt, "pier", state_id="x")
    with pytest.raises(WrongKey):
        Limpet(backend, encryption=Encryption(OTHER)).history("x")


def test_a_rotation_makes_no_drift_of_large_inputs() -> None:
    @tool
    async def read(text: str) -> int:
        return len(text)

    @agent
    async def reads(text: str) -> list[int]:
        return [await read(text), await read(text)]

    backend = MemoryStateBackend()
    crashing = CrashingBackend(backend, stop_at=6)
    with pytest.raises(BaseException, match=r".*"):
        Limpet(crashing, encryption=Encryption(KEY)).run_sync(reads, TREASURE * 5000, state_id="x")
    assert crashing.is_stopped
    result = Limpet(backend, encryption=Encryption([OTHER, KEY])).run_sync(reads, TREASURE * 5000, state_id="x")
    assert [160_000, 160_000] == result


def test_a_forged_record_in_clear_is_refused() -> None:
    backend = MemoryStateBackend()
    Limpet(backend).run_sync(hunt, "pier", state_id="x")
    with pytest.raises(NotEncrypted):
        Limpet(backend, encryption=Encryption(KEY)).history("x")
    accepting = Limpet(backend, encryption=Encryption(KEY, accept_plain=True))
    assert accepting.history("x").has_completed_event("hunt::dig::tool_call")


def test_a_snapshot_goes_on_in_a_store_that_was_rotated_since() -> None:
    backend = MemoryStateBackend()
    state = ExecutionState(state_backend=backend, encryption=Encryption(KEY), state_id="x")
    state.storage.set("a", 1)
    snapshot: StateSnapshot = state.to_snapshot()
    state.save_checkpoint()
    for target in (backend, MemoryStateBackend()):
        rotated = Encryption([OTHER, KEY])
        again = ExecutionState.from_snapshot(snapshot, state_backend=target, encryption=rotated)
        again.storage.set("b", 2)
        again.storage.set("c", 3)
        loaded = ExecutionState.load_from_state_id("x", target, encryption=rotated)
        assert [1, 2, 3] == [loaded.storage.get(key) for key in "abc"]


def test_the_command_line_uses_the_key_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMPET_KEY", KEY)
    store = f"sqlite:///{tmp_path}/runs.db"
    with Limpet(store) as client:
        client.run_sync(hunt, "pier", state_id="x")
    shown = CliRunner().invoke(commands, ["show", "x", "--store", store])
    assert (0, True) == (shown.exit_code, TREASURE in shown.output)
    monkeypatch.delenv("LIMPET_KEY")
    refused = CliRunner().invoke(commands, ["show", "x", "--store", store])
    assert (4, True) == (refused.exit_code, "LIMPET_KEY" in refused.output)
