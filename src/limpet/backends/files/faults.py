"""Says what an error of the file system means for a folder of ours. The one place that knows its codes."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from limpet.errors import BackendError, BackendUnavailable, StoreFull, StoreNotWritable

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_WAY = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
)


def translated(error: OSError, store: str) -> BackendError:
    why = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    if error.errno in _NO_ROOM:
        return StoreFull(store, why)
    return StoreNotWritable(store, why) if error.errno in _NO_WAY else BackendUnavailable(store, why)


@contextmanager
def translating(store: str) -> Generator[None]:
    """Around our own work on files, never around that of the content's owner: its errors are not the store's."""
    try:
        yield
    except OSError as error:
        raise translated(error, store) from error
