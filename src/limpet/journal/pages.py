"""The journal of a long run, of which most completed events are not in memory: they are read again when asked for.

The journal is divided into pages. Of a page that was closed the completed events are left out, which most records are:
the page stands in their places, in the journal and in ``History.index``. Asking for one reads the page from the store.
Only what the store has for certain may be closed. All else of a history is in memory, whatever its length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, final, overload

from limpet.model import DamagedRecord, EventRecord, ExecutionStatus, Record

if TYPE_CHECKING:
    Items = list[Record | DamagedRecord]
else:
    Items = list

SIZE = 512
"""So many records are a page."""

PAGED_FROM = 32 * SIZE
"""A journal of so many records is read in pages."""

KEPT = 8 * SIZE
"""Of what is written here, so many records stay in memory: the code may not have been given their outcomes yet."""

MOST_KEPT = 96 * 1024 * 1024
"""So many bytes of what is read when a run is resumed are kept until they are asked for, which spares reading twice."""

MOST_OPEN = 64
"""So many pages are open at most: code that runs side by side asks for records of several."""

_T = TypeVar("_T")
_COMPLETED = ExecutionStatus.COMPLETED

ReadPage = Callable[["Page"], Sequence[Record]]
"""Gives all the records of a page, as they were written."""


@final
class Page:
    """Stands in the place of completed events, which are read when one of them is asked for."""

    __slots__ = ("_events", "_journal", "first", "kept", "last")

    status = _COMPLETED

    def __init__(self, journal: PagedJournal, first: int, last: int, kept: bytes | None) -> None:
        self._journal = journal
        self.first = first
        """The number of its first record."""
        self.last = last
        self.kept = kept
        """Its records as bytes, until they are asked for once; None where they are read from the store."""
        self._events: dict[str, EventRecord] | None = None
        """The completed events, while the page is open."""

    def event(self, address: str) -> EventRecord:
        """The completed event with an address that stands on this page. Raises what reading it raises."""
        events = self._events
        return (self.opened() if events is None else events)[address]

    def opened(self) -> dict[str, EventRecord]:
        """Read the page, if it is closed, and let it be in memory for a while."""
        events = self._events
        if events is None:
            records = self._journal.read_page(self)
            events = {each.address: each for each in records if type(each) is EventRecord and each.status is _COMPLETED}
            self._events, self.kept = events, None
            self._journal.note_opened(self)
        return events

    def close(self) -> None:
        self._events = None


class PagedJournal(Items):
    """The records of a state in order, as a list of all of them. Reading one, or going through them, reads the store
    where that is needed."""

    def __init__(
        self, records: list[Record | DamagedRecord], index: dict[str, EventRecord | Page], read_page: ReadPage
    ) -> None:
        super().__init__(records)
        self._index = index
        self.read_page = read_page
        self._closed_until = 0
        """The records up to here are on pages."""
        self._kept = 0
        """How many bytes of pages were kept."""
        self._open: deque[Page] = deque()
        """The pages that are open, in the order of their opening."""
        self._opened = 0
        """How often a page was opened."""

    def next_page(self, last: int, kept: bytes | None = None) -> Page:
        """The page that ends at that record, behind those that there are."""
        if kept is not None:
            self._kept += len(kept)
        page = Page(self, self._closed_until + 1, last, kept if self._kept <= MOST_KEPT else None)
        self._closed_until = last
        return page

    def close_pages(self, until: int) -> None:
        """Close the pages that end at that record, or before it."""
        while (last := self._closed_until + SIZE) <= until:
            place = slice(self._closed_until, last)
            page = self.next_page(last)
            items: list[Any] = super().__getitem__(place)
            events = [each for each in items if type(each) is EventRecord and each.status is _COMPLETED]
            self._index.update(dict.fromkeys([event.address for event in events], page))
            if len(events) == SIZE:
                items = [page] * SIZE
            else:
                items = [page if type(each) is EventRecord and each.status is _COMPLETED else each for each in items]
            super().__setitem__(place, items)

    def note_opened(self, page: Page) -> None:
        """Close the page that was opened first, where many are open. Called on any thread, also twice for a page."""
        self._open.append(page)
        self._opened += 1
        # Where events are asked for without any order, pages that are open stay so: reading all of them over and over
        # would take far longer than the memory is worth.
        if len(self._open) > MOST_OPEN and self._opened <= 2 * self._closed_until // SIZE:
            self._open.popleft().close()

    def put_back(self) -> list[Record | DamagedRecord]:
        """All records, in memory again, as the index has them from now on."""
        records = list(iter(self))
        for record in records:
            if type(record) is EventRecord and type(self._index.get(record.address)) is Page:
                self._index[record.address] = record
        return records

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> Record | DamagedRecord: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[Record | DamagedRecord]: ...
    def __getitem__(self, place: SupportsIndex | slice, /) -> Record | DamagedRecord | list[Record | DamagedRecord]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        item: Any = super().__getitem__(place)
        if type(item) is not Page:
            return item
        seq = range(len(self))[place] + 1
        return next(event for event in item.opened().values() if event.seq == seq)

    def __iter__(self) -> Iterator[Record | DamagedRecord]:
        """All records. Those of pages are read, and not kept."""
        place = 0
        while place < len(self):
            item: Any = super().__getitem__(place)
            if type(item) is not Page:
                yield item
                place += 1
            else:
                yield from self.read_page(item)[place + 1 - item.first : len(self) + 1 - item.first]
                place = item.last

    def __reversed__(self) -> Iterator[Record | DamagedRecord]:
        return (self[place] for place in range(len(self) - 1, -1, -1))

    def copy(self) -> list[Record | DamagedRecord]:
        return list(iter(self))


class PagedIndex(Mapping[str, EventRecord]):
    """The newest record of each address, of which some are read when they are asked for."""

    def __init__(self, index: dict[str, EventRecord | Page]) -> None:
        self._index = index

    def __getitem__(self, address: str) -> EventRecord:
        found = self._index[address]
        return found.event(address) if type(found) is Page else found

    @overload
    def get(self, key: str, default: None = None, /) -> EventRecord | None: ...
    @overload
    def get(self, key: str, default: _T, /) -> EventRecord | _T: ...
    def get(  # pyright: ignore[reportIncompatibleMethodOverride]  # `Mapping` lets a default be named, which nobody does
        self, key: str, default: object = None, /
    ) -> object:
        found = self._index.get(key, default)
        return found.event(key) if type(found) is Page else found

    def __contains__(self, address: object) -> bool:
        return address in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)
