"""Finding what is asked in a store, and delivering what people say: answers, withdrawals, messages."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from limpet.artifacts.stored_values import StoredValues
from limpet.codec import values
from limpet.codec.answer_types import from_plain
from limpet.codec.letters import LetterText, from_body, to_body
from limpet.engine.asking import checked_topic
from limpet.engine.questions import asked_in, fitting_answer, question_of
from limpet.engine.reading import JournalReader
from limpet.engine.writer import Writer
from limpet.errors import (
    AgentNotFound,
    AlreadyAnswered,
    AmbiguousAddress,
    UnknownAddress,
    UnknownState,
    UsageError,
    ValueNotReadable,
)
from limpet.journal.address import matching, nearest, nearest_ends
from limpet.journal.lifecycle import SETTLED
from limpet.journal.waits import (
    answer_name,
    is_message,
    is_question,
    message_name,
    noted_waiting,
    taken_letters,
)
from limpet.model import EventRecord, ExecutionStatus, StateHeader, StateStatus
from limpet.model.letters import Letter
from limpet.model.waits import Ended, Question

_WAITING = (StateStatus.AWAITING, StateStatus.RUNNING, StateStatus.INTERRUPTED, StateStatus.PAUSED)
"""What a state may be that has open questions."""

_UNFINISHED = frozenset(_WAITING) | {StateStatus.FAILED}


class Inbox:
    """What others have to do with the waits of the states in a store."""

    def __init__(self, writer: Writer, stored: StoredValues, find_agent: Callable[[StateHeader], object]) -> None:
        self._writer = writer
        self._backend = writer.backend
        self._stored = stored
        self._find_agent = find_agent
        """Imports the agent of a state where that is allowed. Raises AgentNotFound, AgentNotAllowed."""

    def open_questions(self, headers: Sequence[StateHeader] | None = None) -> list[Question]:
        """What is asked and not answered, in these states or in all of the store, the oldest first."""
        found: list[Question] = []
        for header in self._all_waiting() if headers is None else headers:
            answered = {letter.name for letter in self._backend.letters(header.state_id)}
            found += [
                question_of(self._stored, header.state_id, record)
                for record in self._asked(header)
                if answer_name(record) not in answered
            ]
        return sorted(found, key=lambda question: (question.asked_at, question.state_id, question.seq))

    def question(self, header: StateHeader, address: str | None) -> Question:
        """The question that is meant, whether or not it was answered. Raises what ``Limpet.answer`` says."""
        return question_of(self._stored, header.state_id, self._find(header, address) or self._gone(header, address))

    def answer(self, header: StateHeader, address: str | None, value: object, by: str, now: float) -> Question:
        """Answer a question. Raises what ``Limpet.answer`` says."""
        record = self._find(header, address)
        if record is None:
            return self._answered_before(header, address, value)
        question = question_of(self._stored, header.state_id, record)
        if question.deadline is not None and now > question.deadline.timestamp():
            why = f"was to be answered by {question.deadline:%Y-%m-%d %H:%M:%S} UTC"
            raise AlreadyAnswered(question.address, header.state_id, why)
        fitting = fitting_answer(question, self._type_of(header, record), value)
        encoded = values.encode(fitting)
        text = LetterText(value=encoded, ended=Ended.ANSWERED, by=by)
        self._say(header, record, text)
        return question

    def withdraw(self, header: StateHeader, address: str | None, by: str) -> Question:
        """Take a question back. Raises what ``Limpet.withdraw`` says."""
        record = self._find(header, address)
        if record is None:
            raise UsageError(f"State {header.state_id!r} has no open question.", "There is nothing to withdraw.")
        self._say(header, record, LetterText(ended=Ended.WITHDRAWN, by=by))
        return question_of(self._stored, header.state_id, record)

    def send(self, header: StateHeader, topic: str, value: object, key: str | None, by: str) -> None:
        """Send a message. Raises what ``Limpet.send`` says."""
        if header.status not in _UNFINISHED:
            raise UsageError(
                f"State {header.state_id!r} is {header.status}, and waits for no message.", "Send it to another one."
            )
        name = message_name(checked_topic(topic), secrets.token_hex(8) if key is None else key)
        # Inside the letter whatever its size: an artifact without a lease is not safe from the collector.
        text = LetterText(value=values.encode(value), ended=Ended.ARRIVED, by=by, topic=topic)
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
        for record in self._waiting(header):
            if is_question(record.address):
                if answer_name(record) in letters:
                    return True
            elif (topic := asked_in(self._stored, record).get("topic")) is not None:
                if taken is None:
                    taken = taken_letters(JournalReader(self._backend, self._stored, header).history()[0])
                if any(is_message(name, topic) for name in letters - taken):
                    return True
        return False

    def _all_waiting(self) -> Iterator[StateHeader]:
        for status in _WAITING:
            yield from self._backend.list_states(status=status, limit=sys.maxsize)

    def _waiting(self, header: StateHeader) -> list[EventRecord]:
        """The records of what a state waits for."""
        reader = JournalReader(self._backend, self._stored, header)
        found = (record for seq in noted_waiting(header).records for record in reader.window(seq - 1, 1))
        return [
            record for record in found if isinstance(record, EventRecord) and record.status is ExecutionStatus.AWAITING
        ]

    def _asked(self, header: StateHeader) -> list[EventRecord]:
        """The records of the questions that a state asks, answered or not."""
        return [record for record in self._waiting(header) if is_question(record.address)]

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
        """The newest record of a question that is not open any more."""
        history, _ = JournalReader(self._backend, self._stored, header).history()
        settled = {
            record.address: record
            for record in history.latest.values()
            if is_question(record.address) and record.status in SETTLED
        }
        found = list(settled) if address is None else matching(address, settled.keys())
        if not found and address is not None:
            known = [each for each in history.latest if is_question(each)]
            raise UnknownAddress(address, header.state_id, nearest(address, known) or nearest_ends(address, known))
        if not found:
            raise UsageError(f"State {header.state_id!r} asks nothing.", "Look with `questions` what is open.")
        return max((settled[each] for each in found), key=lambda record: record.seq)

    def _answered_before(self, header: StateHeader, address: str | None, value: object) -> Question:
        """A question that the run has gone on from: saying the same again is no mistake, anything else is."""
        record = self._gone(header, address)
        question = question_of(self._stored, header.state_id, record)
        if record.result is None:
            raise AlreadyAnswered(record.address, header.state_id, "is not open any more")
        recorded = self._stored.decode(record.result)
        if fitting_answer(question, self._type_of(header, record), value) != recorded:
            raise AlreadyAnswered(record.address, header.state_id, f"was answered with {recorded!r}")
        return question

    def _type_of(self, header: StateHeader, record: EventRecord) -> Any:
        """The type that is asked for. The classes of it are declared where the agent is, if they are not known yet."""
        noted = asked_in(self._stored, record)["type"]
        try:
            return from_plain(noted)
        except ValueNotReadable:
            if header.agent is None:
                raise
        try:
            self._find_agent(header)
        except AgentNotFound:
            return from_plain(noted)  # Raises again what is missing.
        return from_plain(noted)

    def _say(self, header: StateHeader, record: EventRecord, text: LetterText) -> None:
        name, cipher = answer_name(record), self._stored.cipher
        letter = self._deliver(header.state_id, name, to_body(text, header.state_id, name, cipher))
        said = from_body(letter.body, header.state_id, name, cipher)
        if (said.ended, said.value) != (text.ended, text.value):
            by = f" by {said.by}" if said.by else ""
            shown = "" if said.value is None else f" with {self._stored.decode(said.value)!r}"
            raise AlreadyAnswered(record.address, header.state_id, f"was {said.ended}{by}{shown}")

    def _deliver(self, state_id: str, name: str, body: bytes) -> Letter:
        letter = self._backend.deliver(state_id, name, body)
        if letter is None:
            raise UnknownState(state_id)
        self._writer.keeper.tell_of_letter(state_id)
        return letter
