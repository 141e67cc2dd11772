"""Calls of which nobody knows what became: which they are, and how a person says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from limpet.cli.effects import history_of
from limpet.cli.options import command_on
from limpet.cli.output import dim, width
from limpet.cli.readable import call_preview, read
from limpet.cli.standing import is_held
from limpet.client import Limpet
from limpet.engine.effects import recorded_key
from limpet.journal.rollback import unknown_effects
from limpet.model import ExecutionStatus, StateHeader

_WORDS = (
    (("--happened", "JSON"), "it has done its work, and this is its result"),
    (("--again",), "it has not, and is executed when the run goes on"),
    (("--failed", "REASON"), "it has failed for good"),
)


class UnknownCall(msgspec.Struct, frozen=True):
    """A call that is declared ``once`` and was cut off, with what helps to find out whether it did its work."""

    address: str
    input: bytes | None
    begun_at: datetime | None
    key: str
    """The idempotency key that its handler was given."""


def unknown_calls(client: Limpet, header: StateHeader) -> list[UnknownCall]:
    """The calls of which nobody knows what became. Of a state that is held there are none: they may be under way."""
    if is_held(header):
        return []
    history = history_of(client, header)
    unknown = unknown_effects(history)
    begun = {
        record.address: record.recorded_at for record in history.events() if record.status is ExecutionStatus.STARTED
    }
    return [
        UnknownCall(record.address, record.input, begun.get(record.address), recorded_key(record)) for record in unknown
    ]


def unknown_call_lines(state_id: str, store: str | None, calls: Sequence[UnknownCall]) -> Iterator[str]:
    """Each of the calls, with the commands that say what became of it."""
    for call in calls:
        yield f"Nobody knows whether {call.address} has done its work."
        fields = {
            "input": "" if call.input is None else call_preview(call.input, width() - 13),
            "begun": "" if call.begun_at is None else f"{call.begun_at:%Y-%m-%d %H:%M:%S} UTC",
            "key": call.key,
        }
        yield from (f"  {dim(name.ljust(9))} {value}" for name, value in fields.items() if value)
        yield "Find out, and say so:"
        yield from how_to_settle(state_id, store, call.address if len(calls) > 1 else None)
        yield ""


def how_to_settle(state_id: str, store: str | None, at: str | None) -> list[str]:
    """The commands that say what became of a call. Without an address it is the only one of its state."""
    place = () if at is None else ("--at", at)
    commands = [command_on("settle", state_id, store, *place, *options) for options, _ in _WORDS]
    room = max(map(len, commands))
    return [f"  {command.ljust(room)}  {dim(told)}" for command, (_, told) in zip(commands, _WORDS, strict=True)]


def unknown_call_for_programs(call: UnknownCall) -> dict[str, Any]:
    """Such a call as JSON says it."""
    return {
        "address": call.address,
        "input": None if call.input is None else read(call.input),
        "begun_at": call.begun_at,
        "key": call.key,
    }
