"""Large values are artifacts: stored once, verified, and given back as if they had never left the journal."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from limpet import (
    ArtifactAdapter,
    ArtifactCorrupted,
    ArtifactFile,
    ArtifactMissing,
    Content,
    EventRecord,
    ExecutionState,
    FileSystemArtifactBackend,
    Limpet,
    MemoryArtifactBackend,
    MemoryStateBackend,
    Source,
    SQLiteStateBackend,
    StorageRecord,
    UsageError,
    ValueNotStorable,
    agent,
    compute_artifact_id,
    register_adapter,
    tool,
)
from limpet.testing import CrashingBackend

BIG = random.Random(1).randbytes(50_000)
executions: list[str] = []


@tool
async def fetch(name: str) -> bytes:
    executions.append(name)
    return BIG


@tool
async def measure(page: bytes) -> int:
    executions.append("measure")
    return len(page)


@agent
async def read_pages(count: int) -> int:
    total = 0
    for number in range(count):
        total += await measure(await fetch(f"page-{number}"))
    return total


@tool
async def tiny(name: str) -> bytes:
    return b"tiny"


@agent
async def repeat(count: int, actor: str) -> int:
    call = fetch if actor == "fetch" else tiny
    return sum([len(await call(f"page-{number}")) for number in range(count)])


def records(client: Limpet, state_id: str) -> list[EventRecord]:
    return [record for record in client.history(state_id) if isinstance(record, EventRecord)]


def test_a_large_result_is_an_artifact_and_a_replay_gives_it_back() -> None:
    backend = MemoryStateBackend()
    executions.clear()
    assert 100_000 == Limpet(backend).run_sync(read_pages, 2, state_id="x")
    client = Limpet(backend)
    (first, *_) = [record for record in records(client, "x") if record.result is not None]
    assert (compute_artifact_id(BIG),) == first.artifacts
    assert first.result is not None
    assert len(first.result) < 1000
    assert BIG == client.history("x").get_event_result(first.address)
    assert ["page-0", "measure", "page-1", "measure"] == executions


def test_a_resumed_run_takes_large_results_and_inputs_from_the_artifacts(tmp_path: Path) -> None:
    executions.clear()
    crashing = CrashingBackend(SQLiteStateBackend(tmp_path / "runs.db"), stop_at=8)
    with pytest.raises(BaseException, match=r".*"):
        Limpet(crashing).run_sync(read_pages, 3, state_id="x")
    assert crashing.is_stopped
    before = list(executions)
    assert 150_000 == Limpet(SQLiteStateBackend(tmp_path / "runs.db")).run_sync(read_pages, 3, state_id="x")
    assert 6 + 1 >= len(executions)
    assert before[0] == "page-0"
    assert 1 == executions.count("page-0")


def test_no_drift_is_seen_where_only_the_threshold_changed(tmp_path: Path) -> None:
    backend = MemoryStateBackend()
    crashing = CrashingBackend(backend, stop_at=8)
    with pytest.raises(BaseException, match=r".*"):
        Limpet(crashing).run_sync(read_pages, 3, state_id="x")
    for threshold in (10, 1_000_000):
        # A DriftWarning would be an error here.
        assert 150_000 == Limpet(backend, artifact_threshold=threshold).run_sync(read_pages, 3, state_id="x")


@agent
async def echo(data: bytes) -> bytes:
    return data


def test_a_large_input_of_a_run_is_stored_and_resumed_with() -> None:
    backend = MemoryStateBackend()
    assert BIG == Limpet(backend).run_sync(echo, BIG, state_id="x")
    assert BIG == Limpet(backend, artifact_threshold=1 << 30).run_sync(echo, BIG, state_id="x")
    assert BIG == asyncio.run(Limpet(backend).resume("x"))
    with pytest.raises(UsageError):
        Limpet(backend).run_sync(echo, BIG + b"!", state_id="x")


def size_of_store(path: Path, actor: str) -> tuple[int, int]:
    """The bytes of a closed store with two states of 100 events each without its records, and how many artifacts."""
    backend = SQLiteStateBackend(path)
    client = Limpet(backend)
    for state_id in ("one", "two"):
        client.run_sync(repeat, 100, actor, state_id=state_id)
    assert client.artifacts is not None
    count = len(client.artifacts.list_artifacts())
    journals = sum(len(body) for state_id in ("one", "two") for _, body in backend.read(state_id))
    backend.close()
    return sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file()) - journals, count


def test_200_events_with_one_large_result_take_the_room_of_one_copy_and_the_journals(tmp_path: Path) -> None:
    for name in ("large", "small"):
        (tmp_path / name).mkdir()
    large, count = size_of_store(tmp_path / "large" / "runs.db", "fetch")
    small, none = size_of_store(tmp_path / "small" / "runs.db", "tiny")
    assert (1, 0) == (count, none)
    # What an empty store takes, and what SQLite needs for 200 records, is the same in both.
    assert large - small <= 1.2 * len(BIG), f"{(large - small) / len(BIG):.2f} times one copy"


@tool(is_artifact=True)
async def forced() -> dict[str, Any]:
    return {"small": [1, (2, 3)]}


@agent
async def forcing() -> dict[str, Any]:
    return await forced()


def test_is_artifact_stores_a_small_result_as_an_artifact_too() -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend)
    expected = {"small": [1, (2, 3)]}
    assert expected == client.run_sync(forcing, state_id="x")
    (record,) = [record for record in records(client, "x") if "forced" in record.address and record.result is not None]
    assert (compute_artifact_id(expected),) == record.artifacts
    assert expected == client.history("x").get_event_result(record.address)


def test_is_artifact_can_be_set_for_one_call() -> None:
    @agent
    async def once() -> bytes:
        return await tiny.options(is_artifact=True)("x")

    client = Limpet("memory://")
    assert b"tiny" == client.run_sync(once, state_id="x")
    assert [(compute_artifact_id(b"tiny"),)] == [r.artifacts for r in records(client, "x") if r.artifacts]


PARTS: list[Any] = [
    {"array": np.arange(20_000), "text": "kelp " * 20_000, "small": 1, "bytes": BIG},
    [np.arange(20_000, dtype=">f4").reshape(100, 200), (np.asfortranarray(np.ones((200, 300))),)],
    pl.DataFrame({"n": range(20_000), "s": ["kelp"] * 20_000}),
    pl.Series("s", ["kelp", None] * 20_000),
    np.zeros(10_000, [("a", "i4"), ("b", "f8", 3)]),
    np.zeros(10_000, [("Überschrift", "i4"), ("海", "f8")]),
    np.zeros(100, [(f"field-{number}", "f8") for number in range(1000)]),
    np.zeros(10_000, np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 32})),
    ["not one large part"] * 20_000,
    "lone \ud800 surrogate" * 10_000,
    np.array([], dtype="f8").reshape(0, 3),
]


def same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, np.ndarray):
        layout = expected.flags.f_contiguous == actual.flags.f_contiguous
        return layout and expected.dtype == actual.dtype and bool(np.array_equal(expected, actual))
    if isinstance(expected, (pl.DataFrame, pl.Series)):
        return type(expected) is type(actual) and expected.equals(actual)
    if isinstance(expected, dict):
        return list(expected) == list(actual) and all(same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, (list, tuple)):
        return type(expected) is type(actual) and all(map(same, expected, actual))
    return type(expected) is type(actual) and expected == actual


@pytest.mark.parametrize("value", PARTS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("make", [MemoryArtifactBackend, None], ids=["memory", "files"])
def test_the_parts_of_a_value_are_stored_each_in_its_form(
    value: Any, make: Callable[[], MemoryArtifactBackend] | None, tmp_path: Path
) -> None:
    artifacts = FileSystemArtifactBackend(tmp_path / "artifacts") if make is None else make()
    state = ExecutionState(artifact_backend=artifacts)
    state.storage.set("value", value)
    state.storage.set_artifact("value", value)
    assert same(value, state.storage.get("value"))
    assert same(value, state.storage.get_artifact("value"))
    if isinstance(value, np.ndarray):
        assert state.storage.get("value").flags.writeable


def test_an_array_is_stored_as_numpy_reads_it(tmp_path: Path) -> None:
    state = ExecutionState(artifact_backend=FileSystemArtifactBackend(tmp_path))
    array = np.random.default_rng(1).random((100, 100))
    artifact_id = state.storage.set_artifact("a", array)
    (file,) = [file for file in tmp_path.rglob("*") if file.is_file() and file.name.startswith(artifact_id[9:])]
    assert artifact_id == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert np.array_equal(array, np.load(file))


def test_the_id_of_an_artifact_is_that_of_its_value() -> None:
    state = ExecutionState()
    for value in (BIG, "text", np.arange(3), {"a": {3, 1, 2}}, [1, (2,)]):
        assert compute_artifact_id(value) == state.storage.set_artifact("x", value)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_id_of_an_artifact_is_the_same_in_every_process(seed: str) -> None:
    program = """
