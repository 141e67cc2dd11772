"""A thousand real kills at random moments: no call that is declared once is ever executed twice by itself.

Whether a call was executed is told by a log outside the store. Whenever a run says that it does not know what became of
a call, it is told what stands there. So over all kills every such call is executed exactly once.
"""

from __future__ import annotations

import itertools
import json
import random
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from crash import killed_effects_program
from crash.killed_effects_program import MOST_ATTEMPTS, ONCE, expected, logged, result_of

from limpet import ExecutionStatus, Limpet, StateStatus
from limpet.codec import values

STORES = [
    "sqlite:///{}/runs.db",
    "sqlite:///{}/runs.db?synchronous=normal",
    "file://{}/store",
    "file://{}/store?synchronous=normal",
]
KILLS = 250
"""How often, on each store."""


class Server:
    """The process that forks those which are killed."""

    def __init__(self, store: str, logs: Path) -> None:
        command = [sys.executable, killed_effects_program.__file__, store, str(logs)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer


@contextmanager
def serving(store: str, logs: Path) -> Generator[Server]:
    server = Server(store, logs)
    with server.process:
        yield server
        server.process.communicate()
    assert 0 == server.process.returncode


class Life:
    """One state, from its beginning through all kills to its end."""

    def __init__(self, store: str, log: Path, chance: random.Random, run_s: float) -> None:
        self.store = store
        self.log = log
        self.state_id = log.name
        self.chance = chance
        self.run_s = run_s
        """How long a process takes that is not killed."""
        self.kills = 0
        self.words: Counter[str] = Counter()
        self.known: Counter[str] = Counter()

    def run(self, server: Server, kills_left: int) -> None:
        """Have it run and killed until it ends; when it was killed often enough, it is left in peace."""
        at = word = None
        while True:
            before = logged(self.log)
            answer = server.order(
                state_id=self.state_id,
                seed=self.chance.random(),
                kill_after_s=self._moment_s() if self.kills < kills_left else None,
                at=at,
                word=word,
            )
            self._require_nothing_again(logged(self.log) - before)
            if "result" in answer:
                break
            self.kills += "killed_by" in answer
            # The word of one that was killed may be taken or not: if it is not, the next one asks again.
            at = answer.get("unknown")
            word = None if at is None else self._the_truth(at)
        assert expected(self.state_id) == answer["result"]

    def _moment_s(self) -> float:
        """Later and later: also on a machine that has become slow it comes to its end."""
        return self.chance.random() * self.run_s * (1 + self.kills / 10)

    def _the_truth(self, address: str) -> dict[str, Any]:
        with Limpet(self.store) as limpet:
            assert StateStatus.AWAITING is limpet.show(self.state_id).header.status
            record = limpet.history(self.state_id)[address]
        assert record.input is not None
        name = values.decode(record.input)[0]
        has_happened = logged(self.log)[name] == 1
        self.words["happened" if has_happened else "again"] += 1
        return {"happened": result_of(name)} if has_happened else {"again": True}

    def _require_nothing_again(self, added: Counter[str]) -> None:
        """What was recorded before a process began was not executed by it, and everything else at most once."""
        assert set() == set(self.known) & set(added), "a recorded attempt was executed again"
        assert {1} >= set(added.values())
        found = recorded(self.store, self.state_id)
        assert self.known <= found, "an acknowledged record is gone"
        self.known = found

    def require_whole(self) -> None:
        total = logged(self.log)
        assert dict.fromkeys(ONCE, 1) == {name: total[name] for name in ONCE}
        assert set(total) == set(self.known)
        assert max(total.values()) <= 1 + self.kills
        with Limpet(self.store) as limpet:
            assert StateStatus.COMPLETED is limpet.show(self.state_id).header.status
            assert limpet.verify(self.state_id).is_sound


def recorded(store: str, state_id: str) -> Counter[str]:
    """What has an outcome in the store, by the names that are logged."""
    found: Counter[str] = Counter()
    with Limpet(store) as limpet:
        if limpet.backend.find_state(state_id) is None:
            return found
        for record in limpet.history(state_id).get_event_list():
            assert record.attempt <= MOST_ATTEMPTS
            if record.address.endswith("tool_call") and record.status in (
                ExecutionStatus.COMPLETED,
                ExecutionStatus.FAILED,
            ):
                assert record.input is not None
                name = values.decode(record.input)[0]
                found[name if name in ONCE else f"{name} at {record.attempt}"] += 1
    assert {1} >= set(found.values())
    return found


def time_of_a_run(server: Server) -> float:
    """How long a process takes that is not killed, once the server is there."""
    times: list[float] = []
    for number in range(4):
        began = time.monotonic()
        answer = server.order(state_id=f"undisturbed-{number}", seed=number, kill_after_s=None, at=None, word=None)
        times.append(time.monotonic() - began)
        assert expected(f"undisturbed-{number}") == answer["result"]
    return min(times)


@pytest.mark.parametrize("url", STORES)
def test_no_kill_makes_an_effect_happen_twice(url: str, tmp_path: Path) -> None:
    seed = secrets.randbits(64)
    try:
        kills, words = killed_again_and_again(url.format(tmp_path), tmp_path / "logs", random.Random(seed))
    except BaseException as error:
        error.add_note(f"The seed was {seed}.")
        raise
    assert KILLS <= kills
    assert words["happened"] > 0, "the kills came before the effects only, and showed nothing"
    assert words["again"] > 0, "the kills came behind the effects only, and showed little"


def killed_again_and_again(store: str, logs: Path, chance: random.Random) -> tuple[int, Counter[str]]:
    """How often processes were killed, and what was said of the calls that they were killed in."""
    logs.mkdir()
    kills = 0
    words: Counter[str] = Counter()
    with serving(store, logs) as server:
        run_s = time_of_a_run(server)
        numbers = itertools.count()
        while kills < KILLS:
            life = Life(store, logs / f"state-{next(numbers)}", chance, run_s)
            life.run(server, KILLS - kills)
            life.require_whole()
            kills += life.kills
            words += life.words
    with Limpet(store) as limpet:
        assert limpet.doctor().is_sound
    return kills, words
