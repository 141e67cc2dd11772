"""``limpet fork``: a new state that goes on from a point of another."""

from __future__ import annotations

import click

from limpet.cli.limits import signal_options
from limpet.cli.options import (
    Telling,
    again_option,
    app_option,
    command_to_resume,
    open_limpet,
    replace_options,
    telling_options,
    timeline_option,
)
from limpet.cli.output import say, say_json, styled, tell
from limpet.cli.performing import Task, carry_out
from limpet.cli.replacing import replacement
from limpet.cli.run import header_of, load_actor_of, load_apps
from limpet.client import Limpet
from limpet.errors import UsageError


@click.command("fork", short_help="Make a new state that goes on from a point of another.")
@click.argument("state_id", metavar="ID")
@click.option("--at", metavar="ADDRESS", help="The call to go on from, or the end of its address. Default: the end.")
@click.option("--checkpoint", type=click.IntRange(min=1), metavar="POSITION", help="The checkpoint to go on from.")
@timeline_option("The timeline to fork. Default: the current one.")
@replace_options
@again_option
@click.option("--as", "new_id", metavar="NEWID", help="The id of the fork. Default: a new one.")
@click.option("--run", "is_run", is_flag=True, help="Run the fork at once, and print its result.")
@app_option
@telling_options
def fork(
    state_id: str,
    at: str | None,
    checkpoint: int | None,
    timeline: int | None,
    replace: str | None,
    any_type: bool,
    again: bool,
    new_id: str | None,
    is_run: bool,
    apps: tuple[str, ...],
    store: str | None,
    as_json: bool,
    is_verbose: bool,
    is_quiet: bool,
) -> None:
    """Make a new state that goes on from a call or a checkpoint of another, and print its id.

    Nothing is copied, and the other state is not changed. With `--at` that call and all that began after it are
    executed again; with `--replace`, too, the call gives that value instead. `limpet resume` runs the fork. The agent
    is imported from where it was declared, to see what must not be executed again.
    """
    telling = Telling(as_json, is_verbose, is_quiet)
    if checkpoint is not None and timeline is not None:
        raise UsageError("A checkpoint names its timeline.", "Leave out `--timeline`, or `--checkpoint`.")
    load_apps(apps)
    with open_limpet(store, apps=apps) as client:
        if is_run:
            _require_agent(client, state_id)
        # Only what is imported can say that it is declared once.
        actor = load_actor_of(client, state_id) if is_run or replace is not None or not again else None
        value = replacement(client, state_id, at, replace, any_type=any_type, timeline=timeline)
        forked = client.fork(
            state_id,
            at,
            replace=value,
            any_type=any_type,
            again=again,
            checkpoint=checkpoint,
            timeline=timeline,
            new_state_id=new_id,
        )
        if not is_run:
            _say_fork(client, forked, state_id, store, telling)
            return
        task = Task(
            client=client,
            store=store,
            state_id=forked,
            actor=actor,
            begin=lambda announced, bus: client.resume(forked, agent=announced, event_bus=bus, **signal_options()),
            telling=telling,
            about={"parent_state_id": state_id},
        )
        if not is_quiet:
            tell(f"Forked {state_id} as {styled(forked, bold=True)}")
        carry_out(task)


def _require_agent(client: Limpet, state_id: str) -> None:
    if header_of(client, state_id).agent is None:
        raise UsageError(
            f"State {state_id!r} names no agent that could be imported, so the fork could not be run.",
            "Fork it without `--run`, and load the fork with `ExecutionState.load_from_state_id`.",
        )


def _say_fork(client: Limpet, forked: str, state_id: str, store: str | None, telling: Telling) -> None:
    if telling.as_json:
        say_json({"state_id": forked, "parent_state_id": state_id})
    else:
        say(forked)
    if telling.is_quiet or client.backend.name == "memory://":
        return
    if header_of(client, forked).agent is None:
        tell(f"Go on with: ExecutionState.load_from_state_id({forked!r}, …)")
    else:
        tell(f"Go on with: {command_to_resume(forked, store)}")
