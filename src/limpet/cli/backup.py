"""``limpet backup``: everything into another store, verified there."""

from __future__ import annotations

import click

from limpet.cli.copy import bar, quiet_option, say_copied
from limpet.cli.options import json_option, open_limpet, store_option


@click.command("backup", short_help="Copy everything into another store, and verify it there.")
@click.argument("target", metavar="TARGET")
@quiet_option
@json_option
@store_option
def backup(target: str, is_quiet: bool, store: str | None, as_json: bool) -> None:
    """Copy all states into the store TARGET, a URL, and read back what was written.

    Safe while states are being run, and cheap when it is repeated. The target is made where it is missing, and is a
    store like any other. Ends with 1 where a state could not be copied.
    """
    with open_limpet(store) as client, bar("Backing up", is_quiet) as on_progress:
        report = client.backup(target, on_progress=on_progress)
    say_copied(report, target, as_json)
