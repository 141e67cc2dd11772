"""``limpet roll-back``: undo what a run has done."""

from __future__ import annotations

import sys

import click

from limpet.cli.effects import Effect, effects_of, history_of, rollback_of
from limpet.cli.exit_codes import ExitCode
from limpet.cli.limits import signal_options
from limpet.cli.options import Telling, app_option, command_on, open_limpet, telling_options
from limpet.cli.output import CommandFailed, confirm, say, say_json, styled, tell
from limpet.cli.performing import Task, performed
from limpet.cli.plans import counted
from limpet.cli.progress import Progress
from limpet.cli.run import header_of, load_actor_of, load_apps
from limpet.cli.standing import is_held
from limpet.client import Limpet
from limpet.errors import OutcomeUnknown, UsageError
from limpet.journal.rollback import unknown_effects
from limpet.model import StateHeader, StateStatus


@click.command("roll-back", short_help="Undo what a run has done.")
@click.argument("state_id", metavar="ID")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@app_option
@telling_options
def roll_back(
    state_id: str,
    is_sure: bool,
    apps: tuple[str, ...],
    store: str | None,
    as_json: bool,
    is_verbose: bool,
    is_quiet: bool,
) -> None:
    """Undo what a run that did not complete has done, from the newest to the oldest. Asks first.

    Every result of an actor with `undo=` is undone. Stopped anywhere, it goes on when it is asked for again. The state
    stays as failed; `limpet rerun` runs it anew. The agent is imported from where it was declared.
    """
    telling = Telling(as_json, is_verbose, is_quiet)
    load_apps(apps)
    with open_limpet(store, apps=apps) as client:
        effects = _effects(client, state_id, store)
        # Before anybody is asked, since what is not imported cannot undo anything.
        actor = load_actor_of(client, state_id)
        if not is_sure:
            _ask(state_id, effects)
        task = Task(
            client=client,
            store=store,
            state_id=state_id,
            actor=None,
            begin=lambda _, bus: client.roll_back(state_id, agent=actor, event_bus=bus, **signal_options()),
            telling=telling,
            what="rollback",
            verb="roll-back",
            whole=rollback_of,
        )
        announcement = (f"Rolling back {styled(state_id, bold=True)}",)
        undone = performed(task, Progress(state_id, None, telling, announcement))
    if as_json:
        say_json({"state_id": state_id, "status": StateStatus.FAILED, "undone": undone})
    else:
        say(f"Undone: {counted(len(undone), 'call')}.")
        for address in undone:
            say(f"  {address}")


def _effects(client: Limpet, state_id: str, store: str | None) -> list[Effect]:
    """What would be undone. Raises what a rollback would be refused for, before anybody is asked for it."""
    header = header_of(client, state_id)
    if is_held(header):
        raise _held(header, store)
    history = history_of(client, header)
    if header.status is StateStatus.COMPLETED:
        raise UsageError(
            f"State {state_id!r} has completed, and only a run that did not is rolled back.",
            "Undo what it has done by other runs.",
        )
    unknown = unknown_effects(history)
    if unknown:
        raise OutcomeUnknown(unknown[0].address, state_id)
    return effects_of(header, history)


def _held(header: StateHeader, store: str | None) -> CommandFailed:
    message = f"{header.state_id} is being run by {header.holder}."
    return CommandFailed(
        ExitCode.HELD,
        f"{message} Stop it first with `{command_on('interrupt', header.state_id, store)}`.",
        error={"type": "LeaseHeld", "message": message},
        about={},
    )


def _ask(state_id: str, effects: list[Effect]) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"Nobody can be asked whether {state_id!r} is to be rolled back.", "Say so with --yes.")
    left = [effect for effect in effects if not effect.is_undone]
    done = len(effects) - len(left)
    if done:
        tell(f"Of {state_id}, {counted(done, 'call')} undone already.")
    tell(f"To be undone, in this order: {counted(len(left), 'call')}.")
    for effect in left:
        tell(f"  {effect.address} by {effect.undo}")
    confirm(f"Roll back {state_id}?")
