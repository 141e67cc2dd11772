"""The verbs that hold stored runs against the code as it is now, and record nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from limpet.client.running import Running
from limpet.engine.actors import Actor
from limpet.engine.checked import Checked, Report
from limpet.engine.checks import check_run
from limpet.engine.progress import Told
from limpet.engine.reading import JournalReader
from limpet.errors import LimpetError, UsageError
from limpet.model import NotChecked, ReplayMode, StateHeader

_ALL = 1 << 62


class Checking(Running):
    """``validate`` and ``rehearse``."""

    async def validate(
        self,
        states: str | StateHeader | Iterable[str | StateHeader] | None = None,
        *,
        agent: Actor[..., Any] | None = None,
        mode: ReplayMode | str = ReplayMode.VALIDATION,
        on_progress: Told | None = None,
    ) -> Checked:
        """Execute stored runs again and compare with what is recorded; nothing is recorded, and no lease is taken.

        Tools and models are really called, so their effects happen again, but for what is declared ``once``, which is
        given as it is recorded: ``rehearse`` is the one without effects. What is compared follows the determinism of
        each actor. ``states`` is an id, some ids or headers, or None for all states of the store. The report has
        ``.mismatches``, each with its address and the differing places, and ``.exit_code``. Of several states one that
        cannot be checked is in the report; of one alone it is raised: UnknownState, AgentNotFound, UsageError for a
        state of the explicit form.
        """
        mode = ReplayMode(mode)
        if mode not in (ReplayMode.VALIDATION, ReplayMode.REHEARSAL):
            raise UsageError(f"A state is not checked in the mode {mode}.", "Use 'validation' or 'rehearsal'.")
        if isinstance(states, str | StateHeader):
            header = self._header(states) if isinstance(states, str) else states
            return Checked(mode, {header.state_id: await self._check(header, agent, mode)})
        chosen = self.backend.list_states(limit=_ALL) if states is None else list(states)
        reports: dict[str, Report] = {}
        for done, state in enumerate(chosen, 1):
            state_id = state if isinstance(state, str) else state.state_id
            try:
                header = self._header(state) if isinstance(state, str) else state
                reports[state_id] = await self._check(header, agent, mode)
            except LimpetError as error:
                reports[state_id] = NotChecked(state_id, str(error))
            except SystemExit as left:
                reports[state_id] = NotChecked(state_id, f"Its code called sys.exit({left.code!r}).")
            if on_progress is not None:
                on_progress(done, len(chosen), state_id)
        return Checked(mode, reports)

    async def rehearse(
        self,
        states: str | StateHeader | Iterable[str | StateHeader] | None = None,
        *,
        agent: Actor[..., Any] | None = None,
        on_progress: Told | None = None,
    ) -> Checked:
        """Run the agents' code of stored runs on recorded results, with no effects, and report where it has drifted.

        The question before a deployment: which stored runs would still go through? For each state there is a report of
        every call (reused, input drifted, version changed, missing, unreached, moved), with the file and the line of
        the first divergence. As ``validate`` otherwise.
        """
        return await self.validate(states, agent=agent, mode=ReplayMode.REHEARSAL, on_progress=on_progress)

    async def _check(self, header: StateHeader, agent: Actor[..., Any] | None, mode: ReplayMode) -> Report:
        reader = JournalReader(self.backend, self._stored, header)
        history, _ = reader.history()
        run = await self._recorded_run(header, agent, first=history.first_event())
        return await check_run(self._writer, run, header, history, mode)
