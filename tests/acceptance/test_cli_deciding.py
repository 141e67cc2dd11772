"""Deciding on the command line: what became of a call that was cut off, undoing a run, and what a run has used."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from limpet.cli.main import commands

PIPELINE = """
import asyncio
import os
from pathlib import Path

from limpet import LLMResult, agent, llm, tool


def give_back(item):
    print("giving back", item, flush=True)
    if Path("stuck").exists():
        raise ValueError("nobody takes it back")


async def give_back_slowly(item):
    print("giving back", item, flush=True)
    while Path("slow").exists():
        await asyncio.sleep(0.01)


@tool(undo=give_back)
async def reserve(item):
    return f"{item} is reserved"


@tool(undo=give_back_slowly)
async def reserve_slowly(item):
    return f"{item} is reserved"


@tool(once=True)
async def charge(amount):
    print("charging", amount, flush=True)
    if Path("dies").exists():
        os._exit(9)
    while Path("slow").exists():
        await asyncio.sleep(0.01)
    return f"receipt {amount}"


@agent
async def order(item):
    await reserve(item)
    await reserve("a bag")
    receipt = await charge(7)
    if Path("lost").exists():
        raise LookupError("the parcel is lost")
    return receipt


@agent
async def order_slowly(item):
    await reserve_slowly(item)
    raise LookupError("nothing there")


begun = 0


@tool(once=True)
async def pay(amount):
    global begun
    begun += 1
    while begun < 2:
        await asyncio.sleep(0)
    os._exit(9)


@agent
async def pay_two():
    return await asyncio.gather(pay(1), pay(2))


@llm
async def think(thought, model):
    return LLMResult(thought, 1000, model, 0.25)


@agent
async def thinks():
    first = await think("kelp", "small")
    second = await think("moss", "large")
    if Path("lost").exists():
        raise LookupError("lost the thread")
    return first.content + second.content
"""

CHARGE = "order::charge::tool_call"
CUT_OFF = f"{CHARGE} is declared once and was cut off: it may or may not have done its work."
HOW_TO_SETTLE = [
    "  limpet settle x --happened JSON  it has done its work, and this is its result",
    "  limpet settle x --again          it has not, and is executed when the run goes on",
    "  limpet settle x --failed REASON  it has failed for good",
]


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


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def limpet(*arguments: str, answer: str | None = None) -> Result:
    """What the command says; anything but an exit is a failure of the test."""
    result = CliRunner().invoke(commands, arguments, input=answer)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def done(*arguments: str, answer: str | None = None) -> Result:
    result = limpet(*arguments, answer=answer)
    assert 0 == result.exit_code, result.output
    return result


def json_of(result: Result) -> Any:
    return json.loads(result.stdout)


def shown(state_id: str = "x") -> Any:
    return json_of(done("show", state_id, "--json"))


@contextmanager
def started(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """The command in a process of its own, which does not outlive the test, once the pipeline has printed a line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "limpet.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def killed(agent: str, *options: str) -> None:
    """Run an agent in a process that dies in the middle of it."""
    line = [sys.executable, "-m", "limpet.cli.main", "run", f"pipeline:{agent}", "--id", "x", *options]
    assert 9 == subprocess.run(line, capture_output=True, timeout=60).returncode


@pytest.fixture
def cut_off(folder: Path) -> Path:
    """A state whose process died inside a charge, and a charge that does not die any more."""
    (folder / "dies").touch()
    killed("order", "item=kelp")
    (folder / "dies").unlink()
    return folder


# What became of a call.


@pytest.mark.usefixtures("cut_off")
def test_a_call_that_was_cut_off_awaits_a_person() -> None:
    result = limpet("resume", "x")
    assert (6, "") == (result.exit_code, result.stdout)
    first, reused, why, *how = result.stderr.splitlines()
    assert ("Going on with x", "↺ 2 recorded results reused") == (first, reused)
    assert f"{CUT_OFF} x awaits that somebody finds out, and says so:" == why
    assert HOW_TO_SETTLE == how
    again = limpet("resume", "x", "--json")
    assert 6 == again.exit_code
    assert {
        "state_id": "x",
        "status": "awaiting",
        "error": {
            "type": "OutcomeUnknown",
            "message": CUT_OFF,
            "reason": "unknown_outcome",
            "triggered_by": "",
            "address": CHARGE,
        },
    } == json_of(again)
    assert re.search(r"^x +awaiting +order ", done("list").stdout, re.M)


