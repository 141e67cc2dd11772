"""Artifacts inside the SQLite file of a store: shared connections, damage, no room, closing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from backends.bounds import files_limited_to

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import StateBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.backends.sqlite.driver import Value, connect
from limpet.errors import ArtifactCorrupted, ArtifactMissing, StoreFull, UsageError
from limpet.model.artifacts import Pin, content_of
from limpet.testing.conformance.artifact_case import id_of, noise, prose

PIN = Pin("0123456789abcdef" * 2, "kelp", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "states.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStateBackend]:
    with SQLiteStateBackend(path, "normal") as store:
        yield store


def _own(store: StateBackend) -> ArtifactBackend:
    assert store.own_artifacts is not None
    return store.own_artifacts


def _change(path: Path, statement: str, *bindings: Value) -> None:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    connection.execute(statement, bindings)
    connection.close()


def test_a_store_with_artifacts_is_still_one_file(path: Path) -> None:
    with SQLiteStateBackend(path) as store:
        _own(store).put(id_of(b"content"), content_of(b"content"))
        assert f"{path.resolve()}-artifacts" == store.artifacts_folder
    assert [path] == list(path.parent.iterdir())
    with SQLiteStateBackend(path) as store:
        assert b"content" == b"".join(_own(store).read(id_of(b"content")))


def test_artifacts_wait_where_commits_do(tmp_path: Path) -> None:
    with SQLiteStateBackend(tmp_path / "a.db") as full, SQLiteStateBackend(tmp_path / "b.db", "normal") as normal:
        assert (True, False) == (_own(full).waits, _own(normal).waits)
        assert full.name == _own(full).name


def test_what_can_be_compressed_takes_little_room(store: SQLiteStateBackend, path: Path) -> None:
    for data in (prose(200_000), noise(5000)):
        _own(store).put(id_of(data), content_of(data))
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    rows = connection.execute(
        "SELECT is_compressed, length(artifact_bodies.body) FROM artifacts JOIN artifact_bodies ON key = artifacts.body"
    ).fetchall()
    connection.close()
    (is_compressed, short), raw = max(rows), min(rows)
    assert (1, (0, 5000)) == (is_compressed, raw)
    assert short < 2000


@pytest.mark.parametrize("data", [noise(3000), prose(3000), b"x"])
def test_every_flipped_byte_and_every_cut_is_noticed(store: SQLiteStateBackend, path: Path, data: bytes) -> None:
    artifact_id = id_of(data)
    _own(store).put(artifact_id, content_of(data))
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    body: bytes = connection.execute("SELECT body FROM artifact_bodies").get
    damaged = [body[:at] + bytes([body[at] ^ 0x55]) + body[at + 1 :] for at in range(0, len(body), 7)]
    damaged += [body[:at] for at in range(0, len(body), 11)] + [body + b"\0"]
    for other in damaged:
        connection.execute("UPDATE artifact_bodies SET body = ?", (other,))
        given: list[bytes] = []
        with pytest.raises(ArtifactCorrupted, match=artifact_id):
            given.extend(_own(store).read(artifact_id))
        assert data != b"".join(given)
    connection.close()


def test_a_wrong_size_is_noticed(store: SQLiteStateBackend, path: Path) -> None:
    for data in (noise(3000), prose(3000)):
        _own(store).put(id_of(data), content_of(data))
        for size in (0, 2999, 3001, 10**12):
            _change(path, "UPDATE artifacts SET size = ?", size)
            with pytest.raises(ArtifactCorrupted):
                list(_own(store).read(id_of(data)))


@pytest.mark.parametrize("damage", ["UPDATE artifact_bodies SET body = x'00'", "DELETE FROM artifact_bodies"])
def test_putting_again_mends_what_can_be_seen_to_be_damaged(store: SQLiteStateBackend, path: Path, damage: str) -> None:
    data = noise(3000)
    _own(store).put(id_of(data), content_of(data))
    before = _own(store).find(id_of(data))
    _change(path, damage)
    assert _own(store).put(id_of(data), content_of(data), PIN)
    assert data == b"".join(_own(store).read(id_of(data)))
    after = _own(store).find(id_of(data))
    assert before is not None
    assert after is not None
    assert after.put_at > before.put_at


def test_an_artifact_without_its_body_is_missing(store: SQLiteStateBackend, path: Path) -> None:
    _own(store).put(id_of(b"content"), content_of(b"content"))
    _change(path, "DELETE FROM artifact_bodies")
    with pytest.raises(ArtifactMissing):
        _own(store).read(id_of(b"content"))


def test_nothing_of_a_deleted_artifact_is_left_in_any_table(store: SQLiteStateBackend, path: Path) -> None:
    _own(store).put(id_of(b"content"), content_of(b"content"))
    info = _own(store).find(id_of(b"content"))
    assert info is not None
    assert _own(store).delete(info.artifact_id, info.put_at)
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    for table in ("artifacts", "artifact_bodies"):
        assert 0 == connection.execute(f"SELECT count(*) FROM {table}").get
    connection.close()


def test_a_put_without_room_writes_nothing_and_can_be_repeated(store: SQLiteStateBackend) -> None:
    data = noise(250_000)
    with files_limited_to(200_000), pytest.raises(StoreFull):
        _own(store).put(id_of(data), content_of(data), PIN)
    assert (None, {}) == (_own(store).find(id_of(data)), dict(_own(store).pins()))
    assert _own(store).put(id_of(data), content_of(data), PIN)
    assert data == b"".join(_own(store).read(id_of(data)))


def test_putting_again_writes_no_content_again(path: Path) -> None:
    data = noise(200_000)
    with SQLiteStateBackend(path, "normal") as store:
        _own(store).put(id_of(data), content_of(data))
        log = path.with_name("states.db-wal")
        before = log.stat().st_size
        for _ in range(5):
            _own(store).put(id_of(data), content_of(data), PIN)
        assert log.stat().st_size - before < 100_000


@pytest.mark.parametrize("place", ["memory", "file"])
def test_artifacts_are_closed_with_their_store(path: Path, place: str) -> None:
    store = MemoryStateBackend() if place == "memory" else SQLiteStateBackend(path)
    own = _own(store)
    store.close()
    uses = (
        lambda: own.put(id_of(b"x"), content_of(b"x")),
        lambda: own.read(id_of(b"x")),
        lambda: own.find(id_of(b"x")),
        own.list_artifacts,
        lambda: own.delete(id_of(b"x"), 0.0),
        own.pins,
        lambda: own.unpin([PIN]),
        lambda: own.enlist(PIN.store_id, "x"),
        own.stores,
    )
    for use in uses:
        with pytest.raises(UsageError, match="closed"):
            use()


def test_closing_the_artifacts_leaves_the_store_open(store: SQLiteStateBackend) -> None:
    _own(store).close()
    assert [] == store.list_states()


def test_stores_in_memory_have_ids_of_their_own() -> None:
    assert MemoryStateBackend().store_id != MemoryStateBackend().store_id


def test_a_pin_names_a_store_by_its_id(store: SQLiteStateBackend) -> None:
    for own in (_own(store), _own(MemoryStateBackend())):
        with pytest.raises(UsageError, match=r"'\.\./x' cannot be the id of a store"):
            own.put(id_of(b"x"), content_of(b"x"), Pin("../x", "kelp", 1))
        with pytest.raises(UsageError, match="'x' cannot be the id of a store"):
            own.enlist("x", "name")
        assert [] == own.list_artifacts()


def test_a_store_made_by_chance_at_the_same_time_has_another_id(tmp_path: Path) -> None:
    ids: set[str] = set()
    for number in range(5):
        with SQLiteStateBackend(tmp_path / f"{number}.db", "normal") as store:
            ids.add(store.store_id)
    assert 5 == len(ids)
    assert 5 == len(os.listdir(tmp_path))
