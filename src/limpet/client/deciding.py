"""The verbs by which people step in: stop a run, say what became of a call, undo what a run has done, see what it
used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from limpet.client.running import Running
from limpet.engine.actors import Actor
from limpet.engine.bus import EventBus
from limpet.engine.replacement import NOTHING
from limpet.engine.usage_totals import usage_totals
from limpet.model import InterruptReason, InterruptSignal, UsageTotals


class Deciding(Running):
    """``interrupt``, ``settle``, ``roll_back`` and ``usage``."""

    def interrupt(
        self,
        state_id: str,
        message: str = "",
        *,
        by: str = "",
        reason: InterruptReason | str = InterruptReason.REQUESTED,
        finish: bool = False,
    ) -> bool:
        """Stop the run of a state, in whatever process it is; False where nobody runs it.

        The process that runs it is told through the store, and takes notice within a fraction of a second: what
        awaits is cancelled, and the state is left as interrupted, with the reason. With ``finish`` the events that are
        being executed are finished first. Raises UnknownState.
        """
        self._header(state_id)
        signal = InterruptSignal(str(reason), message, by, is_graceful=finish)
        holder = self.backend.leave_wish(state_id, msgspec.json.encode(signal).decode())
        return self._writer.keeper.may_write(holder)

    def settle(
        self,
        state_id: str,
        at: str | None = None,
        *,
        happened: object = NOTHING,
        again: bool = False,
        failed: str | None = None,
        by: str = "",
    ) -> str:
        """Say what became of a call that is declared ``once`` and was cut off, and give its address.

        Exactly one of three: it happened, with this result; it did not, and is executed ``again`` when the run is taken
        up; it ``failed``, for this reason. ``at`` is its address, or the end of one, where there are several. The run
        goes on with ``run`` or ``resume``.

        Raises UnknownState, UnknownAddress, AmbiguousAddress, ValueNotStorable, LeaseHeld, or UsageError where no call
        awaits that.
        """
        from limpet.engine.settling import Word, settle

        word = Word(happened=happened, again=again, failed=failed, by=by)
        return settle(self._writer, self._stored, self._header(state_id), at, word)

    async def roll_back(
        self,
        state_id: str,
        *,
        agent: Actor[..., Any] | None = None,
        event_bus: EventBus | None = None,
        handle_signals: bool = False,
        on_first_signal: Callable[[], None] | None = None,
    ) -> list[str]:
        """Undo what a run that did not complete has done, and give the addresses of that, in the order of undoing.

        Every result of an actor with ``undo=`` is undone, from the newest to the oldest. That is recorded like any
        other work: stopped anywhere, it goes on when it is asked for again. The state stays as failed; ``rerun`` runs
        it anew. Raises UnknownState, OutcomeUnknown while nobody has said what became of a call, what an undo raises,
        or UsageError where the run has completed or an undo is not declared in this process.
        """
        from limpet.engine.limits import Limits
        from limpet.engine.rolling_back import roll_back

        header = self._header(state_id)
        if agent is None and header.agent is not None:
            # Whatever undoes is declared where the agent is.
            self.agent_of(header)
        limits = Limits(handles_signals=handle_signals, on_first_signal=on_first_signal)
        return await roll_back(self._writer, self._stored, header, event_bus or EventBus(), limits)

    def usage(self, state_id: str) -> UsageTotals:
        """What the model calls of a state have used, on all its timelines, and what replay has saved.

        Raises UnknownState, StateCorrupted.
        """
        history, _ = self._reader(state_id).history()
        return usage_totals(history.intact_journal(), self._header(state_id).metadata)
