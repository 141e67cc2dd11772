"""Taking up an unfinished run whose events are all recorded, against DBOS recovering such a workflow.

Both were killed with SIGKILL before they could return. Ours is timed as a whole, with the claim, the reading of the
journal and the last commit; of theirs only the part from the first recorded step to the last.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trials
from findings import Finding, at_least, rate

ROUNDS = 9
EVENTS = 5000
STEPS = 1000


def measure() -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="bench-killed-") as folder:
        stores = {
            "ours": _killed(folder, ("holdfast_runs", "begin"), EVENTS),
            "plain": _killed(folder, ("peer_dbos", "begin", "plain"), STEPS),
            "async": _killed(folder, ("peer_dbos", "begin", "async"), STEPS),
        }
        rates: dict[str, list[float]] = {name: [] for name in stores}
        for _ in range(ROUNDS):
            for name, store in stores.items():
                script, events = ("holdfast_runs", EVENTS) if name == "ours" else ("peer_dbos", STEPS)
                with _copy(store) as path:
                    rates[name].append(trials.ask((script, "go_on", path, str(events)))["rate"])
                trials.say(".")
    peer = [max(pair) for pair in zip(rates["plain"], rates["async"], strict=True)]
    return [at_least("replay / DBOS", 80, rates["ours"], peer, f"{rate(rates['ours'])} to {rate(peer)}")]


def _killed(folder: str, contender: trials.Contender, events: int) -> Path:
    """A store in which a process was killed."""
    script, *arguments = contender
    path = Path(folder) / "-".join(contender) / "store.db"
    path.parent.mkdir()
    command = [sys.executable, str(trials.HERE / f"{script}.py"), *arguments, str(path), str(events)]
    done = subprocess.run(command, env=trials.environment(), capture_output=True, text=True)
    if done.returncode >= 0:
        raise trials.ContenderFailed(f"{' '.join(contender)} was not killed:\n{done.stderr[-4000:]}")
    trials.say(".")
    return path


@contextmanager
def _copy(store: Path) -> Iterator[str]:
    """A copy of a store with all its files, so that every round takes up the same run."""
    with tempfile.TemporaryDirectory(prefix="bench-copy-", ignore_cleanup_errors=True) as folder:
        shutil.copytree(store.parent, folder, dirs_exist_ok=True)
        for file in Path(folder).iterdir():
            # Otherwise the first commit of the round would have to bring the whole copy to the disk.
            with file.open("rb+") as copied:
                os.fsync(copied.fileno())
        yield str(Path(folder) / store.name)
