"""Runs contenders in turn, each in a fresh process and an empty folder, and keeps what they answer.

A contender is a function of a script in this folder that gives a dict of numbers. Contenders of one measurement take
turns (A, B, A, B, …), so that a machine that is slow for a while is slow for all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

Answer = dict[str, float]
Contender = tuple[str, ...]
"""The name of the script, the name of its function, and the function's arguments as text."""


class ContenderFailed(Exception):
    """A contender ended with an error; its own words are the message."""


def environment() -> dict[str, str]:
    """What contenders run with: bytecode caches are allowed, as they are wherever a program is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if path := kept.get("PYTHONPATH"):
        # Contenders run in another folder.
        kept["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    return kept


def ask(contender: Contender) -> Answer:
    """Run a contender once and give its answer. Raises ContenderFailed."""
    script, *arguments = contender
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, str(HERE / f"{script}.py"), *arguments]
        done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise ContenderFailed(f"{' '.join(contender)} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return json.loads(lines[-1])


def take_turns(
    rounds: int, contenders: Mapping[str, Contender], stores: Mapping[str, Path] | None = None
) -> dict[str, list[Answer]]:
    """The answers of each contender, round by round.

    ``stores`` names those that go on from a store which was made beforehand: in every round each gets a copy of it, and
    the copy's path as the first argument of its function.
    """
    answers: dict[str, list[Answer]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            if stores is None or name not in stores:
                answers[name].append(ask(contender))
            else:
                script, function, *arguments = contender
                with _copy(stores[name]) as path:
                    answers[name].append(ask((script, function, path, *arguments)))
            say(".")
    return answers


@contextmanager
def _copy(store: Path) -> Iterator[str]:
    """A copy of a store with all the files beside it."""
    with tempfile.TemporaryDirectory(prefix="bench-copy-", ignore_cleanup_errors=True) as folder:
        shutil.copytree(store.parent, folder, dirs_exist_ok=True)
        for file in Path(folder).iterdir():
            # Otherwise the first commit of the round would have to bring the whole copy to the disk.
            with file.open("rb+") as copied:
                os.fsync(copied.fileno())
        yield str(Path(folder) / store.name)


def say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, end="", file=sys.stderr, flush=True)


def answer(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Be a contender: call the function that the command line names and print what it gives."""
    _, name, *arguments = sys.argv
    print(json.dumps(functions[name](*arguments)), flush=True)
