"""``limpet settle``: say what became of a call that was cut off."""

from __future__ import annotations

import sys

import click
import msgspec

from limpet.cli.given_json import given_json
from limpet.cli.options import command_on, command_to_resume, json_option, open_limpet, store_option
from limpet.cli.output import say, say_json
from limpet.cli.plans import counted
from limpet.cli.run import header_of
from limpet.cli.unknown_calls import unknown_call_for_programs, unknown_call_lines, unknown_calls
from limpet.client import Limpet
from limpet.engine.replacement import NOTHING
from limpet.errors import UsageError
from limpet.model import Settled, StateStatus


class _Word(msgspec.Struct, frozen=True):
    """What a person says: one of three, or nothing."""

    happened: str | None
    again: bool
    failed: str | None

    @property
    def said(self) -> list[Settled]:
        """What is said; there should be one."""
        found = {
            Settled.HAPPENED: self.happened is not None,
            Settled.AGAIN: self.again,
            Settled.FAILED: self.failed is not None,
        }
        return [word for word, is_said in found.items() if is_said]


_TOLD = {
    Settled.HAPPENED: "it happened, and gives this result",
    Settled.AGAIN: "it did not happen, and is executed when the run goes on",
    Settled.FAILED: "it failed",
}


@click.command("settle", short_help="Say what became of a call that was cut off.")
@click.argument("state_id", metavar="ID")
@click.option("--at", metavar="ADDRESS", help="The call, or the end of its address, where there are several.")
@click.option("--happened", metavar="JSON", help="It did its work, and this is its result. @FILE reads a file.")
@click.option("--again", is_flag=True, help="It did not, and is executed when the run goes on.")
@click.option("--failed", metavar="REASON", help="It failed for good.")
@click.option("--by", default="", metavar="NAME", help="Who says so. Default: nobody is named.")
@json_option
@store_option
def settle(
    state_id: str,
    at: str | None,
    happened: str | None,
    again: bool,
    failed: str | None,
    by: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Say what became of a call that is declared `once` and was cut off: it happened, it did not, or it failed.

    `limpet resume` then goes on. With none of the three, the calls that await it are listed.
    """
    word = _Word(happened, again, failed)
    with open_limpet(store) as client:
        if not word.said and (as_json or sys.stdin.isatty()):
            _list(client, state_id, store, as_json)
            return
        if len(word.said) != 1:
            given = " and ".join(f"`--{said}`" for said in word.said)
            problem = f"{given} contradict each other." if given else "Nothing was said of what became of the call."
            raise UsageError(problem, "Say one of three: `--happened JSON`, `--again` or `--failed REASON`.")
        _settle(client, state_id, at, word, by, store, as_json)


def _list(client: Limpet, state_id: str, store: str | None, as_json: bool) -> None:
    calls = unknown_calls(client, header_of(client, state_id))
    if as_json:
        say_json({"state_id": state_id, "unknown": [unknown_call_for_programs(call) for call in calls]})
    elif calls:
        for line in unknown_call_lines(state_id, store, calls):
            say(line)
    else:
        say(f"{state_id} has no call whose outcome is unknown.")


def _settle(
    client: Limpet, state_id: str, at: str | None, word: _Word, by: str, store: str | None, as_json: bool
) -> None:
    result = NOTHING if word.happened is None else given_json("--happened", word.happened)
    _require_one(client, state_id, at)
    address = client.settle(state_id, at, happened=result, again=word.again, failed=word.failed, by=by)
    (said,) = word.said
    header = header_of(client, state_id)
    if as_json:
        say_json({"state_id": state_id, "address": address, "settled": said, "status": header.status})
        return
    say(f"Settled {address}: {_TOLD[said]}.")
    if header.status is StateStatus.AWAITING:
        left = len(unknown_calls(client, header))
        say(f"{counted(left, 'more call')} to settle; `{command_on('show', state_id, store)}` tells how.")
    elif header.agent is not None:
        say(f"Go on with `{command_to_resume(state_id, store)}`.")


def _require_one(client: Limpet, state_id: str, at: str | None) -> None:
    """Raises UsageError where it must be said which call is meant."""
    calls = [] if at is not None else unknown_calls(client, header_of(client, state_id))
    if len(calls) > 1:
        listed = ", ".join(call.address for call in calls)
        raise UsageError(
            f"State {state_id!r} has {len(calls)} calls whose outcome is unknown: {listed}.",
            "Name one with `--at ADDRESS`, by its address or the end of it.",
        )
