"""The command line as people and programs use it: what is printed, where, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from limpet import ExecutionState, SQLiteStateBackend, StateMetadata, StateStatus
from limpet.cli.exit_codes import MEANINGS
from limpet.cli.main import commands, main
from limpet.cli.output import duration

PIPELINE = """
import asyncio
import sys
import time
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from limpet import Agent, agent, llm, tool


@dataclass
class Page:
    url: str
    text: str


class Colour(Enum):
    GREEN = "green"


class Point(NamedTuple):
    x: int
    y: int


@tool
async def fetch(url: str) -> Page:
    print("fetching", url)
    if url == "b" and Path("broken").exists():
        raise ValueError("no page\\nfor b")
    return Page(url, "kelp")


@llm
async def summarise(page: Page) -> str:
    return page.url.upper()


@tool
async def fails() -> None:
    raise KeyError("caught")


@agent
async def read(url: str) -> str:
    return await summarise(await fetch(url))


@agent
async def research(urls: list[str]) -> list[str]:
    try:
        await fails()
    except KeyError:
        pass
    return [await read(url) for url in urls]


@agent
async def echo(value, text: str = "", maybe: str | None = None, *, state_id: int = 0):
    return [value, text, maybe, state_id]


@agent
async def anything(first, /, **rest):
    return [first, rest]


@agent
async def nothing() -> None:
    return None


@agent
async def kinds():
    return {
        "page": Page("a", "b"), "colour": Colour.GREEN, "point": Point(1, 2), "day": date(2026, 1, 2),
        "sum": Decimal("1.50"), "set": {1}, "tuple": (1, "x"), "bytes": b"kelp", "nan": float("nan"), 3: None,
    }


@agent
async def unstorable():
    return object()


@agent
async def leaves():
    sys.exit(3)


@agent
async def drifts():
    await fetch(Path("url").read_text())
    return Path("there").read_text()


@agent
async def waits():
    await fetch("a")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "went"


@agent
def waits_plainly():
    fetch.call("a")
    while not Path("go").exists():
        time.sleep(0.01)


class Double(Agent):
    def __init__(self):
        super().__init__(name="double")

    async def handler(self, input, context, state):
        return 2 * input


@dataclass
class Sum:
    first: int
    second: int = 1


async def add(input, context, state):
    return input.first + input.second


@dataclass
class Positive:
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("not positive")


counting = Agent(name="counting", input_model=Positive, handler=add)


@agent
async def unresolved(text: "str", other: "Absent" = None):
    return [text, other]


@agent
async def grouped():
    async with asyncio.TaskGroup() as group:
        group.create_task(fetch("b"))
        group.create_task(sleepy())


@tool
async def sleepy():
    await asyncio.sleep(60)


summing = Agent(name="summing", input_model=Sum, handler=add)


def declares_inside():
    @agent
    async def inner():
        raise ValueError("inside")

    return inner


hidden = declares_inside()
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


def start(*arguments: str) -> subprocess.Popen[str]:
    """The command in a process of its own, once it says that its run has begun."""
    process = subprocess.Popen(
        [sys.executable, "-m", "limpet.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Running ")
    return process


def test_run_prints_the_result_and_tells_the_state() -> None:
    result = done("run", "pipeline:research", 'urls=["a", "b"]', "--id", "kelp-1")
    assert "fetching a\nfetching b\n['A', 'B']\n" == result.stdout
    assert "Running kelp-1\n" == result.stderr


def test_run_makes_an_id_where_none_is_given() -> None:
    result = done("run", "pipeline:nothing")
    assert re.fullmatch(r"Running nothing-[0-9a-f]{12}\n", result.stderr)
    assert "" == result.stdout


def test_a_completed_run_gives_its_result_and_executes_nothing() -> None:
    line = ("run", "pipeline:research", 'urls=["a"]', "--id", "kelp-1")
    done(*line)
    again = done(*line)
    assert ("['A']\n", "Already completed: kelp-1\n") == (again.stdout, again.stderr)


def test_text_is_printed_as_it_is() -> None:
    assert "fetching a\nA\n" == done("run", "pipeline:read", "url=a").stdout


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["value=3"], [3, "", None, 0]),
        (["value=true"], [True, "", None, 0]),
        (["value=kelp"], ["kelp", "", None, 0]),
        (["value=NaN"], ["NaN", "", None, 0]),
        (['value={"a": [1]}'], [{"a": [1]}, "", None, 0]),
        (["value=a=b"], ["a=b", "", None, 0]),
        (["value="], ["", "", None, 0]),
        (["value=1", "text=42", "maybe=42"], [1, "42", "42", 0]),
        (["value=1", "maybe=null"], [1, "", None, 0]),
    ],
)
def test_a_value_is_text_or_json(given: Sequence[str], expected: list[object]) -> None:
    assert expected == json_of(done("run", "pipeline:echo", *given, "--json"))["result"]


