"""``limpet usage``: what the model calls of a state have used, and what replay has saved."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import say, say_json
from limpet.model import UsageTotals


@click.command("usage", short_help="Show what model calls have used, and what replay has saved.")
@click.argument("state_id", metavar="ID")
@json_option
@store_option
def usage(state_id: str, store: str | None, as_json: bool) -> None:
    """Show the model calls of a state, with tokens and cost: by model, on all its timelines, and what replay has saved.

    What a call has used is known where it returned an `LLMResult`, or something that tells it.
    """
    with open_limpet(store) as client:
        totals = client.usage(state_id)
    if as_json:
        say_json({"state_id": state_id, **usage_for_programs(totals)})
    else:
        for line in str(totals).split("\n"):
            say(line)


def is_known(totals: UsageTotals) -> bool:
    """Whether there is anything to tell of what model calls have used."""
    return bool(totals.tokens or totals.cost or totals.replayed.calls)


def usage_for_programs(totals: UsageTotals) -> dict[str, Any]:
    """What model calls have used as JSON says it."""
    return msgspec.to_builtins(totals)
