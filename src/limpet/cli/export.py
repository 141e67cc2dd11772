"""``limpet export``: one state as a file that can be carried anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from limpet.cli.copy import bar, quiet_option
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import say_json, size, tell


@click.command("export", short_help="Write one state to a file, with its artifacts.")
@click.argument("state_id", metavar="ID")
@click.argument("path", metavar="PATH", type=click.Path())
@click.option("--folder", "as_folder", is_flag=True, help="Write a folder of readable JSON instead of one file.")
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@quiet_option
@json_option
@store_option
def export(
    state_id: str, path: str, as_folder: bool, overwrite: bool, is_quiet: bool, store: str | None, as_json: bool
) -> None:
    """Write one state to a file, with its artifacts, its timelines and what it shares with others.

    The file is a zip of readable JSON. `limpet import` takes it in, in whatever store.
    """
    with open_limpet(store) as client, bar("Exporting", is_quiet) as on_progress:
        written = client.export(state_id, path, as_folder=as_folder, overwrite=overwrite, on_progress=on_progress)
    length = _size_of(written)
    if as_json:
        say_json({"state_id": state_id, "path": str(written), "bytes": length})
    elif not is_quiet:
        tell(f"Wrote {state_id} to {written}, {size(length)}.")


def _size_of(path: Path) -> int:
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
    return sum(file.stat().st_size for file in files)
