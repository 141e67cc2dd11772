"""``limpet show``: one state, its header and the tree of its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import click
import msgspec

from limpet.cli.calls import CallNode, failed_at, lines_of, run_of, tree_of
from limpet.cli.effects import rollback_of
from limpet.cli.list_states import agent_for_people, header_for_programs
from limpet.cli.options import json_option, open_limpet, store_option, timeline_option
from limpet.cli.outcomes import call_for_programs, error_in_a_line, outcome_of, sign_of
from limpet.cli.output import dim, duration, say, say_json, styled, width
from limpet.cli.past import Past, checkpoint_lines, past_for_programs, past_of
from limpet.cli.readable import call_preview, cut, read
from limpet.cli.stop_reports import stop_for_people
from limpet.cli.unknown_calls import (
    UnknownCall,
    unknown_call_for_programs,
    unknown_call_lines,
    unknown_calls,
)
from limpet.cli.usage import is_known, usage_for_programs
from limpet.cli.ways_on import standing_and_way_on
from limpet.client import Limpet, StateView
from limpet.engine.history_set import HistorySet
from limpet.engine.usage_totals import usage_totals
from limpet.journal.address import SEPARATOR
from limpet.model import EventRecord, EventType, ExecutionStatus, Progress, StateStatus, StorageRecord, UsageTotals
from limpet.model.words import WaitType

_LONGEST_LABEL = 60
_KINDS: dict[str, str] = {
    EventType.TOOL_CALL: "tool",
    EventType.LLM_CALL: "llm",
    EventType.AGENT_CALL: "agent",
    WaitType.QUESTION: "asks",
    WaitType.TIMER: "waits",
    WaitType.MESSAGE: "waits",
}
_HAS_TAKEN_TIME = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.RETRYING)


class _Shown(msgspec.Struct, frozen=True):
    """All that is shown of a state."""

    view: StateView
    past: Past
    usage: UsageTotals
    unknown: list[UnknownCall]
    rollback: EventRecord | None
    progress: Progress | None
    """How far it is; None on an earlier timeline."""


@click.command("show", short_help="Show one state and the tree of its calls.")
@click.argument("state_id", metavar="ID")
@timeline_option("The timeline to show. Default: the current one.")
@json_option
@store_option
def show(state_id: str, timeline: int | None, store: str | None, as_json: bool) -> None:
    """Show one state: what it is, and every call with its status, duration and result.

    Nothing of the pipeline is imported or run.
    """
    with open_limpet(store) as client:
        shown = _looked_at(client, state_id, timeline)
    if as_json:
        say_json(_for_programs(shown))
        return
    is_awaiting = shown.view.header.status is StateStatus.AWAITING
    for line in (
        *_header_lines(shown, store),
        *checkpoint_lines(shown.past),
        *_failure_lines(shown),
        *(unknown_call_lines(state_id, store, shown.unknown) if is_awaiting else ()),
        *_tree_lines(shown.view.history),
    ):
        say(line)


def _looked_at(client: Limpet, state_id: str, timeline: int | None) -> _Shown:
    view = client.show(state_id, timeline=timeline)
    past = past_of(client, view, timeline)
    # What was used is summed up over all timelines; a journal of one is not read once more.
    is_whole = len(past.timelines) == 1
    usage = usage_totals(view.history, view.header.metadata) if is_whole else client.usage(state_id)
    is_asked = past.is_current and _may_be_unknown(view.history)
    unknown = unknown_calls(client, view.header) if is_asked else []
    progress = client.progress(state_id) if past.is_current else None
    return _Shown(view, past, usage, unknown, rollback_of(view.history) if past.is_current else None, progress)


def _may_be_unknown(history: HistorySet) -> bool:
    """Whether a call that is declared ``once`` has no result."""
    records = (history[address] for address in history.addresses())
    return any(
        record.details is not None and record.details.key and record.status is not ExecutionStatus.COMPLETED
        for record in records
    )


def _header_lines(shown: _Shown, store: str | None) -> Iterator[str]:
    header, metadata, history = shown.view.header, shown.view.header.metadata, shown.view.history
    run = run_of(history)
    yield f"{styled(header.state_id, bold=True)}  {standing_and_way_on(header, store, shown.rollback)}"
    storage, retries = _storage(history), history.retry_statistics()
    fields = {
        "agent": agent_for_people(header.agent),
        "input": "" if run is None or run.input is None or header.agent is None else _preview(run.input),
        "begun": f"{header.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "changed": f"{header.updated_at:%Y-%m-%d %H:%M:%S} UTC",
        "stopped": cut(stop_for_people(header, shown.rollback), width() - 13),
        "progress": _progress(shown),
        "records": str(header.position),
        "timeline": shown.past.described,
        "retries": str(retries).partition("\n")[0] if retries.events_retried else "",
        "usage": str(shown.usage).partition("\n")[0] if is_known(shown.usage) else "",
        "parent": metadata.parent_state_id or "",
        "origin": _origin(metadata.origin),
        "tags": ", ".join(metadata.tags),
        "pipeline": metadata.pipeline_name,
        "description": cut(metadata.description, width() - 15),
        "storage": cut(", ".join(f"{key}={value!r}" for key, value in storage.items()), width() - 13),
    }
    yield from (f"  {dim(name.ljust(9))} {value}" for name, value in fields.items() if value)
    yield ""


def _origin(origin: dict[str, Any]) -> str:
    """How it came into this store, where it was not begun there."""
    if not origin:
        return ""
    first: object = origin.get("first")
    before = f", before that {_arrival(cast('dict[str, Any]', first))}" if isinstance(first, dict) else ""
    return f"{_arrival(origin)}{before}"


def _arrival(origin: dict[str, Any]) -> str:
    return f"{origin.get('by')} from {origin.get('from')}, {origin.get('at')}"


def _progress(shown: _Shown) -> str:
    """How far it is, where it can still go on."""
    has_ended = shown.view.header.status is StateStatus.COMPLETED or shown.rollback is not None
    return "" if shown.progress is None or has_ended else str(shown.progress)


def _progress_for_programs(progress: Progress | None) -> dict[str, Any] | None:
    return None if progress is None else {**msgspec.structs.asdict(progress), "fraction": progress.fraction}


def _preview(data: bytes) -> str:
    return call_preview(data, width() - 13)


def _failure(view: StateView, past: Past) -> EventRecord | None:
    """Where the timeline that is shown has failed. The status of the state is that of its current one."""
    may_have_failed = view.header.status is StateStatus.FAILED or not past.is_current
    return failed_at(view.history, run_of(view.history)) if may_have_failed else None


def _failure_lines(shown: _Shown) -> Iterator[str]:
    history = shown.view.history
    failures = {"Failed": _failure(shown.view, shown.past), "Its rollback failed": failed_at(history, shown.rollback)}
    for what, record in failures.items():
        if record is not None and record.error is not None:
            yield f"{what} at {record.address}: {error_in_a_line(record.error, 10_000)}"
            yield ""


def _tree_lines(history: HistorySet) -> Iterator[str]:
    rows = [(stem, node) for stem, node in lines_of(tree_of(history))]
    room = min(_LONGEST_LABEL, max((len(stem) + len(node.label) for stem, node in rows), default=0))
    for stem, node in rows:
        yield _row(stem, node, room)
    if not rows:
        yield "No call is recorded."


def _row(stem: str, node: CallNode, room: int) -> str:
    record = node.record
    if record is None:
        return dim(stem + node.label)
    label = cut(node.label, max(room - len(stem), 12))
    space = " " * max(0, room - len(stem) - len(label))
    kind = _KINDS[record.address.rpartition(SEPARATOR)[2]].ljust(5)
    has_taken_time = record.status in _HAS_TAKEN_TIME or record.duration_s > 0
    took = duration(record.duration_s) if has_taken_time else ""
    again = f"{node.attempts} attempts  " if node.attempts > 1 else ""
    outcome = outcome_of(node, max(20, width() - room - 23 - len(again)))
    return f"{dim(stem)}{label}{space}  {dim(kind)}  {sign_of(record)} {took:>9}  {again}{outcome}".rstrip()


def _storage(history: HistorySet) -> dict[str, Any]:
    storage: dict[str, Any] = {}
    for record in history:
        if isinstance(record, StorageRecord):
            if record.value is None:
                storage.pop(record.key, None)
            else:
                storage[record.key] = read(record.value)
    return storage


def _for_programs(shown: _Shown) -> dict[str, Any]:
    view, past = shown.view, shown.past
    nodes = (node for _, node in lines_of(tree_of(view.history)))
    failed = _failure(view, past)
    return {
        **header_for_programs(view.header),
        **past_for_programs(past),
        "failed_at": None if failed is None else failed.address,
        "unknown": [unknown_call_for_programs(call) for call in shown.unknown],
        "rollback": None if shown.rollback is None else shown.rollback.status,
        "progress": _progress_for_programs(shown.progress),
        "retries": msgspec.structs.asdict(view.history.retry_statistics()),
        "usage": usage_for_programs(shown.usage),
        "storage": _storage(view.history),
        "events": [call_for_programs(node) for node in nodes if node.record is not None],
    }
