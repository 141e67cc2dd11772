"""The history of a state as a tree of calls, and where it failed. Reads; prints nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from limpet.engine.history_set import HistorySet
from limpet.journal.address import SEPARATOR, is_top_level, parse
from limpet.model import EventRecord, ExecutionStatus, Failure
from limpet.model.header import utc


class CallNode(msgspec.Struct):
    """A call, or (without a record) a branch that calls were made in."""

    label: str
    """The last segment of its address."""
    record: EventRecord | None = None
    attempts: int = 0
    """How many were made, on all its ways to where it stands."""
    last_error: Failure | None = None
    """What an attempt failed of, the newest one that did."""
    children: list[CallNode] = []


def tree_of(history: HistorySet) -> list[CallNode]:
    """The calls at the top, each with those that were made inside it, in the order in which they were begun."""
    events = history.get_event_list()
    first_order: dict[str, int] = {}
    attempts: dict[str, int] = {}
    errors: dict[str, Failure] = {}
    for record in events:
        address = record.address
        first_order[address] = min(record.order, first_order.get(address, record.order))
        attempts[address] = attempts.get(address, 0) + (record.status is ExecutionStatus.STARTED)
        if record.error is not None:
            errors[address] = record.error
    top = CallNode("")
    nodes = {"": top}
    for address in sorted(first_order, key=first_order.__getitem__):
        node = _node(nodes, parse(address).path)
        node.record = history[address]
        node.attempts = attempts[address]
        node.last_error = errors.get(address)
    return top.children


def due_at(record: EventRecord) -> datetime | None:
    """When the next attempt of a call is due; None where none is."""
    return None if record.details is None or not record.details.due_at else utc(record.details.due_at)


def _node(nodes: dict[str, CallNode], path: str) -> CallNode:
    node = nodes.get(path)
    if node is None:
        scope, _, label = path.rpartition(SEPARATOR)
        node = nodes[path] = CallNode(label)
        _node(nodes, scope).children.append(node)
    return node


def lines_of(nodes: list[CallNode], stem: str = "", is_top: bool = True) -> Iterator[tuple[str, CallNode]]:
    """Each node in order, with the lines of the tree that stand before it."""
    for number, node in enumerate(nodes, 1):
        is_last = number == len(nodes)
        branch, below = ("", "") if is_top else ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield stem + branch, node
        yield from lines_of(node.children, stem + below, is_top=False)


def run_of(history: HistorySet) -> EventRecord | None:
    """The newest record of the call that a whole run consists of; None where there is none yet."""
    tops = [address for address in history.addresses() if is_top_level(address)]
    return history[tops[0]] if tops else None


def failed_at(history: HistorySet, whole: EventRecord | None) -> EventRecord | None:
    """The record of the innermost call whose failure failed the whole, of which this is the newest record.

    None if it has not failed.
    """
    record = whole
    if record is None or record.status is not ExecutionStatus.FAILED:
        return None
    while record.causes:
        record = history[record.causes[0]]
    return record
