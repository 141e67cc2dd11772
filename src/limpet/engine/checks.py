"""Holding stored runs against the code as it is now: each run again, in a mode in which nothing is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

from limpet.codec import frames
from limpet.engine.actors import HandlerActor
from limpet.engine.branches import branching
from limpet.engine.call import Call
from limpet.engine.live import LiveState
from limpet.engine.perform import perform_call
from limpet.engine.run import Run
from limpet.engine.state import ExecutionState
from limpet.engine.thread_hooks import ThreadHooks
from limpet.engine.validation import ValidationReport
from limpet.engine.writer import Writer
from limpet.errors import LimpetError, NotRecorded, ValueNotStorable
from limpet.journal.history import History
from limpet.model import RehearsalReport, ReplayMode, StateHeader, StateStatus

Report = ValidationReport | RehearsalReport


async def check_run(writer: Writer, run: Run, header: StateHeader, history: History, mode: ReplayMode) -> Report:
    """Run a stored run again and report. What its code raises is in the report; what Limpet refuses is raised."""
    live = LiveState(
        writer=writer,
        stored=run.stored,
        header=header,
        history=history,
        link=frames.first_link(header.state_id),
        bus=run.bus,
        mode=mode,
    )
    ExecutionState.around(live)
    loop = asyncio.get_running_loop()
    live.loop = loop
    args = (*run.args, None, live.facade) if isinstance(run.actor, HandlerActor) else run.args
    call = Call(run.actor, live.top.take(run.actor.label), args, run.kwargs, run.args)
    try:
        with branching(live), ThreadHooks(live.threads):
            await perform_call(live.top, call)
    except (NotRecorded, ValueNotStorable):
        pass  # The report has it.
    except LimpetError:
        raise
    except Exception as error:
        _note_failure(live, error)
    return report_of(live)


def _note_failure(live: LiveState, error: Exception) -> None:
    """A failure of the code is in the report of a validation; in a rehearsal it counts where the run had not failed."""
    if live.rehearsal is not None and live.header.status is StateStatus.COMPLETED:
        live.rehearsal.failed(f"{type(error).__name__}: {error}")


def report_of(live: LiveState) -> Any:
    """What a validation or a rehearsal has found so far."""
    if live.rehearsal is not None:
        return live.rehearsal.report(has_ended=live.header.status is StateStatus.COMPLETED)
    return live.validation
