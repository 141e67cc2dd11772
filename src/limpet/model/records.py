"""The immutable records that a journal is made of.

A record is stored as the array ``[tag, field, field, …]`` in the order in which the fields stand here. The order is the
format: a new field goes to the end and has a default, a field is never removed or moved. What most events do not have
stands together in ``details``, which is not stored where there is none: such a record is as long as it ever was.
Records cannot form cycles, so the garbage collector is told to leave them alone: a history may hold hundreds of
thousands.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec

from limpet.errors import StateCorrupted
from limpet.model.checkpoints import CheckpointNote
from limpet.model.usage import Usage
from limpet.model.words import DropReason, ExecutionStatus, StateStatus


def fingerprint(encoded: bytes) -> bytes:
    """What tells one encoded input from another: its SHA-256, shortened to 16 bytes."""
    return hashlib.sha256(encoded).digest()[:16]


ALONE = (0, -2)
"""The values of ``EventRecord.beside`` that say that nothing else was under way."""


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How an event failed: readable by people, and rebuilt as an exception where that is possible."""

    type_name: str
    message: str
    traceback: str
    value: bytes | None = None
    """The exception as an encoded value, or None where it could not be encoded."""


class Details(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What few events have. Stored by name, and only what differs from its default: fields may be added anywhere."""

    due_at: float = 0.0
    """Of one that is tried again: when, in seconds since 1970 UTC. Of one that waits: when it waits no longer."""
    delay_s: float = 0.0
    """How long that is after its failure."""
    spent_s: float = 0.0
    """How long the event has taken so far, with all attempts and waits."""
    key: str = ""
    """The idempotency key that the handler was given, of what is declared ``once``: so it stays the same for good."""
    undo: str = ""
    """What undoes it, where that is declared: the name of an actor."""
    settled: str = ""
    """How its outcome became known, of what is declared ``once`` and not by itself (``model.effects.Settled``), and of
    what has waited (``model.waits.Ended``)."""
    by: str = ""
    """Who said so."""
    usage: Usage | None = None
    """What a model call used."""
    before: int = 0
    """The number of the record in whose place the outcome was given: it is so on replay, too. 0: in its own."""
    at_once: bool = False
    """Of a value that code was given without awaiting it: it has no place in the order of results."""
    letter: str = ""
    """Of one that has waited: the name of the letter that ended it."""
    unseen: int = 0
    """Of a start: how many of the records right before it came only after the call had begun."""
    blocks: tuple[tuple[int, int, int], ...] = ()
    """Of a failure whose traceback has several exceptions, or only some of the frames: of each exception where its
    title begins and its frames end, and the number of the record that has the frames behind those, or 0."""
    agent: str | None = None
    """Of the first record of a run: where its agent was declared, 'module:name' or 'file.py:name'; empty where it
    cannot be imported. None in what was begun before this was noted."""


class EventRecord(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """What became of an event.

    A record of an outcome carries the start of its attempt as well (``order``, ``started_at``), so an event that starts
    and ends within one commit is one record. A start stands in the journal by itself only where something else was
    committed before the outcome: an agent whose children are recorded, for one. In the same way RETRYING carries the
    failure of the attempt that is followed by another one.
    """

    seq: int
    address: str
    status: ExecutionStatus
    at: float
    """When this was recorded, in seconds since 1970 UTC."""
    behind: int = 0
    """How far ``order`` lies behind ``seq``. Stored so, it stays small however long the journal grows."""
    attempt: int = 1
    """The how-manieth attempt it is of. It begins with 1 again when a failure for good is tried again."""
    duration_s: float = 0.0
    version: str | None = None
    """The version of the actor, as declared."""
    fingerprint: bytes = b""
    """What tells the input from others where the input itself is not recorded."""
    input: bytes | None = None
    """The encoded input, or None where recording inputs is switched off."""
    result: bytes | None = None
    """The encoded result of a completed event."""
    error: Failure | None = None
    causes: tuple[str, ...] = ()
    """Of a failed attempt: the addresses of the calls inside it whose failure it passed on."""
    artifacts: tuple[str, ...] = ()
    """The ids of the artifacts that the input and the result name."""
    beside: int = -1
    """Of an outcome: how many calls were under way beside it and those that enclose it. Below -1: so many less 2, with
    the sign changed, after a call had failed that may yet be tried again. -1: that is not known, or the call was made
    later than its place in the code."""
    details: Details | None = None

    @property
    def is_alone(self) -> bool:
        """Whether nothing else was under way, so that its place among other such calls was decided by the code."""
        return self.beside in ALONE

    @property
    def is_settled_with_all(self) -> bool:
        """Whether every call that had started by then has its last outcome, but for those that enclose this one."""
        return self.beside == 0

    @property
    def input_fingerprint(self) -> bytes:
        """What tells the input from others, whether or not it is recorded as a value."""
        return self.fingerprint if self.input is None else fingerprint(self.input)

    @property
    def order(self) -> int:
        """The how-manieth start in its state that of the call was. It keeps it when it is tried again."""
        return self.seq - self.behind

    @property
    def recorded_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    @property
    def started_at(self) -> datetime:
        return datetime.fromtimestamp(self.at - self.duration_s, UTC)


class CheckpointRecord(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A marked point of the journal."""

    seq: int
    status: StateStatus
    at: float
    metadata: str
    """The metadata as it stood, as JSON text; empty where it was made by a policy, and nothing was said of it."""
    note: CheckpointNote | None = None
    """What it says of the moment; None in those that were made before this was noted."""

    @property
    def recorded_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


class StorageRecord(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """One change of the state's storage: a value set, or (``value`` is None) a key deleted."""

    seq: int
    key: str
    at: float
    value: bytes | None
    artifacts: tuple[str, ...] = ()
    """The ids of the artifacts that the value names."""
    is_artifact: bool = False
    """Whether the key is one of ``set_artifact``, which have a space of their own."""
    behind: int = 0
    """How far the newest start lies behind ``seq``: that inside the call that changed it, or of this call itself."""
    place: str = ""
    """Where it was changed: the path of a call, its address without its type, or of a branch of it. Empty: outside of
    every call."""
    number: int = 0
    """The how-manieth change of the key this is there."""

    @property
    def order(self) -> int:
        """The how-manieth start in its state was the newest when this was changed."""
        return self.seq - self.behind

    @property
    def recorded_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stretch of a journal that belongs to a timeline: of its records those that started early enough."""

    first: int
    last: int
    below: int = 0
    """What started as the how-manieth, or later, does not belong to it; 0: all do."""


class TimelineRecord(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """From here on the state is on a new timeline. What the journal holds before stays there."""

    seq: int
    at: float
    number: int
    """The how-manieth timeline of its state this is. A fork counts from 1 again."""
    base: int
    """The number of the timeline that this one goes on from; of a fork, in the state that was forked."""
    parts: tuple[Part, ...] = ()
    """What of the journal before this record belongs to the timeline as well, in order."""
    address: str = ""
    """Where it was run on from, or what was replaced; empty where it goes on from a checkpoint or from the end."""
    forked_from: str = ""
    """The state that was forked, where this is the first record that the fork has of its own."""

    @property
    def recorded_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


class DroppedRecord(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Stands in the place of a record that a cleanup has dropped, so that all others keep their numbers.

    It belongs to no timeline: whatever is read off a journal is read without it.
    """

    seq: int
    why: DropReason
    timeline: int = 0
    """The number of the record that began the timeline which was the current one then. That timeline, and what goes on
    from it, do without what was dropped; earlier ones are no longer whole where it was theirs."""
    behind: int = 0
    """How far the how-manieth start of what was dropped lies behind ``seq``: all of it where it had none."""
    usage: Usage | None = None
    """Of an attempt of a model call: what it had used, since that was paid for."""

    @property
    def order(self) -> int:
        """The how-manieth start in its state that of the call was."""
        return self.seq - self.behind


class TimerRecord(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """Timers of the code inside one call that fired here, between the outcomes that the journal has before and behind.

    Timers are numbered in the order in which the code sets them. A job of an executor counts as one: it ends as a timer
    fires.
    """

    seq: int
    at: float
    """When this was recorded, in seconds since 1970 UTC."""
    path: str
    """The path of the call: its address without its type."""
    numbers: tuple[int, ...]
    """The timers, in the order in which they fired."""
    behind: int = 0
    """How far the newest start lies behind ``seq``."""

    @property
    def order(self) -> int:
        """The how-manieth start in its state was the newest when the timers fired."""
        return self.seq - self.behind

    @property
    def recorded_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


class ReadRecord(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A read of the state's storage of which nothing else says what it found.

    It is written with the next record, so that code which is replayed reads the same again.
    """

    seq: int
    at: float
    """When this was recorded, in seconds since 1970 UTC."""
    place: str
    """Where it was read: the path of a call, its address without its type, or of a branch of it."""
    key: str
    """What was read; empty where the keys were."""
    is_artifact: bool
    number: int
    """The how-manieth read of the key this was there."""
    saw: int
    """The number of the record whose change it found; 0: there was none."""
    behind: int = 0
    """How far the newest start inside the call, or of the call itself, lies behind ``seq``."""
    count: int = 1
    """How many reads of the key in a row, up to this one, have found the same."""

    @property
    def order(self) -> int:
        """The how-manieth start in its state was the newest of that call when this was read."""
        return self.seq - self.behind

    @property
    def recorded_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


Record = EventRecord | CheckpointRecord | StorageRecord | TimelineRecord | DroppedRecord | TimerRecord | ReadRecord
"""What is stored."""


class DamagedRecord(msgspec.Struct, frozen=True, gc=False):
    """Stands in a journal that is read where a record is damaged or missing. It is never stored itself."""

    state_id: str
    """The state that wrote it."""
    seq: int
    why: str
    """What is wrong with it: ``it is missing``, for one."""

    @property
    def error(self) -> StateCorrupted:
        """What is raised where the record is needed."""
        return StateCorrupted(self.state_id, self.seq, self.why)
