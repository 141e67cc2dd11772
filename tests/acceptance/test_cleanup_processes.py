"""A cleanup beside processes that run states: what they run stays, and what goes is gone wholly."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from acceptance import cleaned_program
from acceptance.cleaned_program import climb

from limpet import Limpet, Retention, StateMetadata, StateStatus

OLD = 120
NEW = 25


@pytest.mark.parametrize("url", ["sqlite:///{}/runs.db?synchronous=normal", "file://{}/store?synchronous=normal"])
def test_what_others_run_stays_and_what_is_deleted_is_gone_wholly(url: str, tmp_path: Path) -> None:
    store = url.format(tmp_path)
    with Limpet(store) as limpet:
        for number in range(OLD):
            limpet.run_sync(climb, 3, state_id=f"old-{number}", metadata=StateMetadata(tags=["old"]))
    processes = [
        subprocess.Popen(
            [sys.executable, cleaned_program.__file__, store, name, str(number * NEW), str(NEW)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, name in enumerate(("left", "right"))
    ]
    for process in processes:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    removed: set[str] = set()
    with Limpet(store) as limpet:
        while any(process.poll() is None for process in processes):
            done = limpet.cleanup(Retention(max_age=timedelta(0), tags=("old",)))
            removed |= {each.state_id for each in done.removed}
        for process in processes:
            output, errors = process.communicate()
            assert (0, "") == (process.returncode, output), errors
        limpet.cleanup(Retention(max_age=timedelta(0), tags=("old",)))
        left = {header.state_id: header.status for header in limpet.list_states(limit=1000)}
        assert {f"{name}-{number}" for name in ("left", "right") for number in range(NEW)} == set(left)
        assert {StateStatus.COMPLETED} == set(left.values())
        assert all(limpet.verify(state_id).is_sound for state_id in left)
        assert limpet.doctor().is_sound
    assert {f"old-{number}" for number in range(2 * NEW, OLD)} <= removed
