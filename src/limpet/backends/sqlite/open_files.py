"""Notices that the files of a store are no longer those that its connections have open.

A file that was deleted or replaced can still be written by whoever has it open, and nobody will find that again. So the
files under the names of the store are compared with those that were found when it was opened: the database and its log,
which SQLite never replaces while anybody has the database open.

That is asked before a commit is acknowledged. It takes a fifth of the time of a small commit that does not wait for the
disk, so an append that comes within half a millisecond of one that was confirmed is not confirmed by itself: a file may
be lost so soon behind any acknowledgement. But each is that changes a header, as the last one of a run does.
"""

from __future__ import annotations

from limpet.backends.sqlite.file_identity import identity_of

LOG = "-wal"

CONFIRM_EVERY_S = 0.0005
"""An append that begins so soon behind one that was confirmed is not confirmed by itself."""

LOOK_EVERY_S = 0.01
"""A store that has written nothing for so long is looked at before it writes, too."""


class OpenFiles:
    """The files of a store, which connections have open. For any thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = path + LOG
        self.database = identity_of(path)
        self.log = identity_of(self._log)

    def look(self) -> str | None:
        """What has become of the files; None while they are what they were."""
        for what, path, known in (("the file", self._path, self.database), ("its log", self._log, self.log)):
            found = identity_of(path)
            if found is None:
                return f"{what} {path} was deleted or moved away"
            if found != known:
                return f"another file was put in the place of {what} {path}"
        return None
