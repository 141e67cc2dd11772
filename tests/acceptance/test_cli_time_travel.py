"""Time travel on the command line: running on from a call, forking, comparing, and holding runs against the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from limpet import ExecutionState, Limpet, SQLiteStateBackend, StateMetadata, StateStatus
from limpet.cli.main import commands

PIPELINE = """
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel

from limpet import Secret, agent, llm, tool


class Colour(Enum):
    GREEN = "green"
    RED = "red"


@dataclass
class Page:
    url: str
    text: str = ""
    colour: Colour = Colour.GREEN


class Note(BaseModel):
    title: str
    stars: int


@dataclass
class Account:
    name: str
    key: Annotated[str, Secret]


def word() -> str:
    return Path("word").read_text() if Path("word").exists() else "kelp"


@tool
async def fetch(url: str) -> Page:
    print("fetching", url)
    if url == "b" and Path("broken").exists():
        raise ValueError("no page for b")
    return Page(url, word())


@llm
async def summarise(page: Page) -> str:
    return f"{page.url}: {page.text} {page.colour.value}"


@agent
async def read(url: str) -> str:
    return await summarise(await fetch(url))


@agent
async def research(urls: list[str]) -> list[str]:
    return [await read(url) for url in urls]


@tool
async def noted(title: str) -> Note:
    return Note(title=title, stars=len(title))


@tool
async def listed() -> list[Page]:
    return [Page("a"), Page("b")]


@agent
async def notes(title: str) -> str:
    note = await noted(title)
    pages = await listed()
    return f"{type(note).__name__} {note.title} {note.stars} {[page.url for page in pages]}"


@tool
async def opened(name: str) -> Account:
    return Account(name, "s3cret-" + name)


@agent
async def opening() -> str:
    return (await opened(word())).name


@agent
async def leaving() -> str:
    if Path("leave").exists():
        sys.exit(3)
    return "stayed"


@tool(once=True)
async def paid(amount: int) -> int:
    return amount


@agent
async def buying() -> int:
    return await paid(5)


@tool
async def waits() -> None:
    while not Path("go").exists():
        await __import__("asyncio").sleep(0.01)


@agent
async def waiting() -> str:
    await waits()
    return "went"


def declares_inside():
    @agent
    async def inner():
        return 1

    return inner