def test_an_agent_may_take_any_names() -> None:
    assert [1, {"a": 2}] == json_of(done("run", "pipeline:anything", "first=1", "a=2", "--json"))["result"]


def test_an_explicit_agent_takes_its_input_or_the_fields_of_its_model() -> None:
    assert "8\n" == done("run", "pipeline:Double", "input=4").stdout
    assert "5\n" == done("run", "pipeline:summing", "first=4").stdout
    refused = limpet("run", "pipeline:summing", "third=4")
    assert (
        2,
        "'summing' has no parameter 'third'. It takes: first, second (default 1). Give each as key=value.\n",
    ) == (
        refused.exit_code,
        refused.stderr,
    )


def test_an_annotation_that_cannot_be_resolved_does_no_harm() -> None:
    assert ["1", 2] == json_of(done("run", "pipeline:unresolved", "text=1", "other=2", "--json"))["result"]


def test_a_file_finds_the_modules_beside_it(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "beside.py").write_text("WORD = 'moss'\n")
    (folder / "elsewhere" / "main.py").write_text(
        "from beside import WORD\nfrom limpet import agent\n@agent\nasync def say() -> str:\n    return WORD\n"
    )
    assert "moss\n" == done("run", "elsewhere/main.py:say").stdout


BAD_INPUT = {
    "no agent": (["run"], 2, "Missing argument 'MODULE:AGENT'. `limpet run -h`"),
    "no form": (["run", "pipeline"], 2, "it is not of the form module:agent"),
    "no module": (["run", "absent:research"], 2, "No module named 'absent'"),
    "no file": (["run", "absent.py:research"], 2, "no such file"),
    "no such agent": (["run", "pipeline:reserch"], 2, "(it has: anything, counting"),
    "broken module": (["run", "broken.py:x"], 2, "broken.py cannot be imported: SyntaxError"),
    "leaving module": (["run", "leaving.py:x"], 2, "leaving.py cannot be imported: SystemExit: 3"),
    "missing value": (["run", "pipeline:read"], 2, "'read' needs a value for 'url'. It takes: url."),
    "unknown value": (["run", "pipeline:read", "ulr=a"], 2, "'read' has no parameter 'ulr'. It takes: url."),
    "value too many": (["run", "pipeline:nothing", "a=1"], 2, "It takes no arguments."),
    "refused model": (["run", "pipeline:counting", "number=-1"], 2, "cannot be made of these values: not positive."),
    "taken name": (["run", "pipeline:echo", "value=1", "state_id=7"], 2, "'echo' takes 'state_id' by name alone"),
    "no pair": (["run", "pipeline:read", "a"], 2, "'a' is not of the form key=value."),
    "twice": (["run", "pipeline:read", "url=a", "url=b"], 2, "'url' is given twice."),
    "bad id": (["run", "pipeline:read", "url=a", "--id", "../x"], 2, "'../x' cannot be a state id"),
    "empty id": (["run", "pipeline:read", "url=a", "--id", ""], 2, "'' cannot be a state id: it is empty"),
    "bad wait": (["resume", "x", "--wait", "soon"], 2, "Invalid value for '--wait'"),
    "unknown state": (["show", "kelp-2"], 2, "No state 'kelp-2' is in this store. Nearest: 'kelp-1'."),
    "unknown resumed": (["resume", "kelp-2"], 2, "No state 'kelp-2' is in this store. Nearest: 'kelp-1'."),
    "bad shown id": (["show", "a b"], 2, "it contains ' '"),
    "other input": (["run", "pipeline:read", "url=z", "--id", "kelp-1"], 2, "State 'kelp-1' is another run"),
    "other agent": (["run", "pipeline:nothing", "--id", "kelp-1"], 2, "State 'kelp-1' is another run"),
    "unknown store": (["list", "--store", "redis://x"], 2, "there is no backend for 'redis'"),
    "no store": (["--store", "runs.db", "list"], 2, "it has no scheme"),
    "not a store": (["list", "--store", "sqlite:///pipeline.py"], 4, "is not a Limpet store"),
    "a folder": (["list", "--store", "sqlite:///."], 4, "it is a folder"),
    "bad status": (["list", "--status", "done"], 2, "Invalid value for '--status'"),
    "bad limit": (["list", "--limit", "0"], 2, "Invalid value for '--limit'"),
    "no such command": (["lst"], 2, "No such command 'lst'."),
    "no such option": (["list", "--al"], 2, "No such option"),
}


