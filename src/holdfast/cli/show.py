"""``holdfast show``: one state, its header and the tree of its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import click

from holdfast.cli.calls import CallNode, failed_at, lines_of, run_of, tree_of
from holdfast.cli.list_states import header_for_programs
from holdfast.cli.options import command_to_resume, json_option, open_holdfast, store_option, timeline_option
from holdfast.cli.output import dim, duration, say, say_json, width
from holdfast.cli.past import Past, checkpoint_lines, past_for_programs, past_of
from holdfast.cli.progress import COMPLETED_SIGN, FAILED_SIGN, UNFINISHED_SIGN
from holdfast.cli.readable import cut, preview, read
from holdfast.cli.standing import is_held, is_stopped, standing_of
from holdfast.client import StateView
from holdfast.engine.history_set import HistorySet
from holdfast.journal.address import SEPARATOR
from holdfast.model import EventRecord, ExecutionStatus, StateStatus, StorageRecord

_LONGEST_LABEL = 60


@click.command("show", short_help="Show one state and the tree of its calls.")
@click.argument("state_id", metavar="ID")
@timeline_option("The timeline to show. Default: the current one.")
@json_option
@store_option
def show(state_id: str, timeline: int | None, store: str | None, as_json: bool) -> None:
    """Show one state: what it is, and every call with its status, duration and result.

    Nothing of the pipeline is imported or run.
    """
    with open_holdfast(store) as client:
        view = client.show(state_id, timeline=timeline)
        past = past_of(client, view, timeline)
    if as_json:
        say_json(_for_programs(view, past))
        return
    for line in (
        *_header_lines(view, past, store),
        *checkpoint_lines(past),
        *_failure_lines(view, past),
        *_tree_lines(view.history),
    ):
        say(line)


def _header_lines(view: StateView, past: Past, store: str | None) -> Iterator[str]:
    header, metadata = view.header, view.header.metadata
    run = run_of(view.history)
    yield f"{click.style(header.state_id, bold=True)}  {standing_of(header)}{_why(view, store)}"
    storage = _storage(view.history)
    fields = {
        "agent": header.agent or "none (explicit form)",
        "input": "" if run is None or run.input is None or header.agent is None else _input(run.input, width() - 13),
        "begun": f"{header.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "changed": f"{header.updated_at:%Y-%m-%d %H:%M:%S} UTC",
        "records": str(header.position),
        "timeline": past.described,
        "parent": metadata.parent_state_id or "",
        "tags": ", ".join(metadata.tags),
        "pipeline": metadata.pipeline_name,
        "description": cut(metadata.description, width() - 15),
        "storage": cut(", ".join(f"{key}={value!r}" for key, value in storage.items()), width() - 13),
    }
    yield from (f"  {dim(name.ljust(9))} {value}" for name, value in fields.items() if value)
    yield ""


def _why(view: StateView, store: str | None) -> str:
    header = view.header
    go_on = f"go on with `{command_to_resume(header.state_id, store)}`"
    if is_stopped(header):
        return f": no process holds it; {go_on}"
    if is_held(header):
        return f" by {header.holder}"
    if header.status in (StateStatus.FAILED, StateStatus.INTERRUPTED) and header.agent is not None:
        return f"; {go_on}"
    return ""


def _failure(view: StateView, past: Past) -> EventRecord | None:
    """Where the timeline that is shown has failed. The status of the state is that of its current one."""
    may_have_failed = view.header.status is StateStatus.FAILED or not past.is_current
    return failed_at(view.history) if may_have_failed else None


def _failure_lines(view: StateView, past: Past) -> Iterator[str]:
    record = _failure(view, past)
    if record is not None and record.error is not None:
        yield f"Failed at {record.address}: {_error(record, 10_000)}"
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
    kind = record.address.rpartition(SEPARATOR)[2].removesuffix("_call").ljust(5)
    took = "" if record.status is ExecutionStatus.STARTED else duration(record.duration_s)
    again = f"{node.attempts} attempts  " if node.attempts > 1 else ""
    outcome = _outcome(record, max(20, width() - room - 23 - len(again)))
    return f"{dim(stem)}{label}{space}  {dim(kind)}  {_sign(record)} {took:>9}  {again}{outcome}".rstrip()


def _sign(record: EventRecord) -> str:
    match record.status:
        case ExecutionStatus.COMPLETED:
            return click.style(COMPLETED_SIGN, fg="green")
        case ExecutionStatus.FAILED:
            return click.style(FAILED_SIGN, fg="red")
        case _:
            return click.style(UNFINISHED_SIGN, fg="yellow")


def _outcome(record: EventRecord, left: int) -> str:
    if record.error is not None:
        return click.style(_error(record, left), fg="red")
    if record.result is not None:
        return preview(read(record.result), left)
    return "not finished" if record.status is ExecutionStatus.STARTED else str(record.status)


def _error(record: EventRecord, left: int) -> str:
    error = record.error
    assert error is not None
    return cut(f"{error.type_name.rpartition('.')[2]}: {error.message}", left)


def _input(data: bytes, left: int) -> str:
    """The arguments of the run as they would be written in a call."""
    value = read(data)
    named = cast("dict[str, Any]", value if isinstance(value, dict) else {"args": value, "kwargs": {}})
    args, kwargs = cast("list[object]", named["args"]), cast("dict[str, object]", named["kwargs"])
    return cut(", ".join([*map(repr, args), *(f"{key}={item!r}" for key, item in kwargs.items())]), left)


def _storage(history: HistorySet) -> dict[str, Any]:
    storage: dict[str, Any] = {}
    for record in history:
        if isinstance(record, StorageRecord):
            if record.value is None:
                storage.pop(record.key, None)
            else:
                storage[record.key] = read(record.value)
    return storage


def _for_programs(view: StateView, past: Past) -> dict[str, Any]:
    nodes = (node for _, node in lines_of(tree_of(view.history)))
    failed = _failure(view, past)
    return {
        **header_for_programs(view.header),
        **past_for_programs(past),
        "failed_at": None if failed is None else failed.address,
        "storage": _storage(view.history),
        "events": [_event_for_programs(node.record, node.attempts) for node in nodes if node.record is not None],
    }


def _event_for_programs(record: EventRecord, attempts: int) -> dict[str, Any]:
    error = record.error
    return {
        "address": record.address,
        "status": record.status,
        "attempts": attempts,
        "started_at": record.started_at,
        "duration_s": record.duration_s,
        "version": record.version,
        "input": None if record.input is None else read(record.input),
        "result": None if record.result is None else read(record.result),
        "artifacts": list(record.artifacts),
        "error": None
        if error is None
        else {"type": error.type_name, "message": error.message, "traceback": error.traceback},
    }
