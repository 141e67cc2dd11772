"""States of the system that Limpet grew out of, taken in as history that is over. Nothing pickled is ever opened."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from acceptance.moving_stores import KINDS

from limpet import (
    Encryption,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    NotImported,
    StateStatus,
    UnsupportedVersion,
    UsageError,
    new_key,
)

STORES = Path(__file__).parent / "seed_stores"
FINISHED = "3f8b2c1e-5d47-4a60-9c1b-7e2f90a4d6b1"
RUNNING = "a91d7c54-0b36-4f2e-8e11-52c6f0d3b784"
BARE = "00000000-0000-4000-8000-000000000001"

opened: list[str] = []


class Trap:
    """Notes that it was unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return opened.append, ("unpickled",)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with artifacts that nobody should open."""
    folder = tmp_path / ".state_store"
    shutil.copytree(STORES / "finished", folder)
    snapshot = json.loads((folder / "states" / f"{FINISHED}.json").read_text())
    (folder / "artifacts").mkdir()
    (folder / "artifacts" / f"{snapshot['artifact_refs']['embedding']}.pkl").write_bytes(pickle.dumps(Trap()))
    return folder


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Limpet]:
    with KINDS[request.param](tmp_path) as backend:
        yield Limpet(backend)


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


def test_a_whole_store_is_taken_in_and_nothing_pickled_is_opened(client: Limpet, store: Path) -> None:
    assert [FINISHED, RUNNING] == client.import_all(store)
    assert RUNNING == client.import_(store)
    assert [RUNNING, FINISHED] == [header.state_id for header in client.list_states()]
    assert [FINISHED] == [header.state_id for header in client.list_states(tags=["kelp"], status=StateStatus.COMPLETED)]
    assert [] == opened


def test_events_have_their_addresses_results_and_times(client: Limpet, store: Path) -> None:
    client.import_all(store)
    history = client.history(FINISHED)
    assert [
        "research::agent_call",
        "research::fetch::tool_call",
        "research::fetch#2::tool_call",
        "research::sum up %5Bshort%5D %231::draft::llm_call",
    ] == history.addresses()
    assert {"title": "Kelp", "pages": 2} == history.get_event_result("research::agent_call")
    assert {"url": "kelp/2", "words": []} == history.get_event_result("research::fetch#2::tool_call")
    first = history["research::fetch::tool_call"]
    assert (local("2024-05-01T10:00:00.5"), 0.25) == (first.started_at, first.duration_s)
    statuses = [(record.address.split("::")[-2], record.status) for record in history.get_event_list()]
    assert ("research", ExecutionStatus.STARTED) == statuses[0]
    assert ("research", ExecutionStatus.COMPLETED) == statuses[-1]


def test_the_header_says_what_the_snapshot_said(client: Limpet, store: Path) -> None:
    client.import_all(store)
    header = client.show(FINISHED).header
    assert (StateStatus.COMPLETED, None, None) == (header.status, header.agent, header.holder)
    assert local("2024-05-01T10:00:05.25") == header.created_at
    assert local("2024-05-01T10:00:06.5") == header.updated_at
    metadata = header.metadata
    assert (["demo", "kelp"], "What is kelp?", "research") == (
        metadata.tags,
        metadata.description,
        metadata.pipeline_name,
    )
    assert {"user": 7} == metadata.custom_data
    # What ran when it was saved does not run here.
    assert StateStatus.PAUSED is client.show(RUNNING).header.status
    assert [RUNNING] == [child.state_id for child in client.lineage(FINISHED).children]


def test_storage_comes_along_and_a_note_stands_for_what_was_pickled(client: Limpet, store: Path) -> None:
    client.import_all(store)
    state = ExecutionState.load_from_state_id(FINISHED, client.backend)
    assert ["fetched", "summed up"] == [state.storage.get(f"step::{number}") for number in (0, 1)]
    note = state.storage.get_artifact("embedding")
    snapshot = json.loads((store / "states" / f"{FINISHED}.json").read_text())
    assert (snapshot["artifact_refs"]["embedding"], [0.5, 1.5]) == (note["hash"], note["shown_as"])
    assert note["size"] > 0
    assert {"not_imported", "hash"} == set(state.storage.get_artifact("chart"))
    assert [] == opened


def test_failures_retries_waits_and_recovered_results_are_understood(client: Limpet, store: Path) -> None:
    client.import_all(store)
    history = client.history(RUNNING)
    failed = history["research::fetch::tool_call"]
    assert failed.error is not None
    assert (ExecutionStatus.FAILED, "the page does not answer", 3) == (
        failed.status,
        failed.error.message,
        failed.attempt,
    )
    assert "kelp" == history.get_event_result("research::fetch#2::tool_call")
    assert ExecutionStatus.AWAITING is history["research::approve::tool_call"].status
    assert ExecutionStatus.STARTED is history["research::agent_call"].status
    # A recovered result is told again by its snapshot, and was no call.
    assert "research::fetch#3::tool_call" not in history


def test_it_can_be_looked_at_compared_and_moved_and_not_resumed(client: Limpet, store: Path, tmp_path: Path) -> None:
    client.import_all(store)
    assert 1 == len(client.checkpoints(FINISHED))
    diff = client.diff(FINISHED, RUNNING)
    assert "research::approve::tool_call" in [event.address for event in diff.new_events]
    other = Limpet(MemoryStateBackend())
    assert FINISHED == other.import_(client.export(FINISHED, tmp_path / "x.zip"))
    assert client.backend.read(FINISHED) == other.backend.read(FINISHED)
    with pytest.raises(UsageError, match="so there is no agent to resume"):
        asyncio.run(client.resume(FINISHED))


def test_one_state_is_taken_in_by_its_file(client: Limpet, store: Path) -> None:
    assert FINISHED == client.import_(store / "states" / f"{FINISHED}.json")
    assert [FINISHED] == [header.state_id for header in client.list_states()]


def test_what_is_missing_has_a_default(client: Limpet) -> None:
    assert BARE == client.import_(STORES / "bare")
    history = client.history(BARE)
    assert ["add_one::tool_call", "add_one#2::tool_call"] == history.addresses()
    assert 6 == history.get_event_result("add_one::tool_call")
    assert StateStatus.PAUSED is client.show(BARE).header.status


def test_a_store_with_a_key_takes_it_in_encrypted(store: Path) -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend, encryption=Encryption(new_key()))
    client.import_all(store)
    assert {"title": "Kelp", "pages": 2} == client.history(FINISHED).get_event_result("research::agent_call")
    assert not any(b"Kelp" in frame for _, frame in backend.read(FINISHED))


def test_a_large_result_becomes_an_artifact(client: Limpet, store: Path) -> None:
    change(store, lambda snapshot: events(snapshot)[1].update(result="kelp " * 20_000))
    change(store, lambda snapshot: events(snapshot)[2].update(result="kelp " * 20_000))
    client.import_all(store)
    assert "kelp " * 20_000 == client.history(FINISHED).get_event_result("research::fetch::tool_call")
    assert client.artifacts is not None
    assert [100_000] == [info.size for info in client.artifacts.list_artifacts()]


def events(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    return snapshot["execution_state"]["history"]["events"]


def change(store: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    file = store / "states" / f"{FINISHED}.json"
    snapshot = json.loads(file.read_text())
    edit(snapshot)
    file.write_text(json.dumps(snapshot))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda snapshot: snapshot.pop("state_id"), "state_id"),
        (lambda snapshot: snapshot.pop("execution_state"), "execution_state"),
        (lambda snapshot: snapshot.update(state_id="../kelp"), "cannot be a state id"),
        (lambda snapshot: snapshot.update(status="sunk"), "its status 'sunk' is not known"),
        (lambda snapshot: snapshot.update(created_at="yesterday"), "created_at is no time: 'yesterday'"),
        (lambda snapshot: snapshot.update(version="one"), "its version is 'one'"),
        (lambda snapshot: snapshot["metadata"].update(tags="kelp"), r"\$\.metadata\.tags"),
        (
            lambda snapshot: events(snapshot)[3].update(execution_status="sunk"),
            r"events\[3\] is not understood: the status 'sunk' is not known",
        ),
        (
            lambda snapshot: events(snapshot)[4].update(address="", actor={}),
            r"events\[4\] is not understood: the address '' does not say what kind of call it is",
        ),
        (
            lambda snapshot: events(snapshot)[4].update(address="tool_call", actor={"event_type": "tool_call"}),
            r"events\[4\] is not understood: neither the address nor the actor says what was called",
        ),
        (lambda snapshot: events(snapshot)[2].update(datetime="noon"), r"events\[2\]\.datetime is no time: 'noon'"),
        (lambda snapshot: events(snapshot)[2].update(execution_time=-1), r"events\[2\] .* execution_time is -1"),
        (lambda snapshot: events(snapshot)[2].update(address=5), r"history\.events\[2\]\.address"),
        (lambda snapshot: snapshot["execution_state"]["history"].update(events="kelp"), r"history\.events"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(
    client: Limpet, store: Path, edit: Callable[[dict[str, Any]], object], why: str
) -> None:
    change(store, edit)
    with pytest.raises(NotImported, match=why) as caught:
        client.import_all(store)
    assert f"{FINISHED}.json" in str(caught.value)
    assert [] == client.list_states()


def test_newer_and_broken_and_empty_stores_are_refused(store: Path, tmp_path: Path) -> None:
    client = Limpet(MemoryStateBackend())
    change(store, lambda snapshot: snapshot.update(version="2.0.0"))
    with pytest.raises(UnsupportedVersion, match="has format version 2"):
        client.import_(store)
    (store / "states" / f"{FINISHED}.json").write_text('{"state_id": "x"')
    with pytest.raises(NotImported, match="truncated"):
        client.import_(store)
    (tmp_path / "empty" / "states").mkdir(parents=True)
    with pytest.raises(NotImported, match="no state is in its folder 'states'"):
        client.import_(tmp_path / "empty")
    with pytest.raises(NotImported, match="cannot be read"):
        client.import_(tmp_path / "nothing.json")


def test_a_snapshot_that_has_changed_since_is_another_state(client: Limpet, store: Path) -> None:
    client.import_all(store)
    before = client.backend.read(FINISHED)
    change(store, lambda snapshot: [events(snapshot)[at].update(result="another") for at in (0, -1)])
    with pytest.raises(UsageError, match="they differ from record 5 on"):
        client.import_(store / "states" / f"{FINISHED}.json")
    assert before == client.backend.read(FINISHED)
