"""``limpet interrupt``: stop a run that another process is in the middle of."""

from __future__ import annotations

import time

import click

from limpet.cli.effects import rollback_of
from limpet.cli.exit_codes import ExitCode
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import CommandFailed, say, say_json
from limpet.cli.run import header_of
from limpet.cli.standing import is_held
from limpet.cli.ways_on import standing_and_way_on
from limpet.client import Limpet
from limpet.model import Holder, StateHeader

_EVERY_S = 0.1


@click.command("interrupt", short_help="Stop a run in another process.")
@click.argument("state_id", metavar="ID")
@click.option("--message", default="", metavar="TEXT", help="Why, for those who look at the state.")
@click.option("--by", default="", metavar="NAME", help="Who wants it to stop. Default: nobody is named.")
@click.option("--finish", "is_graceful", is_flag=True, help="Finish what is being executed first.")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait until it has stopped, so long."
)
@json_option
@store_option
def interrupt(
    state_id: str, message: str, by: str, is_graceful: bool, wait_s: float | None, store: str | None, as_json: bool
) -> None:
    """Stop the run of a state, in whatever process it goes on. It can be resumed.

    The process is told through the store, and takes notice within a fraction of a second. Where nobody runs the state
    there is nothing to stop, and that is no error. With `--wait`, ends with 3 where it has not stopped by then.
    """
    with open_limpet(store) as client:
        holder = header_of(client, state_id).holder
        was_told = client.interrupt(state_id, message, by=by, finish=is_graceful)
        if was_told and not as_json:
            say(f"Told {holder or 'the process that runs it'} to {_what(is_graceful)} {state_id}.")
        header = _waited(client, state_id, wait_s if was_told and wait_s is not None else 0.0)
        if was_told and wait_s is not None and is_held(header):
            raise _not_stopped(header, wait_s)
        if as_json:
            say_json(_for_programs(header, holder if was_told else None, was_told))
        elif wait_s is not None or not was_told:
            rollback = rollback_of(client.history(state_id))
            nobody = "" if was_told else "Nobody runs it: "
            say(f"{nobody}{state_id} is {standing_and_way_on(header, store, rollback)}.")


def _what(is_graceful: bool) -> str:
    return "finish what it is executing, and stop" if is_graceful else "stop"


def _waited(client: Limpet, state_id: str, wait_s: float) -> StateHeader:
    """The header of the state when nobody holds it any more, or when the time is over."""
    ends_at = time.monotonic() + wait_s
    header = header_of(client, state_id)
    while is_held(header) and (left_s := ends_at - time.monotonic()) > 0:
        time.sleep(min(_EVERY_S, left_s))
        header = header_of(client, state_id)
    return header


def _not_stopped(header: StateHeader, wait_s: float) -> CommandFailed:
    message = f"{header.state_id} is still run by {header.holder}, {wait_s:g} s after it was told to stop."
    return CommandFailed(
        ExitCode.HELD,
        f"{message} Wait longer for it; or end that process: the state can then be resumed at once.",
        error={"type": "LeaseHeld", "message": message},
        about=_for_programs(header, header.holder, was_told=True),
    )


def _for_programs(header: StateHeader, told: Holder | None, was_told: bool) -> dict[str, object]:
    return {
        "state_id": header.state_id,
        "was_told": was_told,
        "told": None if told is None else str(told),
        "status": header.status,
        "is_held": is_held(header),
    }
