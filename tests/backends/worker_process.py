"""A process that does one piece of work on a store when it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO


class Worker:
    """A process that is ready to begin. ``program`` says "ready", and then waits for a line before it works."""

    def __init__(self, program: Path, work: str, path: Path, number: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(program), work, str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert "ready" == self.said()

    @property
    def stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def said(self) -> str:
        return self.stdout.readline().strip()

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
