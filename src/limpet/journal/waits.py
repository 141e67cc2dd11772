"""What a state waits for, and what ends a wait: decided from records and from the letters that have come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from limpet.journal.history import History
from limpet.journal.retry import LONGEST_IN_PROCESS_S
from limpet.model import EventRecord, ExecutionStatus
from limpet.model.header import StateHeader
from limpet.model.metadata import StateMetadata
from limpet.model.waits import Waiting
from limpet.model.words import WaitType

_SUFFIXES = tuple(f"::{kind}" for kind in WaitType)
_QUESTION = f"::{WaitType.QUESTION}"


def is_wait(address: str) -> bool:
    """Whether an address is that of something that waits."""
    return address.endswith(_SUFFIXES)


def is_question(address: str) -> bool:
    return address.endswith(_QUESTION)


def answer_name(record: EventRecord) -> str:
    """What the letter is called that answers a question, or takes it back. Of several the first one counts.

    It is bound to the record that asks, and to what that asks: on another timeline, or with another context, a question
    is another one.
    """
    return f"answer:{record.seq}:{record.input_fingerprint.hex()}"


def message_name(topic: str, key: str) -> str:
    """What the letter of a message is called. The key tells it from others: sent twice, it is one message."""
    return f"{topic_key(topic)}{key}"


def topic_key(topic: str) -> str:
    """What the names of all messages about a topic begin with. A topic has no colon."""
    return f"message:{topic}:"


def letter_key(name: str) -> str:
    """What tells which waits a letter is for: the topic of a message; of an answer its whole name."""
    kind, _, rest = name.partition(":")
    return topic_key(rest.partition(":")[0]) if kind == "message" else name


def due_at_of(record: EventRecord) -> float:
    """When a wait is over at the latest, in seconds since 1970 UTC; 0: never."""
    return 0.0 if record.details is None else record.details.due_at


def is_in_time(due_at: float, at: float) -> bool:
    """Whether what was put into the inbox at that time counts for a wait that was over at ``due_at`` (0: never).

    That alone decides, and not when anybody looks: so it is the same whether a process was waiting or none was.
    """
    return not due_at or at <= due_at


def taken_letters(history: History) -> set[str]:
    """The names of the letters that have ended a wait on this timeline."""
    return {record.details.letter for record in history.events() if record.details is not None} - {""}


def open_waits(history: History) -> list[EventRecord]:
    """Returns the records of what a state waits for, in their order. Calls that a server has put off count as well."""
    latest = (history.latest[address] for address in history.open)
    return sorted((record for record in latest if _is_open_wait(record)), key=lambda each: each.seq)


def _is_open_wait(record: EventRecord) -> bool:
    if record.status is ExecutionStatus.AWAITING:
        return is_wait(record.address)
    details = record.details
    return details is not None and bool(details.due_at) and details.delay_s > LONGEST_IN_PROCESS_S


def waiting_of(records: Iterable[EventRecord], timeline: int) -> Waiting:
    """What the metadata of a state notes of its waits."""
    found = sorted(records, key=lambda record: record.seq)
    times = [due_at for record in found if (due_at := due_at_of(record))]
    return Waiting(tuple(record.seq for record in found), min(times, default=0.0), timeline)


def noted_in(metadata: StateMetadata, waiting: Waiting) -> StateMetadata:
    """The metadata with what is waited for; the same where that is noted already."""
    plain = {name: value for name, value in msgspec.to_builtins(waiting).items() if value} if waiting.records else {}
    return metadata if plain == metadata.waiting else msgspec.structs.replace(metadata, waiting=plain)


def noted_waiting(header: StateHeader) -> Waiting:
    """What a state waits for by its header, without a look into its journal."""
    plain: Mapping[str, object] = header.metadata.waiting
    try:
        waiting = msgspec.convert(plain, Waiting)
    except msgspec.ValidationError:
        return Waiting()
    return waiting if waiting.timeline == header.timeline else Waiting()
