"""``limpet cleanup``: delete the states that are not to be kept any longer."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from limpet.cli.amounts import age_of, size_of
from limpet.cli.choosing import STORED_WORDS, StatusWord
from limpet.cli.copy import bar, quiet_option
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import confirm, dim, duration, say, say_json, say_table, size, tell
from limpet.cli.plans import counted
from limpet.cli.standing import STOPPED
from limpet.client import Limpet
from limpet.config.retention_table import retention_of
from limpet.errors import UsageError
from limpet.model import Cleanup, CleanupRun, DiskUse, Retention, StateStatus

MOST = 20
"""So many states are listed one by one."""


def _statuses(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """What is stored of a stopped state is that it runs; one that really does is never deleted."""
    return tuple(str(StateStatus.RUNNING) if word == STOPPED else word for word in words)


@click.command("cleanup", short_help="Delete states that are not to be kept any longer.")
@click.option(
    "--older-than", "max_age", callback=age_of, metavar="TIME", help="Those not changed for longer: 12h, 30d, 8w."
)
@click.option("--max-per-pipeline", type=click.IntRange(min=0), metavar="N", help="All but the newest N of a pipeline.")
@click.option(
    "--max-size",
    "max_total_size",
    callback=size_of,
    metavar="SIZE",
    help="The oldest, until all states take no more: 500MB, 1GB.",
)
@click.option(
    "--compact-after",
    callback=age_of,
    metavar="TIME",
    help="Of completed states not changed for longer keep the results, and drop attempts, waits and earlier timelines.",
)
@click.option(
    "--prune-after",
    callback=age_of,
    metavar="TIME",
    help="Of states not changed for longer drop earlier timelines.",
)
@click.option(
    "--keep-latest",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the newest N of each pipeline, whatever the limits say.",
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=StatusWord((*STORED_WORDS, STOPPED)),
    callback=_statuses,
    help="Only states of this status; may be given several times. Default: as configured, else completed.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only states with this tag; may be repeated.")
@click.option(
    "--keep-tag", "keep_tags", multiple=True, metavar="TAG", help="Keep states with this tag; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; list exactly what would go.")
@click.option("--compact", is_flag=True, help="Afterwards, make the file of the store as small as it can be.")
@click.option("--last", "is_last", is_flag=True, help="Delete nothing; say when the store was last cleaned up.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@quiet_option
@json_option
@store_option
def cleanup(
    dry_run: bool,
    compact: bool,
    is_last: bool,
    is_sure: bool,
    is_quiet: bool,
    store: str | None,
    as_json: bool,
    **rules: Any,
) -> None:
    """Delete the states that go beyond a limit, records that are not needed any more, and the artifacts that nothing
    names any more. Asks first.

    Without a limit those of the table [retention] in the configuration count. A limit that is given takes the place of
    them all; what keeps states stays as it is configured, unless an option says otherwise.

    A state that can still be resumed goes only where its status is named, and none that is being run or is damaged.
    States may be run meanwhile.
    """
    if is_last:
        _say_last(store, as_json)
        return
    asks = not is_sure and not dry_run
    with open_limpet(store) as client, bar("Deleting", is_quiet) as on_progress:
        retention = _retention(client, {name: rule for name, rule in rules.items() if rule not in (None, ())})
        if asks and not _can_be_asked():
            raise UsageError(
                "Nobody can be asked whether states are to be deleted.", "Say so with --yes, or look with --dry-run."
            )
        report = client.cleanup(
            retention,
            dry_run=dry_run,
            compact=compact,
            confirm=_is_confirmed if asks else None,
            on_progress=on_progress,
        )
    if as_json:
        say_json(_for_programs(report))
    else:
        _say_report(report, is_listed=not asks)


def _retention(client: Limpet, given: dict[str, Any]) -> Retention | None:
    """What the options say, with the configuration for the rest; None where no option says anything."""
    retention = retention_of(client.config.values.retention, given)
    if retention.is_empty:
        raise UsageError(
            "No limit is given or configured, so nothing can go.",
            "Give --older-than, --max-per-pipeline, --max-size, --compact-after or --prune-after, or set one in "
            "[retention] of limpet.toml.",
        )
    return retention if given else None


def _say_last(store: str | None, as_json: bool) -> None:
    with open_limpet(store) as client:
        run = client.last_cleanup()
    if as_json:
        say_json(None if run is None else run_for_programs(run))
    elif run is None:
        tell("Nothing is noted: this store was never cleaned up.")
    else:
        why = "asked for" if run.schedule is None else str(run.schedule)
        say(f"{run.began_at:%Y-%m-%d %H:%M:%S} UTC, {why}, by {run.by}: {outcome(run)}.")


def outcome(run: CleanupRun) -> str:
    """What came of a cleanup, for people."""
    if run.error is not None:
        return f"it failed: {run.error.rstrip('.')}"
    if run.finished_at is None:
        return "it has not ended"
    took = duration((run.finished_at - run.began_at).total_seconds())
    return f"deleted {counted(run.removed, 'state')}, {size(run.freed)}, in {took}"


def run_for_programs(run: CleanupRun) -> dict[str, Any]:
    """A cleanup that was made, or is under way, for programs."""
    return {name: getattr(run, name) for name in run.__struct_fields__}


def _can_be_asked() -> bool:
    return sys.stdin.isatty()


def _is_confirmed(planned: Cleanup) -> bool:
    if not planned.removed and not planned.compacted:
        return True
    _say_what_goes(planned)
    asked = [f"delete {_states(planned)}"] if planned.removed else []
    asked += [f"drop {_records(planned)}"] if planned.compacted else []
    question = " and ".join(asked)
    confirm(f"{question[0].upper()}{question[1:]}, for good?")
    return True


def _states(report: Cleanup) -> str:
    return f"{counted(len(report.removed), 'state')}, {size(sum(each.bytes for each in report.removed))}"


def _records(report: Cleanup) -> str:
    records, freed = (sum(getattr(each, field) for each in report.compacted) for field in ("records", "bytes"))
    return f"{counted(records, 'record')} of {counted(len(report.compacted), 'state')}, {size(freed)}"


def _say_report(report: Cleanup, *, is_listed: bool) -> None:
    if is_listed:
        _say_what_goes(report)
    artifacts = f"{counted(report.artifacts, 'artifact')}, {size(report.artifact_bytes)}"
    say(f"{'Would delete' if report.is_dry_run else 'Deleted'} {_states(report)}; {artifacts}.")
    if report.compacted:
        say(f"{'Would drop' if report.is_dry_run else 'Dropped'} {_records(report)}.")
    if report.left_whole:
        say(dim(f"With all their records: {_reasons(report.left_whole)}."))
    if report.kept:
        say(dim(f"Kept: {_reasons(report.kept)}."))
    if report.disk_before is not None and report.disk_after is not None:
        took = f"{_file(report.disk_before)} before, {_file(report.disk_after)} now"
        say(dim(f"The file: {took}. Took {duration(report.duration_s)}."))
    for what, why in (
        ("No artifacts were collected", report.artifacts_kept_because),
        ("The file was not compacted", report.not_compacted_because),
    ):
        if why is not None:
            tell(f"{what}: {why.rstrip('.')}.")


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {why}" for why, count in sorted(counts.items()))


def _say_what_goes(report: Cleanup) -> None:
    if report.removed:
        rows = [(each.state_id, size(each.bytes), each.reason) for each in report.removed[:MOST]]
        say_table([("STATE", "SIZE", "WHY"), *rows], right=(1,))
        _say_more(len(report.removed))
    if report.compacted:
        shown = [(each.state_id, each.records, size(each.bytes), each.reason) for each in report.compacted[:MOST]]
        rows_of_records = [(state_id, f"{records:,}", freed, why) for state_id, records, freed, why in shown]
        say_table([("LOSES RECORDS", "RECORDS", "SIZE", "WHY"), *rows_of_records], right=(1, 2))
        _say_more(len(report.compacted))


def _say_more(count: int) -> None:
    if count > MOST:
        say(f"and {count - MOST:,} more")


def _file(use: DiskUse) -> str:
    return f"{size(use.bytes)} ({size(use.free)} free)"


def _for_programs(report: Cleanup) -> dict[str, Any]:
    return {
        "is_dry_run": report.is_dry_run,
        "removed": [{"state_id": each.state_id, "reason": each.reason, "bytes": each.bytes} for each in report.removed],
        "compacted": [msgspec.to_builtins(each) for each in report.compacted],
        "left_whole": report.left_whole,
        "freed": report.freed,
        "kept": report.kept,
        "artifacts": report.artifacts,
        "artifact_bytes": report.artifact_bytes,
        "artifacts_kept_because": report.artifacts_kept_because,
        "disk_before": _use_for_programs(report.disk_before),
        "disk_after": _use_for_programs(report.disk_after),
        "not_compacted_because": report.not_compacted_because,
        "duration_s": report.duration_s,
    }


def _use_for_programs(use: DiskUse | None) -> dict[str, int] | None:
    return None if use is None else {"bytes": use.bytes, "free": use.free}
