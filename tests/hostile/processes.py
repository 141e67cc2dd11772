"""Starts the process that reads hostile inputs under watch, and tells what it read where it dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import msgspec
from hostile.watch import last_input_of

T = TypeVar("T")


def watched(answer_type: type[T], folder: Path, what: str, *arguments: object) -> T:
    """What ``decoding_program`` answers. ``folder`` is for its own use."""
    return answered(answer_type, folder, "hostile.decoding_program", what, folder / "last input", *arguments)


def answered(answer_type: type[T], folder: Path, program: str, *arguments: object, timeout_s: float = 300) -> T:
    """What a program answers. In ``folder`` it may note under ``last input`` what it is reading."""
    last_input = folder / "last input"
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-m", program, *map(str, arguments)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s)
    if answer.returncode != 0:
        read = last_input_of(last_input)[:10_000].hex() if last_input.exists() else "nothing"
        raise AssertionError(f"{answer.stderr[-3000:]}\nIt ended with {answer.returncode} while it read {read}")
    return msgspec.json.decode(answer.stdout, type=answer_type)
