"""What belongs to a timeline, held against its plain definition: cut the view that was there, then go on."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.journal.address import SEPARATOR
from limpet.journal.history import History
from limpet.journal.new_timeline import from_event
from limpet.model import EventRecord, ExecutionStatus

E = ExecutionStatus
View = dict[str, tuple[ExecutionStatus, int]]


class Program:
    """A state that does what the numbers say: begin calls at any open place, end them in any order, run on anywhere.

    It is one program all the time: what a call has called when it ends it calls on every timeline.
    """

    def __init__(self) -> None:
        self.history = History("s")
        self.views: list[View] = [{}]
        self.begun: dict[str, int] = {}
        """The calls that are under way, by path."""
        self.called: dict[str, frozenset[str]] = {}
        """By the path of a call that has ended once: what it calls."""

    def write(self, path: str, status: ExecutionStatus, order: int) -> None:
        seq = self.history.position + 1
        address = f"{path}{SEPARATOR}agent_call"
        self.history.add(EventRecord(seq, address, status, 0.0, seq - order))
        self.views[-1][address] = (status, order)

    def begin(self, choice: int) -> None:
        places = ["", *self.begun]
        place = places[choice % len(places)]
        for number in range(1, 4):
            name = f"c{number}"
            path = f"{place}{SEPARATOR}{name}" if place else name
            is_made = path not in self.begun and f"{path}{SEPARATOR}agent_call" not in self.views[-1]
            if is_made and path in self.called.get(place, {path}):
                self.begun[path] = self.history.next_order
                self.history.next_order += 1
                return

    def end(self, choice: int) -> None:
        if not self.begun:
            return
        path = list(self.begun)[choice % len(self.begun)]
        if any(other.startswith(path + SEPARATOR) for other in self.begun):
            return
        inside = _inside(path, (*self.views[-1],))
        if self.called.setdefault(path, inside) != inside or _inside(path, self.ever) != inside:
            return
        # The starts of what encloses a record come before it.
        parts = path.split(SEPARATOR)
        for length in range(1, len(parts)):
            above = SEPARATOR.join(parts[:length])
            if f"{above}{SEPARATOR}agent_call" not in self.views[-1]:
                self.write(above, E.STARTED, self.begun[above])
        self.write(path, E.COMPLETED, self.begun.pop(path))

    @property
    def ever(self) -> list[str]:
        """Every address that was ever recorded, on whatever timeline."""
        return [record.address for record in self.history.journal if isinstance(record, EventRecord)]

    def crash(self) -> None:
        """What was under way is begun again: with its recorded start, or with a new one."""
        for path in sorted(self.begun, key=len):
            if f"{path}{SEPARATOR}agent_call" not in self.views[-1]:
                del self.begun[path]

    def run_on(self, choice: int, timeline: int) -> None:
        # Mostly the current one.
        number = max(1, len(self.views) - timeline // 2)
        base = self.views[number - 1]
        if not base:
            return
        address = list(base)[choice % len(base)]
        new = from_event(self.history, address, number)
        for record in new.records(self.history.position + 1, 0.0, len(self.views) + 1):
            self.history.add(record)
        self.views.append(cut(base, base[address][1]))
        self.begun = {
            address.rpartition(SEPARATOR)[0]: order
            for address, (status, order) in self.views[-1].items()
            if status is E.STARTED
        }


def _inside(path: str, addresses: Iterable[str]) -> frozenset[str]:
    paths = (address.rpartition(SEPARATOR)[0] for address in addresses)
    return frozenset(other for other in paths if other.rpartition(SEPARATOR)[0] == path)


def cut(view: View, order: int) -> View:
    dropped = [address for address, (_, start) in view.items() if start >= order]
    kept = {address: entry for address, entry in view.items() if address not in dropped}
    for address in dropped:
        path = address.rpartition(SEPARATOR)[0]
        while path := path.rpartition(SEPARATOR)[0]:
            above = f"{path}{SEPARATOR}agent_call"
            if above in kept:
                kept[above] = (E.STARTED, kept[above][1])
    return kept


def read(history: History) -> View:
    return {address: (record.status, record.order) for address, record in history.latest.items()}


steps = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "end", "end", "end", "crash", "run on"]),
        st.integers(0, 30),
        st.integers(0, 3),
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(steps)
def test_every_timeline_is_what_cutting_the_one_before_it_leaves(todo: list[tuple[str, int, int]]) -> None:
    program = Program()
    for what, choice, timeline in todo:
        match what:
            case "begin":
                program.begin(choice)
            case "end":
                program.end(choice)
            case "crash":
                program.crash()
            case _:
                program.run_on(choice, timeline)
    assert program.views[-1] == read(program.history)
    for number, view in enumerate(program.views, 1):
        assert view == read(program.history.on_timeline(number))
    assert program.views[-1] == read(History("s", program.history.journal, position_of_newest(program.history)))


def position_of_newest(history: History) -> int:
    return max((record.seq for record in history.journal if not isinstance(record, EventRecord)), default=0)
