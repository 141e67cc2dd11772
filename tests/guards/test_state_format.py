"""The page about the state format is true: by it alone, stores are read and written that Limpet wrote and reads.

What knows the format by the page alone stands in ``tests/format_by_hand`` and imports nothing of Limpet.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from format_by_hand import lines, page, stores
from format_by_hand.frames import Base, read_journal
from versions import kept_actors
from versions.kept_facts import TEST_KEY

from limpet import (
    CheckpointNote,
    CheckpointRecord,
    Details,
    DroppedRecord,
    Encryption,
    EventRecord,
    ExecutionEvent,
    ExecutionState,
    Failure,
    Limpet,
    Part,
    ReadRecord,
    Retention,
    SQLiteStateBackend,
    StateBackend,
    StateMetadata,
    StateStatus,
    StorageRecord,
    TimelineRecord,
    TimerRecord,
    Usage,
    agent,
    tool,
)
from limpet.backends.files.states import FileSystemStateBackend

HERE = Path(__file__).parent
RECORDS = {
    1: EventRecord,
    2: CheckpointRecord,
    3: StorageRecord,
    4: TimelineRecord,
    5: DroppedRecord,
    6: TimerRecord,
    7: ReadRecord,
}
KEY = base64.b64decode(TEST_KEY)


@pytest.mark.parametrize("file", sorted((HERE.parent / "format_by_hand").glob("*.py")), ids=lambda file: file.name)
def test_what_is_by_hand_imports_nothing_of_limpet(file: Path) -> None:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert [] == [name for name in named if name.split(".")[0] in ("limpet", "msgspec", "versions")]


@pytest.mark.parametrize("tag", RECORDS)
def test_the_fields_of_a_record_are_those_on_the_page(tag: int) -> None:
    cls = RECORDS[tag]
    assert tag == cls.__struct_config__.tag
    fields = page.kinds()[tag].fields
    assert list(cls.__struct_fields__) == [field.name for field in fields]
    defaults = [page.REQUIRED if field.required else field.default for field in msgspec.structs.fields(cls)]
    assert [[] if default == () else default for default in defaults] == [field.default for field in fields]
    # The details of an event and the note of a checkpoint are left out where there are none, and so are the place and
    # the number of a change of the storage.
    assert lines.USUAL_FIELDS[tag] == len(fields) - {EventRecord: 1, CheckpointRecord: 1, StorageRecord: 2}.get(cls, 0)


@pytest.mark.parametrize(("cls", "before"), [(Details, "| in `details` |"), (Usage, "| `usage` | map |")])
def test_what_few_events_have_is_on_the_page(cls: type[Details | Usage], before: str) -> None:
    text = page.PAGE.read_text()
    section = text[text.index(before) : text.index("A failure is an array")]
    assert [] == [name for name in cls.__struct_fields__ if f"`{name}`" not in section]


def test_what_a_checkpoint_says_is_on_the_page() -> None:
    text = page.PAGE.read_text()
    section = text[text.index("| in `note` |") : text.index("### Tag 3")]
    assert [] == [name for name in CheckpointNote.__struct_fields__ if f"`{name}`" not in section]


def test_the_page_has_every_kind_of_record() -> None:
    assert {tag: cls.__name__.removesuffix("Record").lower() for tag, cls in RECORDS.items()} == {
        tag: kind.name for tag, kind in page.kinds().items()
    }


@pytest.mark.parametrize("cls", [Failure, Part])
def test_the_parts_of_a_record_are_on_the_page(cls: type[Failure | Part]) -> None:
    text = page.PAGE.read_text()
    places = [
        text.index(f"`{name}`", text.index(f"A {cls.__name__.lower()} is an array of")) for name in cls.__match_args__
    ]
    assert sorted(places) == places


@contextmanager
def opened(kind: str, path: Path) -> Iterator[StateBackend]:
    if kind == "sqlite":
        made: StateBackend = SQLiteStateBackend(path, "normal")
    else:
        # Small segments, so that there are several, and each way of packing them.
        packing: Any = {"zstd": "zstd", "gzip": "gzip"}.get(kind)
        made = FileSystemStateBackend(path, "normal", compression=packing, segment_size=2_000)
    with made as backend:
        yield backend


async def fill(client: Limpet, **options: Any) -> None:
    """Runs, failures, timelines, forks of forks, a fork whose parent is gone, storage and checkpoints."""
    metadata = StateMetadata(tags=["reef"], description="Tang – 海藻", pipeline_name="kelp", custom_data={"n": [1.5]})
    await client.run(kept_actors.survey, ["north", "south"], state_id="whole", metadata=metadata)
    kept_actors.weather.add("storm")
    with suppress(kept_actors.Storm):
        await client.run(kept_actors.haul, 5, state_id="failed")
    kept_actors.weather.clear()
    await client.run(kept_actors.haul, 4, state_id="travelled")
    await client.rerun("travelled", "haul::stow::lift::tool_call", replace=200)
    client.fork("travelled", "stow#2", new_state_id="fork")
    await client.resume("fork")
    client.fork("fork", "stow#2::lift", replace=300, new_state_id="fork-of-fork")
    await client.run(kept_actors.haul, 3, state_id="parent")
    client.fork("parent", new_state_id="orphan")
    client.delete("parent")
    await client.run(kept_actors.haul, 4, state_id="lean", metadata=StateMetadata(tags=["lean"]))
    await client.rerun("lean", "haul::stow::lift::tool_call", replace=200)
    assert client.cleanup(Retention(compact_after=timedelta(0), tags=["lean"])).compacted
    state = ExecutionState(state_backend=client.backend, state_id="explicit", **options)
    await ExecutionEvent(kept_actors.AddOne())(kept_actors.CountInput(value=5), None, state)
    state.storage.set("all", {"$odd": [float("nan"), float("-inf"), b"\xff"], "none": None})
    state.storage.set("gone", 2**70)
    state.storage.delete("gone")
    state.storage.set_artifact("page", "kelp and tide, " * 400)
    state.save_checkpoint(StateStatus.INTERRUPTED)


def stored_by_limpet(client: Limpet, **options: Any) -> dict[str, tuple[stores.State, list[Any]]]:
    """Every state as the page would have it, and its records as lists; told by Limpet."""
    found: dict[str, tuple[stores.State, list[Any]]] = {}
    for header in client.list_states():
        state_id = header.state_id
        snapshot = ExecutionState.load_from_state_id(state_id, client.backend, **options).to_snapshot()
        state = stores.State(
            state_id,
            header.status.value,
            header.created_at,
            header.updated_at,
            msgspec.to_builtins(header.metadata),
            header.agent,
            header.version,
            header.timeline,
            [Base(base.state_id, base.last) for base in header.bases],
            None if header.end is None else (header.end.position, header.end.link),
            [frame for _, frame in client.backend.read(state_id)],
        )
        found[state_id] = (state, listed(snapshot.records))
    return found


def listed(records: Iterable[Any]) -> list[Any]:
    return [msgspec.msgpack.decode(msgspec.msgpack.encode(record)) for record in records]


@pytest.mark.parametrize("kind", ["sqlite", "plain", "zstd", "gzip"])
@pytest.mark.parametrize("is_sealed", [False, True], ids=["clear", "sealed"])
def test_a_store_is_read_by_the_page_alone(kind: str, is_sealed: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"encryption": Encryption(TEST_KEY)} if is_sealed else {}
    path = tmp_path / ("store.db" if kind == "sqlite" else "store")
    with opened(kind, path) as backend:
        client = Limpet(backend, **options)
        asyncio.run(fill(client, **options))
        expected = stored_by_limpet(client, **options)
    by_hand = stores.read_sqlite(path) if kind == "sqlite" else stores.read_folder(path)
    assert {"whole", "failed", "travelled", "fork", "fork-of-fork", "orphan", "lean", "explicit"} == set(by_hand)
    for state_id, (state, records) in expected.items():
        assert state == by_hand[state_id]
        assert records == read_journal(state_id, by_hand[state_id].frames, state.bases, KEY if is_sealed else None)
        last, link = state.end or (0, 0)
        assert last == 0 or link == lines.chain_of(state.frames[last - 1])


@pytest.mark.parametrize("kind", ["sqlite", "plain"])
def test_letters_are_read_by_the_page_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with opened(kind, path) as backend:
        client = Limpet(backend)
        for state_id in ("kelp", "wrack.2"):
            client.run_sync(greetings, ["tide"], state_id=state_id)
            for name in ("question", "Tang – 海藻"):
                backend.deliver(state_id, name, name.encode() + b"\xff")
        expected = [*backend.letters("kelp"), *backend.letters("wrack.2")]
    by_hand = stores.read_sqlite_letters(path) if kind == "sqlite" else stores.read_folder_letters(path)
    assert [msgspec.structs.astuple(letter) for letter in expected] == by_hand


@pytest.mark.parametrize("kind", ["sqlite", "plain"])
def test_notes_are_read_by_the_page_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    expected = {"cleanup": '{"began_at":"now"}', "Tang – 海藻/..": "two\nlines"}
    with opened(kind, path) as backend:
        assert [True, True] == [backend.swap_note(name, None, body) for name, body in expected.items()]
    assert expected == (stores.read_sqlite_notes(path) if kind == "sqlite" else stores.read_folder_notes(path))


@pytest.mark.parametrize("kind", ["zstd", "gzip"])
def test_closed_segments_are_packed_and_hold_the_same_lines(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path / "store") as backend:
        asyncio.run(fill(Limpet(backend)))
    suffix = {"zstd": "zst", "gzip": "gz"}[kind]
    assert list((tmp_path / "store" / "states" / "whole").glob(f"journal-*.jsonl.{suffix}"))


@pytest.mark.parametrize("schema", ["schema-1", "schema-2", "schema-3"])
def test_old_records_are_read_by_the_page_alone(schema: str, tmp_path: Path) -> None:
    shutil.copy(HERE.parent / "versions" / "stores" / schema / "plain.db", tmp_path / "plain.db")
    with Limpet(f"sqlite:///{tmp_path}/plain.db", create=False) as client:
        for header in client.list_states():
            state_id = header.state_id
            bases = [Base(base.state_id, base.last) for base in header.bases]
            snapshot = ExecutionState.load_from_state_id(state_id, client.backend).to_snapshot(with_artifacts=False)
            frames = [frame for _, frame in client.backend.read(state_id)]
            assert {1} == {frame[4] for frame in frames}
            assert listed(snapshot.records) == read_journal(state_id, frames, bases)


greeted: list[str] = []


@tool
async def greet(name: str) -> str:
    greeted.append(name)
    return f"hello {name}"


@agent
async def greetings(names: list[str]) -> list[str]:
    return [await greet(name) for name in names]


WRITTEN = {
    "state_id": "by-hand",
    "key": 1,
    "status": "running",
    "created_at": "2026-05-18T06:30:00Z",
    "updated_at": "2026-05-18T06:30:00Z",
    "version": 2,
    "agent": "reef:greetings",
    "fence": (1 << 20) + 1,
    "metadata": {"tags": ["hand"], "custom_data": {"n": 1}},
}
RECORDS_BY_HAND: list[dict[str, Any]] = [
    {
        "event": {
            "seq": 1,
            "address": "greetings::agent_call",
            "status": "started",
            "at": 1.5,
            "input": [["kelp", "tide"]],
        }
    },
    {
        "event": {
            "seq": 2,
            "address": "greetings::greet::tool_call",
            "status": "completed",
            "at": 2.5,
            "duration_s": 0.5,
            "input": ["kelp"],
            "result": "hello kelp",
            "beside": 0,
        }
    },
    {"storage": {"seq": 3, "key": "kept", "at": 3.5, "value": {"$tuple": [1, {"$bytes": "AP8="}]}, "behind": 1}},
    {"checkpoint": {"seq": 4, "status": "running", "at": 4.5, "metadata": {"tags": []}}},
    {"dropped": {"seq": 5, "why": 1, "behind": 2, "usage": {"tokens": 7, "cost": 0.5}}},
]


def test_a_store_that_was_written_by_hand_is_listed_verified_shown_and_resumed(tmp_path: Path) -> None:
    greeted.clear()
    stores.write_folder(tmp_path / "store", WRITTEN, RECORDS_BY_HAND)
    by_hand = stores.read_folder(tmp_path / "store")["by-hand"]
    with Limpet(FileSystemStateBackend(tmp_path / "store")) as client:
        [header] = client.list_states(tags=["hand"])
        assert ("by-hand", "reef:greetings", 5) == (header.state_id, header.agent, header.position)
        assert stored_by_limpet(client)["by-hand"][0] == by_hand
        assert client.verify("by-hand").is_sound
        shown = client.show("by-hand").history
        assert "hello kelp" == shown.get_event_result("greetings::greet::tool_call")
        state = ExecutionState.load_from_state_id("by-hand", client.backend)
        assert (1, b"\x00\xff") == state.storage.get("kept")
        assert ["hello kelp", "hello tide"] == client.run_sync(greetings, ["kelp", "tide"], state_id="by-hand")
        assert ["tide"] == greeted
        assert (1, 7, 0.5) == (
            client.usage("by-hand").model_calls,
            client.usage("by-hand").tokens,
            client.usage("by-hand").cost,
        )
    again = stores.read_folder(tmp_path / "store")["by-hand"]
    assert "completed" == again.status
    assert by_hand.frames == again.frames[: len(by_hand.frames)]
    assert 7 == len(read_journal("by-hand", again.frames))
