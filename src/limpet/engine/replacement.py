"""A value that is to stand in place of a recorded result: of the right type, and encoded as results are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from limpet.artifacts.stored_values import Pending, StoredValues
from limpet.errors import WrongReplacement
from limpet.journal.new_timeline import Replacement
from limpet.model import EventRecord


class Nothing:
    """Stands for "no value is given", as None is a value."""

    def __repr__(self) -> str:
        return "<nothing>"


NOTHING: Final = Nothing()


def replacement_of(
    stored: StoredValues, event: EventRecord, value: object, any_type: bool
) -> tuple[Replacement | None, Sequence[Pending]]:
    """What replaces the result of an event, and what has to be stored before it; None where nothing is given.

    Raises WrongReplacement where the value is of another type than the recorded result, and ValueNotStorable.
    """
    if isinstance(value, Nothing):
        return None, ()
    if not any_type and event.result is not None:
        _require_type(stored.decode(event.result), value, event.address)
    data, pending = stored.encode(value, "replace")
    return Replacement(data, tuple(each.artifact_id for each in pending)), pending


def _require_type(recorded: object, value: object, address: str) -> None:
    # What gave nothing may give anything; there is no telling what else it can return.
    if recorded is not None and type(value) is not type(recorded):
        raise WrongReplacement(address, _name(type(recorded)), _name(type(value)))


def _name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
