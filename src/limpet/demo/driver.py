"""Runs the pipeline in processes of its own, kills one with SIGKILL, and compares the bills.

What the pipeline prints comes from the command line itself, in another process; here is only the story around it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from limpet.client import Limpet
from limpet.config import STORE_VARIABLE
from limpet.demo.pipeline import FOLDER_VARIABLE, bill_in, research, standing_in, stop_in

STATE_ID = "kelp-42"
UNDISTURBED_ID = "kelp-undisturbed"
TOPIC = "giant kelp"
KILL_AFTER_CALLS = 4
LONGEST_WAIT_S = 60.0
LOOK_AGAIN_S = 0.02


class Place(msgspec.Struct, frozen=True):
    """The folder that all of it happens in."""

    folder: Path

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder / 'runs.db'}"

    def bill_folder(self, state_id: str) -> Path:
        return self.folder / state_id

    def bill(self, state_id: str) -> list[str]:
        """The calls that the model was asked for, in order."""
        bill = bill_in(self.bill_folder(state_id))
        return bill.read_text().splitlines() if bill.exists() else []

    def result(self, state_id: str) -> Any:
        with Limpet(self.store) as client:
            return client.history(state_id).get_event_result(f"{research.name}::agent_call")


def run_demo(*, is_kept: bool = False) -> bool:
    """Show it; False if the killed run did not end as the undisturbed one did."""
    place = Place(Path(tempfile.mkdtemp(prefix="limpet-demo-")).resolve())
    try:
        return _show(place)
    finally:
        if is_kept:
            _say("")
            _say(f"Kept in {place.folder}. Look into it with:")
            _say(f"  limpet show {STATE_ID} --store {place.store}")
        else:
            shutil.rmtree(place.folder)


def _show(place: Place) -> bool:
    _title("A research pipeline, a scripted model, and a bill: a plain file with a line for every model call.")
    undisturbed = _start(place, UNDISTURBED_ID, is_shown=False)
    try:
        killed, calls = _run_and_kill(place)
        _title(f"Process {killed.pid} was killed with SIGKILL after {calls} model calls.", "red")
        _say("The same line again, in a new process:")
        again = _start(place, STATE_ID)
        _wait_for(again)
        _wait_for(undisturbed)
    finally:
        _kill(undisturbed)
    is_same = place.result(STATE_ID) == place.result(UNDISTURBED_ID) is not None
    bills = place.bill(UNDISTURBED_ID), place.bill(STATE_ID)
    is_right = is_same and bills[0] == bills[1] and killed.returncode == -signal.SIGKILL and again.returncode == 0
    _say_bill(bills, calls, is_same)
    _title("Nothing was lost, and nothing was paid for twice." if is_right else "This is not as it should be.")
    return is_right


def _run_and_kill(place: Place) -> tuple[subprocess.Popen[bytes], int]:
    """Run until the pipeline stands still, and kill it; gives its process, and how many calls are on the bill."""
    folder = place.bill_folder(STATE_ID)
    folder.mkdir()
    stop_in(folder).write_text(str(KILL_AFTER_CALLS))
    process = _start(place, STATE_ID)
    try:
        deadline = time.monotonic() + LONGEST_WAIT_S
        while not standing_in(folder).exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN_S)
    finally:
        _kill(process)
    stop_in(folder).unlink()
    return process, len(place.bill(STATE_ID))


def _start(place: Place, state_id: str, *, is_shown: bool = True) -> subprocess.Popen[bytes]:
    """Start ``limpet run`` in a process, and a process group, of its own."""
    folder = place.bill_folder(state_id)
    folder.mkdir(exist_ok=True)
    line = ["run", "limpet.demo.pipeline:research", f"topic={TOPIC}", "--id", state_id, "--verbose"]
    if is_shown:
        _say(click.style(f"$ limpet {shlex.join(line)}", bold=True))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "limpet.cli.main", *line],
        env={**os.environ, STORE_VARIABLE: place.store, FOLDER_VARIABLE: str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=None if is_shown else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(LONGEST_WAIT_S)
    finally:
        _kill(process)


def _say_bill(bills: tuple[list[str], list[str]], calls_before: int, is_same: bool) -> None:
    undisturbed, killed = map(len, bills)
    rows = [
        ("", "undisturbed", "killed"),
        ("processes", "1", "2"),
        ("model calls before the kill", "", str(calls_before)),
        ("model calls after it", "", str(killed - calls_before)),
        ("model calls on the bill", str(undisturbed), str(killed)),
        ("result", "", "the same" if is_same else "DIFFERENT"),
    ]
    _say("")
    for number, (what, one, other) in enumerate(rows):
        line = f"  {what:<28}{one:>12}{other:>12}"
        _say(click.style(line, bold=True) if number in (0, 4) else line)


def _title(text: str, colour: str = "cyan") -> None:
    _say("")
    _say(click.style(text, fg=colour))
    _say("")


def _say(line: str) -> None:
    # Flushed, so that it stands before what the next process prints.
    click.echo(line, color=False if os.environ.get("NO_COLOR") else None)
    sys.stdout.flush()