hidden = declares_inside()
"""

FETCH_2 = "research::read#2::fetch::tool_call"


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
    forget(tmp_path, before)


def forget(folder: Path, kept: set[str] = frozenset()) -> None:  # pyright: ignore[reportArgumentType]  # never changed
    """What is imported from the folder is imported anew next time, as in a new process."""
    for name in set(sys.modules) - kept:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
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


def edit(folder: Path, old: str, new: str) -> None:
    """Change the pipeline, as its author would between two processes."""
    text = (folder / "pipeline.py").read_text()
    assert 1 == text.count(old)
    (folder / "pipeline.py").write_text(text.replace(old, new))
    forget(folder)


@pytest.fixture
def kelp(folder: Path) -> Path:
    """A completed run of two pages."""
    done("run", "pipeline:research", 'urls=["a", "b"]', "--id", "kelp-1", "--tag", "demo", "--quiet")
    return folder


# rerun


@pytest.mark.usefixtures("kelp")
def test_rerun_executes_from_the_address_on_and_reuses_what_was_before() -> None:
    result = done("rerun", "kelp-1", "--at", "read#2::fetch")
    assert "fetching b\n['a: kelp green', 'b: kelp green']\n" == result.stdout
    assert [
        f"Running kelp-1 on from {FETCH_2}",
        "↺ Reusing 3 recorded results, executing 2 calls again (1 model call)",
    ] == result.stderr.splitlines()


@pytest.mark.usefixtures("kelp")
def test_rerun_without_an_address_executes_everything() -> None:
    result = done("rerun", "kelp-1")
    assert "fetching a\nfetching b\n['a: kelp green', 'b: kelp green']\n" == result.stdout
    assert "↺ Reusing 0 recorded results, executing 7 calls again (2 model calls)" in result.stderr.splitlines()


@pytest.mark.usefixtures("kelp")
def test_rerun_replaces_a_result_by_json_of_the_recorded_class() -> None:
    page = '{"url": "b", "text": "wrack", "colour": "red"}'
    result = done("rerun", "kelp-1", "--at", FETCH_2, "--replace", page)
    assert "['a: kelp green', 'b: wrack red']\n" == result.stdout
    assert f"Running kelp-1 on from {FETCH_2}, with its result replaced" == result.stderr.splitlines()[0]


def test_what_show_says_can_be_edited_and_given_back(kelp: Path) -> None:
    events = json_of(done("show", "kelp-1", "--json"))["events"]
    (page,) = [event["result"] for event in events if event["address"] == FETCH_2]
    (kelp / "edited.json").write_text(json.dumps(page | {"text": "moss"}))
    result = done("rerun", "kelp-1", "--at", FETCH_2, "--replace", "@edited.json")
    assert "['a: kelp green', 'b: moss green']\n" == result.stdout


def test_models_and_lists_of_instances_can_be_replaced() -> None:
    done("run", "pipeline:notes", "title=tide", "--id", "x", "--quiet")
    result = done("rerun", "x", "--at", "noted", "--replace", '{"title": "ebb", "stars": 1}', "--quiet")
    assert "Note ebb 1 ['a', 'b']\n" == result.stdout
    result = done("rerun", "x", "--at", "listed", "--replace", '[{"url": "z"}]', "--quiet")
    assert "Note ebb 1 ['z']\n" == result.stdout


def test_a_call_that_failed_is_given_what_its_annotation_says(kelp: Path) -> None:
    (kelp / "broken").touch()
    assert 1 == limpet("rerun", "kelp-1", "--at", FETCH_2).exit_code
    result = done("rerun", "kelp-1", "--at", FETCH_2, "--replace", '{"url": "b", "text": "by hand"}', "--quiet")
    assert "['a: kelp green', 'b: by hand green']\n" == result.stdout


@pytest.mark.usefixtures("kelp")
def test_any_type_takes_json_as_it_is() -> None:
    result = done("rerun", "kelp-1", "--at", "research", "--replace", '{"a": 1}', "--any-type")
    assert "{'a': 1}\n" == result.stdout


@pytest.mark.usefixtures("kelp")
def test_rerun_goes_on_from_an_older_timeline() -> None:
    done("rerun", "kelp-1", "--at", "read::fetch", "--replace", '{"url": "a", "text": "wrack"}')
    assert "a: wrack green" in done("rerun", "kelp-1", "--at", "read#2::fetch").stdout
    assert "a: kelp green" in done("rerun", "kelp-1", "--at", "read#2::fetch", "--timeline", "1").stdout


def test_a_rerun_that_fails_says_where_and_how_to_go_on(kelp: Path) -> None:
    (kelp / "broken").touch()
    result = limpet("rerun", "kelp-1", "--at", "read#2")
    assert 1 == result.exit_code
    assert [
        f"The run failed at {FETCH_2}: ValueError: no page for b",
        "Run it again with: limpet resume kelp-1",
    ] == result.stderr.splitlines()[-2:]
    (kelp / "broken").unlink()
    assert "['a: kelp green', 'b: kelp green']" in done("resume", "kelp-1").stdout


@pytest.mark.usefixtures("kelp")
def test_rerun_in_json_and_quietly() -> None:
    result = done("rerun", "kelp-1", "--at", "read#2", "--json")
    expected = {"state_id": "kelp-1", "status": "completed", "result": ["a: kelp green", "b: kelp green"]}
    assert expected == json_of(result)
    assert "Reusing" not in result.stderr
    assert "" == done("rerun", "kelp-1", "--at", "read#2", "--quiet").stderr


PLAN = """\
Running kelp-1 on from research::read#2::agent_call
Reused: 3 calls, T of tools and models
  read       agent  1 call  T
  fetch      tool   1 call  T
  summarise  llm    1 call  T
Executed again: 3 calls, T of tools and models
  read       agent  1 call  T
  fetch      tool   1 call  T
  summarise  llm    1 call  T  costs money
