"""``limpet delete``: a state that is not wanted any more."""

from __future__ import annotations

import sys

import click

from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import confirm, say, say_json
from limpet.errors import UsageError


@click.command("delete", short_help="Delete a state for good.")
@click.argument("state_id", metavar="ID")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option
@store_option
def delete(state_id: str, is_sure: bool, store: str | None, as_json: bool) -> None:
    """Delete a state and its records for good, also a damaged one. Asks first.

    Forks of it keep the records that they share. Its artifacts stay until `limpet collect`.
    """
    with open_limpet(store) as client:
        if not is_sure:
            if not sys.stdin.isatty():
                raise UsageError(f"Nobody can be asked whether {state_id!r} is to be deleted.", "Say so with --yes.")
            confirm(f"Delete {state_id} for good?")
        client.delete(state_id)
    if as_json:
        say_json({"deleted": state_id})
    else:
        say(f"Deleted {state_id}.")
