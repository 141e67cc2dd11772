"""Stopping runs on the command line: by a signal, from another process, by a limit; and what is told of retries."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from limpet.cli.main import commands

T = TypeVar("T")

PIPELINE = """
import asyncio
import time
from pathlib import Path

from limpet import LLMResult, RetryConfig, agent, llm, tool


@tool
async def work(name):
    print("working", name, flush=True)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return name


@agent
async def works():
    return [await work("a"), await work("b")]


@agent
async def endless():
    number = 0
    while True:
        await work(number)
        await asyncio.sleep(0.01)
        number += 1


@tool
def plain_work():
    print("working", flush=True)
    while not Path("go").exists():
        time.sleep(0.01)


@agent
async def works_plainly():
    await plain_work()


@llm
async def think(thought):
    return LLMResult(thought, 100, "some-model", 0.5)


@agent
async def thinks(thoughts: list):
    return [(await think(thought)).content for thought in thoughts]


@agent
async def waits():
    await think("a")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "went"


def refused() -> bool:
    count = int(Path("refused").read_text()) if Path("refused").exists() else 0
    Path("refused").write_text(str(count + 1))
    return not Path("open").exists() and count < 2


@tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0.1, jitter=False))
async def knock():
    if refused():
        raise ConnectionError("refused\\nby the host")
    return "open"


@tool(retry_config=RetryConfig(max_attempts=3, initial_delay=3600, max_delay=3600, jitter=False))
async def knock_patiently():
    if refused():
        raise ConnectionError("refused")
    return "open"


@tool(retry_config=RetryConfig(max_attempts=2, initial_delay=0))
async def fails():
    raise ConnectionError("for good")


@agent
async def knocks():
    return await knock()


@agent
async def knocks_patiently():
    return await knock_patiently()


@agent
async def fails_twice():
    await fails()


@agent
async def cancels_itself():
    raise asyncio.CancelledError
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with the pipeline in it; what is imported from there is forgotten again."""
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LIMPET_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def limpet(*arguments: str) -> Result:
    """What the command says; anything but an exit is a failure of the test."""
    result = CliRunner().invoke(commands, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def done(*arguments: str) -> Result:
    result = limpet(*arguments)
    assert 0 == result.exit_code, result.output
    return result


def json_of(result: Result) -> Any:
    return json.loads(result.stdout)


def shown(state_id: str = "x") -> Any:
    return json_of(done("show", state_id, "--json"))


def statuses(state_id: str = "x") -> dict[str, str]:
    return {event["address"]: event["status"] for event in shown(state_id)["events"]}


@contextmanager
def started(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """The command in a process of its own, which does not outlive the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "limpet.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def working(agent: str, *options: str) -> Generator[subprocess.Popen[str]]:
    """The command in a process of its own, once its first tool is at work."""
    with started("run", f"pipeline:{agent}", "--id", "x", *options) as process:
        printed = process.stderr if "--json" in options else process.stdout
        assert printed is not None
        assert any(line.startswith("working") for line in printed)
        yield process


def until(condition: Callable[[], T]) -> T:
    """What the condition gives, once it is true."""
    for _ in range(600):
        if found := condition():
            return found
        threading.Event().wait(0.05)
    raise AssertionError("it has not come true within half a minute")


