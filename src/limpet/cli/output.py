"""What is printed: lines on stderr for people, results and JSON on stdout, and how a command that fails says so."""

from __future__ import annotations

import json
import os
import pprint
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from limpet.cli.exit_codes import ExitCode
from limpet.cli.readable import plain
from limpet.model.amounts import size_text


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
    click.echo(line, color=_color())


def tell(line: str) -> None:
    """A line on stderr."""
    click.echo(line, err=True, color=_color())


def dim(text: str) -> str:
    return click.style(text, dim=True)


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


def _color() -> bool | None:
    # None: click looks whether the stream is a terminal.
    return False if os.environ.get("NO_COLOR") else None


def say_json(value: object) -> None:
    """A value as JSON on stdout, for people too: indented, and in their alphabet where the terminal has it."""
    has_unicode = "utf" in (sys.stdout.encoding or "").lower()
    say(json.dumps(plain(value), indent=2, ensure_ascii=not has_unicode))


def say_result(result: object) -> None:
    """The result of a run on stdout: text as it is, anything else as Python writes it, nothing for None."""
    if isinstance(result, str):
        say(result)
    elif result is not None:
        say(pprint.pformat(result, width=width(), sort_dicts=False))


def say_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Rows whose columns stand below each other; the first one is the heading. ``right``: the columns of numbers."""
    widths = [max(len(click.unstyle(cell)) for cell in column) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [_padded(cell, size, at in right) for at, (cell, size) in enumerate(zip(row, widths, strict=True))]
        line = "  ".join(cells).rstrip()
        say(line if number else click.style(line, bold=True))


def _padded(cell: str, size: int, is_right: bool) -> str:
    space = " " * (size - len(click.unstyle(cell)))
    return space + cell if is_right else cell + space


def report(failure: CommandFailed, as_json: bool) -> None:
    """Say what went wrong: on stderr, and as JSON on stdout where that was asked for."""
    if as_json:
        say_json({**failure.about, "error": failure.error})
    tell(failure.message)
    for note in failure.notes:
        tell(note)
