"""Which records of a journal a cleanup may drop, and why. Pure.

*Pruning* drops what only earlier timelines had. What the current one is made of stays, and so does all that tells what
belongs to it: a failure for which something is tried again, and of what was cut off one record wherever the outcome of
a call that encloses it would otherwise seem to have nothing cut off inside. A state that is not completed keeps what
its newest checkpoint needs, too, on whatever timeline that stands.

*Compacting* is for completed states, and drops besides what later records of the current timeline say as well: the
attempts, waits and starts of a call before its outcome, and checkpoints. A value of the storage goes if it was set
outside of every call and superseded before another call started; what code inside a call has set stays, as that code
may be replayed. So whatever is run on from any event afterwards finds what it would have found.

In the place of a dropped record stands a small one that says so, and no number changes. Records of timelines always
stay: they are small, and say what was there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from limpet.journal.address import SEPARATOR
from limpet.journal.history import History
from limpet.journal.timeline import Sieve, TimelineIndex, Verdict, belonging, cut_behind
from limpet.journal.usage import counted_usage, recorded_usage
from limpet.model import (
    CheckpointRecord,
    DroppedRecord,
    DropReason,
    EventRecord,
    EventType,
    ExecutionStatus,
    Part,
    ReadRecord,
    Record,
    StorageRecord,
    TimelineRecord,
    TimerRecord,
)

_STARTED = ExecutionStatus.STARTED
_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
_AGENT = EventType.AGENT_CALL

Dropped = Mapping[int, DropReason]
"""The numbers of what goes, and why."""


def dropped_by(journal: Sequence[Record], *, is_completed: bool, compacts: bool) -> Dropped:
    """What of a whole journal a cleanup drops. Only completed states are compacted, all others are pruned."""
    index = _index_of(journal)
    intermediate = _intermediate(journal, index.parts(index.current)) if is_completed and compacts else set[int]()
    left = [record for record in journal if record.seq not in intermediate]
    goes = dict.fromkeys(intermediate, DropReason.INTERMEDIATE)
    goes |= dict.fromkeys(_superseded(left, index, keeps_checkpoint=not is_completed), DropReason.SUPERSEDED)
    first = next((record.seq for record in journal if type(record) is EventRecord), 0)
    # The input of a run stands in its first record, on whatever timeline.
    goes.pop(first, None)
    return dict(sorted(goes.items()))


def without(journal: Sequence[Record], goes: Dropped) -> list[Record]:
    """The journal with something small in the place of what goes."""
    began = max((record.seq for record in journal if type(record) is TimelineRecord), default=0)
    return [record if record.seq not in goes else _in_place_of(record, goes[record.seq], began) for record in journal]


def reads_the_same(before: History, after: History) -> bool:
    """Whether a history that is read without what goes tells the same of the current timeline."""
    return (
        before.latest == after.latest
        and before.to_retry == after.to_retry
        and before.open == after.open
        and before.storage == after.storage
        and before.artifacts == after.artifacts
        and before.position == after.position
        and before.first_event() == after.first_event()
        and before.parts() == after.parts()
    )


def _in_place_of(record: Record, why: DropReason, began: int) -> DroppedRecord:
    # A checkpoint has no start, and is told by its number alone.
    behind = record.behind if isinstance(record, EventRecord | StorageRecord | TimerRecord | ReadRecord) else record.seq
    return DroppedRecord(record.seq, why, began, behind, counted_usage(record))


def _index_of(journal: Sequence[Record]) -> TimelineIndex:
    index = TimelineIndex()
    for record in journal:
        if type(record) is TimelineRecord:
            index.add(record)
    index.position = len(journal)
    return index


def _superseded(journal: Sequence[Record], index: TimelineIndex, *, keeps_checkpoint: bool) -> Iterator[int]:
    if index.current == 1:
        return
    needed = _needed(journal, index.parts(index.current))
    if keeps_checkpoint:
        newest = max((record.seq for record in journal if type(record) is CheckpointRecord), default=0)
        number = index.number_at(newest)
        if newest and number:
            needed |= _needed(journal, cut_behind(index.parts(number), newest), with_outcomes=True)
    for record in journal:
        if record.seq not in needed and not isinstance(record, TimelineRecord | DroppedRecord):
            yield record.seq


def _needed(journal: Sequence[Record], parts: Sequence[Part], *, with_outcomes: bool = False) -> set[int]:
    """The numbers of what a timeline is made of, and of what tells that the rest does not belong to it.

    With ``with_outcomes`` also those of all outcomes of calls that are entered again: nothing is missing then of an
    earlier timeline, which is asked for what was dropped of it.
    """
    sieve = Sieve(parts)
    needed: set[int] = set()
    cut_off: dict[str, EventRecord] = {}
    """By the path of a call: the latest start of what was cut off inside it, as the sieve knows it."""
    inside: dict[str, int] = {}
    """By the path of a call: the latest start of what is needed inside it."""
    for record in journal:
        verdict = sieve.judge(record)
        if type(record) is not EventRecord:
            if verdict is Verdict.BELONGS:
                needed.add(record.seq)
            continue
        path = _path(record)
        if verdict is Verdict.DROPPED:
            for above in _enclosing(path):
                known = cut_off.get(above)
                is_known = known is not None and known.order == record.order
                if not is_known and sieve.dropped_inside.get(above) == record.order:
                    cut_off[above] = record
        elif verdict is Verdict.BELONGS or record.status is _FAILED or with_outcomes:
            needed.add(record.seq)
            latest = sieve.dropped_inside.get(path, 0) if record.status is not _STARTED else 0
            # What is needed inside and started later has the same effect, wherever a later timeline is cut.
            if latest and (verdict is Verdict.ENTERED_AGAIN or latest > inside.get(path, 0)):
                needed.add(cut_off[path].seq)
            for above in _enclosing(path):
                inside[above] = max(record.order, inside.get(above, 0))
    return needed


def _intermediate(journal: Sequence[Record], parts: Sequence[Part]) -> set[int]:
    records = list(belonging(journal, parts))
    events = [record for record in records if type(record) is EventRecord]
    goes = {record.seq for record in records if type(record) is CheckpointRecord}
    goes |= _superfluous(events)
    goes |= _superseded_values([record for record in records if type(record) is StorageRecord], events)
    return goes


def _superfluous(events: Sequence[EventRecord]) -> set[int]:
    """The records of calls that later records of the same calls make superfluous."""
    final = {record.address: record for record in events}
    by_address: dict[str, list[EventRecord]] = {}
    for record in events:
        by_address.setdefault(record.address, []).append(record)
    encloses = {above for record in events for above in _enclosing(_path(record))}
    may_go: dict[int, EventRecord] = {}
    for address, all_of_it in by_address.items():
        has_start = False
        for record in all_of_it[:-1]:
            is_first_start = record.status is _STARTED and not has_start
            has_start = has_start or is_first_start
            # By its start it is known of an agent that its code makes calls.
            if is_first_start and (address.endswith(_AGENT) or _path(record) in encloses):
                continue
            if _is_told_by(record, final[address]) and not _is_cause_needed(record, by_address):
                may_go[record.seq] = record
    return _without_torn(may_go, events, final)


def _is_told_by(record: EventRecord, final: EventRecord) -> bool:
    """Whether the last record of a call says all that counts of an earlier one, wherever a later timeline is cut."""
    is_same_call = record.order == final.order and final.status is not _STARTED
    # What was paid for stays known, one by one: budgets count it.
    return is_same_call and record.status is not _COMPLETED and recorded_usage(record) is None


def _is_cause_needed(record: EventRecord, by_address: Mapping[str, Sequence[EventRecord]]) -> bool:
    """Whether something is to be tried again because of this record, and no later record says that it was."""
    to_look_at, seen = list(record.causes), set(record.causes)
    while to_look_at:
        of_cause = by_address.get(to_look_at.pop(), ())
        if not of_cause:
            continue
        last = of_cause[-1]
        if last.seq < record.seq or last.status is _STARTED or any(each.order != last.order for each in of_cause):
            return True
        more = {cause for each in of_cause if each.seq < record.seq for cause in each.causes} - seen
        to_look_at += more
        seen |= more
    return False


def _without_torn(
    may_go: Mapping[int, EventRecord], events: Sequence[EventRecord], final: Mapping[str, EventRecord]
) -> set[int]:
    """What may go but for records inside a call between which and the last of their own an outcome of that call stays.

    A timeline that is cut before them tells by the first of them that the call is entered again.
    """
    goes = set(may_go)
    while True:
        outcomes: dict[str, list[int]] = {}
        for record in events:
            if record.status is not _STARTED and record.seq not in goes:
                outcomes.setdefault(_path(record), []).append(record.seq)
        torn = {
            seq
            for seq in goes
            for above in _enclosing(_path(may_go[seq]))
            if any(seq < outcome < final[may_go[seq].address].seq for outcome in outcomes.get(above, ()))
        }
        if not torn:
            return goes
        goes -= torn


def _superseded_values(changes: Sequence[StorageRecord], events: Iterable[EventRecord]) -> set[int]:
    """The values of the storage that no timeline which is run on from an event can find."""
    starts = sorted({record.order for record in events})
    goes: set[int] = set()
    by_key: dict[tuple[bool, str], list[StorageRecord]] = {}
    for record in changes:
        by_key.setdefault((record.is_artifact, record.key), []).append(record)
    for of_key in by_key.values():
        is_set = False
        for record, following in zip(of_key, [*of_key[1:], None], strict=True):
            is_seen = (
                following is None or bool(following.place) or _starts_between(starts, record.order, following.order)
            )
            if record.place:
                is_set = True
            elif not is_seen or (record.value is None and not is_set):
                goes.add(record.seq)
            else:
                is_set = record.value is not None
    return goes


def _starts_between(starts: Sequence[int], after: int, last: int) -> bool:
    place = bisect_right(starts, after)
    return place < len(starts) and starts[place] <= last


def _path(record: EventRecord) -> str:
    return record.address.rpartition(SEPARATOR)[0]


def _enclosing(path: str) -> Iterator[str]:
    """The paths of the calls that enclose one, from the inside out."""
    while path := path.rpartition(SEPARATOR)[0]:
        yield path
