"""Where the calls that code makes part from the calls that are recorded.

In each scope the calls made and the calls recorded are walked side by side. The first one at which they part tells what
happened: a call that is not recorded came in, one that is recorded is no longer made, or two have changed places. What
concurrent code records depends on timing, so calls that were not made by themselves are held to no order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from holdfast.journal.address import SEPARATOR
from holdfast.journal.drift import is_start_missing
from holdfast.model import EventRecord, ExecutionStatus, Finding, Rehearsed

Site = tuple[str, int]
"""A file and a line of the user's code."""

NOWHERE: Site = ("", 0)

_SETTLED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)


class Made(msgspec.Struct, frozen=True, gc=False):
    """A call that the code made."""

    prefix: str
    """Of the scope that it was made in."""
    address: str
    finding: Finding
    detail: str = ""


def is_as_recorded(calls: Iterable[tuple[str, str]], recorded: Mapping[str, EventRecord]) -> bool:
    """Whether calls that were all given again, each told by its scope and its address, are those that are recorded.

    The usual case, of which many thousands are looked at before a deployment, so it is told by the shortest way.
    """
    reached: dict[str, int] = {}
    count = 0
    for prefix, address in calls:
        record = recorded.get(address)
        if record is None:
            return False
        count += 1
        if record.beside == 0:
            order = record.seq - record.behind
            if order < reached.get(prefix, 0):
                return False
            reached[prefix] = order
    return count == len(recorded)


def divergences(
    made: Sequence[Made],
    recorded: Mapping[str, EventRecord],
    unreached: Sequence[EventRecord],
    entered: Mapping[str, Site],
    sites: Mapping[str, Site],
    starts: Collection[int],
    has_ended: bool,
) -> list[Rehearsed]:
    """All divergences, in the order in which the code comes to them.

    ``entered`` are the paths of the calls whose code ran, with where that ends; ``sites`` says where each call is made,
    ``starts`` which of the starts are recorded. A rehearsal ends where a call has no outcome. That is no divergence
    where the run has not ended and goes on there, where the call is recorded as failed and is tried again, or where it
    may have been cancelled; and then what it did not reach behind that call is none either.
    """
    found: list[tuple[int, Rehearsed]] = []
    ends: list[tuple[str, int]] = []
    for index, call in enumerate(made):
        if call.finding in (Finding.INPUT_DRIFTED, Finding.VERSION_CHANGED):
            found.append((index, _rehearsed(call.address, call.finding, call.detail, sites)))
        elif call.finding is Finding.MISSING:
            failed = recorded.get(call.address)
            ends.append((call.prefix, 0 if failed is None else failed.order))
            if failed is None and _is_new(call, made[:index], recorded, unreached, starts, has_ended):
                detail = _in_place_of(call, unreached)
                found.append((index, _rehearsed(call.address, Finding.MISSING, detail, sites)))
    found += _moved(made, recorded, sites)
    for record in unreached:
        if not any(record.address.startswith(prefix) and record.order > order for prefix, order in ends):
            found.append(_lost(record, made, recorded, entered, sites))
    return [each for _, each in sorted(found, key=lambda item: item[0])]


def _is_new(
    call: Made,
    before: Sequence[Made],
    recorded: Mapping[str, EventRecord],
    unreached: Sequence[EventRecord],
    starts: Collection[int],
    has_ended: bool,
) -> bool:
    """Whether a call that is not recorded has come in since, and was not under way or cancelled."""
    behind = next((record for record in unreached if _prefix(record.address) == call.prefix), None)
    if behind is None:
        return has_ended
    scope = (recorded[each.address].order for each in before if each.prefix == call.prefix and each.address in recorded)
    return not is_start_missing(starts, max(scope, default=behind.order - 1), behind.order)


def _rehearsed(address: str, finding: Finding, detail: str, sites: Mapping[str, Site]) -> Rehearsed:
    return Rehearsed(address, finding, detail, *sites.get(address, NOWHERE))


def unreached_by(
    made: Sequence[Made], recorded: Mapping[str, EventRecord], entered: Mapping[str, Site]
) -> list[EventRecord]:
    """The recorded calls that the code should have come to, and did not, in the order of their starts."""
    reached = {call.address for call in made}
    if recorded.keys() <= reached:
        return []
    paths = {address.rpartition(SEPARATOR)[0] for address in recorded}
    left = (record for address, record in recorded.items() if address not in reached and record.status in _SETTLED)
    expected = (each for each in left if _should_be_reached(each.address, paths, entered))
    return sorted(expected, key=lambda each: each.order)


def _should_be_reached(address: str, paths: set[str], entered: Mapping[str, Site]) -> bool:
    """Whether the code of the call that encloses this one ran. What stands inside a call that is given again is not
    reached, and need not be."""
    path = address.rpartition(SEPARATOR)[0]
    while path := path.rpartition(SEPARATOR)[0]:
        if path in paths:
            return path in entered
    return True


def _in_place_of(call: Made, unreached: Sequence[EventRecord]) -> str:
    for record in unreached:
        if _prefix(record.address) == call.prefix:
            return f"recorded there is {record.address}"
    return "nothing is recorded there"


def _moved(
    made: Sequence[Made], recorded: Mapping[str, EventRecord], sites: Mapping[str, Site]
) -> Iterable[tuple[int, Rehearsed]]:
    """For each scope the first call that is made before one that was recorded before it."""
    earliest: dict[str, tuple[int, str]] = {}
    seen: dict[str, list[tuple[int, int, str]]] = {}
    for index, call in enumerate(made):
        record = recorded.get(call.address)
        if record is None or record.beside != 0:
            continue
        before = seen.setdefault(call.prefix, [])
        if before and record.order < before[-1][0] and call.prefix not in earliest:
            at, address = next((at, address) for order, at, address in before if order > record.order)
            earliest[call.prefix] = (at, address)
            detail = f"{call.address} was recorded before it"
            yield at, _rehearsed(address, Finding.MOVED, detail, sites)
        before.append((record.order, index, call.address))


def _lost(
    record: EventRecord,
    made: Sequence[Made],
    recorded: Mapping[str, EventRecord],
    entered: Mapping[str, Site],
    sites: Mapping[str, Site],
) -> tuple[int, Rehearsed]:
    """A recorded call that is no longer made: seen at the call that is made in its place, or where its scope ends."""
    prefix = _prefix(record.address)
    for index, call in enumerate(made):
        behind = recorded.get(call.address)
        if call.prefix == prefix and (behind is None or behind.order > record.order):
            detail = f"{call.address} is called in its place"
            return index, Rehearsed(record.address, Finding.UNREACHED, detail, *sites.get(call.address, NOWHERE))
    path = prefix.removesuffix(SEPARATOR)
    while path and path not in entered:
        path = path.rpartition(SEPARATOR)[0]
    last = max((index for index, call in enumerate(made) if call.prefix.startswith(prefix)), default=len(made))
    detail = f"{path or 'the run'} ends without calling it"
    return last + 1, Rehearsed(record.address, Finding.UNREACHED, detail, *entered.get(path, NOWHERE))


def _prefix(address: str) -> str:
    scope = address.rpartition(SEPARATOR)[0].rpartition(SEPARATOR)[0]
    return f"{scope}{SEPARATOR}" if scope else ""
