"""``limpet copy``: states from one store to another. What ``backup`` tells stands here, too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import click

from limpet.cli.exit_codes import ExitCode
from limpet.cli.options import json_option
from limpet.cli.output import dim, say, say_json, size, styled, tell
from limpet.cli.plans import counted
from limpet.client import Limpet
from limpet.model.moving import Copied

F = TypeVar("F", bound=Callable[..., object])


def quiet_option(function: F) -> F:
    return click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Tell nothing but errors and the report.")(
        function
    )


@click.command("copy", short_help="Copy states from one store to another.")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--state", "states", multiple=True, metavar="ID", help="Only this state; may be given several times.")
@quiet_option
@json_option
def copy(source: str, target: str, states: tuple[str, ...], is_quiet: bool, as_json: bool) -> None:
    """Copy the states of the store SOURCE into the store TARGET, which is made where it is missing. Both are URLs.

    Each state is copied as it stood at one moment, with its artifacts, and can be resumed there. What is there already
    is brought up to date, so that repeating it costs what is new. Ends with 1 where a state could not be copied.
    """
    with bar("Copying", is_quiet) as on_progress:
        report = Limpet.copy(source, target, states=states or None, on_progress=on_progress)
    say_copied(report, target, as_json)


@contextmanager
def bar(label: str, is_quiet: bool) -> Generator[Callable[[int, int, str], None]]:
    """Something to be told of progress, which shows it on a terminal."""
    is_shown = not is_quiet and sys.stderr.isatty()
    with ExitStack() as shown:
        update: Callable[[int], object] | None = None

        def on_progress(done: int, total: int, _: str) -> None:
            nonlocal update
            if is_shown and update is None and total > 1:
                # How many there are is known only now.
                drawn = click.progressbar(length=total, label=label, file=sys.stderr, show_pos=True)
                update = shown.enter_context(drawn).update
                update(done - 1)
            if update is not None:
                update(1)

        yield on_progress


def say_copied(report: Copied, target: str, as_json: bool) -> None:
    """Say what was copied, and end with 1 where something was refused."""
    if as_json:
        say_json(
            {
                "target": target,
                "copied": report.copied,
                "updated": report.updated,
                "unchanged": report.unchanged,
                "refused": report.refused,
                "records": report.records,
                "artifacts": report.artifacts,
                "bytes": report.bytes,
            }
        )
    else:
        say(f"Copied {counted(len(report.copied), 'state')} to {target}.")
        already = f"{len(report.updated):,} brought up to date, {len(report.unchanged):,} unchanged"
        written = f"{counted(report.records, 'record')}, {counted(report.artifacts, 'artifact')}, {size(report.bytes)}"
        say(dim(f"There already: {already}. Written: {written}."))
    for state_id, why in report.refused.items():
        tell(f"{styled('Not copied', fg='red')} {state_id}: {why}")
    if not report.is_ok:
        click.get_current_context().exit(ExitCode.DIFFERENT)
