"""``limpet collect``: delete the artifacts that no state names any more."""

from __future__ import annotations

from datetime import timedelta

import click

from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import dim, say, say_json, size
from limpet.client import GRACE


@click.command("collect", short_help="Delete artifacts that no state names any more.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; list what would go.")
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(min=0),
    default=GRACE.total_seconds(),
    show_default=True,
    metavar="SECONDS",
    help="Keep what was stored within the last so many seconds.",
)
@click.option(
    "--also", multiple=True, metavar="URL", help="Another store that uses the same artifacts; may be repeated."
)
@json_option
@store_option
def collect(dry_run: bool, grace_s: float, also: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Delete the artifacts that no state names any more. States may be run meanwhile.

    An artifact that a run may yet name stays. A dry run lists exactly what would be deleted.
    """
    with open_limpet(store) as client:
        collected = client.collect(grace=timedelta(seconds=grace_s), dry_run=dry_run, also=also)
    if as_json:
        say_json(
            {
                "is_dry_run": collected.is_dry_run,
                "deleted": [{"artifact_id": info.artifact_id, "size": info.size} for info in collected.deleted],
                "freed": collected.freed,
                "named": collected.named,
                "held": collected.held,
                "young": collected.young,
            }
        )
        return
    for info in collected.deleted:
        say(f"{info.artifact_id}  {size(info.size)}")
    verb = "Would delete" if dry_run else "Deleted"
    say(f"{verb} {len(collected.deleted):,} artifacts, {size(collected.freed)}.")
    kept = {"named by states": collected.named, "held by runs": collected.held, "within the grace": collected.young}
    say(dim(f"Kept: {', '.join(f'{count:,} {why}' for why, count in kept.items())}."))