@pytest.mark.usefixtures("cut_off")
def test_show_tells_what_is_to_be_settled_and_how() -> None:
    assert [CHARGE] == [call["address"] for call in shown()["unknown"]], "before anybody has resumed it"
    limpet("resume", "x")
    printed = done("show", "x").stdout
    assert printed.startswith("x  awaiting; say what became of a call with `limpet settle x`\n")
    assert re.search(rf"^  stopped +\S+ \S+ UTC, unknown outcome: {CHARGE} is declared once", printed, re.M)
    assert f"\nNobody knows whether {CHARGE} has done its work.\n  input     7\n  begun     20" in printed
    assert "\nFind out, and say so:\n" + "\n".join(HOW_TO_SETTLE) + "\n" in printed
    assert re.search(r"└─ charge +tool +\? +outcome unknown$", printed, re.M)
    (call,) = shown()["unknown"]
    assert (CHARGE, [7], 32) == (call["address"], call["input"], len(call["key"]))
    assert call["begun_at"].startswith("20")


@pytest.mark.usefixtures("cut_off")
def test_settle_says_that_it_happened_and_the_run_goes_on() -> None:
    limpet("resume", "x")
    result = done("settle", "x", "--happened", '"receipt 42"', "--by", "anna")
    assert [
        f"Settled {CHARGE}: it happened, and gives this result.",
        "Go on with `limpet resume x`.",
    ] == result.stdout.splitlines()
    assert done("show", "x").stdout.startswith("x  paused; go on with `limpet resume x`\n")
    assert re.search(r"└─ charge .* 'receipt 42'  \(settled by anna\)$", done("show", "x").stdout, re.M)
    (event,) = [event for event in shown()["events"] if event["address"] == CHARGE]
    assert ("happened", "anna") == (event["settled"], event["settled_by"])
    assert "receipt 42\n" == done("resume", "x").stdout


def test_settle_says_that_it_did_not_happen_and_it_is_executed(cut_off: Path) -> None:
    result = done("settle", "x", "--again", "--json")
    assert {"state_id": "x", "address": CHARGE, "settled": "again", "status": "paused"} == json_of(result)
    assert re.search(
        r"└─ charge +tool +… +did not happen, and is to be executed  \(settled\)$", done("show", "x").stdout, re.M
    )
    assert "charging 7\nreceipt 7\n" == done("resume", "x").stdout


@pytest.mark.usefixtures("cut_off")
def test_settle_says_that_it_failed_and_the_code_is_told() -> None:
    done("settle", "x", "--failed", "the card was refused")
    assert re.search(r"└─ charge +tool +✗ .* failed: the card was…  \(settled\)$", done("show", "x").stdout, re.M)
    result = limpet("resume", "x")
    assert (1, "") == (result.exit_code, result.stdout)
    assert f"The run failed at {CHARGE}: EventFailed:" in result.stderr


def test_the_value_of_happened_may_stand_in_a_file(cut_off: Path) -> None:
    (cut_off / "receipt.json").write_text('{"number": 42}')
    done("settle", "x", "--happened", "@receipt.json")
    assert {"number": 42} == json_of(done("resume", "x", "--json"))["result"]


BAD_WORDS = {
    "none": ([], "Nothing was said of what became of the call. Say one of three:"),
    "two": (["--again", "--failed", "x"], "`--again` and `--failed` contradict each other. Say one of three:"),
    "no JSON": (["--happened", "receipt"], "--happened is no JSON:"),
    "no file": (["--happened", "@absent.json"], "'absent.json' cannot be read: No such file or directory."),
    "no such call": (["--at", "chrge::tool_call", "--again"], f"Nearest: '{CHARGE}'"),
    "not unknown": (["--at", "reserve", "--again"], "No event stands at 'reserve'"),
}


