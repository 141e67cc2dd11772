"""A program whose values are artifacts is stopped at every write of records and of artifacts, and taken up again.

Whatever a record names is there, and what is left over is garbage that the collector finds.
"""

from __future__ import annotations

import gc
import itertools
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from crash.artifact_program import content, executions, with_artifacts
from crash.stores import KINDS, opener

from limpet import (
    Encryption,
    EventRecord,
    ExecutionStatus,
    Limpet,
    StateBackend,
    new_key,
)
from limpet.journal.reachable import named_by
from limpet.testing import CrashingBackend

KEY = new_key()
INPUT = content("input.medium")

When = Literal["before", "after"]


def client_on(backend: StateBackend, kind: str) -> Limpet:
    return Limpet(backend, encryption=Encryption(KEY) if kind == "encrypted" else None)


def run(client: Limpet, folder: Path) -> Any:
    return client.run_sync(with_artifacts, INPUT, str(folder), state_id="swept")


def run_until_stopped(backend: CrashingBackend, kind: str, folder: Path) -> Any:
    try:
        return run(client_on(backend, kind), folder)
    except BaseException:
        if not backend.is_stopped:
            raise
    gc.collect()
    return None


def recorded_names(client: Limpet) -> set[str]:
    if client.backend.find_state("swept") is None:
        return set()
    history = client.history("swept")
    return {
        history._stored.decode(record.input)[0]
        for record in history
        if isinstance(record, EventRecord)
        and record.status is ExecutionStatus.COMPLETED
        and record.input is not None
        and record.address != "with_artifacts::agent_call"
    }


def require_whole(client: Limpet) -> None:
    """Everything that is named is there and reads back; everything else is found by the collector."""
    if client.backend.find_state("swept") is None:
        return
    history = client.history("swept")
    assert client.artifacts is not None
    named = named_by(record for record in history)
    stored = {info.artifact_id for info in client.artifacts.list_artifacts()}
    assert set() == named - stored, "a record names an artifact that is not there"
    for address in history.addresses():
        history.get_event_result(address)


@pytest.mark.parametrize("kind", [*KINDS, "encrypted"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_with_artifacts_stopped_at_any_write_ends_as_the_undisturbed_one(
    kind: str, when: When, tmp_path: Path
) -> None:
    executions.clear()
    expected = run(Limpet("memory://"), tmp_path)
    assert {1} == set(executions.values())
    numbers = itertools.count()
    stop_at = 0
    crashing = None
    while crashing is None or crashing.is_stopped:
        stop_at += 1
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        open_store = opener(kind, folder / "store")
        executions.clear()
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        result = run_until_stopped(crashing, kind, tmp_path)
        if crashing.is_stopped:
            before = executions.copy()
            client = client_on(open_store(), kind)
            require_whole(client)
            recorded = recorded_names(client)
            result = run(client, tmp_path)
            again = {name for name in recorded if executions[name] != before[name]}
            assert set() == again, "a recorded result ran again"
        assert expected == result
        require_whole(client_on(open_store(), kind))
    assert stop_at > 20, "the artifacts were not counted as writes"


@pytest.mark.parametrize("kind", ["memory", "normal", "files"])
def test_what_a_stopped_run_left_behind_is_collected(kind: str, tmp_path: Path) -> None:
    for stop_at in (3, 6, 9, 12, 15):
        folder = tmp_path / str(stop_at)
        folder.mkdir()
        open_store = opener(kind, folder / "store")
        run_until_stopped(CrashingBackend(open_store(), stop_at=stop_at), kind, tmp_path)
        client = client_on(open_store(), kind)
        result = run(client, tmp_path)
        planned = client.collect(grace=timedelta(0), dry_run=True)
        assert planned.deleted == client.collect(grace=timedelta(0)).deleted
        assert client.artifacts is not None
        history = client.history("swept")
        assert named_by(iter(history)) == {info.artifact_id for info in client.artifacts.list_artifacts()}
        assert result == run(client, tmp_path)
        client.delete("swept")
        client.collect(grace=timedelta(0))
        assert [] == client.artifacts.list_artifacts()
