"""Records of an older format are read as they are, and rewritten when that is asked for."""

from __future__ import annotations

import asyncio
import shutil
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from limpet import (
    Encryption,
    FileSystemStateBackend,
    Limpet,
    MemoryStateBackend,
    SQLiteStateBackend,
    StateBackend,
    UsageError,
    agent,
    tool,
)
from limpet.backends.contract import Append, Claim, StateUpdate
from limpet.codec import frames
from limpet.engine.lease import mark_ended, mark_running, new_holder
from limpet.keys import new_key
from limpet.model import End

VERSIONS = Path(__file__).parents[1] / "versions" / "stores"


@tool
async def step(name: str) -> str:
    return f"{name}!"


@agent
async def stepping(count: int) -> list[str]:
    return [await step(f"s{number}") for number in range(1, count + 1)]


def versions(backend: StateBackend, *, with_shared: bool = False) -> set[int]:
    """The versions of the frames that the states have written themselves."""
    found: set[int] = set()
    for header in backend.list_states():
        shared = header.bases[-1].last if header.bases and not with_shared else 0
        found |= {frame[4] for seq, frame in backend.read(header.state_id) if seq > shared}
    return found


def histories(client: Limpet) -> dict[str, list[object]]:
    return {header.state_id: list(client.history(header.state_id)) for header in client.list_states()}


@pytest.fixture(params=["schema-1", "schema-2", "schema-3"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store that an older version wrote."""
    shutil.copytree(VERSIONS / request.param, tmp_path / "old")
    return tmp_path / "old" / "plain.db"


def test_an_older_store_is_rewritten_with_a_copy_and_says_the_same(old: Path) -> None:
    with Limpet(SQLiteStateBackend(old, "normal", clock=lambda: 2e9)) as client:
        before = histories(client)
        assert 1 in versions(client.backend)
        told: list[tuple[int, int]] = []
        found = client.migrate(on_progress=lambda done, total, _: told.append((done, total)))
        assert {} == found.refused
        assert found.records > 0
        assert told
        assert {3} == versions(client.backend)
        assert before == histories(client)
        assert client.doctor().is_sound
        assert found.backup is not None
        assert 0 == client.migrate().states
        with Limpet(found.backup, create=False) as copy:
            assert 1 in versions(copy.backend)
            assert before == histories(copy)


def test_states_that_are_up_to_date_are_not_copied_or_changed(tmp_path: Path) -> None:
    with Limpet(f"sqlite:///{tmp_path}/runs.db") as client:
        client.run_sync(stepping, 2, state_id="kelp")
        before = client.backend.read("kelp")
        found = client.migrate()
        assert (0, 0, 1, None) == (found.states, found.records, found.unchanged, found.backup)
        assert before == client.backend.read("kelp")
    assert {"runs.db"} == {path.name for path in tmp_path.iterdir()}


def in_format_1(client: Limpet, state_id: str) -> None:
    """Rewrite a state, which is no fork, as the first format had it."""
    backend = client.backend
    header = backend.find_state(state_id)
    assert header is not None
    link = frames.first_link(state_id)
    bodies: list[bytes] = []
    for record in client._reader(state_id).history()[0].intact_journal():
        encoded = msgspec.msgpack.encode(record)
        sealing = client._stored.record_cipher(state_id)
        content = b"\1" + encoded if sealing is None else b"\2" + sealing.seal(encoded, record.seq)
        link = zlib.crc32(content, link)
        bodies.append(link.to_bytes(4, "big") + content)
    (grant,) = backend.acquire([Claim(header=header, holder=new_holder(), ttl_s=0.0, reopen=True)])
    assert grant is not None
    assert grant.lease is not None
    update = StateUpdate(at=0.0, end=End(len(bodies), link), releases=True)
    backend.rewrite([Append(grant.lease, 1, bodies, update)])


@pytest.mark.parametrize("kind", [SQLiteStateBackend, FileSystemStateBackend])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_family_is_rewritten_together_and_goes_on(is_sealed: bool, kind: Any, tmp_path: Path) -> None:
    encryption = Encryption(new_key()) if is_sealed else None
    client = Limpet(kind(tmp_path / "store", "normal"), encryption=encryption)
    client.run_sync(stepping, 4, state_id="kelp")
    in_format_1(client, "kelp")
    assert client.verify("kelp").is_sound
    client.fork("kelp", "step#3", new_state_id="fork")
    client.fork("fork", new_state_id="again")
    asyncio.run(client.resume("fork"))
    before = histories(client)
    found = client.migrate(backup=f"sqlite:///{tmp_path}/copy.db")
    assert (3, {}) == (found.states, found.refused)
    assert {4 if is_sealed else 3} == versions(client.backend)
    assert before == histories(client)
    assert client.doctor().is_sound
    assert 4 == len(asyncio.run(client.resume("again")))
    assert 4 == len(asyncio.run(client.rerun("kelp", "step#2")))


def test_records_that_outlived_their_state_stay_as_they_are_and_are_read(tmp_path: Path) -> None:
    client = Limpet(SQLiteStateBackend(tmp_path / "runs.db", "normal"))
    client.run_sync(stepping, 4, state_id="kelp")
    in_format_1(client, "kelp")
    client.fork("kelp", "step#3", new_state_id="fork")
    client.delete("kelp")
    before = histories(client)
    assert 0 == client.migrate(backup=False).records
    assert ({1, 3}, before) == (versions(client.backend, with_shared=True), histories(client))
    assert 4 == len(asyncio.run(client.resume("fork")))


def test_a_state_that_is_being_run_is_left_and_named(tmp_path: Path) -> None:
    client = Limpet(SQLiteStateBackend(tmp_path / "runs.db", "normal"))
    for state_id in ("kelp", "wrack"):
        client.run_sync(stepping, 2, state_id=state_id)
        in_format_1(client, state_id)
    header = client.backend.find_state("kelp")
    assert header is not None
    holder = new_holder()
    mark_running(holder)
    client.backend.acquire([Claim(header=header, holder=holder, ttl_s=60.0, reopen=True)])
    found = client.migrate(backup=False)
    mark_ended(holder)
    assert (1, ["kelp"]) == (found.states, list(found.refused))
    assert "is being run by" in found.refused["kelp"]
    assert {1} == {frame[4] for _, frame in client.backend.read("kelp")}


def test_a_store_in_memory_needs_a_place_for_its_copy() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(stepping, 2, state_id="kelp")
    in_format_1(client, "kelp")
    with pytest.raises(UsageError, match="no place beside the store memory://"):
        client.migrate()
    assert {1} == versions(client.backend)
    assert 1 == client.migrate(backup=False).states
