"""Finding what is asked in a store, and delivering what people say: answers, withdrawals, messages."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence

from limpet.artifacts.stored_values import StoredValues
from limpet.codec import values
from limpet.codec.instances import plain, read
from limpet.codec.letters import LetterText, from_body, to_body
from limpet.engine.asking import checked_topic
from limpet.engine.questions import fitting_answer, question_of, recorded_in, type_asked_for, unreadable
from limpet.engine.reading import JournalReader
from limpet.engine.writer import Writer
from limpet.errors import (
    AlreadyAnswered,
    AmbiguousAddress,
    BackendUnavailable,
    LimpetError,
    StateCorrupted,
    UnknownAddress,
    UnknownState,
    UsageError,
)
from limpet.journal.address import matching, nearest, nearest_ends
from limpet.journal.history import History
from limpet.journal.lifecycle import SETTLED
from limpet.journal.waits import (
    answer_name,
    due_at_of,
    is_in_time,
    is_question,
    letter_key,
    message_name,
    noted_waiting,
    taken_letters,
    topic_key,
)
from limpet.model import EventRecord, ExecutionStatus, StateHeader, StateStatus
from limpet.model.header import utc
from limpet.model.letters import Letter
from limpet.model.waits import Ended, Question

_WAITING = (StateStatus.AWAITING, StateStatus.RUNNING, StateStatus.INTERRUPTED, StateStatus.PAUSED)
"""What a state may be that has open questions."""

_UNFINISHED = frozenset(_WAITING) | {StateStatus.FAILED}


class Inbox:
    """What others have to do with the waits of the states in a store."""

    def __init__(self, writer: Writer, stored: StoredValues) -> None:
        self._writer = writer
        self._backend = writer.backend
        self._stored = stored

    def open_questions(self, now: float, headers: Sequence[StateHeader] | None = None) -> list[Question]:
        """What is asked and can be answered yet, in these states or in all of the store, the oldest first.

        One that cannot be read is listed with what is wrong with it, and hides no other.
        """
        found = [
            question
            for header in (self._all_waiting() if headers is None else headers)
            for question in self._open_in(header, now)
        ]
        return sorted(found, key=lambda question: (question.asked_at, question.state_id, question.seq))

    def _open_in(self, header: StateHeader, now: float) -> Iterator[Question]:
        try:
            answered = {letter.name for letter in self._backend.letters(header.state_id)}
        except StateCorrupted:
            answered = set[str]()  # What cannot be read answers nothing.
        if header.damage is not None and header.status is StateStatus.AWAITING and not noted_waiting(header).records:
            yield unreadable(header.state_id, 0, f"its header cannot be trusted ({header.damage})", header.updated_at)
        for seq, record in self._waiting(header):
            if isinstance(record, LimpetError):
                yield unreadable(header.state_id, seq, str(record), header.updated_at)
            elif (
                is_question(record.address)
                and answer_name(record) not in answered
                and is_in_time(due_at_of(record), now)
            ):
                yield question_of(self._stored, header.state_id, record)

    def question(self, header: StateHeader, address: str | None) -> Question:
        """The question that is meant, whether or not it was answered. Raises what ``Limpet.answer`` says."""
        return question_of(self._stored, header.state_id, self._find(header, address) or self._gone(header, address))

    def answer(self, header: StateHeader, address: str | None, value: object, by: str, now: float) -> Question:
        """Answer a question. Raises what ``Limpet.answer`` says."""
        record = self._find(header, address)
        if record is None:
            return self._answered_before(header, address, value)
        _require_in_time(header, record, now)
        question = question_of(self._stored, header.state_id, record)
        fitting = fitting_answer(question, type_asked_for(self._stored, record), value)
        encoded = values.encode(fitting)
        text = LetterText(value=encoded, ended=Ended.ANSWERED, by=by, at=now)
        self._say(header, record, text)
        return question

    def withdraw(self, header: StateHeader, address: str | None, by: str, now: float) -> Question:
        """Take a question back. Raises what ``Limpet.withdraw`` says."""
        record = self._find(header, address)
        if record is None:
            if (gone := self._newest_gone(header, address)) is not None:
                _require_not_due(header, gone)
            raise UsageError(f"State {header.state_id!r} has no open question.", "There is nothing to withdraw.")
        _require_in_time(header, record, now)
        self._say(header, record, LetterText(ended=Ended.WITHDRAWN, by=by, at=now))
        return question_of(self._stored, header.state_id, record)

    def send(self, header: StateHeader, topic: str, value: object, key: str | None, by: str, now: float) -> None:
        """Send a message. Raises what ``Limpet.send`` says."""
        if header.status not in _UNFINISHED:
            raise UsageError(
                f"State {header.state_id!r} is {header.status}, and waits for no message.", "Send it to another one."
            )
        name = message_name(checked_topic(topic), secrets.token_hex(8) if key is None else key)
        # Inside the letter whatever its size: an artifact without a lease is not safe from the collector.
        text = LetterText(value=values.encode(value), ended=Ended.ARRIVED, by=by, topic=topic, at=now)
        body = to_body(text, header.state_id, name, self._stored.cipher)
        letter = self._deliver(header.state_id, name, body)
        said = from_body(letter.body, header.state_id, name, self._stored.cipher)
        if said.value != text.value:
            raise UsageError(
                f"Another message about {topic!r} was sent to state {header.state_id!r} with the key {key!r}.",
                "Give this one another key.",
            )

    def has_come(self, header: StateHeader, now: float) -> bool:
        """Whether anything that a state waits for is there, so that it can go on."""
        waiting = noted_waiting(header)
        if waiting.due_at and waiting.due_at <= now:
            return True
        letters = {letter.name for letter in self._backend.letters(header.state_id)}
        if not letters:
            return False
        taken: set[str] | None = None
        for _, record in self._waiting(header):
            if isinstance(record, LimpetError):
                return True  # Whoever takes the state up is told.
            if is_question(record.address):
                if answer_name(record) in letters:
                    return True
            elif (topic := recorded_in(self._stored, record)[0].get("topic")) is not None:
                if taken is None:
                    taken = taken_letters(self._history(header))
                if any(letter_key(name) == topic_key(topic) for name in letters - taken):
                    return True
        return False

    def _all_waiting(self) -> Iterator[StateHeader]:
        for status in _WAITING:
            yield from self._backend.list_states(status=status, limit=sys.maxsize)

    def _waiting(self, header: StateHeader) -> Iterator[tuple[int, EventRecord | LimpetError]]:
        """The numbers and the records of what a state waits for, or why one cannot be read."""
        reader = JournalReader(self._backend, self._stored, header)
        for seq in noted_waiting(header).records:
            try:
                records = reader.window(seq - 1, 1)
            except BackendUnavailable:
                raise
            except LimpetError as error:
                yield seq, error
                continue
            if not records and self._backend.find_state(header.state_id) is None:
                yield seq, UnknownState(header.state_id)
            for record in records:
                if isinstance(record, EventRecord) and record.status is ExecutionStatus.AWAITING:
                    yield seq, record

    def _asked(self, header: StateHeader) -> list[EventRecord]:
        """The records of the questions that a state asks, answered or not. One that cannot be read is raised where
        there is no other."""
        waiting = list(self._waiting(header))
        asked = [record for _, record in waiting if isinstance(record, EventRecord) and is_question(record.address)]
        for _, error in waiting if not asked else ():
            if isinstance(error, LimpetError):
                raise error
        return asked

    def _find(self, header: StateHeader, address: str | None) -> EventRecord | None:
        """The question that is meant; None where the state asks nothing, or not that."""
        asked = {record.address: record for record in self._asked(header)}
        found = list(asked) if address is None else matching(address, asked.keys())
        if address is None and len(found) > 1:
            letters = {letter.name for letter in self._backend.letters(header.state_id)}
            found = [each for each in found if answer_name(asked[each]) not in letters] or found
        if len(found) > 1 and address is None:
            raise UsageError(
                f"State {header.state_id!r} asks {len(found)} things: {', '.join(found)}.",
                "Say which one is meant with `address=`: the address, or the end of it.",
            )
        if len(found) > 1:
            raise AmbiguousAddress(address or "", header.state_id, tuple(found))
        return asked[found[0]] if found else None

    def _gone(self, header: StateHeader, address: str | None) -> EventRecord:
        """The newest record of a question that is not open any more. Raises UnknownAddress, or UsageError."""
        found = self._newest_gone(header, address)
        if found is not None:
            return found
        if address is not None:
            known = [each for each in self._history(header).latest if is_question(each)]
            raise UnknownAddress(address, header.state_id, nearest(address, known) or nearest_ends(address, known))
        raise UsageError(f"State {header.state_id!r} asks nothing.", "Look with `questions` what is open.")

    def _newest_gone(self, header: StateHeader, address: str | None) -> EventRecord | None:
        settled = {
            record.address: record
            for record in self._history(header).latest.values()
            if is_question(record.address) and record.status in SETTLED
        }
        found = list(settled) if address is None else matching(address, settled.keys())
        return max((settled[each] for each in found), key=lambda record: record.seq, default=None)

    def _history(self, header: StateHeader) -> History:
        return JournalReader(self._backend, self._stored, header).history()[0]

    def _answered_before(self, header: StateHeader, address: str | None, value: object) -> Question:
        """A question that the run has gone on from: saying the same again is no mistake, anything else is."""
        record = self._gone(header, address)
        question = question_of(self._stored, header.state_id, record)
        _require_not_due(header, record)
        if record.result is None:
            raise AlreadyAnswered(record.address, header.state_id, "is not open any more")
        fitting = fitting_answer(question, type_asked_for(self._stored, record), value)
        if not self._is_same(values.encode(fitting), record.result):
            shown = f"was answered with {self._shown(record.result)}"
            raise AlreadyAnswered(record.address, header.state_id, shown)
        return question

    def _say(self, header: StateHeader, record: EventRecord, text: LetterText) -> None:
        name, cipher = answer_name(record), self._stored.cipher
        letter = self._deliver(header.state_id, name, to_body(text, header.state_id, name, cipher))
        said = from_body(letter.body, header.state_id, name, cipher)
        if said.ended != text.ended or not self._is_same(said.value, text.value):
            by = f" by {said.by}" if said.by else ""
            shown = "" if said.value is None else f" with {self._shown(said.value)}"
            raise AlreadyAnswered(record.address, header.state_id, f"was {said.ended}{by}{shown}")

    def _is_same(self, one: bytes | None, other: bytes | None) -> bool:
        """Whether two answers say the same: one may be JSON that a process gave which has not imported the type."""
        if one is None or other is None or one == other:
            return one == other
        return plain(read(one)) == plain(read(other))

    def _shown(self, value: bytes) -> str:
        try:
            return repr(self._stored.decode(value))
        except LimpetError:
            return repr(read(value))

    def _deliver(self, state_id: str, name: str, body: bytes) -> Letter:
        letter = self._backend.deliver(state_id, name, body)
        if letter is None:
            raise UnknownState(state_id)
        self._writer.keeper.tell_of_letter(state_id)
        return letter


def _require_in_time(header: StateHeader, record: EventRecord, now: float) -> None:
    """Raises AlreadyAnswered where what is said now comes after the deadline of a question."""
    if not is_in_time(due_at_of(record), now):
        raise _too_late(header, record)


def _require_not_due(header: StateHeader, record: EventRecord) -> None:
    """Raises AlreadyAnswered where a question ended since its time had come."""
    if record.details is not None and record.details.settled == Ended.DUE:
        raise _too_late(header, record)


def _too_late(header: StateHeader, record: EventRecord) -> AlreadyAnswered:
    by = utc(due_at_of(record))
    return AlreadyAnswered(record.address, header.state_id, f"was to be answered by {by:%Y-%m-%d %H:%M:%S} UTC")
