"""Reads the SQL files that are shipped beside this module. Owns no SQL of its own."""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _text(file_name: str) -> str:
    return files("limpet.backends.sqlite").joinpath(file_name).read_text(encoding="utf-8")


def _without_comments(sql: str) -> str:
    lines = (line for line in sql.splitlines() if not line.startswith("--"))
    return "\n".join(lines).strip().removesuffix(";")


def _named_queries(text: str) -> dict[str, str]:
    _, *parts = _NAME.split(text)
    return {name: _without_comments(sql) for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def _migrations() -> dict[int, str]:
    names = (entry.name for entry in files("limpet.backends.sqlite").joinpath("migrations").iterdir())
    numbered = sorted(name for name in names if name.endswith(".sql"))
    return {int(name.partition("_")[0]): _text(f"migrations/{name}") for name in numbered}


SCHEMA = _text("schema.sql")
"""The statements that make an empty file a store."""

VIEW = SCHEMA[SCHEMA.index("CREATE VIEW") : SCHEMA.index(";", SCHEMA.index("CREATE VIEW"))]
"""The statement that made the view, as SQLite keeps it. Those who bring older files here end with the same one."""

MIGRATIONS = _migrations()
"""The statements that lead to a version from the one before it, by that version."""

QUERIES = _named_queries(_text("queries.sql"))
"""The statements of ``queries.sql`` by their names."""