@pytest.mark.usefixtures("cut_off")
@pytest.mark.parametrize("what", BAD_WORDS)
def test_what_cannot_be_settled_changes_nothing(what: str) -> None:
    arguments, why = BAD_WORDS[what]
    result = limpet("settle", "x", *arguments)
    assert (2, "", 1) == (result.exit_code, result.stdout, result.stderr.count("\n"))
    assert why in result.stderr
    assert [CHARGE] == [call["address"] for call in shown()["unknown"]]


def test_where_nothing_is_unknown_there_is_nothing_to_settle(folder: Path) -> None:
    (folder / "lost").touch()
    limpet("run", "pipeline:order", "item=kelp", "--id", "x")
    result = limpet("settle", "x", "--again")
    assert (2, True) == (result.exit_code, "has no call whose outcome is unknown" in result.stderr)
    assert {"state_id": "x", "unknown": []} == json_of(done("settle", "x", "--json"))
    assert 2 == limpet("settle", "y", "--json").exit_code


@pytest.mark.usefixtures("cut_off")
def test_a_person_at_a_terminal_is_told_how_to_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limpet.cli.settle.sys", SimpleNamespace(stdin=Terminal()))
    printed = done("settle", "x").stdout
    assert printed.startswith(f"Nobody knows whether {CHARGE} has done its work.\n  input     7\n")
    assert HOW_TO_SETTLE == printed.splitlines()[-4:-1]
    done("settle", "x", "--again")
    assert "x has no call whose outcome is unknown.\n" == done("settle", "x").stdout


def test_of_several_calls_each_is_named(folder: Path) -> None:
    store = ("--store", "sqlite:///mine.db")
    killed("pay_two", *store)
    first, second = "pay_two::pay::tool_call", "pay_two::pay#2::tool_call"
    result = limpet("settle", "x", "--happened", "1", *store)
    assert 2 == result.exit_code
    assert f"State 'x' has 2 calls whose outcome is unknown: {first}, {second}. Name one with" in result.stderr
    resumed = limpet("resume", "x", *store)
    assert 6 == resumed.exit_code
    assert re.search(
        r"^  limpet settle x --at '?pay_two::pay\S* --again --store sqlite:///mine.db +it has not",
        resumed.stderr,
        re.M,
    )
    printed = done("settle", "x", "--at", "pay#2", "--happened", "2", *store).stdout
    assert "1 more call to settle; `limpet show x --store sqlite:///mine.db` tells how." == printed.splitlines()[-1]
    told = json_of(done("settle", "x", "--happened", "1", "--json", *store))
    assert (first, "paused") == (told["address"], told["status"])
    assert "[1, 2]\n" == done("resume", "x", *store).stdout


def test_a_state_that_is_being_run_is_neither_settled_nor_rolled_back(folder: Path) -> None:
    (folder / "slow").touch()
    with started("run", "pipeline:order", "item=kelp", "--id", "x") as process:
        listed = json_of(done("settle", "x", "--json"))
        settled = limpet("settle", "x", "--again")
        rolled_back = limpet("roll-back", "x", "--yes")
        unknown = shown()["unknown"]
        (folder / "slow").unlink()
        process.communicate(timeout=60)
    assert 0 == process.returncode
    assert ([], []) == (listed["unknown"], unknown), "the charge is under way"
    assert (3, 3) == (settled.exit_code, rolled_back.exit_code)
    assert f"x is being run by process {process.pid} on " in rolled_back.stderr
    assert rolled_back.stderr.endswith("Stop it first with `limpet interrupt x`.\n")


# Undoing.

UNDONE = ["order::reserve#2::tool_call", "order::reserve::tool_call"]


@pytest.fixture
def lost(folder: Path) -> Path:
    """A state that has failed after it has done something."""
    (folder / "lost").touch()
    limpet("run", "pipeline:order", "item=kelp", "--id", "x")
    return folder


