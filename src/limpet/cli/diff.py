"""``limpet diff``: what became different from one state, timeline or checkpoint to another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from limpet.cli.comparable import read_comparable
from limpet.cli.exit_codes import ExitCode
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import dim, say, say_json, styled
from limpet.model import Difference, EventChange, EventRecord, StateDiff, Totals

_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


@click.command("diff", short_help="Compare two states, timelines or checkpoints.")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="[AFTER]", required=False)
@click.option("--exit-code", "has_exit_code", is_flag=True, help="End with 1 where they differ.")
@json_option
@store_option
def diff(before: str, after: str | None, has_exit_code: bool, store: str | None, as_json: bool) -> None:
    """Tell what became different from one state to another: calls, results, storage and artifacts.

    Each is an ID, ID:2 (its timeline 2) or ID:c17 (its checkpoint at position 17). With one ID alone, the state is
    compared with what it was run on or forked from. Nothing of the pipeline is imported or run.
    """
    with open_limpet(store) as client:
        found = client.diff_read_by(read_comparable, before, after)
    if as_json:
        say_json(_for_programs(found))
    else:
        for line in str(found).split("\n"):
            say(_coloured(line, is_summary=line == found.summary))
    if found and has_exit_code:
        click.get_current_context().exit(ExitCode.DIFFERENT)


def _coloured(line: str, is_summary: bool) -> str:
    sign = line[:1]
    if sign in _COLOURS:
        return styled(line, fg=_COLOURS[sign])
    return dim(line) if is_summary else line


def _for_programs(found: StateDiff) -> dict[str, Any]:
    return {
        "before": found.before,
        "after": found.after,
        "is_different": bool(found),
        "new_events": [_event_for_programs(record) for record in found.new_events],
        "removed_events": [_event_for_programs(record) for record in found.removed_events],
        "changed_events": [_change_for_programs(change) for change in found.changed_events],
        "changed_storage": [
            {"key": each.key, "differences": differences_for_programs(each.differences)}
            for each in found.changed_storage.values()
        ],
        "new_artifacts": list(found.new_artifacts),
        "removed_artifacts": list(found.removed_artifacts),
        "artifact_keys": found.artifact_keys,
        "totals": {
            "before": _totals_for_programs(found.totals_before),
            "after": _totals_for_programs(found.totals_after),
        },
    }


def _event_for_programs(record: EventRecord) -> dict[str, Any]:
    return {"address": record.address, "status": record.status, "duration_s": record.duration_s}


def _change_for_programs(change: EventChange) -> dict[str, Any]:
    return {
        "address": change.address,
        "before": _event_for_programs(change.before),
        "after": _event_for_programs(change.after),
        "duration_change_s": change.duration_change_s,
        "differences": differences_for_programs(change.differences),
    }


def differences_for_programs(found: Iterable[Difference]) -> list[dict[str, Any]]:
    """Differences as JSON says them."""
    return [{"place": each.place, "before": each.before, "after": each.after, "kind": each.kind} for each in found]


def _totals_for_programs(totals: Totals) -> dict[str, Any]:
    return {
        "events": totals.events,
        "failures": totals.failures,
        "retries": totals.retries,
        "duration_s": totals.duration_s,
    }