@pytest.fixture
def with_bad_modules(folder: Path) -> None:
    (folder / "broken.py").write_text("def:\n")
    (folder / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    done("run", "pipeline:read", "url=a", "--id", "kelp-1")


@pytest.mark.usefixtures("with_bad_modules")
@pytest.mark.parametrize("what", BAD_INPUT)
def test_what_cannot_be_done_is_one_line_that_says_why(what: str) -> None:
    arguments, code, why = BAD_INPUT[what]
    result = limpet(*arguments)
    assert (code, "") == (result.exit_code, result.stdout)
    assert why in result.stderr
    assert 1 == result.stderr.count("\n")


@pytest.mark.usefixtures("with_bad_modules")
@pytest.mark.parametrize("what", BAD_INPUT)
def test_what_cannot_be_done_is_json_too(what: str) -> None:
    arguments, code, _ = BAD_INPUT[what]
    result = limpet(*arguments, "--json")
    assert code == result.exit_code
    assert {"error"} == json_of(result).keys()
    assert {"type", "message"} == json_of(result)["error"].keys()
    if what not in {"no agent", "no such option"}:
        assert result.stderr == json_of(result)["error"]["message"] + "\n"


def test_a_failed_run_says_where_and_how_to_go_on(folder: Path) -> None:
    (folder / "broken").touch()
    result = limpet("run", "pipeline:research", 'urls=["a", "b"]', "--id", "kelp-1")
    assert 1 == result.exit_code
    assert [
        "Running kelp-1",
        "The run failed at research::read#2::fetch::tool_call: ValueError: no page for b",
        "Run it again with: limpet resume kelp-1",
    ] == result.stderr.splitlines()


def test_a_failed_run_is_json_too(folder: Path) -> None:
    (folder / "broken").touch()
    result = limpet("run", "pipeline:research", 'urls=["b"]', "--id", "kelp-1", "--json")
    address = "research::read::fetch::tool_call"
    assert {
        "state_id": "kelp-1",
        "status": "failed",
        "error": {"type": "ValueError", "message": "no page\nfor b", "address": address},
    } == json_of(result)


def test_verbose_shows_events_and_the_traceback_of_the_pipeline_alone(folder: Path) -> None:
    (folder / "broken").touch()
    told = limpet("run", "pipeline:research", 'urls=["a", "b"]', "--verbose").stderr
    assert re.search(r"^✗ research::fails::tool_call .* KeyError: 'caught'$", told, re.M)
    assert re.search(r"^✓ research::read::summarise::llm_call [\d.]+ (µs|ms|s)$", told, re.M)
    assert 'raise ValueError("no page\\nfor b")' in told
    assert "engine" not in told


def test_verbose_tells_what_was_cancelled(folder: Path) -> None:
    (folder / "broken").touch()
    told = limpet("run", "pipeline:grouped", "-v").stderr
    assert re.search(r"^… grouped::sleepy::tool_call .* cancelled$", told, re.M)


def test_resume_goes_on_with_what_is_recorded(folder: Path) -> None:
    (folder / "broken").touch()
    limpet("run", "pipeline:research", 'urls=["a", "b"]', "--id", "kelp-1")
    (folder / "broken").unlink()
    result = done("resume", "kelp-1")
    assert "fetching b\n['A', 'B']\n" == result.stdout
    # The failure that was caught, and fetch, summarise and read of the first page.
    assert "Going on with kelp-1\n↺ 4 recorded results reused\n" == result.stderr
    assert "Already completed: kelp-1\n" == done("resume", "kelp-1").stderr


def test_resume_tells_every_recorded_result_if_asked(folder: Path) -> None:
    (folder / "broken").touch()
    limpet("run", "pipeline:read", "url=b", "--id", "x")
    limpet("run", "pipeline:research", 'urls=["b"]', "--id", "kelp-1")
    (folder / "broken").unlink()
    told = done("resume", "kelp-1", "-v").stderr.splitlines()
    expected = ["Going on with kelp-1", "↺ research::fails::tool_call recorded", "↺ 1 recorded result reused"]
    assert expected == told[:3]


def test_what_cannot_be_resumed_says_so(folder: Path) -> None:
    limpet("run", "pipeline:hidden", "--id", "hidden-1")
    with SQLiteStateBackend(".limpet/runs.db") as backend:
        ExecutionState(state_backend=backend, state_id="explicit-1").save_checkpoint(StateStatus.PAUSED)
    result = limpet("resume", "explicit-1")
    assert (2, True) == (result.exit_code, "made in the explicit form" in result.stderr)


def test_quiet_tells_nothing() -> None:
    result = done("run", "pipeline:read", "url=a", "--quiet", "--id", "kelp-1")
    again = done("run", "pipeline:read", "url=a", "--quiet", "--id", "kelp-1")
    assert ("", "") == (result.stderr, again.stderr)


def test_json_is_not_mixed_with_what_the_pipeline_prints() -> None:
    result = done("run", "pipeline:read", "url=a", "--json", "--id", "kelp-1")
    assert {"state_id": "kelp-1", "status": "completed", "result": "A"} == json_of(result)
    assert "fetching a" in result.stderr


def test_json_says_every_kind_of_value() -> None:
    expected = {
        "page": {"url": "a", "text": "b"},
        "colour": "green",
        "point": {"x": 1, "y": 2},
        "day": "2026-01-02",
        "sum": "1.50",
        "set": [1],
        "tuple": [1, "x"],
        "bytes": "a2VscA==",
        "nan": "nan",
        "3": None,
    }
    assert expected == json_of(done("run", "pipeline:kinds", "--json", "--id", "x"))["result"]
    (event,) = json_of(done("show", "x", "--json"))["events"]
    assert {**expected, "colour": "GREEN"} == event["result"]


def test_a_result_that_cannot_be_stored_fails_the_run() -> None:
    result = limpet("run", "pipeline:unstorable")
    assert 1 == result.exit_code
    assert "The run failed at unstorable::agent_call: ValueNotStorable: result cannot be stored" in result.stderr


def test_a_pipeline_that_leaves_is_handed_back() -> None:
    result = limpet("run", "pipeline:leaves", "--id", "x")
    assert 1 == result.exit_code
    assert "The pipeline called sys.exit(3). Go on with: limpet resume x" == result.stderr.splitlines()[-1]
    state = json_of(done("show", "x", "--json"))
    assert ("running", False) == (state["status"], state["is_held"])


def test_drift_is_told(folder: Path) -> None:
    (folder / "url").write_text("a")
    limpet("run", "pipeline:drifts", "--id", "x")
    (folder / "url").write_text("c")
    (folder / "there").write_text("end")
    assert "! drifts::fetch::tool_call: its input changed" in done("resume", "x").stderr.splitlines()


def test_a_state_in_memory_cannot_be_gone_on_with(folder: Path) -> None:
    (folder / "broken").touch()
    told = limpet("run", "pipeline:read", "url=b", "--store", "memory://").stderr
    assert "The run failed at read::fetch::tool_call: ValueError: no page for b" == told.splitlines()[-1]


def test_the_store_is_named_before_or_after_the_command_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    done("run", "pipeline:nothing", "--id", "x", "--store", "sqlite:///mine.db")
    assert "x " in done("--store", "sqlite:///mine.db", "list").stdout
    assert "x " in done("--store", "sqlite:///other.db", "list", "--store", "sqlite:///mine.db").stdout
    monkeypatch.setenv("LIMPET_STORE", "sqlite:///mine.db")
    assert "x " in done("list").stdout


def test_a_named_store_is_part_of_how_to_go_on(folder: Path) -> None:
    (folder / "broken").touch()
    told = limpet(
        "run", "pipeline:read", "url=b", "--id", "x", "--store", "sqlite:///mine.db?synchronous=normal"
    ).stderr
    assert "Run it again with: limpet resume x --store 'sqlite:///mine.db?synchronous=normal'" in told


def test_list_shows_the_newest_first_and_chooses(folder: Path) -> None:
    assert f"There is no store at 'sqlite:///{folder}/.limpet/runs.db' yet." in limpet("list").stderr
    assert not (folder / ".limpet").exists(), "looking made a store"
    done("run", "pipeline:nothing", "--id", "first", "--tag", "a", "--tag", "b")
    (folder / "broken").touch()
    limpet("run", "pipeline:read", "url=b", "--id", "second", "--tag", "a")
    with SQLiteStateBackend(".limpet/runs.db") as backend:
        state = ExecutionState(state_backend=backend, state_id="third", metadata=StateMetadata(pipeline_name="p"))
        state.save_checkpoint(StateStatus.PAUSED)

    heading, *rows = done("list").stdout.splitlines()
    assert ["STATE", "STATUS", "AGENT", "RECORDS", "BEGUN", "(UTC)", "TAGS"] == heading.split()
    assert [["third", "paused", "–", "1"], ["second", "failed", "read", "3"]] == [row.split()[:4] for row in rows[:2]]

    def ids(*options: str) -> list[str]:
        return [state["state_id"] for state in json_of(done("list", *options, "--json"))["states"]]

    assert ["third", "second", "first"] == ids()
    assert ["third"] == ids("--limit", "1")
    assert ["second", "first"] == ids("--tag", "a")
    assert ["first"] == ids("--tag", "a", "--tag", "b")
    assert ["second"] == ids("--status", "failed")
    assert ["third"] == ids("--pipeline", "p")
    assert "No such states in" in done("list", "--tag", "z").stdout


SHOWN = """\
kelp-1  failed; go on with `limpet resume kelp-1`
  agent     pipeline:research
  input     ['a', 'b']
  begun     NOW UTC
  changed   NOW UTC
  progress  7 events done; of how many is unknown
  records   10
  tags      demo

Failed at research::read#2::fetch::tool_call: ValueError: no page for b

research         agent  ✗ T ValueError: no page for b
├─ fails         tool   ✗ T KeyError: 'caught'
├─ read          agent  ✓ T 'A'
│  ├─ fetch      tool   ✓ T Page(url='a', text='kelp')
│  └─ summarise  llm    ✓ T 'A'
└─ read#2        agent  ✗ T ValueError: no page for b
   └─ fetch      tool   ✗ T ValueError: no page for b
"""


def test_show_draws_the_tree_of_calls(folder: Path) -> None:
    (folder / "broken").touch()
    limpet("run", "pipeline:research", 'urls=["a", "b"]', "--id", "kelp-1", "--tag", "demo")
    shown = re.sub(r" +[\d.]+ (µs|ms|s)  ", " T ", done("show", "kelp-1").stdout)
    assert SHOWN == re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "NOW", shown)


