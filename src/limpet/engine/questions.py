"""Questions as they stand in records, and as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any, cast

from limpet.artifacts.stored_values import StoredValues
from limpet.codec.answer_types import NotFitting, converted, from_plain, type_name
from limpet.codec.instances import plain as plain_value
from limpet.codec.instances import read
from limpet.codec.json_schema import schema_flaw
from limpet.codec.summaries import Instance
from limpet.errors import Awaiting, AwaitingAnswer, LimpetError, ValueNotReadable, WrongAnswer
from limpet.journal.waits import due_at_of, is_question
from limpet.model import EventRecord, ExecutionStatus
from limpet.model.header import utc
from limpet.model.waits import Question

_NOT_AS_IT_WAS = (LookupError, TypeError, ValueError, AttributeError)
"""What a record raises that does not hold what a question does: damage, or the work of a forger."""


class _Unknown(Enum):
    """Stands for a type whose classes are not imported."""

    TYPE = "unknown"


UNKNOWN = _Unknown.TYPE


def asked_in(stored: StoredValues, record: EventRecord) -> dict[str, Any]:
    """What a record of a wait says of it."""
    assert record.input is not None, "what is waited for is always recorded"
    (plain,) = cast("list[dict[str, Any]]", stored.decode(record.input))
    return plain


def recorded_in(stored: StoredValues, record: EventRecord) -> tuple[dict[str, Any], str]:
    """The same, and what is missing of it: read without classes that are not imported, which are no such thing."""
    try:
        return asked_in(stored, record), ""
    except LimpetError as error:
        problem = "" if isinstance(error, ValueNotReadable) else str(error)
    assert record.input is not None
    (plain,) = cast("list[dict[str, Any]]", read(record.input))
    return plain, problem


def question_of(stored: StoredValues, state_id: str, record: EventRecord) -> Question:
    """The question that a record asks. Needs no class of the program."""
    try:
        return _question(state_id, record, *recorded_in(stored, record))
    except _NOT_AS_IT_WAS as error:
        why = f"its record ({record.seq}) holds no question ({type(error).__name__}: {error})"
        return unreadable(state_id, record.seq, why, record.recorded_at, record.address)


def _question(state_id: str, record: EventRecord, plain: dict[str, Any], problem: str) -> Question:
    due_at = due_at_of(record)
    choices = plain.get("choices")
    return Question(
        state_id=state_id,
        address=record.address,
        prompt=str(plain["prompt"]),
        type_name=type_name(plain["type"]),
        schema=plain.get("schema", {}),
        choices=None if choices is None else tuple(choices),
        has_default="default" in plain,
        default=plain.get("default"),
        deadline=utc(due_at) if due_at else None,
        context=plain.get("context"),
        to=str(plain.get("to", "")),
        asked_at=record.recorded_at,
        seq=record.seq,
        refused=_refused(record),
        problem=problem,
    )


def _refused(record: EventRecord) -> str:
    if record.error is None:
        return ""
    by = record.details.by if record.details is not None else ""
    return f"{by}: {record.error.message}" if by else record.error.message


def unreadable(state_id: str, seq: int, why: str, at: datetime, address: str = "") -> Question:
    """What is shown of a question that cannot be read."""
    return Question(state_id=state_id, address=address, prompt="", type_name="", asked_at=at, seq=seq, problem=why)


def type_asked_for(stored: StoredValues, record: EventRecord) -> Any:
    """The type that an answer is held to; UNKNOWN where a class of it is not imported. Nothing is imported for it."""
    try:
        return from_plain(recorded_in(stored, record)[0]["type"])
    except (ValueNotReadable, *_NOT_AS_IT_WAS):
        return UNKNOWN


def fitting_answer(question: Question, wanted: Any, value: object) -> Any:
    """An answer as a value of the type that was asked for. Raises WrongAnswer.

    Where the type is UNKNOWN the value is held to what is recorded of it; the run finds out whether it fits.
    """
    if wanted is UNKNOWN:
        _require_recorded_type(question, value)
        return plain_value(value) if isinstance(value, Instance) else value
    try:
        fitting = converted(value, wanted)
    except NotFitting as error:
        raise WrongAnswer(question.address, question.state_id, str(error), expected(question)) from error
    if question.choices is not None and fitting not in question.choices:
        raise _none_of_choices(question, value)
    return fitting


def _require_recorded_type(question: Question, value: object) -> None:
    flaw = schema_flaw(plain_value(value), question.schema)
    if flaw is not None:
        raise WrongAnswer(question.address, question.state_id, flaw, expected(question))
    # What a choice of a class that is not imported looks like as JSON is not recorded.
    choices = question.choices
    if choices is None or any(isinstance(each, Instance) for each in choices):
        return
    if plain_value(value) not in [plain_value(each) for each in choices]:
        raise _none_of_choices(question, value)


def _none_of_choices(question: Question, value: object) -> WrongAnswer:
    why = f"{value!r} is none of the choices"
    return WrongAnswer(question.address, question.state_id, why, expected(question))


def expected(question: Question) -> str:
    """What a question takes, for people."""
    if question.choices is not None:
        return f"one of {', '.join(map(repr, question.choices))}"
    return {"bool": "yes or no (a bool)", "str": "text", "int": "a whole number", "float": "a number"}.get(
        question.type_name, f"a value of type {question.type_name}"
    )


def awaiting(stored: StoredValues, state_id: str, records: Sequence[EventRecord]) -> Awaiting:
    """What whoever awaits a run is told when it has nothing left to do but to wait."""
    ordered = sorted(records, key=lambda record: record.seq)
    questions = [question_of(stored, state_id, record) for record in ordered if is_question(record.address)]
    if questions:
        return AwaitingAnswer(state_id, questions)
    return Awaiting(state_id, " and ".join(_named(stored, record) for record in ordered))


def _named(stored: StoredValues, record: EventRecord) -> str:
    due_at = due_at_of(record)
    until = f"{utc(due_at):%Y-%m-%d %H:%M:%S} UTC"
    if record.status is not ExecutionStatus.AWAITING:
        return f"the next attempt of {record.address} at {until}"
    topic = recorded_in(stored, record)[0].get("topic")
    if topic is None:
        return until
    return f"a message about {topic!r}" + (f" (until {until})" if due_at else "")