"""


@pytest.mark.usefixtures("kelp")
def test_a_plan_tells_what_would_be_done_and_does_nothing() -> None:
    before = json_of(done("show", "kelp-1", "--json"))["records"]
    result = done("rerun", "kelp-1", "--at", "read#2", "--plan")
    assert PLAN == re.sub(r" *[\d.]+ (µs|ms|s)\b", " T", result.stdout).replace("call T", "call  T")
    assert "" == result.stderr
    assert before == json_of(done("show", "kelp-1", "--json"))["records"]


@pytest.mark.usefixtures("kelp")
def test_a_plan_is_json_too() -> None:
    replace = '{"url": "b", "text": "x"}'
    plan = json_of(done("rerun", "kelp-1", "--at", FETCH_2, "--replace", replace, "--plan", "--json"))
    assert (FETCH_2, True) == (plan["address"], plan["replaces"])
    (again,) = plan["again"]
    assert again.pop("duration_s") > 0
    assert {"actor": "summarise", "type": "llm_call", "calls": 1, "costs_money": True, "once": False} == again
    assert ["fetch", "read", "summarise"] == sorted(each["actor"] for each in plan["reused"])
    assert (4, 1, 1) == tuple(plan["totals"][key] for key in ("calls_reused", "calls_again", "model_calls_again"))


def test_what_is_declared_once_is_executed_again_only_if_that_is_said() -> None:
    done("run", "pipeline:buying", "--id", "x", "--quiet")
    refused = limpet("rerun", "x")
    assert (2, True) == (refused.exit_code, "--again on the command line" in refused.stderr)
    assert 2 == limpet("fork", "x", "--at", "paid").exit_code
    assert "declared once" in done("rerun", "x", "--plan").stdout
    again = done("rerun", "x", "--again")
    assert ("5\n", "! paid is declared once, and executed again") == (again.stdout, again.stderr.splitlines()[-1])
    assert "5\n" == done("fork", "x", "--at", "paid", "--again", "--run").stdout


def test_a_state_that_another_process_runs_is_not_run_on(folder: Path) -> None:
    line = [sys.executable, "-m", "limpet.cli.main", "run", "pipeline:waiting", "--id", "x"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Running ")
        result = limpet("rerun", "x")
        (folder / "go").touch()
        assert 0 == process.wait(60)
    assert (3, 1) == (result.exit_code, result.stderr.count("\n"))
    assert f"being run by process {process.pid}" in result.stderr


# fork


@pytest.mark.usefixtures("kelp")
def test_fork_prints_an_id_and_tells_how_to_go_on() -> None:
    result = done("fork", "kelp-1", "--at", "read#2::fetch", "--replace", '{"url": "b", "text": "wrack"}')
    forked = result.stdout.strip()
    assert re.fullmatch(r"kelp-1-fork-[0-9a-f]{12}", forked)
    assert f"Go on with: limpet resume {forked}\n" == result.stderr
    assert "['a: kelp green', 'b: wrack green']\n" == done("resume", forked).stdout
    assert "Already completed: kelp-1\n" == done("resume", "kelp-1").stderr


@pytest.mark.usefixtures("kelp")
def test_fork_runs_at_once_if_asked() -> None:
    result = done("fork", "kelp-1", "--at", "read#2", "--as", "kelp-2", "--run")
    assert "fetching b\n['a: kelp green', 'b: kelp green']\n" == result.stdout
    assert [
        "Forked kelp-1 as kelp-2",
        "Going on with kelp-2",
        "↺ 3 recorded results reused",
    ] == result.stderr.splitlines()


@pytest.mark.usefixtures("kelp")
def test_fork_is_json_too() -> None:
    assert {"state_id": "kelp-2", "parent_state_id": "kelp-1"} == json_of(
        done("fork", "kelp-1", "--as", "kelp-2", "--json")
    )
    ran = json_of(done("fork", "kelp-1", "--as", "kelp-3", "--at", "read#2", "--run", "--json", "--quiet"))
    assert ("kelp-3", "kelp-1", "completed") == tuple(ran[key] for key in ("state_id", "parent_state_id", "status"))


@pytest.mark.usefixtures("kelp")
def test_fork_takes_an_older_timeline_and_the_store_into_the_hint() -> None:
    done("rerun", "kelp-1", "--at", "read::fetch", "--replace", '{"url": "a", "text": "wrack"}')
    store = ("--store", "sqlite:///.limpet/runs.db")
    told = done("fork", "kelp-1", "--at", "read#2", "--timeline", "1", "--as", "old", *store).stderr
    assert "Go on with: limpet resume old --store sqlite:///.limpet/runs.db\n" == told
    assert "a: kelp green" in done("resume", "old").stdout
    assert "" == done("fork", "kelp-1", "--quiet").stderr


def test_fork_goes_on_from_a_checkpoint() -> None:
    first, second = explicit_state("x")
    assert "old\n" == done("fork", "x", "--checkpoint", str(first), "--as", "old", "--quiet").stdout
    result = done("fork", "x", "--checkpoint", str(second), "--as", "new")
    assert "Go on with: ExecutionState.load_from_state_id('new', …)\n" == result.stderr
    storage = [json_of(done("show", each, "--json"))["storage"] for each in ("old", "new")]
    assert [{"stage": 1}, {"stage": 2}] == storage


def explicit_state(state_id: str) -> tuple[int, int]:
    """A state of the explicit form with two checkpoints; their positions."""
    with SQLiteStateBackend(".limpet/runs.db") as backend:
        state = ExecutionState(state_backend=backend, state_id=state_id, metadata=StateMetadata(tags=["plan"]))
        state.storage.set("stage", 1)
        first = state.save_checkpoint()
        state.storage.set("stage", 2)
        second = state.save_checkpoint(StateStatus.AWAITING)
    return first, second


# diff


DIFF = """\
kelp-1:1 -> kelp-1
~ research::read#2::fetch::tool_call
    result.text: 'kelp' -> 'wrack'
    result.colour: Colour.GREEN -> Colour.RED
