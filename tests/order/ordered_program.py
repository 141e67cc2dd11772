"""One real process of a run: ``python ordered_program.py PROGRAM LOOP STORE FOLDER NUMBER SEED run|end|rehearse``.

It logs to FOLDER. As lines of JSON it prints what is recorded, when the run is about to begin, and then what became of
it. With ``end`` it is killed when all has been done and only the end is yet to be written, so that the next process
finds nothing to execute.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from order.loops import Loop, new_loop
from order.outside import FileLog, enter
from order.recorded import recorded_names
from order.shapes import agent_of

from limpet import Append, BackendError, DriftWarning, Limpet, StateBackend, StateStatus, open_store
from limpet.testing import CrashingBackend

STATE = "order"


class KilledAtTheEnd(CrashingBackend):
    """The process dies when it is about to write that the run has ended."""

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        if any(each.update is not None and each.update.status is StateStatus.COMPLETED for each in appends):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().append(appends)


async def work(client: Limpet, program: str, what: str) -> dict[str, object]:
    if what == "rehearse":
        report = (await client.rehearse(STATE))[STATE]
        return {"error": "" if report.is_ok else str(report)}
    return {"result": await client.run(agent_of(program), state_id=STATE)}


def perform(program: str, loop: Loop, backend: StateBackend, what: str) -> dict[str, object]:
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, asyncio.Runner(loop_factory=lambda: new_loop(loop)) as runner:
        warnings.simplefilter("always")
        try:
            told = runner.run(work(Limpet(backend), program, what))
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
    drift = [str(warning.message) for warning in caught if issubclass(warning.category, DriftWarning)]
    return {**told, "warnings": drift, "took_s": time.perf_counter() - began}


def main() -> None:
    program, loop, store, folder, number, seed, what = sys.argv[1:]
    # What becomes of tasks that a program leaves behind is no error of it.
    logging.disable()
    agent_of(program)
    enter(FileLog(Path(folder), int(number)), int(seed))
    backend = open_store(store)
    recorded = sorted(recorded_names(Limpet(backend), STATE))
    print(json.dumps(recorded), flush=True)
    end = perform(program, Loop(loop), KilledAtTheEnd(backend) if what == "end" else backend, what)
    print(json.dumps(end), flush=True)


if __name__ == "__main__":
    main()
