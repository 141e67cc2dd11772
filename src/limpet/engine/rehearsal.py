"""What a rehearsal takes note of while the agents' code runs on recorded results, and its report."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING

from limpet.artifacts.stored_values import StoredValues
from limpet.engine.comparing import differences
from limpet.engine.drift import PACKAGE
from limpet.engine.inputs import is_same_input
from limpet.errors import LimpetError, NotRecorded
from limpet.journal.history import History
from limpet.journal.rehearsal import NOWHERE, Made, Rehearsing, Site, divergences, is_as_recorded, unreached_by
from limpet.journal.replay import drift
from limpet.model import EventRecord, ExecutionStatus, Finding, RehearsalReport, Rehearsed, fingerprint

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.scope import Scope

_MOST = 3
_IDLE_TURNS = 20
"""After so many turns of the loop in which no call was made, no other branch will make one soon."""


class Rehearsal:
    """The calls that the code makes, in order, and where it makes them."""

    def __init__(self, stored: StoredValues, history: History) -> None:
        self._stored = stored
        self._history = history
        self._made: list[Made | tuple[str, str]] = []
        """The scope and the address is enough of a call that is simply given again."""
        self._sites: dict[str, Site] = {}
        self._entered: dict[str, Site] = {}
        self._ended: set[str] = set()
        self._is_all_reused = True
        self._is_stopped = False
        self.error: str | None = None
        """What the code failed of, where the recorded run had not."""

    def note_site(self, address: str) -> None:
        """Take note of the line of the user's code that is making a call."""
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # the only way to the caller that costs little
        while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
            frame = frame.f_back
        self._sites[address] = (frame.f_code.co_filename, frame.f_lineno)

    def is_orchestration(self, call: Call) -> bool:
        """Whether it is an agent inside which something is recorded, so that its code is run."""
        return call.actor.is_agent and call.address in self._history.started

    def reuse(self, scope: Scope, record: EventRecord) -> bool:
        """Take note of a call that is given as it is recorded; False where its code is to be run instead."""
        if record.address in self._history.started and record.address.endswith("agent_call"):
            return False
        self._made.append((scope.prefix, record.address))
        return True

    def given(self, scope: Scope, call: Call, record: EventRecord, encoded: bytes) -> None:
        """Take note of a call that is recorded, and of what has drifted of it."""
        has_other_input, what = self._drift(call, record, encoded)
        if what is None:
            finding = Finding.REUSED
        else:
            self._is_all_reused = False
            finding = Finding.INPUT_DRIFTED if has_other_input else Finding.VERSION_CHANGED
        detail = self._shown_input(call, record) if has_other_input else what
        self._made.append(Made(scope.prefix, call.address, finding, detail or what or ""))

    def _shown_input(self, call: Call, record: EventRecord) -> str:
        """Where an input differs from the recorded one, if that can be told."""
        if record.input is None:
            return ""
        try:
            recorded = self._stored.decode(record.input)
        except LimpetError:
            return ""
        found = differences(recorded, call.actor.input_of(call.inputs, call.kwargs), "input", most=_MOST)
        return "; ".join(str(each) for each in found)

    def _drift(self, call: Call, record: EventRecord, encoded: bytes) -> tuple[bool, str | None]:
        now = (
            b""
            if is_same_input(self._stored, call.actor, record, encoded, (call.inputs, call.kwargs))
            else fingerprint(encoded)
        )
        has_other_input = bool(now) and now != record.input_fingerprint
        return has_other_input, drift(record, call.actor.version, now)

    def entering(self, call: Call) -> None:
        """Take note that the code of an agent is run."""
        function = call.actor.function
        while isinstance(function, partial):
            function = function.func
        self._entered[call.path] = _end_of(getattr(function, "__code__", None))

    def ended(self, call: Call) -> None:
        """Take note that the code of an agent has come to its end."""
        self._ended.add(call.path)

    def failed(self, what: str) -> None:
        """Take note of what code failed of that had not failed when it was recorded.

        Behind a call without an outcome it fails because of that, whatever a task group or its own code made of it.
        """
        if self.error is None and not self._is_stopped:
            self.error = what

    def note_missing(self, scope: Scope, call: Call) -> None:
        """Take note of a call that has no recorded outcome, and behind which the code goes on all the same."""
        self._is_all_reused = False
        self._made.append(Made(scope.prefix, call.address, Finding.MISSING))

    async def missing(self, scope: Scope, call: Call) -> NotRecorded:
        """Take note of a call that has no recorded outcome, and give the error for it.

        Not before the branches beside it have come as far as they can: the error may end them.
        """
        self._is_all_reused = False
        self._is_stopped = True
        self._made.append(Made(scope.prefix, call.address, Finding.MISSING))
        idle, seen = 0, len(self._made)
        while idle < _IDLE_TURNS:
            await asyncio.sleep(0)
            idle = idle + 1 if seen == len(self._made) else 0
            seen = len(self._made)
        return NotRecorded(call.address, self._history.state_id)

    def report(self, has_ended: bool) -> RehearsalReport:
        """What was found so far. A run that has not ended goes on with calls that are not recorded."""
        latest = self._history.latest
        if self.error is None and self._is_all_reused and is_as_recorded(self._calls(), latest):
            calls = tuple(self._reused(address) for _, address in self._calls())
            return RehearsalReport(state_id=self._history.state_id, calls=calls, divergences=())
        made = [Made(*each, Finding.REUSED) if isinstance(each, tuple) else each for each in self._made]
        settled = {address: record for address, record in latest.items() if record.status in _SETTLED}
        cut_off = latest.keys() - settled.keys()
        unreached = unreached_by(made, settled, self._entered, cut_off)
        missing = next((call for call in made if call.finding is Finding.MISSING), None)
        over = Rehearsing(
            made=made,
            recorded=settled,
            cut_off=cut_off,
            starts={record.order for record in self._history.events()},
            sites=self._sites,
            entered=self._entered,
            # Code that no agent encloses has ended when somebody asks, unless it was stopped.
            ended=self._ended | {""} if missing is None else self._ended,
            has_ended=has_ended,
        )
        return RehearsalReport(
            state_id=self._history.state_id,
            calls=(
                *(self._rehearsed(call) for call in made),
                *(Rehearsed(record.address, Finding.UNREACHED) for record in unreached),
            ),
            divergences=tuple(divergences(over, unreached)),
            goes_on_at=None if missing is None else self._rehearsed(missing),
            error=self.error,
        )

    def _calls(self) -> Iterator[tuple[str, str]]:
        return (each if isinstance(each, tuple) else (each.prefix, each.address) for each in self._made)

    def _reused(self, address: str) -> Rehearsed:
        return Rehearsed(address, Finding.REUSED, "", *self._sites.get(address, NOWHERE))

    def _rehearsed(self, call: Made) -> Rehearsed:
        return Rehearsed(call.address, call.finding, call.detail, *self._sites.get(call.address, NOWHERE))


def _end_of(code: CodeType | None) -> Site:
    """The last line of a function: what it no longer calls at its end is missed there."""
    if code is None:
        return NOWHERE
    return code.co_filename, max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)


_SETTLED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
