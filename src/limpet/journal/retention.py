"""Which states a cleanup deletes, and why; and why the others stay. Pure: it is told what time it is.

A state is first looked at by itself: damage, a process that runs it, its status and its tags speak against deleting it
(``candidate``). What is left is then decided together, since the rules count and add up (``decide``). Of the states
that stay, those are told that are old enough to lose records which are not needed any more (``reductions``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from limpet.journal.room import RoomLeft
from limpet.model import Retention, Room, StateHeader, StateStatus

WITHIN_LIMITS = "within the limits"
DAMAGED = "damaged"
BEING_RUN = "being run"
SHARED = "shares records with other states"
NOTHING_TO_DROP = "nothing to drop"


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A state, as far as the rules look at it. There is one for each state of a store, so it is small."""

    state_id: str
    status: StateStatus
    created_at: datetime
    updated_at: datetime
    position: int
    pipeline: str
    room: Room
    stays: str | None
    """What speaks against deleting it, whatever the limits say."""
    timeline: int = 0
    """The record that began its current timeline; 0 where it has only been on one."""
    is_asked_for: bool = True
    """Whether its tags let records of it go."""
    left_whole: str | None = None
    """What speaks against dropping records of it, however old it is."""

    def is_still(self, header: StateHeader) -> bool:
        """Whether a header that was read later is that of the same state, with nothing new in it."""
        seen = header.created_at, header.updated_at, header.status, header.position
        looked_at = self.created_at, self.updated_at, self.status, self.position
        return seen == looked_at and header.damage is None


class Decision(msgspec.Struct, frozen=True):
    """What becomes of a state, and why."""

    candidate: Candidate
    goes: bool
    reason: str
    bytes: int = 0
    """The room that its deletion frees, after that of those that go before it."""


def candidate(header: StateHeader, room: Room, retention: Retention, *, is_held: bool) -> Candidate:
    """A state, with what speaks against deleting it by itself."""
    return Candidate(
        state_id=header.state_id,
        status=header.status,
        created_at=header.created_at,
        updated_at=header.updated_at,
        position=header.position,
        pipeline=header.metadata.pipeline_name,
        room=room,
        stays=_stays(header, retention, is_held=is_held),
        timeline=header.timeline,
        is_asked_for=_tags_against(header, retention) is None,
        left_whole=_in_the_way(header, is_held=is_held) or (SHARED if header.bases else None),
    )


def _in_the_way(header: StateHeader, *, is_held: bool) -> str | None:
    return DAMAGED if header.damage is not None else BEING_RUN if is_held else None


def _tags_against(header: StateHeader, retention: Retention) -> str | None:
    tags = header.metadata.tags
    kept_by = [tag for tag in tags if tag in retention.keep_tags]
    missing = sorted(tag for tag in retention.tags if tag not in tags)
    if kept_by:
        return f"tagged {kept_by[0]!r}"
    return f"not tagged {missing[0]!r}" if missing else None


def _stays(header: StateHeader, retention: Retention, *, is_held: bool) -> str | None:
    against = _tags_against(header, retention)
    if (in_the_way := _in_the_way(header, is_held=is_held)) is not None:
        return in_the_way
    if against is not None and against.startswith("tagged"):
        return against
    if header.status not in retention.statuses:
        return f"not asked for: {header.status}" if header.status == StateStatus.COMPLETED else _unfinished(header)
    return against


def _unfinished(header: StateHeader) -> str:
    return f"not finished: {header.status}"


def decide(candidates: Sequence[Candidate], retention: Retention, now: datetime) -> list[Decision]:
    """What becomes of each state, the oldest first, which is the order of their deletion. The newest are given first.

    The limits by age and by number come first; the one by size then takes the oldest of what they leave.
    """
    decisions: dict[str, Decision] = {}
    open_to_size: list[Candidate] = []
    ranks: Counter[str] = Counter()
    for each in candidates:
        if each.stays is not None:
            decisions[each.state_id] = Decision(each, False, each.stays)
            continue
        ranks[each.pipeline] += 1
        rank = ranks[each.pipeline]
        if rank <= retention.keep_latest:
            reason = f"one of the {retention.keep_latest} latest of its pipeline"
            decisions[each.state_id] = Decision(each, False, reason)
        elif (why := _over_a_limit(each, rank, retention, now)) is not None:
            decisions[each.state_id] = Decision(each, True, why)
        else:
            decisions[each.state_id] = Decision(each, False, WITHIN_LIMITS)
            open_to_size.append(each)
    _make_fit(candidates, open_to_size, decisions, retention)
    return _with_room(candidates, decisions)


