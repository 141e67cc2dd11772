"""Which calls came, went or moved since a journal was recorded.

What concurrent code records depends on timing. So only calls that were made by themselves, with nothing under way
beside them, are held to the order in which they stand in the journal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from limpet.journal.address import SEPARATOR
from limpet.journal.lifecycle import SETTLED
from limpet.model import EventRecord, ExecutionStatus, Record

_ENDED = SETTLED | {ExecutionStatus.CANCELLED}

MOST_LOOKED_AT = 1000
"""So many records are looked at to find out whether a call is new. What stands further back goes unnoticed."""


def is_direct(address: str, prefix: str) -> bool:
    """Whether a call was made right in the scope with this prefix, and not in a call or a branch inside it."""
    return address.startswith(prefix) and address.count(SEPARATOR, len(prefix)) == 1


def is_moved(record: EventRecord, reached: int) -> bool:
    """Whether a call, made by itself, stands in the journal before one of its scope that was given already."""
    return record.is_alone and record.order < reached


def ran_beside(records: Sequence[Record], record: EventRecord) -> bool:
    """Whether others were under way while a recorded call was.

    That it was alone says so of its end. So if the one that ended before it was not, and ended within its time, then
    the two ran side by side, and this was the last one to end.
    """
    if not record.is_alone:
        return True
    inside = record.address.rpartition(SEPARATOR)[0] + SEPARATOR
    place = bisect_left(records, record.seq, key=_seq_of)
    while place > 0:
        place -= 1
        other = records[place]
        if type(other) is EventRecord and other.status in _ENDED and not other.address.startswith(inside):
            return not other.is_alone and record.at - record.duration_s < other.at
    return False


def _seq_of(record: Record) -> int:
    return record.seq


class PassedOver(msgspec.Struct, frozen=True):
    """What a call that has no record is made before."""

    is_any: bool
    """Whether any recorded call of its scope stands behind those given so far."""
    record: EventRecord | None
    """The one in whose place the call is made, where that is certain."""


def passed_over(records: Sequence[Record], until: int, prefix: str, reached: int) -> PassedOver:
    """Which recorded calls of a scope, up to a position, stand behind those given so far, for a call without a record.

    It is not certain that the call is new where it may have been under way, or cancelled, when the journal was written:
    then a start is missing among those that are recorded.
    """
    orders: set[int] = set()
    is_any = False
    found: EventRecord | None = None
    for record in islice(reversed(records), MOST_LOOKED_AT):
        if type(record) is not EventRecord or record.seq > until:
            continue
        if record.order > reached:
            orders.add(record.order)
            if is_direct(record.address, prefix):
                is_any = True
                if record.is_alone and (found is None or record.order < found.order):
                    found = record
        elif record.is_alone and not _encloses(record.address, prefix):
            break
    else:
        if len(records) > MOST_LOOKED_AT:
            return PassedOver(is_any, None)
    has_gap = found is not None and is_start_missing(orders, reached, found.order)
    return PassedOver(is_any, None if has_gap else found)


def is_start_missing(orders: Collection[int], reached: int, until: int) -> bool:
    """Whether a call was started between two others that has no record: it was under way, or was cancelled."""
    return any(order not in orders for order in range(reached + 1, until))


def _encloses(address: str, prefix: str) -> bool:
    return prefix.startswith(address.rpartition(SEPARATOR)[0] + SEPARATOR)


def no_longer_made(
    newest: Iterable[EventRecord], until: int, prefix: str, made: Mapping[str, int], tried_again: int | None = None
) -> list[str]:
    """The recorded calls of a scope, up to a position of the journal, that the code which has ended did not make.

    ``newest`` has the newest records of the calls there. ``made`` says how many calls of each label were made. Behind a
    call that was tried again, whose start is ``tried_again``, the code may well have gone another way.
    """
    return [
        record.address
        for record in _settled(newest, until)
        if is_direct(record.address, prefix)
        and (tried_again is None or record.order < tried_again)
        and not _was_made(record.address[len(prefix) :].partition(SEPARATOR)[0], made)
    ]


def _settled(records: Iterable[EventRecord], until: int) -> Iterable[EventRecord]:
    return (record for record in records if record.seq <= until and record.status in SETTLED)


def _was_made(segment: str, made: Mapping[str, int]) -> bool:
    label, sign, number = segment.rpartition("#")
    return made.get(label, 0) >= int(number) if sign else segment in made
