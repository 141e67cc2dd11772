"""From what a person types to an answer, and the questions of a run asked in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from limpet.codec.summaries import Instance
from limpet.engine.questions import expected
from limpet.errors import WrongAnswer
from limpet.escapes import one_line
from limpet.model.waits import Question

_WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


def read_answer(question: Question, text: str) -> Any:
    """What a text means as an answer to a question: the text itself, a word for yes or no, a choice, or JSON.

    It is checked by whoever takes the answer. Raises WrongAnswer where the text means nothing.
    """
    text = text.strip()
    if question.choices is not None:
        return _choice(question, text)
    match question.type_name:
        case "str":
            return text
        case "bool":
            if text.lower() in _WORDS:
                return _WORDS[text.lower()]
            raise _no_answer(question, f"{text!r} is neither yes nor no")
        case _:
            return _as_json(text)


def _choice(question: Question, text: str) -> Any:
    assert question.choices is not None
    by_text = {str(choice): choice for choice in question.choices if not isinstance(choice, Instance)}
    if text in by_text:
        return by_text[text]
    meant = _as_json(text) if question.type_name != "bool" else _WORDS.get(text.lower(), text)
    # Of a class that is not imported it is not known here how a person writes its choices: whoever takes it tells.
    if meant in question.choices or any(isinstance(choice, Instance) for choice in question.choices):
        return meant
    raise _no_answer(question, f"{text!r} is none of the choices")


def _as_json(text: str) -> Any:
    """The JSON that a text is, else the text: many types are written as text in JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _no_answer(question: Question, why: str) -> WrongAnswer:
    return WrongAnswer(question.address, question.state_id, why, expected(question))


def ask_in_terminal(question: Question) -> Any:
    """Ask the person at the terminal, again until what they say is an answer; for ``on_question=``.

    Gives None, and so leaves the question open, where nobody is there or they say nothing.
    """
    return asked(question, input, lambda line: sys.stderr.write(f"{one_line(line)}\n"))


def asked(question: Question, read: Callable[[str], str], tell: Callable[[str], object]) -> Any:
    """The same with other ways to read and to tell."""
    for line in question_lines(question):
        tell(line)
    while True:
        try:
            text = read("> ").strip()
        except EOFError:
            return None
        if not text:
            return question.default if question.has_default else None
        try:
            return read_answer(question, text)
        except WrongAnswer as refused:
            tell(f"{refused.why}. It takes {refused.wanted}.")


def question_lines(question: Question) -> list[str]:
    """A question as a person reads it, line by line."""
    if not question.prompt:
        return [
            f"A question that cannot be read ({question.address or f'record {question.seq}'}).",
            f"  problem   {question.problem}",
        ]
    # Further lines of a prompt have a mark, so that none can look like what is told of it below.
    lines = question.prompt.replace("\n", "\n  | ").split("\n")
    if question.problem:
        lines.append(f"  problem   {question.problem}")
    if question.refused:
        lines.append(f"  refused   {question.refused}")
    if question.context is not None:
        lines.append(f"  context   {question.context!r}")
    lines.append(f"  takes     {expected(question)}")
    if question.has_default:
        lines.append(f"  default   {question.default!r}")
    if question.to:
        lines.append(f"  to        {question.to}")
    if question.deadline is not None:
        lines.append(f"  deadline  {question.deadline:%Y-%m-%d %H:%M:%S} UTC")
    return lines
