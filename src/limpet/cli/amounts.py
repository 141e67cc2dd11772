"""Times and sizes as options: what people write becomes a number, or an error that says how it is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import click

from limpet.model.amounts import duration_from, size_from

_Amount = TypeVar("_Amount")


def age_of(_: click.Context, __: click.Parameter, text: str | None) -> timedelta | None:
    """A time such as 30d."""
    return None if text is None else _read(duration_from, text)


def size_of(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """A number of bytes such as 1GB."""
    return None if text is None else _read(size_from, text)


def _read(read: Callable[[str], _Amount], text: str) -> _Amount:
    try:
        return read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
