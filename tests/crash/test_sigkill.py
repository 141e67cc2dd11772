"""Real processes, really killed, at random moments; executions are counted by a log outside the store."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from crash import killed_program

from limpet import EventRecord, ExecutionStatus
from limpet.codec import values

KILLS = {
    "sqlite:///{}/runs.db": 60,
    "sqlite:///{}/runs.db?synchronous=normal": 60,
    "file://{}/store": 100,
    "file://{}/store?synchronous=normal": 100,
    "packed://{}/store": 100,
}
"""How often, on each store."""


def recorded_names(store: str) -> set[str]:
    with killed_program.opened(store) as limpet:
        if limpet.backend.find_state("killed") is None:
            return set()
        return {
            ".".join(map(str, values.decode(record.input)))
            for record in limpet.history("killed")
            if isinstance(record, EventRecord)
            and record.status is ExecutionStatus.COMPLETED
            and "::link" in record.address
            and record.input is not None
        }


def executions(log: Path) -> Counter[str]:
    return Counter(log.read_text().split()) if log.exists() else Counter()


def start(store: str, log: Path) -> subprocess.Popen[str]:
    command = [sys.executable, killed_program.__file__, store, str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_or_done(process: subprocess.Popen[str], after_s: float) -> str | None:
    """What the process printed at its end, or None if it was killed before."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert "ready\n" == process.stdout.readline()
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()
        output, errors = process.stdout.read(), process.stderr.read()
    assert process.returncode in (0, -9), errors
    return output if process.returncode == 0 else None


def require_nothing_left_behind(folder: Path) -> None:
    """After a start, nothing of what a killed process was writing is left. The store is open nowhere."""
    assert [] == list(folder.glob("store/tmp/*")), "what a dead process was writing is still there"
    assert [] == list(folder.glob("store/artifacts/tmp/*"))


@pytest.mark.parametrize("url", KILLS)
def test_no_kill_loses_or_repeats_a_recorded_call_or_changes_the_result(url: str, tmp_path: Path) -> None:
    kills = in_flight = 0
    most = KILLS[url]
    for number in range(most):
        folder = tmp_path / str(number)
        folder.mkdir()
        store = url.format(folder)
        log = tmp_path / f"{number}.log"
        output = None
        kills_of_this_state = 0
        known: set[str] = set()
        while output is None:
            recorded = recorded_names(store)
            assert known <= recorded, "an acknowledged record is gone"
            known = recorded
            require_nothing_left_behind(folder)
            before = executions(log)
            output = killed_or_done(start(store, log), random.random() * 0.12 if kills < most else 60.0)
            added = executions(log) - before
            assert set() == recorded & set(added), "a recorded call was executed again"
            assert all(1 == count for count in added.values())
            kills += output is None
            kills_of_this_state += output is None
        assert killed_program.expected(5) == json.loads(output)
        total = executions(log)
        assert max(total.values()) <= 1 + kills_of_this_state
        in_flight += sum(total.values()) - len(total)
        with killed_program.opened(store) as limpet:
            assert limpet.doctor().is_sound
        if kills >= most:
            break
    assert kills >= most
    assert in_flight > 0, "the kills came between the calls only, and showed nothing"
