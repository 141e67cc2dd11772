"""``limpet recover``: go on with a damaged state from before the damage."""

from __future__ import annotations

from contextlib import suppress

import click

from limpet.cli.options import again_option, app_option, command_to_resume, json_option, open_limpet, store_option
from limpet.cli.output import say, say_json
from limpet.cli.plans import counted
from limpet.cli.run import header_of, load_actor_of, load_apps
from limpet.errors import AgentNotFound, StateCorrupted
from limpet.model import Recovered


@click.command("recover", short_help="Go on with a damaged state from before the damage.")
@click.argument("state_id", metavar="ID")
@again_option
@app_option
@json_option
@store_option
def recover(state_id: str, again: bool, apps: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Make what stands before the damage of a state its current timeline, so that it can be resumed.

    Nothing is deleted: what is damaged stays in the journal, outside of that timeline. Calls whose results stood behind
    the damage are executed again when the state is resumed. Of a sound state nothing is changed.
    """
    load_apps(apps)
    with open_limpet(store, apps=apps) as client:
        header = header_of(client, state_id)
        if header.damage is None and not again:
            # What its module declares `once` is then known, and is not given up unasked.
            with suppress(AgentNotFound, StateCorrupted):
                load_actor_of(client, state_id)
        found = client.recover(state_id, again=again)
    if as_json:
        say_json(
            {
                "state_id": found.state_id,
                "was_needed": found.was_needed,
                "kept": found.kept,
                "first_damaged": found.first_damaged,
                "given_up": found.given_up,
                "mended_header": found.mended_header,
            }
        )
        return
    for line in _lines(found):
        say(line)
    if found.was_needed:
        say(f"Go on with `{command_to_resume(state_id, store)}`.")


def _lines(found: Recovered) -> list[str]:
    if not found.was_needed:
        return [f"{found.state_id} needs no recovery: nothing that it needs is damaged."]
    lines = [f"{found.state_id} goes on from before the damage: {counted(found.kept, 'record')} kept."]
    if found.mended_header:
        lines.append("Its header was made anew from its journal.")
    if found.given_up:
        lines.append(f"Executed again when it is resumed: {', '.join(found.given_up)}.")
    return lines