def test_show_counts_attempts(folder: Path) -> None:
    (folder / "broken").touch()
    limpet("run", "pipeline:read", "url=b", "--id", "x")
    (folder / "broken").unlink()
    done("resume", "x")
    assert re.search(r"fetch +tool +✓ .*  2 attempts  Page\(url='b', text='kelp'\)", done("show", "x").stdout)
    assert [2, 2, 1] == [event["attempts"] for event in json_of(done("show", "x", "--json"))["events"]]


def test_show_imports_nothing_of_the_pipeline(folder: Path) -> None:
    done("run", "pipeline:kinds", "--id", "x")
    (folder / "pipeline.py").unlink()
    del sys.modules["pipeline"]
    shown = done("show", "x").stdout
    assert "Page(url='a', text='b')" in shown
    assert "Colour.GREEN" in shown
    assert "pipeline" not in sys.modules


def test_show_cuts_what_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done("run", "pipeline:echo", f"value={'x' * 500}", "--id", "x")
    lines = done("show", "x").stdout.splitlines()
    assert 60 >= max(map(len, lines))
    assert lines[-1].endswith("…")


def test_show_tells_the_storage_of_an_explicit_state() -> None:
    with SQLiteStateBackend("mine.db") as backend:
        state = ExecutionState(state_backend=backend, state_id="x", metadata=StateMetadata(description="a\nb"))
        state.storage.set("gone", 1)
        state.storage.set("kept", [2])
        state.storage.delete("gone")
        state.save_checkpoint(StateStatus.PAUSED)
    shown = done("show", "x", "--store", "sqlite:///mine.db").stdout
    assert re.search(r"^  storage +kept=\[2\]$", shown, re.M)
    assert re.search(r"^  agent +none \(explicit form\)$", shown, re.M)
    assert re.search(r"^  description +a b$", shown, re.M)
    assert shown.endswith("\nNo call is recorded.\n")
    assert {"kept": [2]} == json_of(done("show", "x", "--store", "sqlite:///mine.db", "--json"))["storage"]


