"""Waiting for something outside of a run: an answer, a time, a message.

What is waited for is a record (AWAITING) before anybody waits, with the time at which the waiting ends, if there is
one: so it outlives the process. What comes from outside is a letter in the inbox of the state, which anybody may put
there at any time. The record of the outcome names the letter that it was made of.

When nothing is left but to wait, the run leaves the memory of its process, unless what it waits for is near.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

import msgspec

from limpet.backends.contract import StateBackend, StateUpdate
from limpet.engine.questions import awaiting
from limpet.engine.quiet import can_only_wait
from limpet.engine.untaken import Arrived, Untaken, read_letter
from limpet.errors import BackendUnavailable, LimpetError
from limpet.journal.waits import due_at_of, taken_letters, waiting_of
from limpet.model import EventRecord, InterruptReason, InterruptSignal, OnSaveError, StateStatus
from limpet.model.letters import Letter

if TYPE_CHECKING:
    from limpet.engine.live import LiveState
    from limpet.engine.scope import Scope

LINGER_S = 0.5
"""How long a run of which it is not certain that it can only wait is given to make its next call."""

ASK_AGAIN_S = 1.0
"""After so long a store that did not answer is asked again for letters."""

NOTE_S = 0.1
"""After so long a wait of a run that goes on otherwise is noted in the header, where others find it."""


class _Open(msgspec.Struct, frozen=True, eq=False):
    record: EventRecord
    future: asyncio.Future[None]
    key: str
    """What letters are for it; empty where none are."""
    event: Scope


class Waits:
    """What one run waits for at the moment."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self._open: dict[str, _Open] = {}
        self._by_key: dict[str, dict[str, _Open]] = {}
        self._by_event: dict[Scope, dict[str, _Open]] = {}
        self.forget_letters()
        self._timer: asyncio.TimerHandle | None = None
        self._note: asyncio.TimerHandle | None = None
        self.is_cut_off = False
        """Whether the store did not answer when it was last asked: something may have come in time."""
        self._is_looking = False
        self._is_stale = False
        """Whether more may have come since the inbox was last asked for."""

    def forget_letters(self) -> None:
        """Read the inbox from the beginning again: others may have taken letters since."""
        self._untaken = Untaken()
        self._newest = 0
        self._taken: set[str] | None = None

    def find(self, key: str, record: EventRecord) -> Arrived | None:
        """The oldest letter for a wait among those that were read and not taken, if it came in time."""
        return self._untaken.first(key, due_at_of(record)) if key else None

    async def find_new(self, key: str, record: EventRecord) -> Arrived | None:
        """The same, after a look into the inbox where nothing that was read before fits."""
        found = self.find(key, record)
        if found is not None or not key:
            return found
        live = self._live
        try:
            if _blocks(live.writer.backend):
                letters = await asyncio.to_thread(live.writer.backend.letters, live.state_id, self._newest)
            else:
                letters = live.writer.backend.letters(live.state_id, self._newest)
        except BackendUnavailable:
            if live.saver is None or live.saver.on_error is OnSaveError.FAIL or live.loop is None:
                raise
            # The run is to outlast that its store does not answer: it is asked again in a while.
            live.loop.call_later(ASK_AGAIN_S, self.look)
            self.is_cut_off = True
            return None
        self.is_cut_off = False
        self._take_in(letters)
        return self.find(key, record)

    def _take_in(self, letters: Sequence[Letter]) -> None:
        """Keep letters that were read, and wake those who wait for them."""
        if self._taken is None:
            self._taken = taken_letters(self._live.history)
        cipher = self._live.stored.cipher
        for letter in letters:
            # Several may have read at once.
            if letter.number <= self._newest:
                continue
            self._newest = letter.number
            if letter.name not in self._taken:
                key = self._untaken.add(read_letter(letter, cipher))
                _wake(self._by_key.get(key))

    def take(self, name: str) -> None:
        """From now on a letter is spoken for."""
        self._untaken.take(name)

    def look(self) -> None:
        """Look into the inbox, as something may have come. Called on the loop of the run."""
        live = self._live
        self._is_stale = True
        if self._is_looking or not self._by_key or live.loop is None:
            return
        self._is_stale = False
        if _blocks(live.writer.backend):
            self._is_looking = True
            # In a context of its own, as no call of the run does this.
            reading = Context().run(
                live.loop.run_in_executor, None, live.writer.backend.letters, live.state_id, self._newest
            )
            reading.add_done_callback(self._looked, context=Context())
            return
        try:
            letters = live.writer.backend.letters(live.state_id, self._newest)
        except LimpetError:
            self.notice()  # Whoever waits looks again, and raises what is wrong.
        else:
            self._take_in(letters)

    def _looked(self, reading: asyncio.Future[list[Letter]]) -> None:
        self._is_looking = False
        if reading.cancelled() or reading.exception() is not None:
            self.notice()
            return
        self._take_in(reading.result())
        if self._is_stale:
            self.look()

    def look_from_anywhere(self) -> None:
        """As ``look``, from any thread."""
        loop = self._live.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.look)

    def notice(self) -> None:
        """Everybody who waits looks again. Called on the loop of the run."""
        _wake(self._open)

    def notice_end(self, event: Scope) -> None:
        """What waits inside an event that has ended waits no longer."""
        _wake(self._by_event.get(event))

    async def until_noticed(self, scope: Scope, record: EventRecord, key: str) -> None:
        """Wait until a letter has come for this wait, or its time has. A run that can only wait is left."""
        live = self._live
        assert live.loop is not None
        if self.find(key, record) is not None:
            return
        future: asyncio.Future[None] = live.loop.create_future()
        timer = None
        if due_at := due_at_of(record):
            # Not longer than a day at once: loops count in their own time, and clocks are set.
            wait_s = min(max(ASK_AGAIN_S if self.is_cut_off else 0.0, due_at - live.clock.now()), 86_400.0)
            timer = live.loop.call_later(wait_s, _set, future)
        opened = self._begin(_Open(record, future, key, scope.event))
        self._look_soon()
        try:
            with live.stopper.nothing_is_executed(scope):
                if live.is_stopping:
                    live.stopper.look()
                await future
        finally:
            if timer is not None:
                timer.cancel()
            self._end(opened)

    def _begin(self, opened: _Open) -> _Open:
        address = opened.record.address
        self._open[address] = opened
        self._by_event.setdefault(opened.event, {})[address] = opened
        if opened.key:
            self._by_key.setdefault(opened.key, {})[address] = opened
        return opened

    def _end(self, opened: _Open) -> None:
        address = opened.record.address
        del self._open[address]
        _remove(self._by_event, opened.event, address)
        if opened.key:
            _remove(self._by_key, opened.key, address)

    def _look_soon(self) -> None:
        """Look whether the run can only wait, when all that is ready to go on has done so; and again later."""
        live = self._live
        assert live.loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = live.loop.call_later(0.0, self._look, 0, live.history.next_order)
        self.note_soon()

    def _look(self, times: int, calls: int) -> None:
        live = self._live
        self._timer = None
        if not self._open or live.is_stopping or live.has_ended or live.loop is None:
            return
        if calls != live.history.next_order:
            times, calls = 0, live.history.next_order
        if self._is_all_that_is_left(is_certain=times * _LOOK_S < LINGER_S):
            self._leave_or_stay()
        self._timer = live.loop.call_later(0.0 if times < 3 else _LOOK_S, self._look, times + 1, calls)

    def _is_all_that_is_left(self, *, is_certain: bool) -> bool:
        stopper = self._live.stopper
        if stopper.is_anything_executed():
            return False
        if not is_certain:
            return True
        return can_only_wait(stopper.all_tasks(), {each.future for each in self._open.values()})

    def _leave_or_stay(self) -> None:
        """Leave the memory of the process, unless a time is near."""
        live = self._live
        records = [each.record for each in self._open.values()]
        due_at = waiting_of(records, 0).due_at
        if due_at and due_at - live.clock.now() <= live.patience_s:
            return
        signal = InterruptSignal(
            InterruptReason.WAITING,
            "Nothing is left to do but to wait.",
            # Where nothing has happened since it was last left, there is nothing to mark.
            save_checkpoint=live.history.position > live.loaded,
            is_graceful=True,
        )
        live.stopper.request(signal, StateStatus.AWAITING, awaiting(live.stored, live.state_id, records))

    def note_soon(self) -> None:
        """Let others find, in a moment, what the run waits for by then."""
        if self._note is None and self._live.loop is not None:
            self._note = self._live.loop.call_later(NOTE_S, self._note_waits)

    def _note_waits(self) -> None:
        live = self._live
        self._note = None
        if not live.can_be_left or live.is_stopping or live.lease is None:
            return
        metadata = live.metadata_with_saved()
        if metadata is not live.header.metadata:
            # Where that fails, the run is told by its next write.
            with suppress(LimpetError):
                live.write_update(StateUpdate(at=live.clock.now(), metadata=live.metadata_to_keep()))


def waits_of(live: LiveState) -> Waits:
    """The waits of a run, from the first one on."""
    if live.waits is None:
        live.waits = Waits(live)
    return live.waits


_LOOK_S = 0.05


def _blocks(backend: StateBackend) -> bool:
    """Whether reading from a store would hold up the event loop."""
    return backend.commit_waits and not backend.inline_when_quick


def _wake(waits: Mapping[str, _Open] | None) -> None:
    for each in (waits or {}).values():
        _set(each.future)


def _remove(places: dict[Any, dict[str, _Open]], place: object, address: str) -> None:
    del places[place][address]
    if not places[place]:
        del places[place]


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