@pytest.mark.usefixtures("lost")
def test_roll_back_undoes_from_the_newest_to_the_oldest() -> None:
    result = done("roll-back", "x", "--yes")
    assert [
        "giving back a bag",
        "giving back kelp",
        "Undone: 2 calls.",
        *(f"  {address}" for address in UNDONE),
    ] == result.stdout.splitlines()
    assert "Rolling back x\n" == result.stderr
    printed = done("show", "x").stdout
    assert printed.startswith("x  rolled back; run it anew with `limpet rerun x`\n")
    assert re.search(r"^  stopped +\S+ \S+ UTC, rolled back$", printed, re.M)
    assert ("completed", "rolled_back") == (shown()["rollback"], shown()["stopped"]["reason"])
    assert 2 == limpet("resume", "x").exit_code
    assert "Nobody runs it: x is rolled back; run it anew with `limpet rerun x`.\n" == done("interrupt", "x").stdout


def test_a_run_that_was_rolled_back_is_run_anew(lost: Path) -> None:
    done("roll-back", "x", "--yes")
    (lost / "lost").unlink()
    assert "charging 7\nreceipt 7\n" == done("rerun", "x", "--again").stdout
    assert done("show", "x").stdout.startswith("x  completed\n")


@pytest.mark.usefixtures("lost")
def test_roll_back_tells_every_event_and_is_json_too() -> None:
    result = done("roll-back", "x", "--yes", "--json", "-v")
    assert {"state_id": "x", "status": "failed", "undone": UNDONE} == json_of(result)
    assert "giving back kelp" in result.stderr
    assert re.search(r"^✓ rollback\[order\]::give_back\[order%3A%3Areserve\]::tool_call ", result.stderr, re.M)
    assert UNDONE == json_of(done("roll-back", "x", "--yes", "--json"))["undone"], "asked again, nothing is undone"


@pytest.mark.usefixtures("lost")
def test_roll_back_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = limpet("roll-back", "x")
    assert (2, True) == (refused.exit_code, "Say so with --yes." in refused.stderr)
    monkeypatch.setattr("limpet.cli.roll_back.sys", SimpleNamespace(stdin=Terminal()))
    declined = limpet("roll-back", "x", answer="n\n")
    assert (130, "") == (declined.exit_code, declined.stdout)
    assert [
        "To be undone, in this order: 2 calls.",
        *(f"  {address} by give_back" for address in UNDONE),
    ] == declined.stderr.splitlines()[:3]
    assert shown()["rollback"] is None
    assert "Undone: 2 calls." in done("roll-back", "x", answer="y\n").stdout


def test_a_rollback_that_fails_goes_on_where_it_stands(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lost / "stuck").touch()
    result = limpet("roll-back", "x", "--yes")
    address = "rollback[order]::give_back[order%3A%3Areserve%232]::tool_call"
    assert (1, "giving back a bag\n") == (result.exit_code, result.stdout)
    assert [
        "Rolling back x",
        f"The rollback failed at {address}: ValueError: nobody takes it back",
        "Run it again with: limpet roll-back x",
    ] == result.stderr.splitlines()
    printed = done("show", "x").stdout
    assert printed.startswith("x  failed in the middle of its rollback; go on with `limpet roll-back x`\n")
    assert f"\nIts rollback failed at {address}: ValueError: nobody takes it back\n" in printed
    (lost / "stuck").unlink()
    assert "Undone: 2 calls." in done("roll-back", "x", "--yes").stdout
    monkeypatch.setattr("limpet.cli.roll_back.sys", SimpleNamespace(stdin=Terminal()))
    assert "Of x, 2 calls undone already." in limpet("roll-back", "x", answer="n\n").stderr


def test_a_rollback_that_is_interrupted_goes_on_where_it_stands(folder: Path) -> None:
    limpet("run", "pipeline:order_slowly", "item=kelp", "--id", "x")
    (folder / "slow").touch()
    with started("roll-back", "x", "--yes", "-q") as process:
        done("interrupt", "x", "--wait", "30")
        _, told = process.communicate(timeout=60)
    assert (130, "Interrupted. Go on with: limpet roll-back x\n") == (process.returncode, told)
    assert done("show", "x").stdout.startswith(
        "x  interrupted in the middle of its rollback; go on with `limpet roll-back x`\n"
    )
    (folder / "slow").unlink()
    undone = "Undone: 1 call.\n  order_slowly::reserve_slowly::tool_call\n"
    assert f"giving back kelp\n{undone}" == done("roll-back", "x", "--yes").stdout


