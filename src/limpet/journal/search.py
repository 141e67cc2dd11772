"""Finding one event in a long journal without reading all of it.

Programs count upwards: of two calls of one name in one scope the one with the higher number was made later. So a record
that is read anywhere tells, by the first segment in which it differs from the address that is wanted, on which side of
it that address stands. What concurrent code has shuffled, or calls without numbers, may lead astray; then nothing is
found, and whoever asked reads the whole journal. What is found is right in any case: a completed event, whose record is
final, and the only one at its address.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from limpet.journal.address import SEPARATOR
from limpet.model import EventRecord, ExecutionStatus, Part, Record

WINDOW = 16
"""How many records are read at one place."""

MOST_WINDOWS = 40

Search = Generator[int, Sequence[Record], EventRecord | None]
"""Yields the position behind which a window is to be read, is sent its records, and returns what it found."""


def search(address: str, part: Part) -> Search:
    """Look for the record of a completed event, in which nothing is recorded, in one part of a journal."""
    low, high = part.first, part.last
    guess: int | None = low + _first_number(address)
    for _ in range(MOST_WINDOWS):
        if low > high:
            return None
        middle = guess if guess is not None and low <= guess <= high else (low + high) // 2
        guess = None
        window = [record for record in (yield max(low - 1, middle - WINDOW // 2)) if low <= record.seq <= high]
        found = next((each for each in window if type(each) is EventRecord and each.address == address), None)
        if found is not None:
            return found if _is_final(found, part, window) else None
        sides = [(record.seq, side) for record in window if (side := _side(record, address)) is not None]
        if not sides:
            return None
        low = max((seq + 1 for seq, side in sides if side < 0), default=low)
        high = min((seq - 1 for seq, side in sides if side > 0), default=high)
    return None


def _is_final(found: EventRecord, part: Part, window: Sequence[Record]) -> bool:
    """Whether the record is the one that counts at its address, on a timeline that this part belongs to."""
    if found.status is not ExecutionStatus.COMPLETED or not part.below:
        return found.status is ExecutionStatus.COMPLETED
    # If something inside it was cut off it is entered again. A call that was alone and had an inside ends right behind.
    inside = found.address.rpartition(SEPARATOR)[0] + SEPARATOR
    before = next((each for each in window if each.seq == found.seq - 1), None)
    has_none = type(before) is EventRecord and not before.address.startswith(inside)
    return found.order < part.below and found.is_alone and has_none


def _first_number(address: str) -> int:
    """The first number in an address: about so many calls were made before it."""
    for segment in address.split(SEPARATOR):
        number = segment.rpartition("#")[2]
        if number.isdecimal() and "#" in segment:
            return int(number)
    return 0


def _side(record: Record, address: str) -> int | None:
    """-1 if the record stands before the wanted event, 1 if behind it, None if that cannot be told."""
    if type(record) is not EventRecord:
        return None
    here, wanted = record.address.split(SEPARATOR)[:-1], address.split(SEPARATOR)[:-1]
    for one, other in zip(here, wanted, strict=False):
        if one == other:
            continue
        name, number = _numbered(one)
        wanted_name, wanted_number = _numbered(other)
        if name != wanted_name:
            return None
        return -1 if number < wanted_number else 1
    if len(here) > len(wanted):
        return None  # It stands inside: what has an inside is not looked for here.
    return -1 if record.status is ExecutionStatus.STARTED else 1


def _numbered(segment: str) -> tuple[str, int]:
    name, sign, number = segment.rpartition("#")
    return (name, int(number)) if sign and number.isdecimal() else (segment, 1)


def last_shared(found: EventRecord, following: Iterable[Record]) -> int:
    """Up to which record a fork at an event shares the journal.

    ``following`` are the records from the event's own on. All that started before the event is shared, also what ended
    only later, beside it. Where a record says that nothing else was under way or is to be tried again, nothing of that
    kind comes behind it, and no more is asked for.
    """
    order, last = found.order, found.seq - 1
    for record in following:
        if type(record) is EventRecord:
            if record.order < order:
                last = record.seq
            if record.is_settled_with_all:
                break
    # The first record is shared in any case: the input of a run stands there.
    return max(1, last)
