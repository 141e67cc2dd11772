"""What the page about the state format says in its tables: the fields of records, and the names of tags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "state-format.md"
REQUIRED = object()
"""The default of a field that has none."""

_DEFAULTS: dict[str, Any] = {"nil": None, "false": False, "": REQUIRED}
_EMPTY: dict[str, Any] = {"bytes": b"", "text": ""}


class Field(NamedTuple):
    name: str
    default: Any


class Kind(NamedTuple):
    """A kind of record."""

    tag: int
    name: str
    fields: tuple[Field, ...]


def rows_under(heading: str, columns: int) -> list[list[str]]:
    """The rows of the first table of so many columns under a heading, without its two first ones."""
    _, _, behind = PAGE.read_text().partition(f"\n{heading}\n")
    section = re.split(r"\n##+ ", behind)[0]
    assert section, f"the page has no {heading!r}"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    fitting = [row for row in rows if len(row) == columns]
    start = next(number for number, row in enumerate(fitting) if set(row) == {"---"}) + 1
    ends = [number for number, row in enumerate(fitting) if number > start and set(row) == {"---"}]
    return fitting[start : ends[0] - 1 if ends else None]


def kinds() -> dict[int, Kind]:
    """The kinds of records by their tags."""
    found = re.findall(r"^### Tag (\d+), (\w+)$", PAGE.read_text(), re.MULTILINE)
    return {int(tag): Kind(int(tag), name, _fields(f"### Tag {tag}, {name}")) for tag, name in found}


def tag_names() -> dict[int, str]:
    """The names of the tags of values."""
    return {int(row[0]): row[1].strip("`") for row in rows_under("## Values", 3)}


def _fields(heading: str) -> tuple[Field, ...]:
    return tuple(Field(name.strip("`"), _default(kind, default)) for name, kind, default, _ in rows_under(heading, 4))


def _default(kind: str, default: str) -> Any:
    if default == "empty":
        return _EMPTY.get(kind, [])
    if default in _DEFAULTS:
        return _DEFAULTS[default]
    return float(default) if kind == "float" else int(default)