def test_a_damaged_state_is_the_fault_of_the_store() -> None:
    done("run", "pipeline:read", "url=a", "--id", "x")
    with SQLiteStateBackend(".limpet/runs.db") as backend:
        path = backend.name.removeprefix("sqlite:///")
    data = Path(path).read_bytes()
    assert data.count(b"fetching") == 0
    Path(path).write_bytes(data.replace(b"read::fetch::tool_call", b"read::fetch::tool_cull"))
    result = limpet("show", "x")
    assert (4, 1) == (result.exit_code, result.stderr.count("\n"))
    assert "State 'x' is damaged at record" in result.stderr


def test_a_state_that_another_process_runs_is_left_alone(folder: Path) -> None:
    with start("run", "pipeline:waits", "--id", "x") as process:
        held = limpet("run", "pipeline:waits", "--id", "x")
        resumed = limpet("resume", "x", "--wait", "0.05")
        header = json_of(done("show", "x", "--json"))
        shown = done("show", "x").stdout
        (folder / "go").touch()
        assert 0 == process.wait(60)
    assert (3, 3) == (held.exit_code, resumed.exit_code)
    assert (1, 1) == (held.stderr.count("\n"), resumed.stderr.count("\n"))
    assert f"being run by process {process.pid}" in held.stderr
    assert ("running", True) == (header["status"], header["is_held"])
    assert shown.startswith(f"x  running by process {process.pid} on ")