import numpy as np, polars as pl
from limpet import compute_artifact_id
values = [{"words": {"kelp", "rock", "tide"}, 2: (1.5, None)}, "text", np.arange(9).reshape(3, 3).T]
print([compute_artifact_id(value) for value in [*values, pl.DataFrame({"a": [1]})]])
"""
    values = [{"words": {"tide", "kelp", "rock"}, 2: (1.5, None)}, "text", np.arange(9).reshape(3, 3).T]
    expected = [compute_artifact_id(value) for value in [*values, pl.DataFrame({"a": [1]})]]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert f"{expected}\n" == ran.stdout


def test_artifacts_of_the_storage_are_a_space_of_their_own() -> None:
    state = ExecutionState()
    state.storage.set("x", 1)
    state.storage.set_artifact("x", [1.0, 2.0])
    assert (1, [1.0, 2.0]) == (state.storage.get("x"), state.storage.get_artifact("x"))
    assert state.storage.has_artifact("x")
    assert ["x"] == state.storage.artifact_keys()
    assert state.storage.delete_artifact("x")
    assert not state.storage.delete_artifact("x")
    assert (True, False) == (state.storage.has("x"), state.storage.has_artifact("x"))
    assert "gone" == state.storage.get_artifact("x", "gone")
    kept = [record for record in state.history if isinstance(record, StorageRecord)]
    assert [False, True, True] == [record.is_artifact for record in kept]


def test_a_state_is_saved_and_restored_with_its_artifacts(tmp_path: Path) -> None:
    with SQLiteStateBackend(tmp_path / "runs.db") as backend:
        artifacts = FileSystemArtifactBackend(tmp_path / "artifacts")
        state = ExecutionState(state_backend=backend, artifact_backend=artifacts)
        state.storage.set("step1", "completed")
        state.storage.set_artifact("embedding", [1.0, 2.0, 3.0])
        state.save_checkpoint()
        restored = ExecutionState.load_from_state_id(
            state_id=state.state_id, state_backend=backend, artifact_backend=artifacts
        )
        assert "completed" == restored.storage.get("step1")
        assert [1.0, 2.0, 3.0] == restored.storage.get_artifact("embedding")


def test_a_file_is_stored_and_outlives_itself(tmp_path: Path) -> None:
    @tool
    async def film(path: str) -> ArtifactFile:
        return ArtifactFile(path)

    @agent
    async def shoot(path: str) -> tuple[str, bytes]:
        file = await film(path)
        os.unlink(path)
        return file.name, file.open().read(5)

    source = tmp_path / "film.mp4"
    source.write_bytes(BIG)
    backend = SQLiteStateBackend(tmp_path / "runs.db")
    client = Limpet(backend)
    assert ("film.mp4", BIG[:5]) == client.run_sync(shoot, str(source), state_id="x")
    stored = client.history("x").get_event_result("shoot::film::tool_call")
    assert isinstance(stored, ArtifactFile)
    assert ("film.mp4", 50_000, BIG) == (stored.name, stored.size, stored.read_bytes())
    saved = stored.save_to(tmp_path / "again.mp4")
    assert BIG == saved.read_bytes()
    assert stored != ArtifactFile(saved)
    assert stored == ArtifactFile(saved, name="film.mp4")
    assert hash(stored) == hash(ArtifactFile(saved, name="film.mp4"))
    assert "<ArtifactFile film.mp4 of 50,000 bytes>" == repr(stored)
    assert stored != "film.mp4"


def test_a_file_inside_a_value_is_stored_too(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("kelp")
    state = ExecutionState()
    state.storage.set("x", {"file": ArtifactFile(source), "n": 1})
    state.storage.set_artifact("x", [ArtifactFile(source)])
    assert b"kelp" == state.storage.get("x")["file"].read_bytes()
    (file,) = state.storage.get_artifact("x")
    assert b"kelp" == file.read_bytes()
    state.storage.set("again", file)
    assert file == state.storage.get("again")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file"):
        ArtifactFile(tmp_path)


def test_a_place_in_a_value_with_a_file_is_named_right(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("kelp")
    state = ExecutionState()
    with pytest.raises(ValueNotStorable) as refusal:
        state.storage.set("x", [ArtifactFile(source), {"callback": print}])
    assert "storage['x'][1]['callback']" == refusal.value.place


class Doubling(ArtifactAdapter):
    """Keeps text twice."""

    name = "doubling"

    def size(self, value: str) -> int:
        return 2 * len(value)

    def content(self, value: str) -> Content:
        data = value.encode() * 2
        return Content(len(data), lambda: iter([data]))

    def details(self, value: str) -> str:
        return str(len(value))

    def read(self, source: Source) -> str:
        return source.read()[: int(source.reference.details)].decode()


def test_an_adapter_of_ones_own_can_be_named() -> None:
    register_adapter(Doubling())
    state = ExecutionState()
    artifact_id = state.storage.set_artifact("x", "kelp", adapter="doubling")
    assert compute_artifact_id(b"kelpkelp") == artifact_id
    assert "kelp" == state.storage.get_artifact("x")
    with pytest.raises(UsageError, match=r"No adapter is called 'nobody'\. Known are"):
        state.storage.set_artifact("x", "kelp", adapter="nobody")


class Heavy:
    """Something of which a hash takes long."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class HeavyAdapter(ArtifactAdapter):
    name = "heavy"
    type_names = (f"{__name__}:Heavy",)
    threads: ClassVar[set[str]] = set()

    def size(self, value: Heavy) -> int:
        return len(value.data)

    def content(self, value: Heavy) -> Content:
        self.threads.add(threading.current_thread().name)
        return Content(len(value.data), lambda: iter([value.data]))

    def read(self, source: Source) -> Heavy:
        return Heavy(source.read())


