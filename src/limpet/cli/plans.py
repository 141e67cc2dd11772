"""What running on from an address would do, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from limpet.cli.output import dim, duration, styled
from limpet.model import PlannedCalls, RerunPlan


def counted(count: int, what: str) -> str:
    """'1 call', '2 calls'."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def heading_of(plan: RerunPlan) -> str:
    """Which state is run on, and from where."""
    replaced = ", with its result replaced" if plan.replaces else ""
    return f"Running {styled(plan.state_id, bold=True)} on from {plan.address}{replaced}"


def plan_in_a_line(plan: RerunPlan) -> str:
    """What is reused and what is executed again, counted."""
    reused = counted(sum(each.calls for each in plan.reused), "recorded result")
    models = f" ({counted(plan.model_calls_again, 'model call')})" if plan.model_calls_again else ""
    return f"Reusing {reused}, executing {counted(plan.calls_again, 'call')} again{models}"


def warnings_of(plan: RerunPlan) -> list[str]:
    """A line for each actor that is declared to be executed once, and would be executed again."""
    return [styled(f"! {each.actor} is declared once, and executed again", fg="yellow") for each in plan.once_again]


def plan_lines(plan: RerunPlan) -> Iterator[str]:
    """The whole plan, actor by actor."""
    yield heading_of(plan)
    room = max((len(each.actor) for each in (*plan.reused, *plan.again)), default=0)
    for title, calls, took in (
        ("Reused", plan.reused, plan.duration_reused_s),
        ("Executed again", plan.again, plan.duration_again_s),
    ):
        count = sum(each.calls for each in calls)
        yield f"{title}: {counted(count, 'call')}" + (f", {duration(took)} of tools and models" if took else "")
        yield from _rows(calls, room, is_executed=calls is plan.again)


def _rows(calls: Sequence[PlannedCalls], room: int, is_executed: bool) -> Iterator[str]:
    most = max((len(counted(each.calls, "call")) for each in calls), default=0)
    for each in calls:
        kind = str(each.event_type).removesuffix("_call")
        notes = [note for note, holds in (("costs money", each.costs_money), ("declared once", each.once)) if holds]
        told = styled(f"  {', '.join(notes)}", fg="yellow") if notes and is_executed else ""
        count = counted(each.calls, "call").ljust(most)
        yield f"  {each.actor.ljust(room)}  {dim(kind.ljust(5))}  {count}  {duration(each.duration_s):>9}{told}"


def plan_for_programs(plan: RerunPlan) -> dict[str, Any]:
    """The plan as JSON says it."""
    return {
        "state_id": plan.state_id,
        "address": plan.address,
        "replaces": plan.replaces,
        "reused": [_calls_for_programs(each) for each in plan.reused],
        "again": [_calls_for_programs(each) for each in plan.again],
        "entered_again": list(plan.entered_again),
        "totals": {
            "calls_reused": sum(each.calls for each in plan.reused),
            "calls_again": plan.calls_again,
            "model_calls_again": plan.model_calls_again,
            "duration_reused_s": plan.duration_reused_s,
            "duration_again_s": plan.duration_again_s,
        },
    }


def _calls_for_programs(calls: PlannedCalls) -> dict[str, Any]:
    return {
        "actor": calls.actor,
        "type": calls.event_type,
        "calls": calls.calls,
        "duration_s": calls.duration_s,
        "costs_money": calls.costs_money,
        "once": calls.once,
    }
