"""``limpet migrate``: rewrite what is stored in an older format."""

from __future__ import annotations

import click

from limpet.cli.copy import bar, quiet_option
from limpet.cli.exit_codes import ExitCode
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import say, say_json
from limpet.cli.plans import counted
from limpet.errors import UsageError


@click.command("migrate", short_help="Rewrite records of an older format.")
@click.option("--backup", metavar="URL", help="Where the store is copied to first. Default: beside it.")
@click.option("--no-backup", is_flag=True, help="Make no copy.")
@quiet_option
@json_option
@store_option
def migrate(backup: str | None, no_backup: bool, is_quiet: bool, store: str | None, as_json: bool) -> int:
    """Rewrite all records that are of an older format in the newest one, after copying the store.

    Older records are read as they are, so this is never urgent. Ends with 1 where states had to be left as they are.
    """
    if backup is not None and no_backup:
        raise UsageError("A copy is wanted and not wanted.", "Give --backup or --no-backup.")
    with open_limpet(store) as client, bar("Migrating", is_quiet) as on_progress:
        found = client.migrate(backup=backup or not no_backup, on_progress=on_progress)
    if as_json:
        say_json(
            {
                "states": found.states,
                "records": found.records,
                "unchanged": found.unchanged,
                "backup": found.backup,
                "refused": found.refused,
            }
        )
    else:
        if found.backup is not None:
            say(f"Everything as it was: {found.backup}")
        rewritten = f"{counted(found.records, 'record')} of {counted(found.states, 'state')} rewritten"
        say(f"{rewritten}; {counted(found.unchanged, 'state')} up to date already.")
        for state_id, why in found.refused.items():
            say(f"Left as it is: {state_id}: {why}")
    return ExitCode.DIFFERENT if found.refused else ExitCode.DONE