~ research::read#2::summarise::llm_call
    result: 'b: kelp green' -> 'b: wrack red'
    input[0].text: 'kelp' -> 'wrack'
    input[0].colour: Colour.GREEN -> Colour.RED
~ research::read#2::agent_call
    result: 'b: kelp green' -> 'b: wrack red'
~ research::agent_call
    result[1]: 'b: kelp green' -> 'b: wrack red'
"""


@pytest.fixture
def replaced(kelp: Path) -> Path:
    page = '{"url": "b", "text": "wrack", "colour": "red"}'
    done("rerun", "kelp-1", "--at", FETCH_2, "--replace", page, "--quiet")
    return kelp


def test_diff_tells_what_a_rerun_changed_without_importing_anything(replaced: Path) -> None:
    (replaced / "pipeline.py").unlink()
    forget(replaced)
    *lines, summary = done("diff", "kelp-1").stdout.splitlines(keepends=True)
    assert DIFF == "".join(lines)
    assert summary.startswith("events: 7 -> 7 (4 changed, 0 removed, 0 new); ")
    assert "pipeline" not in sys.modules


@pytest.mark.usefixtures("replaced")
def test_diff_is_json_too() -> None:
    found = json_of(done("diff", "kelp-1:1", "kelp-1:2", "--json"))
    assert ("kelp-1:1", "kelp-1:2", True) == (found["before"], found["after"], found["is_different"])
    first = found["changed_events"][0]
    assert FETCH_2 == first["address"]
    assert {"place": "result.text", "before": "'kelp'", "after": "'wrack'", "kind": "changed"} == first["differences"][
        0
    ]
    assert "completed" == first["after"]["status"]
    assert {"events": 7, "failures": 0, "retries": 0} == {
        key: value for key, value in found["totals"]["after"].items() if key != "duration_s"
    }


def test_diff_tells_new_and_removed_events_and_storage() -> None:
    explicit_state("x")
    done("run", "pipeline:research", 'urls=["a"]', "--id", "one", "--quiet")
    done("run", "pipeline:research", 'urls=["a", "b"]', "--id", "two", "--quiet")
    grown = done("diff", "one", "two").stdout
    assert "+ research::read#2::fetch::tool_call\n" in grown
    assert "- research::read#2::fetch::tool_call\n" in done("diff", "two", "one").stdout
    first, second = (each["position"] for each in json_of(done("show", "x", "--json"))["checkpoints"])
    assert "    storage['stage']: 1 -> 2\n" in done("diff", f"x:c{first}", f"x:c{second}").stdout
    found = json_of(done("diff", f"x:c{first}", "x", "--json"))
    place = {"place": "storage['stage']", "before": "1", "after": "2", "kind": "changed"}
    assert [{"key": "stage", "differences": [place]}] == found["changed_storage"]
    assert [FETCH_2, "completed"] == [
        json_of(done("diff", "one", "two", "--json"))["new_events"][0][key] for key in ("address", "status")
    ]


@pytest.mark.usefixtures("replaced")
def test_diff_ends_with_one_only_if_asked() -> None:
    assert 0 == limpet("diff", "kelp-1").exit_code
    assert 1 == limpet("diff", "kelp-1", "--exit-code").exit_code
    same = limpet("diff", "kelp-1", "kelp-1:2", "--exit-code")
    assert (0, "kelp-1 and kelp-1:2 do not differ (7 events).\n") == (same.exit_code, same.stdout)


def test_diff_shows_no_secret(folder: Path) -> None:
    done("run", "pipeline:opening", "--id", "one", "--quiet")
    (folder / "word").write_text("moss")
    done("run", "pipeline:opening", "--id", "two", "--quiet")
    for options in ([], ["--json"]):
        result = done("diff", "one", "two", *options)
        assert "result.name" in result.stdout
        assert "s3cret" not in result.output


# validate and rehearse


@pytest.mark.usefixtures("kelp")
def test_a_validation_executes_and_tells_that_all_went_through() -> None:
    result = done("validate", "kelp-1")
    assert "1 state validated: 1 went through, 0 did not.\n" == result.stdout
    assert [
        "Executing the tools and models of 1 run again; `--rehearse` does not.",
        "fetching a",
        "fetching b",
    ] == result.stderr.splitlines()


def test_a_validation_that_fails_names_the_address_and_the_place(kelp: Path) -> None:
    (kelp / "word").write_text("wrack")
    result = limpet("validate", "kelp-1", "--quiet")
    assert 1 == result.exit_code
    shown = result.stdout.splitlines()
    assert [
        "✗ kelp-1: 0 matched, 7 mismatched",
        "    ≠ research::read::fetch::tool_call",
        "        result.text: 'kelp' -> 'wrack'",
    ] == shown[:3]
    assert "1 state validated: 0 went through, 1 did not." == shown[-1]


def test_a_validation_is_json_too(kelp: Path) -> None:
    (kelp / "word").write_text("wrack")
    result = limpet("validate", "kelp-1", "--json")
    assert 1 == result.exit_code
    found = json_of(result)
    assert ("validation", False) == (found["mode"], found["is_ok"])
    (state,) = found["states"]
    difference = {"place": "result.text", "before": "'kelp'", "after": "'wrack'", "kind": "changed"}
    assert {"address": "research::read::fetch::tool_call", "differences": [difference]} == state["mismatches"][0]
    assert ("kelp-1", False, [], []) == tuple(state[key] for key in ("state_id", "is_ok", "missing", "extra"))


def test_states_are_chosen_as_in_a_list(kelp: Path) -> None:
    done("run", "pipeline:read", "url=a", "--id", "other", "--quiet")

    def checked(*options: str) -> list[str]:
        return [state["state_id"] for state in json_of(done("rehearse", *options, "--json"))["states"]]

    assert ["other", "kelp-1"] == checked("--all")
    assert ["kelp-1"] == checked("--tag", "demo")
    assert ["other", "kelp-1"] == checked("--status", "completed")
    assert [] == checked("--pipeline", "none")
    assert ["kelp-1", "other"] == checked("kelp-1", "other", "kelp-1")
    assert "0 states rehearsed: 0 went through, 0 did not.\n" == done("rehearse", "--tag", "none").stdout


@pytest.mark.parametrize("command", [["rehearse"], ["validate", "--rehearse"]])
def test_a_rehearsal_names_the_file_and_the_line_and_executes_nothing(kelp: Path, command: list[str]) -> None:
    assert "1 state rehearsed: 1 went through, 0 did not.\n" == done(*command, "kelp-1").output
    edit(kelp, "await summarise(await fetch(url))", "await summarise(await fetch(url + 'x'))")
    result = limpet(*command, "kelp-1")
    assert (1, "") == (result.exit_code, result.stderr)
    line = next(
        number for number, text in enumerate((kelp / "pipeline.py").read_text().splitlines(), 1) if "'x'" in text
    )
    first = f"    {kelp}/pipeline.py:{line}: research::read::fetch::tool_call input drifted (input[0]: 'a' -> 'ax')"
    assert first == result.stdout.splitlines()[1]


def test_a_rehearsal_is_json_too(kelp: Path) -> None:
    edit(kelp, "await summarise(await fetch(url))", "await summarise(await fetch(url + 'x'))")
    result = limpet("rehearse", "kelp-1", "--json")
    found = json_of(result)
    assert (1, "rehearsal", False) == (result.exit_code, found["mode"], found["is_ok"])
    (state,) = found["states"]
    first = state["divergences"][0]
    assert ("research::read::fetch::tool_call", "input drifted") == (first["address"], first["finding"])
    assert (str(kelp / "pipeline.py"), int) == (first["file"], type(first["line"]))
    assert (None, None, 7) == (state["error"], state["goes_on_at"], len(state["calls"]))


def test_a_rehearsal_tells_where_an_unfinished_run_would_go_on(kelp: Path) -> None:
    (kelp / "broken").touch()
    limpet("run", "pipeline:research", 'urls=["a", "b"]', "--id", "x", "--quiet")
    (kelp / "broken").unlink()
    shown = done("rehearse", "x", "kelp-1", "-v").stdout
    assert "✓ x: " in shown
    assert "✓ kelp-1: 7 reused\n" in shown


def test_a_state_whose_agent_is_gone_is_reported_and_does_not_stop_the_others(kelp: Path) -> None:
    (kelp / "gone.py").write_text("from limpet import agent\n@agent\nasync def gone():\n    return 1\n")
    (kelp / "broken_module.py").write_text((kelp / "gone.py").read_text())
    done("run", "gone:gone", "--id", "gone-1", "--quiet")
    done("run", "broken_module:gone", "--id", "broken-1", "--quiet")
    (kelp / "gone.py").unlink()
    (kelp / "broken_module.py").write_text("def:\n")
    forget(kelp)
    result = limpet("rehearse", "gone-1", "broken-1", "kelp-1")
    assert 1 == result.exit_code
    first, second, last = result.stdout.splitlines()
    assert first.startswith("? gone-1: The agent 'gone:gone' was not found: gone cannot be imported")
    assert second.startswith("? broken-1: broken_module cannot be imported: SyntaxError")
    assert "3 states rehearsed: 1 went through, 2 did not." == last
    state = json_of(limpet("rehearse", "gone-1", "--json"))["states"][0]
    assert (False, True) == (state["is_ok"], "was not found" in state["not_checked"])


def test_code_that_leaves_does_not_stop_the_others(kelp: Path) -> None:
    done("run", "pipeline:leaving", "--id", "x", "--quiet")
    (kelp / "leave").touch()
    result = limpet("validate", "x", "kelp-1", "--quiet")
    assert 1 == result.exit_code
    assert "? x: Its code called sys.exit(3).\n2 states validated: 1 went through, 1 did not.\n" == result.stdout


def test_verbose_reports_everything(kelp: Path) -> None:
    urls = json.dumps([str(number) for number in range(12)])
    done("run", "pipeline:research", f"urls={urls}", "--id", "long", "--quiet")
    (kelp / "word").write_text("wrack")
    short, long = (limpet("validate", "long", "-q", *more).stdout for more in ([], ["-v"]))
    assert "more lines" in short
    assert 12 == long.count("::fetch::tool_call")


# lineage and show


@pytest.fixture
def family(replaced: Path) -> Path:
    done("fork", "kelp-1", "--at", "read#2", "--as", "kelp-2", "--run", "--quiet")
    done("fork", "kelp-2", "--at", "read#2", "--as", "kelp-3", "--quiet")
    return replaced


LINEAGE = f"""\
kelp-1  completed
   timeline 1
   timeline 2 from timeline 1 at {FETCH_2}  (current)
