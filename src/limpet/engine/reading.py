"""Reading journals: whole, in windows and as a stream, from frames to verified records.

The records that a fork shares are those of other states: each is checked, and opened, as what its owner wrote. What is
damaged or missing comes as a DamagedRecord; whoever needs it raises, whoever does not goes on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateBackend
from limpet.codec import frames
from limpet.errors import StateCorrupted
from limpet.journal import pages
from limpet.journal.history import History
from limpet.journal.timeline import intact
from limpet.model import DamagedRecord, DroppedRecord, Part, Record, StateHeader, TimelineRecord

Frames = Sequence[tuple[int, bytes]]

CHUNK = 1000
"""How many records a stream reads at once."""

MOST_MISSING = 100_000
"""Of more records in a row that are missing, no more are told one by one: a forged number can be any."""

_GONE = "it is missing, although the header of the state says that it was written"
_OTHER = "another record stood here when the header of the state was written"


def read_history(header: StateHeader, read: Frames, stored: StoredValues) -> tuple[History, int]:
    """The history of a state from the frames of its whole journal, and the link that the next frame follows."""
    history = History(header.state_id, whole_journal(header, read, stored), header.timeline)
    return history, next_link(header, read[-1] if read else None)


def read_long_history(
    header: StateHeader, backend: StateBackend, stored: StoredValues, read_page: pages.ReadPage
) -> tuple[History, int]:
    """As ``read_history``, without having all of the journal in memory at once; for whoever holds the state."""
    history = History(header.state_id)
    history.read_in_pages(read_page)
    reader = frames.FrameReader(next_link(header, None))
    while read := backend.read(header.state_id, history.position, pages.SIZE):
        history.read_closed(_read_on(header, read, stored, reader), read[-1][0], frames.joined(read))
    journal = JournalReader(backend, stored, header)
    if header.end is not None:
        require_end(header, (header.end.position, journal.frame(header.end.position)))
    return history, next_link(header, (history.position, journal.frame(history.position)))


def whole_journal(header: StateHeader, read: Frames, stored: StoredValues) -> Iterator[Record | DamagedRecord]:
    """The records of the frames of a whole journal, held to the end that the header notes."""
    records = decoded(header, read, stored)
    lost = {damaged.seq: damaged for damaged in _lost_at_end(header, read)}
    if not lost:
        return records
    last = read[-1][0] if read else 0
    missing = (damaged for seq, damaged in lost.items() if seq > last)
    return chain((lost.get(record.seq, record) for record in records), missing)


def require_intact(header: StateHeader, read: Frames) -> None:
    """Raises StateCorrupted that names what is first damaged or missing in the frames of a whole journal.

    Needs no key, and so does not look into what is sealed.
    """
    found = next(damaged_records(header, read), None)
    if found is not None:
        raise StateCorrupted(header.state_id, found.seq, found.why)


def damaged_records(header: StateHeader, read: Frames) -> Iterator[DamagedRecord]:
    """What is damaged or missing in the frames of a whole journal, in order, as far as that is told without a key."""
    reader = frames.FrameReader(next_link(header, None))
    yield from _by_owner(header, read, reader, reader.check)
    yield from _lost_at_end(header, read)


def require_end(header: StateHeader, last: tuple[int, bytes] | None) -> None:
    """Raises StateCorrupted where the last record of a journal, as it is read, stands before the end that is noted."""
    for lost in _lost_at_end(header, () if last is None else (last,)):
        raise StateCorrupted(header.state_id, lost.seq, lost.why)


def _lost_at_end(header: StateHeader, read: Frames) -> Iterator[DamagedRecord]:
    end = header.end
    if end is None:
        return
    last = read[-1][0] if read else 0
    for seq in range(last + 1, min(end.position, last + MOST_MISSING) + 1):
        yield DamagedRecord(header.state_id, seq, _GONE)
    place = len(read) - 1 - (last - end.position)
    if not 0 <= place < len(read) or read[place][0] != end.position:
        return
    frame = read[place][1]
    # A frame that is damaged itself is named for that.
    if frames.link_of(frame) != end.link and frames.is_intact(_owner_of(header, end.position), frame):
        yield DamagedRecord(header.state_id, end.position, _OTHER)


def decoded(
    header: StateHeader, read: Frames, stored: StoredValues, before: tuple[int, bytes] | None = None
) -> Iterator[Record | DamagedRecord]:
    """The records of frames; ``before`` is the frame before the first of them, with its number."""
    first = 1 if before is None else before[0] + 1
    return _read_on(header, read, stored, frames.FrameReader(next_link(header, before), first))


def _read_on(
    header: StateHeader, read: Frames, stored: StoredValues, reader: frames.FrameReader
) -> Iterator[Record | DamagedRecord]:
    if not header.bases:
        return reader.read(header.state_id, read, stored.record_cipher(header.state_id))
    return _by_owner(header, read, reader, lambda owner, own: reader.read(owner, own, stored.record_cipher(owner)))


def _by_owner(
    header: StateHeader, read: Frames, reader: frames.FrameReader, read_own: Callable[[str, Frames], Iterator[Any]]
) -> Iterator[Any]:
    """What is read of frames, those of each state by themselves. The reader is told where those of a fork begin."""
    begin = 0
    for number, base in enumerate(header.bases, 1):
        if reader.expected > base.last:
            continue
        end = bisect_right(read, base.last, begin, key=itemgetter(0))
        yield from read_own(base.state_id, read[begin:end])
        if end == len(read) and reader.expected <= base.last:
            return
        yield from reader.missing(base.state_id, base.last + 1)
        reader.pass_to(_owner(header, number))
        begin = end
    yield from read_own(header.state_id, read[begin:])


def _owner(header: StateHeader, number: int) -> str:
    """Who wrote the n-th stretch of the journal, counted from 0."""
    return header.bases[number].state_id if number < len(header.bases) else header.state_id


def _owner_of(header: StateHeader, seq: int) -> str:
    """Who wrote the record of that number."""
    return next((base.state_id for base in header.bases if seq <= base.last), header.state_id)


def next_link(header: StateHeader, last: tuple[int, bytes] | None) -> int:
    """The link that a frame follows, by the number and the bytes of the one before it."""
    if last is None:
        return frames.first_link(_owner(header, 0))
    seq, frame = last
    for number, base in enumerate(header.bases, 1):
        if base.last == seq:
            return frames.forked_link(_owner(header, number), frames.link_of(frame))
    return frames.link_of(frame)


class JournalReader:
    """The journal of one state as it was found, read as far as is needed."""

    def __init__(self, backend: StateBackend, stored: StoredValues, header: StateHeader) -> None:
        self.header = header
        self._backend = backend
        self._stored = stored

    def history(self) -> tuple[History, int]:
        """The whole of it, as it stands now."""
        try:
            return read_history(self.header, self._backend.read(self.header.state_id), self._stored)
        except StateCorrupted:
            # A cleanup may have rewritten it since its header was read.
            header = self._backend.find_state(self.header.state_id)
            if header is None or header.end == self.header.end:
                raise
        self.header = header
        return read_history(header, self._backend.read(header.state_id), self._stored)

    def window(self, after: int, limit: int) -> list[Record]:
        """Some records behind a position. Raises StateCorrupted where one of them is damaged."""
        return list(intact(self._window(after, limit)))

    def intact_window(self, after: int, limit: int) -> list[Record]:
        """As ``window``, without those that are damaged."""
        return [record for record in self._window(after, limit) if not isinstance(record, DamagedRecord)]

    def _window(self, after: int, limit: int) -> Iterator[Record | DamagedRecord]:
        read = self._backend.read(self.header.state_id, max(0, after - 1), limit + (after > 0))
        before = None
        if after > 0 and read and read[0][0] == after:
            before, *read = read
        return decoded(self.header, read, self._stored, before or ((after, b"") if after else None))

    def page(self, page: pages.Page) -> list[Record]:
        """The records of a page, which were read or written before. Raises StateCorrupted where they are not the same,
        or no longer all there."""
        first, count = page.first, page.last + 1 - page.first
        if page.kept is not None:
            return frames.from_joined(page.kept)
        records = self.window(first - 1, count)
        gone = next((record.seq for record in records if type(record) is DroppedRecord), None)
        if gone is not None or len(records) != count:
            raise StateCorrupted(self.header.state_id, gone or first + len(records), "it was there before, and is gone")
        return records

    def frame(self, seq: int) -> bytes:
        """One frame as it is stored."""
        ((_, frame),) = self._backend.read(self.header.state_id, seq - 1, 1)
        return frame

    def stream(self, after: int = 0, chunk_size: int = CHUNK) -> Iterator[Record | DamagedRecord]:
        """The records up to the position that the header tells, without holding more than some of them."""
        header, position = self.header, self.header.position
        reader = None
        while after < position:
            behind = after - 1 if after and reader is None else after
            read = self._backend.read(header.state_id, behind, min(chunk_size, position - after) + after - behind)
            if reader is None:
                before = None if not after else read.pop(0) if read and read[0][0] == after else (after, b"")
                reader = frames.FrameReader(next_link(header, before), after + 1)
            if not read:
                return
            yield from _read_on(header, read, self._stored, reader)
            after = read[-1][0]
        if header.end is not None and header.end.position > after:
            raise StateCorrupted(header.state_id, after + 1, _GONE)

    def current_parts(self) -> tuple[int, tuple[Part, ...]]:
        """The number of the current timeline, and its parts, without reading the journal."""
        began, position = self.header.timeline, self.header.position
        if not began:
            return 1, (Part(1, position),)
        (record,) = self.window(began - 1, 1)
        assert isinstance(record, TimelineRecord), "the header names the record that began the timeline"
        own = (Part(began + 1, position),) if position > began else ()
        return record.number, (*record.parts, *own)
