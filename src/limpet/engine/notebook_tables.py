"""How a history looks in a notebook: a small table in HTML, with everything in it escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice

from limpet.escapes import one_line
from limpet.journal.history import History
from limpet.model import EventRecord
from limpet.model.readable_time import readable_time

MOST_ROWS = 20
_LONGEST = 120
_HEADING = ("address", "status", "time", "failed of")


def history_table(title: str, history: History) -> str:
    """The first events of a history, as many as a person reads, and how they stand, under a title."""
    count = len(history.latest)
    rows = (_row(record) for record in islice(history.latest.values(), MOST_ROWS))
    more = f"… and {count - MOST_ROWS:,} more" if count > MOST_ROWS else ""
    return "".join(_table(title, rows, more))


def _row(record: EventRecord) -> Sequence[str]:
    error = "" if record.error is None else f"{record.error.type_name.rpartition('.')[2]}: {record.error.message}"
    return record.address, str(record.status), readable_time(record.duration_s), error


def _table(title: str, rows: Iterable[Sequence[str]], more: str) -> Iterator[str]:
    yield f"<table><caption>{_text(title)}</caption><thead><tr>"
    yield from (f"<th>{name}</th>" for name in _HEADING)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
    if more:
        yield f'<tr><td colspan="{len(_HEADING)}">{more}</td></tr>'
    yield "</tbody></table>"


def _text(text: str) -> str:
    shown = one_line(text)
    return escape(shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…")
