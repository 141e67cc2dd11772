"""States in one SQLite file."""

from holdfast.backends.sqlite.store import SQLiteStateBackend

__all__ = ["SQLiteStateBackend"]
