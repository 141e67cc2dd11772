"""``holdfast cleanup``: delete the states that are not to be kept any longer."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from typing import Any

import click
import msgspec

from holdfast.cli.copy import bar, quiet_option
from holdfast.cli.options import json_option, open_holdfast, store_option
from holdfast.cli.output import dim, duration, say, say_json, say_table, size, tell
from holdfast.cli.plans import counted
from holdfast.errors import UsageError
from holdfast.model import Cleanup, DiskUse, Retention, StateStatus

MOST = 20
"""So many states are listed one by one."""

_UNITS_OF_TIME = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNITS_OF_SIZE = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")


def _age(_: click.Context, __: click.Parameter, text: str | None) -> timedelta | None:
    """A time such as 30d."""
    if text is None:
        return None
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS_OF_TIME:
        raise click.BadParameter(f"{text!r} is no time. Write it as 90s, 15min, 12h, 30d or 8w.")
    try:
        return timedelta(seconds=float(found[1]) * _UNITS_OF_TIME[found[2]])
    except OverflowError:
        raise click.BadParameter(f"{text!r} is longer than time is counted.") from None


def _size(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """A number of bytes such as 1GB."""
    if text is None:
        return None
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2].upper() not in _UNITS_OF_SIZE:
        raise click.BadParameter(f"{text!r} is no size. Write it as 500kB, 20MB or 1.5GB.")
    return int(float(found[1]) * _UNITS_OF_SIZE[found[2].upper()])


@click.command("cleanup", short_help="Delete states that are not to be kept any longer.")
@click.option(
    "--older-than", "max_age", callback=_age, metavar="TIME", help="Those not changed for longer: 12h, 30d, 8w."
)
@click.option("--max-per-pipeline", type=click.IntRange(min=0), metavar="N", help="All but the newest N of a pipeline.")
@click.option(
    "--max-size", callback=_size, metavar="SIZE", help="The oldest, until all states take no more: 500MB, 1GB."
)
@click.option(
    "--compact-after",
    callback=_age,
    metavar="TIME",
    help="Of completed states not changed for longer keep the results, and drop attempts, waits and earlier timelines.",
)
@click.option(
    "--prune-after",
    callback=_age,
    metavar="TIME",
    help="Of states not changed for longer drop earlier timelines.",
)
@click.option(
    "--keep-latest",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Keep the newest N of each pipeline, whatever the limits say.",
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([str(status) for status in StateStatus]),
    help="Only states of this status; may be given several times. Default: completed.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only states with this tag; may be repeated.")
@click.option(
    "--keep-tag", "keep_tags", multiple=True, metavar="TAG", help="Keep states with this tag; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; list exactly what would go.")
@click.option("--compact", is_flag=True, help="Afterwards, make the file of the store as small as it can be.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@quiet_option
@json_option
@store_option
def cleanup(
    max_age: timedelta | None,
    max_per_pipeline: int | None,
    max_size: int | None,
    compact_after: timedelta | None,
    prune_after: timedelta | None,
    keep_latest: int,
    statuses: tuple[str, ...],
    tags: tuple[str, ...],
    keep_tags: tuple[str, ...],
    dry_run: bool,
    compact: bool,
    is_sure: bool,
    is_quiet: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Delete the states that go beyond a limit, records that are not needed any more, and the artifacts that nothing
    names any more. Asks first.

    A state that can still be resumed goes only where its status is named, and none that is being run or is damaged.
    States may be run meanwhile.
    """
    retention = Retention(
        max_age=max_age,
        max_per_pipeline=max_per_pipeline,
        max_total_size=max_size,
        compact_after=compact_after,
        prune_after=prune_after,
        keep_latest=keep_latest,
        statuses=statuses or (StateStatus.COMPLETED,),
        tags=tags,
        keep_tags=keep_tags,
    )
    if retention.is_empty:
        raise UsageError(
            "No limit is given, so nothing can go.",
            "Give --older-than, --max-per-pipeline, --max-size, --compact-after or --prune-after.",
        )
    asks = not is_sure and not dry_run
    if asks and not _can_be_asked():
        raise UsageError(
            "Nobody can be asked whether states are to be deleted.", "Say so with --yes, or look with --dry-run."
        )
    with open_holdfast(store) as client, bar("Deleting", is_quiet) as on_progress:
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


def _can_be_asked() -> bool:
    return sys.stdin.isatty()


def _is_confirmed(planned: Cleanup) -> bool:
    if not planned.removed and not planned.compacted:
        return True
    _say_what_goes(planned)
    asked = [f"delete {_states(planned)}"] if planned.removed else []
    asked += [f"drop {_records(planned)}"] if planned.compacted else []
    question = " and ".join(asked)
    return click.confirm(f"{question[0].upper()}{question[1:]}, for good?", abort=True, err=True)


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
