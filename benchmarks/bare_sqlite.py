"""The floor: bare loops that insert and commit one row per transaction, with the settings and table of our store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from time import perf_counter

import apsw
import trials

_COLUMNS = "state INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (state, seq)"
_TABLE = f"CREATE TABLE records ({_COLUMNS}) STRICT"
_INSERT = "INSERT INTO records (state, seq, body) VALUES (?, ?, ?)"
_WARM = 50


def stdlib(synchronous: str, rows: str, length: str) -> trials.Answer:
    """The ``sqlite3`` of the standard library. Every statement is a transaction, which costs it the least."""
    connection = sqlite3.connect("bare.db", isolation_level=None)
    for setting in _settings(synchronous):
        connection.execute(setting)
    return _timed(connection.execute, int(rows), int(float(length)))


def with_apsw(synchronous: str, rows: str, length: str) -> trials.Answer:
    """apsw, the driver that our store uses."""
    connection = apsw.Connection("bare.db")
    for setting in _settings(synchronous):
        connection.execute(setting)
    return _timed(connection.cursor().execute, int(rows), int(float(length)))


def _settings(synchronous: str) -> tuple[str, ...]:
    return "PRAGMA page_size = 4096", "PRAGMA journal_mode = WAL", f"PRAGMA synchronous = {synchronous}", _TABLE


def _timed(execute: Callable[[str, tuple[int, int, bytes]], object], rows: int, length: int) -> trials.Answer:
    body = os.urandom(length)
    for seq in range(_WARM):
        execute(_INSERT, (1, seq, body))
    began = perf_counter()
    for seq in range(_WARM, _WARM + rows):
        execute(_INSERT, (1, seq, body))
    return {"rate": rows / (perf_counter() - began)}


if __name__ == "__main__":
    trials.answer({"stdlib": stdlib, "with_apsw": with_apsw})
