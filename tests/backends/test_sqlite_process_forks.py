"""An SQLite store in a process that forks: its connections are never carried over, and each process has its own."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from limpet import processes
from limpet.backends.contract import Append, Claim
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.engine.lease import new_holder
from limpet.errors import StoreReplaced, UsageError
from limpet.model import Lease, StateHeader, StateStatus
from limpet.model.header import utc

PATIENCE_S = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "states.db"


def lease_of(backend: SQLiteStateBackend, state_id: str) -> Lease:
    header = StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=utc(0), updated_at=utc(0))
    (grant,) = backend.acquire([Claim(header=header, holder=new_holder(), ttl_s=60)])
    assert grant is not None
    assert grant.lease is not None
    return grant.lease


def in_child(work: Callable[[], object]) -> int:
    """Fork, and work in the child; what it raises is printed, and its status is 1 then."""
    child = os.fork()
    if child:
        return child
    signal.alarm(PATIENCE_S)
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def locked_by(path: Path) -> set[int]:
    """The processes that have the database locked, as the kernel knows it."""
    inode = path.stat().st_ino
    found = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return {int(fields[4]) for fields in found if fields[5].endswith(f":{inode}")}


def test_a_child_has_locks_of_its_own(path: Path) -> None:
    backend = SQLiteStateBackend(path)

    def work() -> None:
        assert set() == locked_by(path)
        assert [] == backend.list_states()
        assert {os.getpid()} == locked_by(path)

    assert 0 == status_of(in_child(work))
    assert [] == backend.list_states()
    assert {os.getpid()} == locked_by(path)
    backend.close()


def test_what_a_child_writes_stays_where_its_parent_closes_the_store_meanwhile(path: Path) -> None:
    backend = SQLiteStateBackend(path, synchronous="normal")
    to_child, to_parent = os.pipe(), os.pipe()

    def work() -> None:
        lease = lease_of(backend, "child")
        assert [None] == backend.append([Append(lease, 1, (b"one",))])
        os.write(to_parent[1], b".")
        assert b"." == os.read(to_child[0], 1)
        assert [None] == backend.append([Append(lease, 2, (b"two",))])

    child = in_child(work)
    assert b"." == os.read(to_parent[0], 1)
    assert [] != backend.list_states()
    backend.close()
    os.write(to_child[1], b".")
    assert 0 == status_of(child)
    with SQLiteStateBackend(path) as anew:
        assert [(1, b"one"), (2, b"two")] == anew.read("child")
        assert [] == anew.examine_store()
    for handle in (*to_child, *to_parent):
        os.close(handle)


def test_a_store_that_was_deleted_while_a_fork_had_it_closed_is_not_made_anew(path: Path) -> None:
    backend = SQLiteStateBackend(path)
    assert 0 == status_of(in_child(path.unlink))
    with pytest.raises(StoreReplaced, match="was deleted or moved away"):
        lease_of(backend, "kelp")
    assert not path.exists()
    backend.close()


def test_a_connection_that_could_not_be_closed_before_a_fork_is_refused_in_the_child(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.01)
    backend = SQLiteStateBackend(path)
    lease = lease_of(backend, "kelp")

    def work() -> None:
        for use in (backend.list_states, lambda: lease_of(backend, "child"), lambda: SQLiteStateBackend(path)):
            with pytest.raises(UsageError, match=r"was being written when this process was forked.*Fork while nothing"):
                use()
        with SQLiteStateBackend(path.with_name("other.db")) as other:
            lease_of(other, "child")
        backend.close()

    with backend._database.transaction():
        child = in_child(work)
    assert 0 == status_of(child)
    assert [None] == backend.append([Append(lease, 1, (b"one",))])
    assert [(1, b"one")] == backend.read("kelp")
    assert [] == backend.examine_store()
    backend.close()


def test_a_store_is_opened_and_closed_by_threads_that_fork_at_the_same_time(path: Path) -> None:
    backend = SQLiteStateBackend(path, synchronous="normal")
    statuses: list[int] = []

    def fork_often() -> None:
        for _ in range(5):
            child = in_child(lambda: lease_of(backend, f"child-{os.getpid()}"))
            statuses.append(status_of(child))

    threads = [threading.Thread(target=fork_often) for _ in range(3)]
    for thread in threads:
        thread.start()
    lease, seq = lease_of(backend, "parent"), 0
    while any(thread.is_alive() for thread in threads):
        seq += 1
        assert [None] == backend.append([Append(lease, seq, (b"record",))])
    assert [0] * 15 == statuses
    assert seq == len(backend.read("parent"))
    assert 16 == len(backend.list_states())
    assert [] == backend.examine_store()
    backend.close()
