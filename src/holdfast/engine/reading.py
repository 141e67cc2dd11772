"""Reading journals: whole, in windows and as a stream, from frames to verified records.

The records that a fork shares are those of other states: each is checked, and opened, as what its owner wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from holdfast.artifacts.stored_values import StoredValues
from holdfast.backends.contract import StateBackend
from holdfast.codec import frames
from holdfast.journal.history import History
from holdfast.model import Record, StateHeader

Frames = Sequence[tuple[int, bytes]]

CHUNK = 1000
"""How many records a stream reads at once."""


def read_history(header: StateHeader, read: Frames, stored: StoredValues) -> tuple[History, int]:
    """The history of a state from the frames of its whole journal, and the link that the next frame follows."""
    history = History(header.state_id, decoded(header, read, stored), header.timeline)
    return history, next_link(header, read[-1] if read else None)


def decoded(header: StateHeader, read: Frames, stored: StoredValues, before: bytes | None = None) -> Iterator[Record]:
    """The records of frames that stand one behind the other; ``before`` is the frame before the first of them."""
    if not header.bases:
        link = None if before is None else frames.link_of(before)
        return frames.from_frames(header.state_id, read, link, stored.record_cipher(header.state_id))
    return chain.from_iterable(_decoded_by_owner(header, read, stored, before))


def _decoded_by_owner(
    header: StateHeader, read: Frames, stored: StoredValues, before: bytes | None
) -> Iterator[Iterator[Record]]:
    ends = [*((base.state_id, base.last) for base in header.bases), (header.state_id, None)]
    begin = 0
    for owner, last in ends:
        if begin == len(read):
            return
        first = read[begin][0]
        if last is not None and first > last:
            continue
        end = len(read) if last is None else min(len(read), begin + last - first + 1)
        link = None if before is None else next_link(header, (first - 1, before))
        yield frames.from_frames(owner, read[begin:end], link, stored.record_cipher(owner))
        before = read[end - 1][1]
        begin = end


def next_link(header: StateHeader, last: tuple[int, bytes] | None) -> int:
    """The link that a frame follows, by the number and the bytes of the one before it."""
    if last is None:
        return frames.first_link(header.bases[0].state_id if header.bases else header.state_id)
    seq, frame = last
    for number, base in enumerate(header.bases, 1):
        if base.last == seq:
            owner = header.bases[number].state_id if number < len(header.bases) else header.state_id
            return frames.forked_link(owner, frames.link_of(frame))
    return frames.link_of(frame)


class JournalReader:
    """The journal of one state as it was found, read as far as is needed."""

    def __init__(self, backend: StateBackend, stored: StoredValues, header: StateHeader) -> None:
        self.header = header
        self._backend = backend
        self._stored = stored

    def history(self) -> tuple[History, int]:
        """The whole of it, as it stands now."""
        return read_history(self.header, self._backend.read(self.header.state_id), self._stored)

    def window(self, after: int, limit: int) -> list[Record]:
        """Some records behind a position."""
        return list(self._window(after, limit))

    def _window(self, after: int, limit: int) -> Iterator[Record]:
        read = self._backend.read(self.header.state_id, max(0, after - 1), limit + (after > 0))
        before = None
        if after > 0 and read:
            before, read = read[0][1], read[1:]
        return decoded(self.header, read, self._stored, before)

    def frame(self, seq: int) -> bytes:
        """One frame as it is stored."""
        ((_, frame),) = self._backend.read(self.header.state_id, seq - 1, 1)
        return frame

    def stream(self, after: int = 0, chunk_size: int = CHUNK) -> Iterator[Record]:
        """The records up to the position that the header tells, without holding more than some of them."""
        position = self.header.position
        while after < position:
            chunk = self.window(after, min(chunk_size, position - after))
            if not chunk:
                return
            yield from chunk
            after = chunk[-1].seq