def tell(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal, and wait until it has arrived: two of one kind that are on their way are one."""
    process.send_signal(number)
    pending = re.compile(r"^ShdPnd:\s*0+$", re.M)
    until(lambda: pending.search(Path(f"/proc/{process.pid}/status").read_text()))


# Signals.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_what_is_being_executed_and_saves(folder: Path, number: signal.Signals) -> None:
    with working("works") as process:
        tell(process, number)
        (folder / "go").touch()
        printed, told = process.communicate(timeout=60)
    assert (130, "") == (process.returncode, printed)
    assert "Interrupted. Go on with: limpet resume x" == told.splitlines()[-1]
    state = shown()
    assert ("interrupted", "signal", number.name) == (
        state["status"],
        state["stopped"]["reason"],
        state["stopped"]["triggered_by"],
    )
    assert ["interrupted"] == [checkpoint["status"] for checkpoint in state["checkpoints"]]
    assert {"works::agent_call": "interrupted", "works::work::tool_call": "completed"} == statuses()
    assert "working b\n['a', 'b']\n" == done("resume", "x").stdout


def test_a_second_signal_stops_at_once() -> None:
    with working("works") as process:
        tell(process, signal.SIGINT)
        tell(process, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "Interrupted. Go on with: limpet resume x" == told.splitlines()[-1]
    assert {"works::agent_call": "interrupted", "works::work::tool_call": "interrupted"} == statuses()
    assert re.search(r"└─ work +tool +… .* interrupted$", done("show", "x").stdout, re.M)


def test_a_second_signal_does_not_wait_for_a_plain_function() -> None:
    with working("works_plainly") as process:
        tell(process, signal.SIGINT)
        tell(process, signal.SIGINT)
        process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "interrupted" == shown()["status"]


def test_what_was_cut_off_is_told_line_by_line() -> None:
    with working("works", "-v") as process:
        tell(process, signal.SIGINT)
        tell(process, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert re.search(r"^… works::work::tool_call .* interrupted$", told, re.M)


def test_a_run_outside_of_the_main_thread_handles_no_signals(folder: Path) -> None:
    (folder / "go").touch()
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(limpet("run", "pipeline:works", "--id", "x")))
    thread.start()
    thread.join(60)
    assert [0] == [result.exit_code for result in results]


# Another process.


def test_interrupt_stops_a_run_in_another_process() -> None:
    with working("works") as process:
        result = done("interrupt", "x", "--message", "back at nine", "--by", "anna", "--wait", "30")
        _, told = process.communicate(timeout=60)
    assert 130 == process.returncode
    first, second = result.stdout.splitlines()
    assert first.startswith(f"Told process {process.pid} on ")
    assert first.endswith(" to stop x.")
    assert "x is interrupted; go on with `limpet resume x`." == second
    assert "Interrupted by anna: back at nine. Go on with: limpet resume x" == told.splitlines()[-1]
    stopped = shown()["stopped"]
    assert ("requested", "back at nine", "anna") == (stopped["reason"], stopped["message"], stopped["triggered_by"])
    assert re.search(r"^  stopped +\S+ \S+ UTC, requested by anna: back at nine$", done("show", "x").stdout, re.M)


def test_nobody_is_named_unless_a_name_is_given() -> None:
    with working("works", "--json") as process:
        told = json_of(done("interrupt", "x", "--wait", "30", "--json"))
        printed, _ = process.communicate(timeout=60)
    assert ("x", True, "interrupted", False) == tuple(
        told[name] for name in ("state_id", "was_told", "status", "is_held")
    )
    assert f"process {process.pid} on " in told["told"]
    assert {"type": "ExecutionInterrupted", "message": "Interrupted.", "reason": "requested", "triggered_by": ""} == (
        json.loads(printed)["error"]
    )
    assert "" == shown()["stopped"]["triggered_by"]


def test_interrupt_can_let_finish_what_is_being_executed(folder: Path) -> None:
    with working("endless") as process:
        result = done("interrupt", "x", "--finish")
        (folder / "go").touch()
        process.communicate(timeout=60)
    assert 130 == process.returncode
    assert re.fullmatch(r"Told process \d+ on \S+ to finish what it is executing, and stop x\.\n", result.stdout)
    work = {status for address, status in statuses().items() if "work" in address}
    assert {"completed"} == work


def test_interrupt_says_if_a_run_has_not_stopped_in_time(folder: Path) -> None:
    with working("works") as process:
        result = limpet("interrupt", "x", "--finish", "--wait", "0.3", "--json")
        told = limpet("interrupt", "x", "--finish", "--wait", "0")
        (folder / "go").touch()
        process.communicate(timeout=60)
    assert (3, "LeaseHeld", True) == (result.exit_code, json_of(result)["error"]["type"], json_of(result)["is_held"])
    assert f"x is still run by process {process.pid} on " in told.stderr


def test_interrupt_is_no_error_where_nobody_runs_the_state(folder: Path) -> None:
    (folder / "go").touch()
    done("run", "pipeline:works", "--id", "x")
    assert "Nobody runs it: x is completed.\n" == done("interrupt", "x").stdout
    assert {"state_id": "x", "was_told": False, "told": None, "status": "completed", "is_held": False} == json_of(
        done("interrupt", "x", "--wait", "60", "--json")
    )
    assert 2 == limpet("interrupt", "y").exit_code


# Limits.

LIMITS = {
    "events": (["--max-events", "2"], "its budget of 2 events is used up"),
    "model calls": (["--max-model-calls", "1"], "its budget of 1 model call is used up"),
    "tokens": (["--max-tokens", "100"], "it has used 100 tokens of the 100 in its budget"),
    "cost": (["--max-cost", "0.5"], "its cost is 0.5, and its budget allows 0.5"),
    "repeats": (["--max-repeats", "1"], "think was called 1 time with the same input"),
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_run_is_stopped_by_its_budget_and_resumed(what: str) -> None:
    options, why = LIMITS[what]
    line = ("run", "pipeline:thinks", 'thoughts=["a", "a"]', "--id", "x", *options)
    result = limpet(*line)
    assert 5 == result.exit_code
    stopped = f"Stopped by its budget. thinks::think#2::llm_call was not executed: {why}"
    assert result.stderr.splitlines()[-1].startswith(stopped)
    assert result.stderr.endswith(" Go on with: limpet resume x\n")
    again = json_of(limpet(*line, "--json"))
    assert ("interrupted", "BudgetExceeded", "budget") == (
        again["status"],
        again["error"]["type"],
        again["error"]["reason"],
    )
    assert "['a', 'a']\n" == done("resume", "x").stdout


@pytest.mark.parametrize(
    ("option", "kind", "told"),
    [
        ("--timeout", "ExecutionInterrupted", "Stopped by its timeout. The 0.05 s that it was given are over."),
        ("--max-time", "BudgetExceeded", "Stopped by its budget. It has taken the 0.05 s in its budget."),
    ],
)
def test_a_run_is_stopped_when_its_time_is_over(folder: Path, option: str, kind: str, told: str) -> None:
    result = limpet("run", "pipeline:waits", "--id", "x", option, "0.05", "--json")
    assert (5, kind) == (result.exit_code, json_of(result)["error"]["type"])
    assert f"{told} Go on with: limpet resume x" == result.stderr.splitlines()[-1]
    again = limpet("resume", "x", option, "0.05")
    assert 5 == again.exit_code
    assert 5 == limpet("rerun", "x", option, "0.05").exit_code
    (folder / "go").touch()
    assert "went\n" == done("resume", "x").stdout


def test_a_timeout_does_not_wait_for_a_plain_function() -> None:
    with started("run", "pipeline:works_plainly", "--id", "x", "--timeout", "0.2") as process:
        process.communicate(timeout=60)
    assert 5 == process.returncode


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    for options, why in (
        (["--max-events", "-1"], "Invalid value for '--max-events'"),
        (["--max-cost", "nan"], "A budget cannot have cost=nan: it is not finite."),
        (["--timeout", "0"], "Invalid value for '--timeout'"),
        (["--timeout", "inf"], "A run cannot be given inf seconds."),
    ):
        result = limpet("run", "pipeline:works", *options)
        assert (2, 1) == (result.exit_code, result.stderr.count("\n"))
        assert why in result.stderr


def test_a_pipeline_that_cancels_itself_says_how_to_go_on() -> None:
    result = limpet("run", "pipeline:cancels_itself", "--id", "x")
    assert 1 == result.exit_code
    assert "The pipeline cancelled itself. Go on with: limpet resume x" == result.stderr.splitlines()[-1]


# Retries.


def test_an_attempt_that_is_followed_by_another_is_one_line() -> None:
    told = done("run", "pipeline:knocks", "--id", "x", "-v").stderr
    address = "knocks::knock::tool_call"
    first, second, third, last = [line for line in told.splitlines() if "::" in line]
    failed = "failed: ConnectionError: refused by the host; again in"
    assert f"↻ {address} attempt 1 {failed} 0.1 s" == first
    assert f"↻ {address} attempt 2 {failed} 0.2 s" == second
    assert third.startswith(f"✓ {address} ")
    assert last.startswith("✓ knocks::agent_call ")


def test_a_failure_for_good_is_told_as_before() -> None:
    told = limpet("run", "pipeline:fails_twice", "--id", "x", "-v").stderr
    address = "fails_twice::fails::tool_call"
    assert [f"↻ {address}", f"✗ {address}", "✗ fails_twice::agent_call"] == [
        " ".join(line.split()[:2]) for line in told.splitlines() if line[:1] in "↻✗"
    ]


def test_show_counts_the_attempts_of_a_call_that_was_tried_again() -> None:
    done("run", "pipeline:knocks", "--id", "x")
    printed = done("show", "x").stdout
    assert re.search(r"└─ knock +tool +✓ .*  3 attempts  'open'$", printed, re.M)
    assert re.search(r"^  retries +2 calls, 1 tried again \(50.0%\), 1 recovered: 2 retries, waits of", printed, re.M)
    state = shown()
    assert [(1, 1), (3, 3)] == [(event["attempts"], event["attempt"]) for event in state["events"]]
    assert (2, {"ConnectionError": 2}) == (state["retries"]["retries"], state["retries"]["errors_by_type"])


def test_show_says_when_the_next_attempt_is_due_and_what_the_last_failed_of(folder: Path) -> None:
    address = "knocks_patiently::knock_patiently::tool_call"
    with started("run", "pipeline:knocks_patiently", "--id", "x") as process:
        until(lambda: (folder / ".limpet").exists() and "retrying" in limpet("show", "x", "--json").stdout)
        waiting = done("show", "x").stdout
        tell(process, signal.SIGINT)
        process.communicate(timeout=60)
    assert 130 == process.returncode, "a graceful stop does not wait for the next attempt"
    due = r"attempt 2 due in (59 min \d\d|60 min 00) s, after ConnectionError: refused$"
    assert re.search(rf"└─ knock_patiently +tool +↻ .* {due}", waiting, re.M)
    assert re.search(rf"└─ knock_patiently +tool +… +interrupted; {due}", done("show", "x").stdout, re.M)
    (event,) = [event for event in shown()["events"] if event["address"] == address]
    assert ("interrupted", 1) == (event["status"], event["attempts"])
    assert event["due_at"] is not None
