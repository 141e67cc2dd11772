"""``limpet import``: states out of a file or a folder."""

from __future__ import annotations

from pathlib import Path

import click

from limpet.cli.amounts import size_of
from limpet.cli.copy import bar, quiet_option
from limpet.cli.list_states import header_for_programs
from limpet.cli.options import command_to_resume, json_option, open_limpet, store_option
from limpet.cli.output import say, say_json, tell
from limpet.cli.run import header_of
from limpet.errors import NotImported
from limpet.model import StateHeader, StateStatus


@click.command("import", short_help="Take in a state from a file that was exported.")
@click.argument("path", metavar="PATH", type=click.Path())
@click.option(
    "--max-size",
    "max_bytes",
    callback=size_of,
    metavar="SIZE",
    help="Read no more than this, unpacked: 10GB. Default: 1GB.",
)
@quiet_option
@json_option
@store_option
def import_state(path: str, max_bytes: int | None, is_quiet: bool, store: str | None, as_json: bool) -> None:
    """Take in the state that `limpet export` has written to a file or a folder, and print its id.

    The file may come from anybody: all of it is checked first, nothing of it is run, and no more is read than is
    allowed. A folder `.state_store` of the system that Limpet grew out of, or one of its files, is taken in as history
    that is over; nothing pickled in it is opened. The store is made where it is missing.
    """
    if not Path(path).exists():
        # Said before a store is made for it.
        raise NotImported(path, "it is not there")
    with open_limpet(store, create=True) as client:
        with bar("Importing", is_quiet) as on_progress:
            state_ids = client.import_all(path, max_bytes=max_bytes, on_progress=on_progress)
        headers = [header_of(client, state_id) for state_id in state_ids]
    if as_json:
        say_json({"states": [header_for_programs(header) for header in headers]})
        return
    for header in headers:
        say(header.state_id)
    if not is_quiet and len(headers) == 1 and _may_go_on(headers[0]):
        tell(f"Go on with: {command_to_resume(headers[0].state_id, store)}")


def _may_go_on(header: StateHeader) -> bool:
    return header.agent is not None and header.status is not StateStatus.COMPLETED
