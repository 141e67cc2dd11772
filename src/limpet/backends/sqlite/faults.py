"""Says what an error of SQLite or of the file system means for a store. The one place that knows their codes."""

from __future__ import annotations

import errno
import os

import apsw

from limpet.errors import BackendError, BackendUnavailable, NotAStore, StoreDamaged, StoreFull, StoreNotWritable

# SQLite reports only ENOSPC as "full"; a quota and a limit on the size of files come as I/O errors.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def translated(error: apsw.Error, store: str, path: str, system_errno: int = 0) -> BackendError:
    """Our error for one of SQLite's. ``system_errno`` is what the connection says of the failed system call."""
    why = str(error)
    match error:
        case apsw.FullError():
            return StoreFull(store, why)
        case apsw.IOError() if system_errno in _NO_ROOM:
            return StoreFull(store, os.strerror(system_errno))
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreNotWritable(store, _closed_door(path) or why)
        case apsw.CantOpenError():
            # Where every door is open, the process may for instance be out of file handles.
            door = _closed_door(path)
            return StoreNotWritable(store, door) if door else BackendUnavailable(store, why)
        case apsw.NotADBError():
            return NotAStore(store, "it is not an SQLite database")
        case apsw.CorruptError() | apsw.FormatError() | apsw.SQLError():
            # All statements are ours: one that is not understood means that a table is not what it should be.
            return StoreDamaged(store, why)
        case apsw.BusyError() | apsw.LockedError():
            return BackendUnavailable(store, f"another process has been writing to it for too long ({why})")
        case _:
            return BackendUnavailable(store, why)


def translated_os(error: OSError, store: str) -> BackendError:
    """Our error for one that the file system raised while the file was made."""
    why = f"{error.strerror}: {error.filename}"
    return StoreFull(store, why) if error.errno in _NO_ROOM else StoreNotWritable(store, why)


def _closed_door(path: str) -> str | None:
    """Which permission is missing, if one is: SQLite has the same codes for that and for other causes."""
    if not _may(path, os.R_OK | os.W_OK):
        return "the file may not be read and written"
    folder = os.path.dirname(path)
    if not _may(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} may not be written, and SQLite keeps its log there"
    return None


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