def test_a_part_that_takes_long_is_not_looked_at_on_the_event_loop() -> None:
    @tool
    async def lift(heavy: Heavy) -> list[Heavy]:
        return [heavy]

    @agent
    async def lifts(heavy: Heavy) -> int:
        return len((await lift(heavy))[0].data)

    register_adapter(HeavyAdapter())
    HeavyAdapter.threads.clear()
    assert 500_000 == Limpet("memory://").run_sync(lifts, Heavy(BIG * 10))
    assert HeavyAdapter.threads
    assert threading.current_thread().name not in HeavyAdapter.threads


def test_an_adapter_must_not_take_the_place_of_another() -> None:
    class Other(Doubling):
        pass

    class Texts(Doubling):
        name = "texts"
        type_names = ("builtins:str",)

    class Nameless(Doubling):
        name = "No Name"

    register_adapter(Doubling())
    for adapter, why in ((Other(), "Another adapter"), (Texts(), "have the adapter 'text'"), (Nameless(), "cannot be")):
        with pytest.raises(UsageError, match=why):
            register_adapter(adapter)


def test_a_damaged_or_missing_artifact_is_named(tmp_path: Path) -> None:
    backend = MemoryStateBackend()
    artifacts = FileSystemArtifactBackend(tmp_path / "artifacts")
    state = ExecutionState(state_backend=backend, artifact_backend=artifacts, state_id="x")
    artifact_id = state.storage.set_artifact("x", BIG)
    (file,) = [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size > 1000]
    damaged = bytearray(file.read_bytes())
    damaged[100] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(ArtifactCorrupted, match=artifact_id):
        state.storage.get_artifact("x")
    file.unlink()
    with pytest.raises(ArtifactMissing, match=artifact_id):
        state.storage.get_artifact("x")
    other = ExecutionState.load_from_state_id("x", backend, MemoryArtifactBackend())
    with pytest.raises(ArtifactMissing, match="artifact_backend"):
        other.storage.get_artifact("x")


