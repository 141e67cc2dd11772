"""Real processes of a run, each with other delays and another hash seed, and killed with SIGKILL at random moments."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
from order import ordered_program
from order.checks import Ending, Process
from order.outside import read
from order.shapes import Shape

LONGEST_S = 60.0
"""A process that has not ended by then hangs."""


class _Told(msgspec.Struct):
    """What a process says at its end."""

    result: list[str] | None = None
    error: str = ""
    warnings: list[str] = []
    took_s: float = 0.0


class KilledLife:
    """One run over all processes that it takes."""

    def __init__(self, shape: Shape, store: str, folder: Path, chance: random.Random) -> None:
        self._shape, self._store, self._folder, self._chance = shape, store, folder, chance
        self.processes: list[Process] = []
        self.took_s = 0.0
        """How long the last process that came to its end took for the run."""

    def run(self, what: str = "run", kill_after_s: float = LONGEST_S) -> Process:
        """Run it, in one more process; kill that after so long, where it has not ended."""
        number = len(self.processes)
        with self._start(number, what) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            recorded = json.loads(process.stdout.readline() or "[]")
            try:
                process.wait(kill_after_s)
            except subprocess.TimeoutExpired:
                process.kill()
            # What it says is short, so it can wait: no pipe is full before the process ends.
            output, errors = process.stdout.read(), process.stderr.read()
        assert process.returncode in (0, -9), errors
        if process.returncode:
            error = "it hangs" if kill_after_s == LONGEST_S and what != "end" else ""
            told, ending = _Told(error=error), Ending.STOPPED
        else:
            told, ending = msgspec.json.decode(output, type=_Told), Ending.FINISHED
            self.took_s = told.took_s
        if ending is Ending.FINISHED and told.result is None:
            ending = Ending.REHEARSED if what == "rehearse" else Ending.FAILED
        ended = Process(
            entries=tuple(read(self._folder / f"{number:04}.log")),
            # A rehearsal is given everything, and so executes nothing whatever is recorded.
            recorded=frozenset(recorded),
            ending=ending,
            result=told.result,
            error=told.error,
            warnings=told.warnings,
        )
        self.processes.append(ended)
        return ended

    def _start(self, number: int, what: str) -> subprocess.Popen[str]:
        seed, hashes = self._chance.randrange(2**32), self._chance.randrange(2**32)
        arguments = [
            self._shape.program,
            self._shape.loop,
            self._store,
            str(self._folder),
            str(number),
            str(seed),
            what,
        ]
        tests = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
        return subprocess.Popen(
            [sys.executable, ordered_program.__file__, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(hashes), "PYTHONPATH": path},
        )
