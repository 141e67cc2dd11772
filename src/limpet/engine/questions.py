"""Questions as they stand in records, and as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from limpet.artifacts.stored_values import StoredValues
from limpet.codec.answer_types import NotFitting, converted, type_name
from limpet.errors import Awaiting, AwaitingAnswer, WrongAnswer
from limpet.journal.waits import is_question
from limpet.model import EventRecord, ExecutionStatus
from limpet.model.header import utc
from limpet.model.waits import Question


def asked_in(stored: StoredValues, record: EventRecord) -> dict[str, Any]:
    """What a record of a wait says of it."""
    assert record.input is not None, "what is waited for is always recorded"
    (plain,) = cast("list[dict[str, Any]]", stored.decode(record.input))
    return plain


def question_of(stored: StoredValues, state_id: str, record: EventRecord) -> Question:
    """The question that a record asks."""
    plain = asked_in(stored, record)
    due_at = record.details.due_at if record.details is not None else 0.0
    choices = plain.get("choices")
    return Question(
        state_id=state_id,
        address=record.address,
        prompt=plain["prompt"],
        type_name=type_name(plain["type"]),
        schema=plain.get("schema", {}),
        choices=None if choices is None else tuple(choices),
        has_default="default" in plain,
        default=plain.get("default"),
        deadline=utc(due_at) if due_at else None,
        context=plain.get("context"),
        to=plain.get("to", ""),
        asked_at=record.recorded_at,
        seq=record.seq,
    )


def fitting_answer(question: Question, wanted: Any, value: object) -> Any:
    """An answer as a value of the type that was asked for. Raises WrongAnswer."""
    try:
        fitting = converted(value, wanted)
    except NotFitting as error:
        raise WrongAnswer(question.address, question.state_id, str(error), expected(question)) from error
    if question.choices is not None and fitting not in question.choices:
        why = f"{value!r} is none of the choices"
        raise WrongAnswer(question.address, question.state_id, why, expected(question))
    return fitting


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
    due_at = record.details.due_at if record.details is not None else 0.0
    until = f"{utc(due_at):%Y-%m-%d %H:%M:%S} UTC"
    if record.status is not ExecutionStatus.AWAITING:
        return f"the next attempt of {record.address} at {until}"
    topic = asked_in(stored, record).get("topic")
    if topic is None:
        return until
    return f"a message about {topic!r}" + (f" (until {until})" if due_at else "")