└─ kelp-2  completed  ← this one
   └─ kelp-3  paused
"""


@pytest.mark.usefixtures("family")
def test_lineage_draws_the_family_and_marks_the_state() -> None:
    assert LINEAGE == done("lineage", "kelp-2").stdout


@pytest.mark.usefixtures("family")
def test_lineage_is_json_too() -> None:
    tree = json_of(done("lineage", "kelp-2", "--json"))
    (child,) = tree["children"]
    assert ("kelp-1", False, None) == (tree["state_id"], tree["is_asked_for"], tree["parent_state_id"])
    assert ("kelp-2", True, "kelp-1") == (child["state_id"], child["is_asked_for"], child["parent_state_id"])
    assert ["kelp-3"] == [each["state_id"] for each in child["children"]]
    assert [(1, False), (2, True)] == [(each["number"], each["is_current"]) for each in tree["timelines"]]
    assert FETCH_2 == tree["timelines"][1]["address"]


@pytest.mark.usefixtures("replaced")
def test_show_says_which_timeline_it_shows() -> None:
    shown = done("show", "kelp-1").stdout
    assert f"  timeline  2 of 2, run on from timeline 1 at {FETCH_2}\n" in shown
    assert "b: wrack red" in shown
    old = done("show", "kelp-1", "--timeline", "1").stdout
    assert "  timeline  1 of 2; the current one is 2\n" in old
    assert "b: kelp green" in old
    found = json_of(done("show", "kelp-1", "--timeline", "1", "--json"))
    assert (1, 2) == (found["timeline"], len(found["timelines"]))
    assert ["a: kelp green", "b: kelp green"] == found["events"][0]["result"]


def test_show_tells_where_another_timeline_failed(kelp: Path) -> None:
    (kelp / "broken").touch()
    limpet("rerun", "kelp-1", "--at", "read#2")
    (kelp / "broken").unlink()
    done("rerun", "kelp-1", "--at", "read#2", "--quiet")
    assert "Failed at" not in done("show", "kelp-1").stdout
    assert f"Failed at {FETCH_2}: ValueError: no page for b\n" in done("show", "kelp-1", "--timeline", "2").stdout
    assert FETCH_2 == json_of(done("show", "kelp-1", "--timeline", "2", "--json"))["failed_at"]


@pytest.mark.usefixtures("family")
def test_show_names_the_parent() -> None:
    assert "  parent    kelp-1\n" in done("show", "kelp-2").stdout
    found = json_of(done("show", "kelp-2", "--json"))
    assert ("kelp-1", []) == (found["parent_state_id"], found["checkpoints"])


def test_show_lists_the_newest_checkpoints() -> None:
    first, second = explicit_state("x")
    shown = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "NOW", done("show", "x").stdout)
    lines = [
        f"  {first}  running   NOW UTC  manual, 0 events  plan",
        f"  {second}  awaiting  NOW UTC  manual, 0 events  plan",
    ]
    assert "\n".join(["", "Checkpoints", *lines, "", ""]) in shown
    found = json_of(done("show", "x", "--json"))["checkpoints"]
    assert [(first, "running", 1, ["plan"]), (second, "awaiting", 1, ["plan"])] == [
        (each["position"], each["status"], each["timeline"], each["tags"]) for each in found
    ]
    with SQLiteStateBackend(".limpet/runs.db") as backend:
        state = ExecutionState.load_from_state_id("x", backend)
        for _ in range(10):
            state.save_checkpoint()
    shown = done("show", "x").stdout
    assert "  … 2 earlier; `--json` has them all\n" in shown
    assert 10 == shown.count(" events  plan")
    assert 12 == len(json_of(done("show", "x", "--json"))["checkpoints"])


def test_a_state_with_nothing_of_that_is_shown_as_before(kelp: Path) -> None:
    shown = done("show", "kelp-1").stdout
    assert not re.search("timeline|parent|Checkpoints", shown)
    found = json_of(done("show", "kelp-1", "--json"))
    assert (1, [1], []) == (found["timeline"], [each["number"] for each in found["timelines"]], found["checkpoints"])
    with Limpet("sqlite:///.limpet/runs.db") as client:
        (timeline,) = client.timelines("kelp-1")
    assert (timeline.first, timeline.last) == (found["timelines"][0]["first"], found["timelines"][0]["last"])


# What cannot be done


PAGE = "is of the type pipeline.Page, and cannot be replaced by this JSON: "
BAD_INPUT = {
    "unknown state": (["rerun", "kelp-2"], "No state 'kelp-2' is in this store. Nearest: 'kelp-1'."),
    "unknown address": (
        ["rerun", "kelp-1", "--at", "research::read::fetsh::tool_call"],
        "No event stands at 'research::read::fetsh::tool_call' in state 'kelp-1'. Nearest: 'research::read::fetch",
    ),
    "unknown in a plan": (["rerun", "kelp-1", "--at", "x", "--plan"], "No event stands at 'x' in state 'kelp-1'."),
    "ambiguous": (["rerun", "kelp-1", "--at", "fetch"], "'fetch' may mean any of 2 events in state 'kelp-1': "),
    "unknown timeline": (["rerun", "kelp-1", "--timeline", "7"], "State 'kelp-1' has no timeline 7"),
    "no timeline": (["rerun", "kelp-1", "--timeline", "0"], "Invalid value for '--timeline'"),
    "wrong type": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", "3"], f"{PAGE}result: an object is expected"),
    "wrong field": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", '{"url": 3}'], f"{PAGE}result.url: Expected"),
    "no such field": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", '{"ulr": ""}'], "it has: url, text, colour."),
    "wrong plain type": (
        ["rerun", "kelp-1", "--at", "read#2::summarise", "--replace", "3"],
        "is of the type str, and cannot be replaced by this JSON: result: Expected `str`, got `int`.",
    ),
    "malformed": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", "{url"], "--replace is no JSON: Expecting"),
    "not a number": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", "NaN"], "NaN is not a value of JSON"),
    "too deep": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", "[" * 99_999], "--replace is no JSON: "),
    "no file": (
        ["rerun", "kelp-1", "--at", FETCH_2, "--replace", "@no.json"],
        "'no.json' cannot be read: No such file",
    ),
    "no json file": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", "@pipeline.py"], "pipeline.py has no JSON"),
    "no text file": (["rerun", "kelp-1", "--at", FETCH_2, "--replace", "@bytes"], "'bytes' cannot be read: 'utf-8'"),
    "replaces nothing": (["rerun", "kelp-1", "--replace", "3"], "Name the call with `--at ADDRESS`."),
    "any type of nothing": (["rerun", "kelp-1", "--any-type"], "`--any-type` says how `--replace` is read"),
    "explicit": (["rerun", "explicit"], "State 'explicit' has no events."),
    "two places": (["fork", "kelp-1", "--at", "read#2", "--checkpoint", "3"], "at an address or at a checkpoint"),
    "unknown checkpoint": (["fork", "kelp-1", "--checkpoint", "3"], "has no checkpoint at position 3"),
    "two timelines": (["fork", "kelp-1", "--checkpoint", "3", "--timeline", "1"], "A checkpoint names its timeline."),
    "unknown fork timeline": (["fork", "kelp-1", "--timeline", "2"], "State 'kelp-1' has no timeline 2"),
    "unknown fork": (["fork", "kelp-2"], "No state 'kelp-2' is in this store."),
    "taken id": (["fork", "kelp-1", "--as", "explicit"], "There is a state 'explicit' already."),
    "bad id": (["fork", "kelp-1", "--as", "../x"], "'../x' cannot be a state id"),
    "fork replaces nothing": (["fork", "kelp-1", "--replace", "3"], "Name the call with `--at ADDRESS`."),
    "fork without agent": (["fork", "explicit", "--run"], "names no agent that could be imported"),
    "unknown in a diff": (["diff", "kelp-1", "kelp-2"], "No state 'kelp-2' is in this store. Nearest: 'kelp-1'."),
    "no point": (["diff", "kelp-1:x", "kelp-1"], "'kelp-1:x' names no point of a state."),
    "nothing to compare": (["diff", "kelp-1"], "has one timeline and is no fork"),
    "no timeline to compare": (["diff", "kelp-1", "kelp-1:2"], "State 'kelp-1' has no timeline 2"),
    "no checkpoint to compare": (["diff", "kelp-1", "kelp-1:c2"], "has no checkpoint at position 2"),
    "no states": (["validate"], "No state is named. Give ids; or choose with `--tag`"),
    "no rehearsed states": (["rehearse"], "No state is named."),
    "named and chosen": (["validate", "kelp-1", "--all"], "States are either named or chosen."),
    "unknown to validate": (["validate", "kelp-1", "kelp-2"], "No state 'kelp-2' is in this store."),
    "unknown lineage": (["lineage", "kelp-2"], "No state 'kelp-2' is in this store."),
    "unknown shown timeline": (["show", "kelp-1", "--timeline", "2"], "State 'kelp-1' has no timeline 2"),
}


@pytest.fixture
def with_an_explicit_state(kelp: Path) -> None:
    (kelp / "bytes").write_bytes(b"\xff")
    with SQLiteStateBackend(".limpet/runs.db") as backend:
        ExecutionState(state_backend=backend, state_id="explicit").save_checkpoint(StateStatus.PAUSED)


@pytest.mark.usefixtures("with_an_explicit_state")
@pytest.mark.parametrize("what", BAD_INPUT)
def test_what_cannot_be_done_is_one_line_that_says_why_and_changes_nothing(what: str) -> None:
    arguments, why = BAD_INPUT[what]
    before = done("list", "--json").stdout
    result = limpet(*arguments)
    assert (2, "") == (result.exit_code, result.stdout)
    assert why in result.stderr
    assert 1 == result.stderr.count("\n")
    assert before == done("list", "--json").stdout


@pytest.mark.usefixtures("with_an_explicit_state")
@pytest.mark.parametrize("what", BAD_INPUT)
def test_what_cannot_be_done_is_json_too(what: str) -> None:
    result = limpet(*BAD_INPUT[what][0], "--json")
    assert 2 == result.exit_code
    assert result.stderr == json_of(result)["error"]["message"] + "\n"


@pytest.mark.usefixtures("family")
@pytest.mark.parametrize("line", [["diff", "kelp-1"], ["lineage", "kelp-1"], ["rerun", "kelp-1", "--plan"]])
def test_colours_are_for_terminals_alone(line: list[str]) -> None:
    result = done(*line)
    assert click.unstyle(result.output) == result.output
    styled = CliRunner().invoke(commands, line, color=True)
    assert result.output == click.unstyle(styled.output) != styled.output
