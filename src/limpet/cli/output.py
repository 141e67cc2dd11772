"""What is printed: lines on stderr for people, results and JSON on stdout, and how a command that fails says so.

Everything that a command prints passes here, and is made harmless: names, errors and values cannot move the cursor,
change colours, turn the direction of text or begin a line. Colours of our own are marks until then.
"""

from __future__ import annotations

import json
import os
import pprint
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from limpet.cli.exit_codes import ExitCode
from limpet.cli.readable import plain
from limpet.escapes import harmless, harmless_json, one_line
from limpet.model.amounts import size_text

_MARK = f"\ue000{os.urandom(8).hex()};"
"""Stands for the escape character in what ``styled`` makes. Nothing that is stored or typed can have it in it."""
_STYLE = re.compile(rf"{_MARK}\[[0-9;]*m")


class CommandFailed(Exception):
    """A command that does not end well: its exit code, what people are told, and what programs are told."""

    def __init__(
        self, code: ExitCode, message: str, *, error: dict[str, Any], about: dict[str, Any], notes: Sequence[str] = ()
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.error = error
        self.about = about
        """What JSON says beside the error."""
        self.notes = notes
        """Further lines for people."""


def width() -> int:
    """How many characters a line may have."""
    return shutil.get_terminal_size(fallback=(120, 24)).columns


def say(line: str = "") -> None:
    """A line on stdout."""
    _echo(one_line(line))


def say_text(text: str) -> None:
    """Text of one or more lines on stdout."""
    _echo(harmless(text))


def tell(line: str) -> None:
    """A line on stderr."""
    _echo(one_line(line), err=True)


def confirm(question: str) -> None:
    """Ask whether something is to be done. Raises click.Abort where it is not."""
    click.confirm(one_line(question), abort=True, err=True)


def styled(text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None) -> str:
    """Text in a colour or a weight, for ``say`` and ``tell``."""
    begin, end = click.style("\0", fg=fg, bold=bold, dim=dim).replace("\x1b", _MARK).split("\0")
    return f"{begin}{text}{end}"


def dim(text: str) -> str:
    return styled(text, dim=True)


def duration(seconds: float) -> str:
    """How long something took, as short as it can be read."""
    if seconds < 0.001:
        return f"{seconds * 1_000_000:.0f} µs"
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def size(count: int) -> str:
    """How many bytes, as short as it can be read."""
    return size_text(count)


def _echo(text: str, *, err: bool = False) -> None:
    click.echo(text.replace(_MARK, "\x1b"), err=err, color=_color())


def _color() -> bool | None:
    # None: click looks whether the stream is a terminal.
    return False if os.environ.get("NO_COLOR") else None


def say_json(value: object) -> None:
    """A value as JSON on stdout, for people too: indented, and in their alphabet where the terminal has it."""
    has_unicode = "utf" in (sys.stdout.encoding or "").lower()
    _echo(harmless_json(json.dumps(plain(value), indent=2, ensure_ascii=not has_unicode)))


def say_result(result: object) -> None:
    """The result of a run on stdout: text as it is, anything else as Python writes it, nothing for None."""
    if isinstance(result, str):
        say_text(result)
    elif result is not None:
        say_text(pprint.pformat(result, width=width(), sort_dicts=False))


def say_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Rows whose columns stand below each other; the first one is the heading. ``right``: the columns of numbers."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(_length, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [_padded(cell, size, at in right) for at, (cell, size) in enumerate(zip(row, widths, strict=True))]
        line = "  ".join(cells).rstrip()
        say(line if number else styled(line, bold=True))


def _padded(cell: str, size: int, is_right: bool) -> str:
    space = " " * (size - _length(cell))
    return space + cell if is_right else cell + space


def _length(cell: str) -> int:
    return len(_STYLE.sub("", cell))


def report(failure: CommandFailed, as_json: bool) -> None:
    """Say what went wrong: on stderr, and as JSON on stdout where that was asked for."""
    if as_json:
        say_json({**failure.about, "error": failure.error})
    tell(failure.message)
    for note in failure.notes:
        tell(note)
