"""States in one SQLite file."""

from limpet.backends.sqlite.store import SQLiteStateBackend

__all__ = ["SQLiteStateBackend"]
