"""The index by which states are listed. ``index.sql`` says what always holds. It never says what a state is like.

Whoever changes a state tells the index before (``expect``) and after (``confirm``). Where the index is broken it is
removed, and made anew by the next listing; a change does not wait for that.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import apsw
import msgspec

from limpet import processes
from limpet.backends.files.states import index_file
from limpet.backends.files.states.header_lines import Header
from limpet.backends.files.states.index_file import QUERIES, Broken, Connection, Missing, Value
from limpet.errors import BackendError
from limpet.model import StateStatus

_MOST_PENDING = 64
_PAGE = 128

Place = tuple[float, int]
"""Where a state stands in a listing: when it was created, and its key."""

LAST: Place = (1e300, 2**63 - 1)
"""Behind all states, and so before the first one of a listing."""


class Wanted(msgspec.Struct, frozen=True):
    """What a listing asks for."""

    tags: tuple[str, ...] = ()
    status: StateStatus | None = None
    pipeline_name: str | None = None
    parent: str | None = None

    def fits(self, header: Header) -> bool:
        metadata = header.metadata
        return (
            set(self.tags) <= set(metadata.tags)
            and (self.status is None or header.status is self.status)
            and (self.pipeline_name is None or metadata.pipeline_name == self.pipeline_name)
            and (self.parent is None or metadata.parent_state_id == self.parent)
        )


class Index:
    """One connection, under a lock of its own, made when it is first needed."""

    def __init__(self, folder: str, store: str, is_synced: bool, timeout_s: float, boot: str) -> None:
        self._folder = folder
        self._store = store
        self._is_synced = is_synced
        self._timeout_s = timeout_s
        self._boot = boot
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._inode = 0
        self._pending: dict[str, int] = {}
        """The stamps of rows that can be made sure."""
        self._expected: dict[str, int] = {}
        self._is_paused = False
        self._is_carried_over = False
        """Whether the parent of this process had a connection open that could not be closed before the fork."""
        processes.pause_for_forks(self)

    def expect(self, headers: Sequence[Header], is_empty: Callable[[], bool] = lambda: False) -> None:
        """Take note of what is about to be committed. ``is_empty`` says whether the store has no state yet."""
        with self._lock:
            try:
                self._put(headers, is_sure=0)
            except Broken as error:
                if not isinstance(error, Missing):
                    self._remove()
                if is_empty():
                    with suppress(Broken):
                        self._create(is_whole=True)
                        self._put(headers, is_sure=0)

    def confirm(self, state_ids: Iterable[str]) -> None:
        """What was expected has been committed. The rows are made sure when there are some, or a listing needs them."""
        with self._lock:
            for state_id in state_ids:
                stamp = self._expected.pop(state_id, None)
                if stamp is not None:
                    self._pending[state_id] = stamp
            if len(self._pending) >= _MOST_PENDING:
                # Rows that stay unsure cost a look at the journal, and no more.
                with suppress(BackendError):
                    self.flush()

    def flush(self) -> None:
        with self._lock:
            if self._pending:
                rows = list(self._pending.items())
                self._pending.clear()
                self._unless_broken(lambda: self._write_many("make_sure", rows))

    def forget(self, state_id: str) -> None:
        """A state is gone."""
        with self._lock:
            self._pending.pop(state_id, None)
            self._unless_broken(lambda: self._delete(state_id))

    def forget_stale(self, state_id: str, key: int) -> None:
        """The folder of a row that was sure is not there: it goes, unless it was written anew."""
        with self._lock:
            self._unless_broken(lambda: self._write_many("delete_stale", [(state_id, key)]))

    def discard(self) -> None:
        """Remove the index, so that the next listing makes it anew."""
        with self._lock:
            self._remove()

    def settle(self, header: Header) -> None:
        """Take over what the journal of a state says, whose lock is held."""
        with self._lock:
            self._unless_broken(lambda: self._put([header], is_sure=1))

    def unsure(self) -> list[str]:
        """The states whose journals have to be looked at. Raises Broken."""
        return [state_id for (state_id,) in self._fetch("list_unsure")]

    def rows(self) -> list[tuple[str, int, str, bool]]:
        """The id, key and status of each row, and whether it is sure. Raises Broken."""
        return [(state_id, key, status, bool(sure)) for state_id, key, status, sure in self._fetch("list_all")]

    def candidates(self, wanted: Wanted, end: Place = LAST) -> Iterator[tuple[float, int, str]]:
        """The states that seem to fit among those that are sure and before a place, the newest first. Raises Broken."""
        bindings: dict[str, Value] = {
            "status": wanted.status and wanted.status.value,
            "pipeline_name": wanted.pipeline_name,
            "parent": wanted.parent,
            "tag": wanted.tags[0] if wanted.tags else None,
            "created_at": end[0],
            "key": end[1],
            "limit": _PAGE,
        }
        query = _query_for(wanted)
        while page := self._fetch(query, {name: bindings[name] for name in _NAMES[query]}):
            yield from cast("list[tuple[float, int, str]]", page)
            bindings["created_at"], bindings["key"], _ = page[-1]

    def begin(self) -> None:
        """Begin to make the index anew. Needs the lock of the store, so that no state is just being created.

        From here on every change stands in it; ``fill`` adds what does not change meanwhile.
        """
        with self._lock:
            self._remove()
            self._create(is_whole=False)

    def fill(self, headers: Iterable[tuple[Header, bool]]) -> None:
        """Add states, and whether each is sure, but for those that were changed since it was begun. Raises Broken."""
        rows = iter(headers)
        while some := list(itertools.islice(rows, _PAGE)):
            with self._lock, self._transaction() as connection:
                for header, is_sure in some:
                    _put_header(connection, header, int(is_sure), secrets.randbits(62), is_new=True)
        with self._lock, self._transaction() as connection:
            connection.execute(QUERIES["make_whole"])

    def is_broken(self) -> bool:
        """Whether no states can be listed by it: it is not there, it is no index, or it was never filled."""
        try:
            ((is_whole,),) = self._fetch("find_whole")
        except (Broken, ValueError):
            return True
        return not is_whole

    def close(self) -> None:
        with self._lock:
            with suppress(BackendError):
                self.flush()
            if self._connection is not None and self._inode == index_file.inode(self._folder):
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            self._disconnect()

    def before_fork(self) -> None:
        """A connection must not be carried over into a child process: it is closed, and opened again when needed."""
        self._is_paused = self._lock.acquire(timeout=processes.PATIENCE_S)
        if self._is_paused:
            self._disconnect()

    def after_fork_in_parent(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._lock.release()

    def after_fork(self) -> None:
        self._lock = threading.RLock()
        self._is_paused = False
        self._pending.clear()
        self._expected.clear()
        if self._connection is not None:
            processes.keep_for_good(self._connection)
            self._connection, self._is_carried_over = None, True

    def _put(self, headers: Sequence[Header], is_sure: int) -> None:
        with self._transaction() as connection:
            for header in headers:
                stamp = secrets.randbits(62)
                _put_header(connection, header, is_sure, stamp)
                self._pending.pop(header.state_id, None)
                if not is_sure:
                    self._expected[header.state_id] = stamp

    def _delete(self, state_id: str) -> None:
        with self._transaction() as connection:
            for query in ("delete_tags", "delete_state"):
                connection.execute(QUERIES[query], (state_id,))

    def _write_many(self, query: str, rows: Iterable[Sequence[Value]]) -> None:
        with self._transaction() as connection:
            connection.executemany(QUERIES[query], rows)

    def _unless_broken(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Missing:
            return
        except Broken:
            self._remove()

    def _create(self, *, is_whole: bool) -> None:
        try:
            index_file.create(self._folder, self._timeout_s, is_whole=is_whole)
        except apsw.Error as error:
            raise index_file.translated(error, self._store, 0) from error

    def _fetch(self, query: str, bindings: index_file.Bindings = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            connection = self._connected()
            try:
                return connection.execute(QUERIES[query], bindings).fetchall()
            except apsw.Error as error:
                raise index_file.translated(error, self._store, connection.system_errno) from error

    @contextmanager
    def _transaction(self) -> Generator[Connection]:
        connection = self._connected()
        try:
            connection.execute(QUERIES["begin"])
            yield connection
            connection.execute(QUERIES["commit"])
        except BaseException as error:
            system_errno = connection.system_errno
            if connection.in_transaction:
                connection.execute(QUERIES["rollback"])
            if isinstance(error, apsw.Error):
                raise index_file.translated(error, self._store, system_errno) from error
            raise

    def _connected(self) -> Connection:
        """The connection, made anew where the file was deleted or replaced. Raises Broken."""
        if self._is_carried_over:
            # What SQLite knows of the locks of that file is wrong here. Anybody may make the index anew.
            self._is_carried_over = False
            self._remove()
        if self._connection is not None and self._inode != index_file.inode(self._folder):
            self._disconnect()
        if self._connection is None:
            try:
                self._connection, self._inode = index_file.connect(self._folder, self._is_synced, self._timeout_s)
                self._note_boot(self._connection)
            except apsw.Error as error:
                self._disconnect()
                raise index_file.translated(error, self._store, 0) from error
            except Broken:
                self._disconnect()
                raise
        return self._connection

    def _note_boot(self, connection: Connection) -> None:
        """Raises Broken where the machine died since somebody wrote without waiting for the disk."""
        boot = connection.execute(QUERIES["find_boot"]).get
        if boot and boot != self._boot:
            raise Broken
        if not self._is_synced and boot != self._boot:
            connection.execute(QUERIES["note_boot"], (self._boot,))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _remove(self) -> None:
        self._disconnect()
        self._pending.clear()
        self._expected.clear()
        index_file.remove(self._folder)


def _put_header(connection: Connection, header: Header, is_sure: int, stamp: int, *, is_new: bool = False) -> None:
    """Put a row with its tags; with ``is_new`` only if there is none."""
    metadata = header.metadata
    created_at = header.created_at.timestamp()
    connection.execute(
        QUERIES["put_new_state" if is_new else "put_state"],
        (
            header.state_id,
            header.key,
            created_at,
            header.updated_at.timestamp(),
            header.status.value,
            metadata.pipeline_name,
            metadata.parent_state_id,
            is_sure,
            stamp,
        ),
    )
    if is_new and not connection.changes():
        return
    connection.execute(QUERIES["delete_tags"], (header.state_id,))
    if metadata.tags:
        tags = zip(metadata.tags, itertools.repeat(created_at), itertools.repeat(header.key), strict=False)
        connection.executemany(QUERIES["put_tag"], [(*tag, header.state_id) for tag in tags])


_NAMES = {
    "list_newest": ("created_at", "key", "limit"),
    "list_by_status": ("status", "created_at", "key", "limit"),
    "list_by_pipeline": ("pipeline_name", "status", "created_at", "key", "limit"),
    "list_by_parent": ("parent", "status", "pipeline_name", "created_at", "key", "limit"),
    "list_by_tag": ("tag", "status", "pipeline_name", "parent", "created_at", "key", "limit"),
}
"""What each of the listings binds."""


def _query_for(wanted: Wanted) -> str:
    if wanted.tags:
        return "list_by_tag"
    if wanted.parent is not None:
        return "list_by_parent"
    if wanted.pipeline_name is not None:
        return "list_by_pipeline"
    return "list_newest" if wanted.status is None else "list_by_status"
