"""No two processes write one state, the dead are taken over from at once, and the late are stopped."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from acceptance import leasing_program
from acceptance.leasing_program import leasing

from limpet import LeaseHeld, Limpet, StateStatus, agent


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


@contextmanager
def inside(store: str, ttl_s: float) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the middle of the run."""
    command = [sys.executable, leasing_program.__file__, store, str(ttl_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert "inside\n" == process.stdout.readline()
            yield process
        finally:
            process.kill()


def let_go(process: subprocess.Popen[str]) -> str:
    """Let the process go on, and give what it says at its end."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("went on\n")
    process.stdin.flush()
    return process.stdout.read()


def test_a_second_process_gets_a_clear_error_at_once(store: str) -> None:
    with inside(store, ttl_s=30) as process, Limpet(store) as limpet:
        with pytest.raises(LeaseHeld, match=f"'leased' is being run by process {process.pid} on .*wait_s") as caught:
            limpet.run_sync(leasing, state_id="leased")
        assert 0 < caught.value.expires_in_s <= 30
        with pytest.raises(LeaseHeld):
            limpet.delete("leased")
        assert "['begun', 'went on', 'ended']\n" == let_go(process)
        assert ["begun", "went on", "ended"] == limpet.run_sync(leasing, state_id="leased")


def test_a_second_process_that_waits_gets_the_result_of_the_first(store: str) -> None:
    async def wait_and_let_go(process: subprocess.Popen[str], limpet: Limpet) -> list[str]:
        waiting = asyncio.create_task(limpet.run(leasing, state_id="leased", wait_s=60))
        await asyncio.to_thread(let_go, process)
        return await waiting

    with inside(store, ttl_s=30) as process, Limpet(store) as limpet:
        assert ["begun", "went on", "ended"] == asyncio.run(wait_and_let_go(process, limpet))


def test_a_killed_process_is_taken_over_from_without_waiting(store: str) -> None:
    with inside(store, ttl_s=3600) as process, Limpet(store) as limpet:
        process.kill()
        process.wait()
        assert StateStatus.RUNNING is limpet.list_states()[0].status
        assert ["begun", "elsewhere", "ended"] == limpet.run_sync(leasing, state_id="leased")


def test_a_killed_process_is_taken_over_from_even_before_it_is_reaped(store: str) -> None:
    with inside(store, ttl_s=3600) as process, Limpet(store) as limpet:
        process.kill()
        assert process.stdout is not None
        process.stdout.read()  # The pipe ends when it is dead; it stays a zombie until it is waited for.
        assert ["begun", "elsewhere", "ended"] == asyncio.run(limpet.run(leasing, state_id="leased", wait_s=10))


def test_a_process_paused_past_its_lease_cannot_write_any_more_and_says_why(store: str) -> None:
    with inside(store, ttl_s=0.5) as process, Limpet(store, lease_ttl_s=0.5) as limpet:
        process.send_signal(signal.SIGSTOP)
        result = asyncio.run(limpet.run(leasing, state_id="leased", wait_s=60))
        assert ["begun", "elsewhere", "ended"] == result
        position = limpet.list_states()[0].position
        process.send_signal(signal.SIGCONT)
        said = let_go(process)
        assert said.startswith("LeaseLost: This process may no longer write state 'leased'")
        assert "another process took the state up" in said
        assert 4 == process.wait()
        assert position == limpet.list_states()[0].position
        assert result == limpet.run_sync(leasing, state_id="leased")


def test_a_process_keeps_its_lease_alive_while_it_works(store: str) -> None:
    with inside(store, ttl_s=1.0) as process, Limpet(store) as limpet:
        with pytest.raises(LeaseHeld):
            asyncio.run(limpet.run(leasing, state_id="leased", wait_s=3.0))
        assert "['begun', 'went on', 'ended']\n" == let_go(process)


def test_one_process_does_not_run_a_state_twice_at_once(store: str) -> None:
    with Limpet(store) as limpet:

        @agent
        async def twice() -> str:
            with pytest.raises(LeaseHeld, match="another run in this process"):
                await limpet.run(twice, state_id="twice")
            return "once"

        assert "once" == limpet.run_sync(twice, state_id="twice")


def test_a_state_is_resumed_by_the_file_that_its_script_was(store: str, tmp_path: Path) -> None:
    with inside(store, ttl_s=30) as process:
        process.kill()
        process.wait()
    code = (
        "import asyncio, sys; from limpet import Limpet; "
        "print(asyncio.run(Limpet(sys.argv[1], modules=sys.argv[2:]).resume('leased')))"
    )
    script = str(Path(__file__).with_name("leasing_program.py"))
    resumed = subprocess.run([sys.executable, "-c", code, store, script], capture_output=True, text=True, cwd=tmp_path)
    assert ("['begun', 'elsewhere', 'ended']\n", "") == (resumed.stdout, resumed.stderr)
