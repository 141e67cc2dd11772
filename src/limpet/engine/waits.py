"""Waiting for something outside of a run: an answer, a time, a message.

What is waited for is a record (AWAITING) before anybody waits, with the time at which the waiting ends, if there is
one: so it outlives the process. What comes from outside is a letter in the inbox of the state, which anybody may put
there at any time. The record of the outcome names the letter that it was made of.

When nothing is left but to wait, the run leaves the memory of its process, unless what it waits for is near.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from limpet.backends.contract import StateUpdate
from limpet.codec.letters import LetterText, from_body
from limpet.engine.questions import awaiting
from limpet.engine.quiet import can_only_wait
from limpet.errors import BackendUnavailable, LimpetError
from limpet.journal.waits import taken_letters, waiting_of
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


class Arrived(msgspec.Struct, frozen=True):
    """A letter that was read."""

    name: str
    text: LetterText


class _Open(msgspec.Struct, frozen=True, eq=False):
    record: EventRecord
    future: asyncio.Future[None]


class Waits:
    """What one run waits for at the moment."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self._open: dict[str, _Open] = {}
        self._letters: list[Letter] = []
        self._newest = 0
        self._taken: set[str] | None = None
        self.noticed = 0
        """How often something may have come. Whoever has looked, and sees that it grew since, looks again."""
        self._timer: asyncio.TimerHandle | None = None
        self._note: asyncio.TimerHandle | None = None

    async def letters(self) -> list[Arrived]:
        """The letters that no wait has taken yet, in the order of their coming."""
        live = self._live
        await self._read()
        if self._taken is None:
            self._taken = taken_letters(live.history)
        cipher = live.stored.cipher
        return [
            Arrived(letter.name, from_body(letter.body, live.state_id, letter.name, cipher))
            for letter in self._letters
            if letter.name not in self._taken
        ]

    async def _read(self) -> None:
        backend, state_id, after = self._live.writer.backend, self._live.state_id, self._newest
        try:
            if backend.commit_waits and not backend.inline_when_quick:
                found = await asyncio.to_thread(backend.letters, state_id, after)
            else:
                found = backend.letters(state_id, after)
        except BackendUnavailable:
            if self._live.saver is None or self._live.saver.on_error is OnSaveError.FAIL or self._live.loop is None:
                raise
            # The run is to outlast that its store does not answer: it is asked again in a while.
            self._live.loop.call_later(ASK_AGAIN_S, self.notice)
            return
        for letter in found:
            if letter.number > self._newest:
                self._newest = letter.number
                self._letters.append(letter)

    def take(self, name: str) -> None:
        """From now on a letter is spoken for."""
        if self._taken is not None:
            self._taken.add(name)

    def notice(self) -> None:
        """Something may have come: everybody who waits looks. Called on the loop of the run."""
        self.noticed += 1
        for each in self._open.values():
            if not each.future.done():
                each.future.set_result(None)

    def notice_from_anywhere(self) -> None:
        """As ``notice``, from any thread."""
        loop = self._live.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.notice)

    async def until_noticed(self, scope: Scope, record: EventRecord, noticed: int) -> None:
        """Wait until something may have come for this wait since then, or its time has. A run that can only wait is
        left."""
        live = self._live
        assert live.loop is not None
        if noticed != self.noticed:
            return
        future: asyncio.Future[None] = live.loop.create_future()
        self._open[record.address] = _Open(record, future)
        due_at = record.details.due_at if record.details is not None else 0.0
        timer = None
        if due_at:
            # Not longer than a day at once: loops count in their own time, and clocks are set.
            wait_s = min(max(0.0, due_at - live.clock.now()), 86_400.0)
            timer = live.loop.call_later(wait_s, _set, future)
        self._look_soon()
        try:
            with live.stopper.nothing_is_executed(scope):
                if live.is_stopping:
                    live.stopper.look()
                await future
        finally:
            if timer is not None:
                timer.cancel()
            self._open.pop(record.address, None)

    def _look_soon(self) -> None:
        """Look whether the run can only wait, when all that is ready to go on has done so; and again later."""
        live = self._live
        assert live.loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = live.loop.call_later(0.0, self._look, 0, live.history.next_order)
        if self._note is None:
            self._note = live.loop.call_later(NOTE_S, self._note_waits)

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
        waits = {each.future for each in self._open.values()}
        return not is_certain or can_only_wait(stopper.all_tasks(), waits)

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

    def _note_waits(self) -> None:
        """Let others find what a run waits for that goes on otherwise."""
        live = self._live
        self._note = None
        if not self._open or not live.can_be_left or live.is_stopping or live.lease is None:
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


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
