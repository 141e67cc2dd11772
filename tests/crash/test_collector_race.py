"""A writer and a collector on one store, two real processes for half a minute: nothing that is named is ever lost."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from crash import racing_program

from limpet import Limpet
from limpet.journal.reachable import named_by

SECONDS = 30


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, racing_program.__file__, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_no_named_artifact_is_lost_and_all_others_are_gone_at_the_end(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}?synchronous=normal"
    Limpet(store).close()
    with start("collector", store) as collector, start("writer", store, str(SECONDS)) as writer:
        written, errors = writer.communicate(timeout=SECONDS + 60)
        assert 0 == writer.returncode, errors
        collected, errors = collector.communicate(timeout=60)
        assert 0 == collector.returncode, errors
    did = json.loads(written) | {f"collector {key}": count for key, count in json.loads(collected).items()}
    assert min(did.values()) > 20, f"one side had hardly anything to do: {did}"
    with Limpet(store) as client:
        client.collect(grace=timedelta(0))
        named: set[str] = set()
        for header in client.list_states():
            history = client.history(header.state_id)
            named |= named_by(iter(history))
            assert all(history.get_event_result(address) is not None for address in history.addresses())
        assert client.artifacts is not None
        assert named == {info.artifact_id for info in client.artifacts.list_artifacts(limit=1000)}
        assert named
