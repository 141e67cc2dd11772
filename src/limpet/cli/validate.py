"""``limpet validate`` and ``limpet rehearse``: stored runs held against the code as it is now.

Each state is checked by itself, so that none stops the others: neither one whose agent cannot be imported, nor one
whose code leaves the process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click
import msgspec

from limpet.cli.check_reports import checked_for_programs, report_lines
from limpet.cli.choosing import choosing_options, chosen_states
from limpet.cli.exit_codes import ExitCode
from limpet.cli.options import Telling, app_option, json_option, open_limpet, store_option
from limpet.cli.output import say, say_json, tell
from limpet.cli.performing import drift_is_told_otherwise, stdout_is_ours
from limpet.cli.plans import counted
from limpet.cli.run import header_of, load_actor_of, load_apps
from limpet.client import Limpet
from limpet.engine.checked import Checked, Report
from limpet.errors import LimpetError, UsageError
from limpet.model import NotChecked, ReplayMode, StateHeader

F = TypeVar("F", bound=Callable[..., Any])


class _Choice(msgspec.Struct, frozen=True):
    """Which states are asked for."""

    state_ids: tuple[str, ...]
    is_all: bool
    status: str | None
    tags: tuple[str, ...]
    pipeline: str | None
    apps: tuple[str, ...]
    """What may be imported for them."""


def _checking_options(function: F) -> F:
    for option in (
        click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Tell nothing but errors and the report."),
        click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Report every state, and all that was found."),
        choosing_options,
        click.option("--all", "is_all", is_flag=True, help="All states of the store."),
        click.argument("state_ids", metavar="[ID]...", nargs=-1),
    ):
        function = option(function)
    return app_option(json_option(store_option(function)))


@click.command("validate", short_help="Execute runs again and compare with what is recorded.")
@_checking_options
@click.option("--rehearse", "is_rehearsal", is_flag=True, help="Execute no tool and no model, as `limpet rehearse`.")
def validate(
    state_ids: tuple[str, ...],
    is_all: bool,
    status: str | None,
    tags: tuple[str, ...],
    pipeline: str | None,
    is_rehearsal: bool,
    apps: tuple[str, ...],
    store: str | None,
    as_json: bool,
    is_verbose: bool,
    is_quiet: bool,
) -> None:
    """Execute stored runs again with the code as it is now, and compare every result with the recorded one.

    Tools and models are REALLY called, so what they do is done again, and paid again; `--rehearse` calls none of them.
    Nothing is recorded. Ends with 1 where a run does not go through as it is recorded.
    """
    choice = _Choice(state_ids, is_all, status, tags, pipeline, apps)
    mode = ReplayMode.REHEARSAL if is_rehearsal else ReplayMode.VALIDATION
    _check(mode, choice, Telling(as_json, is_verbose, is_quiet), store)


@click.command("rehearse", short_help="Would stored runs still go through? Executes no tool or model.")
@_checking_options
def rehearse(
    state_ids: tuple[str, ...],
    is_all: bool,
    status: str | None,
    tags: tuple[str, ...],
    pipeline: str | None,
    apps: tuple[str, ...],
    store: str | None,
    as_json: bool,
    is_verbose: bool,
    is_quiet: bool,
) -> None:
    """Run the agents of stored runs on recorded results, and report where their code no longer fits, by file and line.

    No tool and no model is called, and nothing is recorded: this is the question before a deployment. Ends with 1 where
    a run would not go through as it is recorded.
    """
    choice = _Choice(state_ids, is_all, status, tags, pipeline, apps)
    _check(ReplayMode.REHEARSAL, choice, Telling(as_json, is_verbose, is_quiet), store)


def _check(mode: ReplayMode, choice: _Choice, telling: Telling, store: str | None) -> None:
    is_chosen = choice.is_all or bool(choice.status or choice.tags or choice.pipeline)
    _require_choice(choice, is_chosen)
    load_apps(choice.apps)
    with open_limpet(store, apps=choice.apps) as client:
        headers = _chosen(client, choice)
        if mode is ReplayMode.VALIDATION and not telling.is_quiet:
            runs = counted(len(headers), "run")
            tell(f"Executing the tools and models of {runs} again; `--rehearse` does not.")
        reports: dict[str, Report] = {}
        with drift_is_told_otherwise(), stdout_is_ours():
            for header, report in _reports(client, headers, mode, telling):
                reports[header.state_id] = report
    checked = Checked(mode, reports)
    if telling.as_json:
        say_json(checked_for_programs(checked))
    else:
        for line in report_lines(checked, telling.is_verbose):
            say(line)
    if not checked.is_ok:
        click.get_current_context().exit(ExitCode.DIFFERENT)


def _require_choice(choice: _Choice, is_chosen: bool) -> None:
    if choice.state_ids and is_chosen:
        raise UsageError(
            "States are either named or chosen.", "Give ids, or `--all`, `--tag`, `--status`, `--pipeline`."
        )
    if not choice.state_ids and not is_chosen:
        raise UsageError(
            "No state is named.",
            "Give ids; or choose with `--tag`, `--status` or `--pipeline`, as `limpet list` does; or take `--all`.",
        )


def _chosen(client: Limpet, choice: _Choice) -> list[StateHeader]:
    if choice.state_ids:
        return [header_of(client, state_id) for state_id in dict.fromkeys(choice.state_ids)]
    return chosen_states(client, status=choice.status, tags=choice.tags, pipeline=choice.pipeline)


def _reports(
    client: Limpet, headers: Sequence[StateHeader], mode: ReplayMode, telling: Telling
) -> Iterator[tuple[StateHeader, Report]]:
    for header in _with_progress(headers, telling):
        why = _problem_of(client, header)
        report = _checked(client, header, mode) if why is None else NotChecked(header.state_id, why)
        yield header, report


def _with_progress(headers: Sequence[StateHeader], telling: Telling) -> Iterator[StateHeader]:
    """The states one by one; on a terminal a bar shows how many are done."""
    if telling.is_quiet or len(headers) < 2 or not sys.stderr.isatty():
        yield from headers
        return
    with click.progressbar(headers, label="Checking", file=sys.stderr, show_pos=True) as bar:
        yield from bar


def _problem_of(client: Limpet, header: StateHeader) -> str | None:
    """Why the agent of a state cannot be imported; None where it can."""
    try:
        load_actor_of(client, header.state_id)
    except LimpetError as error:
        return str(error)
    return None


def _checked(client: Limpet, header: StateHeader, mode: ReplayMode) -> Report:
    try:
        return asyncio.run(client.validate([header], mode=mode))[header.state_id]
    except SystemExit as left:
        return NotChecked(header.state_id, f"Its code called sys.exit({left.code!r}).")