def test_a_preview_says_what_an_artifact_is(tmp_path: Path) -> None:
    from limpet.cli.readable import read

    state = ExecutionState()
    (tmp_path / "a.txt").write_text("kelp")
    values: dict[str, Any] = {
        "array": np.zeros((100, 200)),
        "text": "the first words\nof a long text" * 2000,
        "frame": pl.DataFrame({"n": range(20_000)}),
        "dict": {"a": ["x" * 100] * 1000, "b": 2},
        "file": ArtifactFile(tmp_path / "a.txt"),
    }
    for key, value in values.items():
        state.storage.set_artifact(key, value)
    shown = {
        record.key: repr(read(record.value))
        for record in state.history
        if isinstance(record, StorageRecord) and record.value is not None
    }
    assert "float64 100 × 200" in shown["array"]
    assert "the first words of a long text" in shown["text"]
    assert "20,000 × 1: n Int64" in shown["frame"]
    assert "dict of 2: 'a', 'b'" in shown["dict"]
    assert "file a.txt, 4 bytes" in shown["file"]


def test_a_store_without_artifacts_keeps_large_values_in_the_journal() -> None:
    class Bare(MemoryStateBackend):
        def __init__(self) -> None:
            super().__init__()
            self.own_artifacts = None

    backend = Bare()
    client = Limpet(backend)
    assert 50_000 == client.run_sync(read_pages, 1, state_id="x")
    assert {()} == {record.artifacts for record in records(client, "x")}
    assert BIG == client.history("x").get_event_result("read_pages::fetch::tool_call")
    with pytest.raises(ValueNotStorable, match="no artifact backend"):
        ExecutionState(state_backend=backend).storage.set_artifact("x", 1)
    with pytest.raises(UsageError, match="has no artifacts"):
        client.collect()


def test_a_state_in_validation_stores_nothing_of_its_own(tmp_path: Path) -> None:
    from limpet import ReplayMode

    backend = MemoryStateBackend()
    Limpet(backend).run_sync(read_pages, 1, state_id="x")
    state = ExecutionState.load_from_state_id("x", backend, replay_mode=ReplayMode.VALIDATION)
    artifacts = backend.own_artifacts
    assert artifacts is not None
    before = backend.find_state("x"), artifacts.list_artifacts()
    other = BIG[::-1]
    state.storage.set("big", other)
    assert other == state.storage.get("big")
    assert before == (backend.find_state("x"), artifacts.list_artifacts())


def test_files_are_private(tmp_path: Path) -> None:
    state = ExecutionState(artifact_backend=FileSystemArtifactBackend(tmp_path / "artifacts"))
    state.storage.set_artifact("x", BIG)
    found = [tmp_path / "artifacts", *(tmp_path / "artifacts").rglob("*")]
    assert {0} == {os.stat(path).st_mode & 0o077 for path in found}
