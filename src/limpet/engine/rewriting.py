"""Putting other bytes in the place of records that stand: what migrating and compacting have in common.

Every record has to be read for that, and be intact; only what a state wrote itself is rewritten, under its lease.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import Append, StateUpdate
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.reading import Frames, decoded, require_intact
from limpet.journal.timeline import intact
from limpet.model import End, Lease, Record, StateHeader


def own_frames(header: StateHeader, read: Frames) -> Frames:
    """The frames of a whole journal that the state wrote itself."""
    last = header.bases[-1].last if header.bases else 0
    return [(seq, frame) for seq, frame in read if seq > last]


def all_records(header: StateHeader, read: Frames, stored: StoredValues) -> list[Record]:
    """The records of a whole journal. Raises StateCorrupted where anything is damaged, or WrongKey."""
    require_intact(header, read)
    return list(intact(decoded(header, read, stored)))


def rewriting(
    lease: Lease, header: StateHeader, first: int, bodies: Sequence[bytes], link: int | None, version: int | None = None
) -> Append:
    """The records of a state from a number to its end anew; ``link`` is the chain of the last, and the lease is given
    back. Neither its status nor its metadata changes, and so not when these last did."""
    end = None if link is None else End(header.position, link)
    changed = None if version is None else msgspec.structs.replace(header, version=version, end=end)
    update = StateUpdate(at=SYSTEM_CLOCK.now(), header=changed, end=end, releases=True)
    return Append(lease, first, bodies, update)