def test_wait_waits_for_the_other_process(folder: Path) -> None:
    with start("run", "pipeline:waits", "--id", "x") as process:
        waiting = subprocess.Popen(
            [sys.executable, "-m", "limpet.cli.main", "run", "pipeline:waits", "--id", "x", "--wait", "60"],
            stdout=subprocess.PIPE,
            text=True,
        )
        (folder / "go").touch()
        assert 0 == process.wait(60)
        assert ("went\n", None) == waiting.communicate(timeout=60)
    assert 0 == waiting.returncode


def test_a_killed_run_is_stopped_and_goes_on(folder: Path) -> None:
    with start("run", "pipeline:waits", "--id", "x") as process:
        process.kill()
        process.wait(60)
    assert done("show", "x").stdout.startswith(
        "x  stopped: no process holds it; go on with `limpet resume x`\n  agent     pipeline:waits\n"
    )
    assert "stopped" in done("list", "--status", "running").stdout
    (state,) = json_of(done("list", "--json"))["states"]
    assert ("running", False, None) == (state["status"], state["is_held"], state["holder"])
    (folder / "go").touch()
    assert done("resume", "x").stdout.endswith("went\n")


@pytest.mark.parametrize("agent", ["waits", "waits_plainly"])
def test_an_interrupted_run_says_how_to_go_on(agent: str) -> None:
    with start("run", f"pipeline:{agent}", "--id", "x", "--json") as process:
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "Interrupted. Go on with: limpet resume x" == told.splitlines()[-1]
    assert {
        "state_id": "x",
        "status": "interrupted",
        "error": {
            "type": "ExecutionInterrupted",
            "message": "What was being executed was finished first.",
            "reason": "signal",
            "triggered_by": "SIGINT",
        },
    } == json.loads(printed)
    assert "x  interrupted; go on with `limpet resume x`" in done("show", "x").stdout


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["list"], 2), (["list", "--store", "x"], 2)])
def test_a_real_process_ends_with_the_exit_code(arguments: list[str], code: int) -> None:
    answer = subprocess.run([sys.executable, "-m", "limpet.cli.main", *arguments], capture_output=True, timeout=60)
    assert code == answer.returncode


