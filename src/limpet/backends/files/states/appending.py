"""Decides what an append adds to a journal, or why it is refused. Pure: ``appends.py`` writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from limpet.backends.contract import Append, StateUpdate
from limpet.backends.files.states.header_lines import (
    Header,
    Standing,
    header_content,
    mended,
    update_content,
    update_of,
    updated,
)
from limpet.errors import BackendError, LeaseLost, PositionTaken
from limpet.lines import content_of
from limpet.model import Lease

Read = Callable[[int, int], Sequence[tuple[int, bytes]]]
"""The records behind a position of the state that is appended to, so many."""


class Addition(msgspec.Struct, frozen=True):
    """What an append adds: the contents of lines, and the state behind them."""

    contents: Sequence[Mapping[str, Any]]
    standing: Standing
    is_change: bool
    """Whether the header changes with it."""
    is_listed_otherwise: bool
    """Whether something changes by which states are listed."""


def is_newest(lease: Lease, header: Header) -> bool:
    return (lease.key, lease.fence) == (header.key, header.fence)


def addition_of(append: Append, standing: Standing, read: Read) -> Addition | BackendError:
    """What has to be written for an append to the state as it stands; LeaseLost or PositionTaken."""
    lease, first = append.lease, append.first_seq
    if not is_newest(lease, standing.header):
        return LeaseLost(lease.state_id, lease.fence)
    bodies = append.bodies
    if bodies and first != standing.position + 1:
        if not 1 <= first <= standing.position:
            return PositionTaken(lease.state_id, first)
        there = read(first - 1, len(bodies))
        for (seq, body), wanted in zip(there, bodies, strict=False):
            if body != wanted:
                return PositionTaken(lease.state_id, seq)
        if len(there) < min(len(bodies), standing.position - first + 1):
            # Something stands there that cannot be read.
            return PositionTaken(lease.state_id, first + len(there))
        bodies = bodies[len(there) :]
    return _added(bodies, append.update, standing)


def contents_of(bodies: Sequence[bytes], first: int, owner: str) -> list[dict[str, Any]]:
    """The contents of the lines of records, from a number on."""
    return [{"seq": seq, **content_of(bytes(body), owner)} for seq, body in enumerate(bodies, first)]


def _added(bodies: Sequence[bytes], update: StateUpdate | None, standing: Standing) -> Addition:
    position, header = standing.position, standing.header
    contents: list[Mapping[str, Any]] = []
    contents += contents_of(bodies, position + 1, header.state_id)
    damage = standing.damage
    if update is not None:
        if update.header is not None:
            header = mended(header, update.header)
            contents.append(header_content(header))
            damage = None
        change = update_of(update)
        after = updated(header, change)
        # An update that is repeated says nothing new.
        if after != header:
            contents.append(update_content(change))
            header = after
    anew = Standing(header=header, position=position + len(bodies), sum=standing.sum, damage=damage)
    is_change = header is not standing.header
    return Addition(contents, anew, is_change, is_change and _listed_by(header) != _listed_by(standing.header))


def _listed_by(header: Header) -> tuple[object, ...]:
    return header.status, header.metadata, header.created_at, header.updated_at, header.key
