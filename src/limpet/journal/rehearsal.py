"""Where the calls that code makes part from the calls that are recorded.

In each scope the calls made and the calls recorded are walked side by side. The first one at which they part tells what
happened: a call that is not recorded came in, one that is recorded is no longer made, or two have changed places. What
concurrent code records depends on timing, so calls that were not made by themselves are held to no order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from limpet.journal.address import SEPARATOR
from limpet.journal.drift import is_start_missing
from limpet.model import EventRecord, ExecutionStatus, Finding, Rehearsed
from limpet.model.records import ALONE

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
        if record.beside in ALONE:
            order = record.seq - record.behind
            if order < reached.get(prefix, 0):
                return False
            reached[prefix] = order
    return count == len(recorded)


class Rehearsing(msgspec.Struct, frozen=True, kw_only=True):
    """A rehearsal that is over, as it is judged."""

    made: Sequence[Made]
    """The calls that the code made, in order."""
    recorded: Mapping[str, EventRecord]
    """The calls that have an outcome, by address."""
    cut_off: Collection[str]
    """The addresses of those that have a record and no outcome: they were under way, or cancelled."""
    starts: Collection[int]
    """Which of the starts are recorded."""
    sites: Mapping[str, Site]
    """Where each call is made."""
    entered: Mapping[str, Site]
    """The paths of the calls whose code ran, with where that ends."""
    ended: Collection[str]
    """Of these, the ones whose code ran to its end."""
    has_ended: bool
    """Whether the recorded run has ended."""

    def reached(self, prefix: str) -> int:
        """The latest start among the recorded calls of a scope that were made."""
        calls = (self.recorded.get(call.address) for call in self.made if call.prefix == prefix)
        return max((record.order for record in calls if record is not None), default=0)

    def site(self, address: str) -> Site:
        return self.sites.get(address, NOWHERE)


def divergences(over: Rehearsing, unreached: Sequence[EventRecord]) -> list[Rehearsed]:
    """All divergences, in the order in which the code comes to them.

    A rehearsal ends where a call has no outcome. That is no divergence where the run has not ended and goes on there,
    where the call is recorded as failed and is tried again, or where it may have been cancelled. What it did not reach
    is one only where the code went on to something later, or came to its end.
    """
    found: list[tuple[int, Rehearsed]] = []
    for index, call in enumerate(over.made):
        if call.finding in (Finding.INPUT_DRIFTED, Finding.VERSION_CHANGED):
            found.append((index, Rehearsed(call.address, call.finding, call.detail, *over.site(call.address))))
        elif call.finding is Finding.MISSING and _is_new(call, over, unreached):
            detail = _in_place_of(call, unreached)
            found.append((index, Rehearsed(call.address, Finding.MISSING, detail, *over.site(call.address))))
    found += _moved(over)
    found += (lost for record in unreached if (lost := _lost(record, over)) is not None)
    return [each for _, each in sorted(found, key=lambda item: item[0])]


def _is_new(call: Made, over: Rehearsing, unreached: Sequence[EventRecord]) -> bool:
    """Whether a call that has no outcome has come in since, and was not under way or cancelled."""
    if call.address in over.recorded or call.address in over.cut_off:
        return False
    reached = over.reached(call.prefix)
    behind = (record for record in unreached if _prefix(record.address) == call.prefix and record.order > reached)
    first = next(behind, None)
    if first is None:
        return over.has_ended
    # In a run that has not ended it may have been under way beside a call that has.
    is_certain = over.has_ended or first.is_alone
    return is_certain and not is_start_missing(over.starts, reached or first.order - 1, first.order)


def unreached_by(
    made: Sequence[Made],
    recorded: Mapping[str, EventRecord],
    entered: Mapping[str, Site],
    cut_off: Collection[str] = (),
) -> list[EventRecord]:
    """The recorded calls that the code should have come to, and did not, in the order of their starts.

    What stands inside a call that was cut off, and is not entered again, need not be reached.
    """
    reached = {call.address for call in made}
    if recorded.keys() <= reached:
        return []
    paths = {address.rpartition(SEPARATOR)[0] for address in (*recorded, *cut_off)}
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


def _moved(over: Rehearsing) -> Iterator[tuple[int, Rehearsed]]:
    """For each scope the first call that is made before one that was recorded before it."""
    told: set[str] = set()
    seen: dict[str, list[tuple[int, int, str]]] = {}
    for index, call in enumerate(over.made):
        record = over.recorded.get(call.address)
        if record is None or not record.is_alone:
            continue
        before = seen.setdefault(call.prefix, [])
        if before and record.order < before[-1][0] and call.prefix not in told:
            at, address = next((at, address) for order, at, address in before if order > record.order)
            told.add(call.prefix)
            detail = f"{call.address} was recorded before it"
            yield at, Rehearsed(address, Finding.MOVED, detail, *over.site(address))
        before.append((record.order, index, call.address))


def _lost(record: EventRecord, over: Rehearsing) -> tuple[int, Rehearsed] | None:
    """A recorded call that is no longer made: seen at the call that is made in its place, or where its scope ends.

    None where neither was come to.
    """
    prefix = _prefix(record.address)
    for index, call in enumerate(over.made):
        behind = over.recorded.get(call.address)
        if call.prefix == prefix and behind is not None and behind.order > record.order:
            detail = f"{call.address} is called in its place"
            return index, Rehearsed(record.address, Finding.UNREACHED, detail, *over.site(call.address))
    path = prefix.removesuffix(SEPARATOR)
    while path and path not in over.entered:
        path = path.rpartition(SEPARATOR)[0]
    if path not in over.ended:
        return None
    inside = (index for index, call in enumerate(over.made) if call.prefix.startswith(prefix))
    last = max(inside, default=len(over.made))
    detail = f"{path or 'the run'} ends without calling it"
    return last + 1, Rehearsed(record.address, Finding.UNREACHED, detail, *over.entered.get(path, NOWHERE))


def _prefix(address: str) -> str:
    scope = address.rpartition(SEPARATOR)[0].rpartition(SEPARATOR)[0]
    return f"{scope}{SEPARATOR}" if scope else ""
