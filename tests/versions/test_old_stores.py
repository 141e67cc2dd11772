"""Stores that older versions wrote are read, gone on with and run to their end. Newer ones are refused, and kept."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from versions import kept_actors
from versions.kept_facts import TEST_KEY, facts_of

from limpet import (
    Encryption,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    NotEncrypted,
    SQLiteStateBackend,
    StateStatus,
    UnsupportedVersion,
    WrongKey,
)
from limpet.backends.files.states import FileSystemStateBackend

KEPT = Path(__file__).with_name("stores")
STORES = sorted(path.relative_to(KEPT).with_suffix("").as_posix() for path in KEPT.glob("*/*.json"))
TRAVELLED = [name for name in STORES if "travelled" in (KEPT / f"{name}.json").read_text()]
WITH_ARTIFACTS = [name for name in STORES if '"large"' in (KEPT / f"{name}.json").read_text()]
SEALED = [name for name in STORES if "sealed" in name]


def later() -> float:
    """Now, or when the leases of all kept stores have run out: whoever runs this may have a clock that is behind."""
    return max(time.time(), 2e9)


class Old:
    """A copy of a kept store, and what was known of it when it was made."""

    def __init__(self, name: str, folder: Path) -> None:
        kept, file = KEPT / name.partition("/")[0], name.partition("/")[2]
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        self.facts: dict[str, Any] = json.loads((folder / f"{file}.json").read_text())
        self.options: dict[str, Any] = {"encryption": Encryption(TEST_KEY)} if name in SEALED else {}
        self.path = folder / ("folder" if file == "folder" else f"{file}.db")

    @contextmanager
    def open(self, **options: Any) -> Iterator[Limpet]:
        kind = SQLiteStateBackend if self.path.suffix else FileSystemStateBackend
        with kind(self.path, "normal", clock=later) as backend:
            yield Limpet(backend, **(self.options | options))

    def now(self) -> dict[str, Any]:
        with self.open() as client:
            return facts_of(client, with_timelines="timelines" in self.facts["whole"], **self.options)


@pytest.fixture
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    kept_actors.executed.clear()
    kept_actors.weather.clear()
    return Old(request.param, tmp_path)


every_store = pytest.mark.parametrize("old", STORES, indirect=True)


def test_there_are_stores_of_every_version() -> None:
    plain_and_sealed = [f"schema-{number}/{name}" for number in (2, 3, 4, 5) for name in ("plain", "sealed")]
    assert sorted(["schema-1/plain", *plain_and_sealed, "schema-4/folder", "schema-5/folder"]) == STORES


@every_store
def test_an_old_store_is_read_as_it_was_written(old: Old) -> None:
    assert old.facts == old.now()
    # And once more, after whatever was brought up to date when it was opened.
    assert old.facts == old.now()


@every_store
def test_values_of_an_old_store_have_their_types(old: Old) -> None:
    with old.open() as client:
        result = asyncio.run(client.resume("whole"))
    assert {} == kept_actors.executed
    expected = asyncio.run(kept_actors.survey(["north", "south"]))
    assert expected == result
    assert repr(expected) == repr(result)
    assert isinstance(result["dives"][0]["reading"], kept_actors.Reading)
    assert isinstance(result["dives"][0]["sample"], kept_actors.Sample)


@every_store
@pytest.mark.parametrize("state_id", ["failed", "killed"])
def test_an_unfinished_run_of_an_old_store_goes_on_where_it_stopped(old: Old, state_id: str) -> None:
    with old.open() as client:
        assert [0, 10, 21, 31, 41] == asyncio.run(client.resume(state_id))
        # The agents are entered again; of the calls only what has no result is made.
        calls = {name: count for name, count in kept_actors.executed.items() if name.startswith("lift")}
        assert {"lift 3": 1, "lift 4": 1} == calls
        assert kept_actors.executed["stow 2"] == 0
        assert StateStatus.COMPLETED is client.show(state_id).header.status
        kept_actors.executed.clear()
        assert [0, 10, 21, 31, 41] == client.run_sync(kept_actors.haul, 5, state_id=state_id)
        assert {} == kept_actors.executed
    # The others are as they were, and so is what this one had done before.
    now = old.now()
    assert without(state_id, old.facts) == without(state_id, now)
    before, after = ([each[:4] for each in facts[state_id]["life"]] for facts in (old.facts, now))
    assert before == after[: len(before)]


def without(state_id: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if name != state_id}


@every_store
def test_an_explicit_state_of_an_old_store_goes_on(old: Old) -> None:
    async def go_on(state: ExecutionState) -> list[int]:
        first = await ExecutionEvent(kept_actors.AddOne())(kept_actors.CountInput(value=5), None, state)
        second = await ExecutionEvent(kept_actors.AddOne(), tag="again")(first, None, state)
        third = await ExecutionEvent(kept_actors.AddOne(), tag="new")(second, None, state)
        return [first.result.value, second.result.value, third.result.value]

    with old.open() as client:
        state = ExecutionState.load_from_state_id("explicit", client.backend, **old.options)
        assert kept_actors.Place("north", kept_actors.Depth.DEEP, (1.0, 2.0)) == state.storage.get("place")
        assert not state.storage.has("gone")
        assert [6, 7, 8] == asyncio.run(go_on(state))
        assert {"add one to 7": 1} == kept_actors.executed
        state.storage.set("place", "elsewhere")
        state.save_checkpoint()
        state.save_checkpoint(StateStatus.COMPLETED)
    with old.open() as client:
        again = ExecutionState.load_from_state_id("explicit", client.backend, **old.options)
        assert "elsewhere" == again.storage.get("place")
        assert 3 == len(again.history)


@every_store
def test_a_run_of_an_old_store_is_run_on_and_forked(old: Old) -> None:
    with old.open() as client:
        result = asyncio.run(client.rerun("whole", "describe", replace="a word"))
        assert "a word" == result["text"]
        assert {"survey": 1} == kept_actors.executed
        fork = client.fork("failed", "stow::lift", replace=200)
        assert [0, 10, 201, 31, 41] == asyncio.run(client.resume(fork))
        assert [1, 2] == [each.number for each in client.timelines("whole")]
        assert "a word" == client.history("whole").get_event_result("survey::describe::llm_call")
        first = client.history("whole", timeline=1).get_event_result("survey::describe::llm_call")
    assert "north: 11.50, south: 11.50" == first
    assert without("whole", old.facts).keys() <= old.now().keys()
    assert old.facts["failed"] == old.now()["failed"]


@every_store
def test_an_old_store_is_sound_and_the_same_after_its_records_are_rewritten(old: Old) -> None:
    with old.open() as client:
        assert [] == [state_id for state_id in old.facts if not client.verify(state_id).is_sound]
        assert {} == client.migrate(backup=False).refused
        own = {state_id: client.backend.read(state_id)[-1][1][4] for state_id in old.facts}
        assert {3, 4} >= set(own.values())
        assert 0 == client.migrate(backup=False).records
        assert [] == [state_id for state_id in old.facts if not client.verify(state_id).is_sound]
    assert old.facts == old.now()


@pytest.mark.parametrize("old", TRAVELLED, indirect=True)
def test_forks_and_timelines_of_an_old_store_are_gone_on_with(old: Old) -> None:
    with old.open() as client:
        assert [0, 10, 201, 31] == asyncio.run(client.resume("travelled"))
        assert [0, 10, 201, 31] == asyncio.run(client.resume("fork"))
        assert {} == kept_actors.executed
        assert [0, 10, 201, 301] == asyncio.run(client.resume("fork-of-fork"))
        assert not [name for name in kept_actors.executed if name.startswith("lift")]
        assert [0, 10, 21] == asyncio.run(client.resume("orphan"))
        assert 1 == kept_actors.executed["lift 2"]
        assert ["fork"] == [each.state_id for each in client.list_states(parent_state_id="travelled")]
        client.delete("travelled")
        assert [0, 10, 201, 301] == asyncio.run(client.resume("fork-of-fork"))


@pytest.mark.parametrize("old", WITH_ARTIFACTS, indirect=True)
def test_large_values_of_an_old_store_are_verified_and_kept(old: Old) -> None:
    with old.open() as client:
        text = client.history("large").get_event_result("archive::scan#2::tool_call")
        assert "kelp and tide, " * 40_000 == text
        state = ExecutionState.load_from_state_id("explicit", client.backend, **old.options)
        assert "kelp and tide, " * 4_000 == state.storage.get_artifact("page")
        assert 660_000 == asyncio.run(client.resume("large"))


@pytest.mark.parametrize("old", SEALED, indirect=True)
def test_a_sealed_old_store_stays_closed_without_its_key(old: Old) -> None:
    with old.open(encryption=None) as client, pytest.raises(WrongKey, match="no key is given"):
        client.history("whole")
    with old.open(encryption=Encryption(b"x" * 32)) as client, pytest.raises(WrongKey):
        client.history("whole")


@pytest.mark.parametrize("old", ["schema-2/plain"], indirect=True)
def test_an_old_store_that_was_not_encrypted_is_refused_where_encryption_is_wanted(old: Old) -> None:
    with old.open(encryption=Encryption(TEST_KEY)) as client, pytest.raises(NotEncrypted):
        client.history("whole")


@pytest.mark.parametrize("old", [name for name in STORES if "folder" not in name], indirect=True)
def test_a_store_from_the_future_is_refused_and_left_byte_for_byte(old: Old) -> None:
    connection = apsw.Connection(str(old.path))
    connection.pragma("user_version", 99)
    connection.close()
    before = {path: path.read_bytes() for path in old.path.parent.rglob("*") if path.is_file()}
    with pytest.raises(UnsupportedVersion, match=r"version 99; .* left as it is; install a newer Limpet"), old.open():
        pass
    assert before == {path: path.read_bytes() for path in old.path.parent.rglob("*") if path.is_file()}


@pytest.mark.parametrize("old", ["schema-4/folder"], indirect=True)
def test_a_folder_from_the_future_is_refused_and_left_byte_for_byte(old: Old) -> None:
    (old.path / "format").write_text("limpet states 99\n")
    before = {path: path.is_file() and path.read_bytes() for path in old.path.parent.rglob("*")}
    with pytest.raises(UnsupportedVersion, match=r"version 99; .* left as it is; install a newer Limpet"), old.open():
        pass
    assert before == {path: path.is_file() and path.read_bytes() for path in old.path.parent.rglob("*")}


@pytest.mark.parametrize("old", ["schema-1/plain", "schema-3/plain"], indirect=True)
def test_a_record_from_the_future_is_refused_and_stays_as_it_is(old: Old) -> None:
    with old.open():
        pass  # Brought up to date, so that what is compared is what reading does.
    connection = apsw.Connection(str(old.path))
    key = connection.execute("SELECT key FROM states WHERE state_id = 'killed'").get
    ends: list[Any] = connection.execute(
        "SELECT seq, body FROM records WHERE state = ? ORDER BY seq DESC LIMIT 2", (key,)
    ).fetchall()
    (last, body), (_, before) = ends
    newer = b"\x09a record as nobody can read it yet"
    chained = zlib.crc32(newer, int.from_bytes(before[:4], "big")).to_bytes(4, "big") + newer
    assert body != chained
    connection.execute("UPDATE records SET body = ? WHERE state = ? AND seq = ?", (chained, key, last))
    records = connection.execute("SELECT state, seq, body FROM records ORDER BY state, seq").fetchall()
    with old.open() as client:
        with pytest.raises(
            UnsupportedVersion, match=rf"Record {last} of state 'killed' has format version 9; .*install"
        ):
            client.history("killed")
        with pytest.raises(UnsupportedVersion, match="left as it is"):
            asyncio.run(client.resume("killed"))
        assert {} == kept_actors.executed
        assert StateStatus.COMPLETED is client.show("whole").header.status
        assert StateStatus.RUNNING is next(each.status for each in client.list_states() if each.state_id == "killed")
    assert records == connection.execute("SELECT state, seq, body FROM records ORDER BY state, seq").fetchall()
    connection.close()
