"""``limpet answer`` and ``limpet send``: tell a run what it waits for."""

from __future__ import annotations

import sys

import click

from limpet.cli.given_json import given_json
from limpet.cli.options import app_option, command_to_resume, json_option, open_limpet, store_option
from limpet.cli.output import say, say_json, tell
from limpet.cli.run import load_apps
from limpet.client import Limpet
from limpet.engine.answer_text import asked, read_answer
from limpet.errors import UsageError
from limpet.model.waits import Question

_by = click.option("--by", default="", metavar="NAME", help="Who says so. Default: nobody is named.")


@click.command("answer", short_help="Answer what a run asks.")
@click.argument("state_id", metavar="ID")
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("--at", metavar="ADDRESS", help="The question, or the end of its address, where several are open.")
@_by
@click.option("--withdraw", is_flag=True, help="Take the question back instead.")
@app_option
@json_option
@store_option
def answer(
    state_id: str,
    value: str | None,
    at: str | None,
    by: str,
    withdraw: bool,
    apps: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Answer what a run asks: `yes` or `no`, text, a number, one of the choices, or JSON.

    Without a value the question is asked in the terminal. `limpet resume` then goes on.
    """
    if withdraw and value is not None:
        raise UsageError("A question is answered or taken back, not both.", "Leave out the value, or `--withdraw`.")
    load_apps(apps)
    with open_limpet(store, apps=apps) as client:
        if withdraw:
            question = client.withdraw(state_id, by=by, address=at)
        else:
            question = _answer(client, state_id, value, at, by)
        is_open = bool(client.questions(state_id))
    if as_json:
        say_json({"state_id": state_id, "address": question.address, "withdrawn": withdraw, "is_more_asked": is_open})
        return
    say(f"{'Withdrew' if withdraw else 'Answered'} {question.address}.")
    if is_open:
        say("More is asked: see `limpet questions`.")
    say(f"Go on with `{command_to_resume(state_id, store)}`.")


def _answer(client: Limpet, state_id: str, value: str | None, at: str | None, by: str) -> Question:
    question = client.question(state_id, at)
    if value is not None:
        return client.answer(state_id, read_answer(question, value), by=by, address=question.address)
    if not sys.stdin.isatty():
        raise UsageError(f"No answer to {question.prompt!r} is given.", "Give it behind the id of the state.")
    said = asked(question, input, tell)
    if said is None:
        raise UsageError(f"{question.prompt!r} was not answered.", "It is still open.")
    return client.answer(state_id, said, by=by, address=question.address)


@click.command("send", short_help="Send a message to a run.")
@click.argument("state_id", metavar="ID")
@click.argument("topic")
@click.argument("message", metavar="JSON")
@click.option("--key", metavar="KEY", help="Send it once, however often this is called.")
@_by
@json_option
@store_option
def send(state_id: str, topic: str, message: str, key: str | None, by: str, store: str | None, as_json: bool) -> None:
    """Send a message about a topic to a run, for its `wait_for_message`. @FILE reads the JSON from a file."""
    with open_limpet(store) as client:
        client.send(state_id, topic, given_json("JSON", message), key=key, by=by)
    if as_json:
        say_json({"state_id": state_id, "topic": topic})
    else:
        say(f"Sent a message about {topic!r} to {state_id}.")