def _over_a_limit(each: Candidate, rank: int, retention: Retention, now: datetime) -> str | None:
    if retention.max_age is not None and now - each.updated_at > retention.max_age:
        return f"not changed for more than {_length(retention.max_age)}"
    if retention.max_per_pipeline is not None and rank > retention.max_per_pipeline:
        return f"more than {retention.max_per_pipeline} in {each.pipeline!r}" if each.pipeline else _nameless(retention)
    return None


def _nameless(retention: Retention) -> str:
    return f"more than {retention.max_per_pipeline} without a pipeline"


def _make_fit(
    candidates: Sequence[Candidate],
    open_to_size: Sequence[Candidate],
    decisions: dict[str, Decision],
    retention: Retention,
) -> None:
    """Let the oldest go until all states that are left take no more than they may."""
    if retention.max_total_size is None:
        return
    left = RoomLeft(each.room for each in candidates)
    for each in reversed(candidates):
        if decisions[each.state_id].goes:
            left.delete(each.room)
    for each in reversed(open_to_size):
        if left.total <= retention.max_total_size:
            break
        left.delete(each.room)
        decisions[each.state_id] = Decision(each, True, f"all states take more than {retention.max_total_size:,} bytes")


def _with_room(candidates: Sequence[Candidate], decisions: dict[str, Decision]) -> list[Decision]:
    left = RoomLeft(each.room for each in candidates)
    decided: list[Decision] = []
    for each in reversed(candidates):
        decision = decisions[each.state_id]
        freed = left.delete(each.room) if decision.goes else 0
        decided.append(Decision(each, decision.goes, decision.reason, freed))
    return decided


class Reduction(msgspec.Struct, frozen=True):
    """A state that is to lose the records that are not needed any more, and why."""

    candidate: Candidate
    compacts: bool
    """False: only earlier timelines go."""
    reason: str


def reductions(
    decisions: Sequence[Decision], retention: Retention, now: datetime
) -> tuple[list[Reduction], Counter[str]]:
    """The states that are to lose records, in the order given; and of the rest that is old enough why it does not.

    What shares records with another state that stays is left alone: those of the other go on from them.
    """
    staying = [decision.candidate for decision in decisions if not decision.goes]
    shared = {each.key for candidate in staying for each in candidate.room.shared}
    found: list[Reduction] = []
    left_whole: Counter[str] = Counter()
    for each in staying:
        reduction = _reduction(each, retention, now)
        if reduction is None:
            continue
        why = each.left_whole or (SHARED if each.room.key in shared else None)
        if why is None and not reduction.compacts and not each.timeline:
            why = NOTHING_TO_DROP
        if why is None:
            found.append(reduction)
        else:
            left_whole[why] += 1
    return found, left_whole


def _reduction(each: Candidate, retention: Retention, now: datetime) -> Reduction | None:
    age = now - each.updated_at
    if not each.is_asked_for:
        return None
    after = retention.compact_after
    if after is not None and each.status is StateStatus.COMPLETED and age > after:
        return Reduction(each, True, f"completed, and not changed for more than {_length(after)}")
    after = retention.prune_after
    if after is not None and age > after:
        return Reduction(each, False, f"earlier timelines, not changed for more than {_length(after)}")
    return None


def _length(age: timedelta) -> str:
    """A time as people say it: in the largest unit of which it has a whole number."""
    for unit, seconds in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        count, rest = divmod(age.total_seconds(), seconds)
        if not rest and count:
            return f"{count:g} {unit}{'' if count == 1 else 's'}"
    return f"{age.total_seconds():g} seconds"
