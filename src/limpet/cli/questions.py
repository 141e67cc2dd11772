"""``limpet questions``: what runs ask and nobody has answered."""

from __future__ import annotations

from typing import Any

import click

from limpet.cli.options import command_on, json_option, open_limpet, store_option
from limpet.cli.output import dim, say, say_json
from limpet.codec.summaries import Instance
from limpet.engine.answer_text import question_lines
from limpet.model.waits import Question


@click.command("questions", short_help="List what runs ask.")
@click.argument("state_id", metavar="[ID]", required=False)
@click.option("--to", metavar="NAME", help="Only what is for them.")
@json_option
@store_option
def questions(state_id: str | None, to: str | None, store: str | None, as_json: bool) -> None:
    """List what runs ask and nobody has answered, the oldest first: of one state, or of all.

    `limpet answer` answers.
    """
    with open_limpet(store) as client:
        found = client.questions(state_id, to=to)
        name = client.backend.name
    if as_json:
        say_json({"questions": [question_for_programs(question) for question in found]})
        return
    for question in found:
        say(f"{question.state_id}  {dim(f'{question.asked_at:%Y-%m-%d %H:%M:%S} UTC')}")
        for line in question_lines(question):
            say(f"  {line}")
        if not question.prompt:
            say(dim(f"    {command_on('verify', question.state_id, store)}"))
            continue
        say(dim(f"    {command_on('answer', question.state_id, store, '--at', question.address)} …"))
    if not found:
        say(f"Nothing is asked in {state_id or name}.")


def question_for_programs(question: Question) -> dict[str, Any]:
    """A question as JSON says it."""
    return {
        "state_id": question.state_id,
        "address": question.address,
        "prompt": question.prompt,
        "type": question.type_name,
        "schema": question.schema,
        "choices": question.choices,
        "default": question.default if question.has_default else None,
        "has_default": question.has_default,
        "deadline": question.deadline,
        "context": question.context,
        "context_class": question.context.type_name if isinstance(question.context, Instance) else None,
        "to": question.to,
        "asked_at": question.asked_at,
        "refused": question.refused,
        "problem": question.problem,
    }
