"""What is made of records that hold no question, as damage and forgers leave them."""

from __future__ import annotations

from typing import Any

import pytest

from limpet import EventRecord, ExecutionStatus
from limpet.artifacts.stored_values import StoredValues
from limpet.codec import values
from limpet.engine.questions import UNKNOWN, question_of, type_asked_for


@pytest.mark.parametrize(
    "held",
    [
        ({"prompt": "Sure?"},),
        ({"type": "bool"},),
        ({"prompt": "Sure?", "type": {"x": 1, "y": 2}},),
        ({"prompt": "Sure?", "type": "bool", "choices": 3},),
        (["Sure?"],),
        "Sure?",
        (),
        ({}, {}),
    ],
)
def test_a_record_that_holds_no_question_says_so(held: Any) -> None:
    record = EventRecord(3, "a::ask::question", ExecutionStatus.AWAITING, 1.0, input=values.encode(held))
    question = question_of(StoredValues(None), "s", record)
    assert ("a::ask::question", "", 3) == (question.address, question.prompt, question.seq)
    assert "its record (3) holds no question" in question.problem
    assert "cannot be read" in str(question)


@pytest.mark.parametrize("noted", ["Widget", {"class": 3}, {"class": "nowhere:Widget"}, {"any of": 3}, None, {}, 3])
def test_a_type_that_is_not_known_here_is_unknown(noted: Any) -> None:
    held = ({"prompt": "Sure?", "type": noted},)
    record = EventRecord(3, "a::ask::question", ExecutionStatus.AWAITING, 1.0, input=values.encode(held))
    assert UNKNOWN is type_asked_for(StoredValues(None), record)
