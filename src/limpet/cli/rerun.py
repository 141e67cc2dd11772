"""``limpet rerun``: run on from an earlier call, in place, on a new timeline; or tell what that would do."""

from __future__ import annotations

from functools import partial

import click

from limpet.cli.options import (
    Telling,
    again_option,
    app_option,
    open_limpet,
    replace_options,
    run_options,
    timeline_option,
)
from limpet.cli.output import dim, say, say_json
from limpet.cli.performing import Task, carry_out
from limpet.cli.plans import heading_of, plan_for_programs, plan_in_a_line, plan_lines, warnings_of
from limpet.cli.progress import RECORDED_SIGN
from limpet.cli.replacing import replacement
from limpet.cli.run import load_actor_of, load_apps
from limpet.client.running import StoppingOptions
from limpet.model import RerunPlan


@click.command("rerun", short_help="Run on from an earlier call.")
@click.argument("state_id", metavar="ID")
@click.option("--at", metavar="ADDRESS", help="The call to run on from, or the end of its address. Default: all of it.")
@replace_options
@timeline_option("The timeline to run on from. Default: the current one.")
@again_option
@click.option("--plan", "is_plan", is_flag=True, help="Execute nothing; tell what would be reused and executed.")
@app_option
@run_options
def rerun(
    state_id: str,
    at: str | None,
    replace: str | None,
    any_type: bool,
    again: bool,
    timeline: int | None,
    is_plan: bool,
    apps: tuple[str, ...],
    store: str | None,
    wait_s: float | None,
    stopping: StoppingOptions,
    as_json: bool,
    is_verbose: bool,
    is_quiet: bool,
) -> None:
    """Run on from a call, in place, and print the result: that call and all that began after it are executed again.

    What began before it is reused. With `--replace` the call itself is not executed: it gives that value, of the type
    that it gave before. The old timeline stays; `limpet show ID --timeline N` shows it, `limpet diff ID` compares.

    ADDRESS is one that `limpet show` lists, or its end: `fetch#2` for `research::fetch#2::tool_call`.
    """
    load_apps(apps)
    with open_limpet(store, apps=apps) as client:
        actor = load_actor_of(client, state_id)
        value = replacement(client, state_id, at, replace, any_type=any_type, timeline=timeline)
        plan = client.plan_rerun(state_id, at, replace=value, timeline=timeline)
        if is_plan:
            _say_plan(plan, as_json)
            return
        begin = partial(client.rerun, state_id, at, any_type=any_type, again=again, timeline=timeline, wait_s=wait_s)
        carry_out(
            Task(
                client=client,
                store=store,
                state_id=state_id,
                actor=actor,
                begin=lambda announced, bus: begin(replace=value, agent=announced, event_bus=bus, **stopping),
                telling=Telling(as_json, is_verbose, is_quiet),
                announcement=_announcement(plan, as_json),
            )
        )


def _say_plan(plan: RerunPlan, as_json: bool) -> None:
    if as_json:
        say_json(plan_for_programs(plan))
    else:
        for line in plan_lines(plan):
            say(line)


def _announcement(plan: RerunPlan, as_json: bool) -> tuple[str, ...]:
    first = heading_of(plan)
    return (first,) if as_json else (first, dim(f"{RECORDED_SIGN} {plan_in_a_line(plan)}"), *warnings_of(plan))