def test_a_signal_finishes_what_is_being_undone(folder: Path) -> None:
    limpet("run", "pipeline:order_slowly", "item=kelp", "--id", "x")
    (folder / "slow").touch()
    with started("roll-back", "x", "--yes") as process:
        process.send_signal(signal.SIGINT)
        (folder / "slow").unlink()
        process.communicate(timeout=60)
    (event,) = [event for event in shown()["events"] if "give_back_slowly" in event["address"]]
    assert "completed" == event["status"]
    assert "giving back" not in done("roll-back", "x", "--yes").stdout


def test_what_cannot_be_rolled_back_is_refused_before_anybody_is_asked(cut_off: Path) -> None:
    unknown = limpet("roll-back", "x")
    assert (6, True) == (unknown.exit_code, "declared once" in unknown.stderr)
    done("settle", "x", "--again")
    done("resume", "x")
    completed = limpet("roll-back", "x")
    assert (2, True) == (completed.exit_code, "has completed" in completed.stderr)


def test_a_fork_does_not_undo_what_its_parent_has_done(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done("fork", "x", "--as", "y", "--again")
    monkeypatch.setattr("limpet.cli.roll_back.sys", SimpleNamespace(stdin=Terminal()))
    result = done("roll-back", "y", answer="y\n")
    assert "To be undone, in this order: 0 calls.\n" in result.stderr
    assert "Undone: 0 calls.\n" == result.stdout


# What was used.


def test_usage_tells_tokens_and_cost_by_model_and_what_replay_saved(folder: Path) -> None:
    (folder / "lost").touch()
    limpet("run", "pipeline:thinks", "--id", "x")
    (folder / "lost").unlink()
    assert "2 model calls, 2,000 tokens, cost 0.5" == done("usage", "x").stdout.splitlines()[0]
    done("resume", "x")
    assert [
        "2 model calls, 2,000 tokens, cost 0.5; replay saved 2 calls, 2,000 tokens, cost 0.5",
        "  small: 1 call, 1,000 tokens, cost 0.25",
        "  large: 1 call, 1,000 tokens, cost 0.25",
    ] == done("usage", "x").stdout.splitlines()
    one = {"calls": 1, "tokens": 1000, "cost": 0.25}
    expected = {
        "model_calls": 2,
        "tokens": 2000,
        "cost": 0.5,
        "by_model": {"small": one, "large": one},
        "replayed": {"calls": 2, "tokens": 2000, "cost": 0.5},
    }
    assert {"state_id": "x", **expected} == json_of(done("usage", "x", "--json"))
    assert expected == shown()["usage"]
    assert [None, {"tokens": 1000, "cost": 0.25, "model": "small"}] == [
        event["usage"] for event in shown()["events"][:2]
    ]
    assert re.search(
        r"^  usage +2 model calls, 2,000 tokens, cost 0.5; replay saved 2 calls", done("show", "x").stdout, re.M
    )


def test_usage_is_that_of_all_timelines(folder: Path) -> None:
    done("run", "pipeline:thinks", "--id", "x")
    done("rerun", "x", "--at", "think#2")
    assert 3 == json_of(done("usage", "x", "--json"))["model_calls"]
    assert re.search(r"^  usage +3 model calls", done("show", "x").stdout, re.M)
    assert 3 == json_of(done("show", "x", "--timeline", "1", "--json"))["usage"]["model_calls"]


def test_show_says_nothing_of_usage_where_there_is_none() -> None:
    done("run", "pipeline:order", "item=kelp", "--id", "x")
    assert "usage" not in done("show", "x").stdout
    assert "0 model calls, 0 tokens, cost 0\n" == done("usage", "x").stdout