def test_a_terminal_without_the_characters_is_no_reason_to_fail() -> None:
    done("run", "pipeline:read", "url=ä", "--id", "x")
    answer = subprocess.run(
        [sys.executable, "-m", "limpet.cli.main", "show", "x"],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert 0 == answer.returncode
    assert rb"\u2713" in answer.stdout


def test_help_lists_the_commands_and_the_exit_codes() -> None:
    for arguments in (["-h"], ["--help"]):
        shown = done(*arguments).stdout
        assert all(f"\n  {name} " in shown for name in commands.commands)
        assert all(f"{code.value:>3}  {meaning}" in shown for code, meaning in MEANINGS.items())


@pytest.mark.parametrize("command", sorted(commands.commands))
def test_every_command_explains_itself(command: str) -> None:
    assert (
        done(command, "-h").stdout.startswith(f"Usage: commands {command} ") or "Usage:" in done(command, "-h").stdout
    )


@pytest.mark.parametrize("command", sorted(commands.commands))
def test_every_command_and_option_is_documented(command: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
    assert f"\n## limpet {command}" in page
    options = [each.opts for each in commands.commands[command].params if isinstance(each, click.Option)]
    assert [] == [names for names in options if not any(f"`{name}" in page for name in names)]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.000_012, "12 µs"), (0.0042, "4.2 ms"), (0.3, "0.30 s"), (187, "3 min 07 s")]
)
def test_a_duration_is_short(seconds: float, expected: str) -> None:
    assert expected == duration(seconds)


def test_the_entry_point_ends_with_the_exit_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["limpet", "show", "x"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert 2 == ended.value.code
    assert capsys.readouterr().err.startswith(f"There is no store at 'sqlite:///{folder}/.limpet/runs.db' yet.")


def test_version_says_which_limpet_this_is() -> None:
    assert re.fullmatch(r"limpet \S.*\n", done("--version").stdout)


def test_colours_are_for_terminals_alone() -> None:
    result = done("run", "pipeline:read", "url=a", "-v")
    assert click.unstyle(result.output) == result.output
