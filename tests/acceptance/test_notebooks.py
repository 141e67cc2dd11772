"""Limpet in a notebook: agents are named as what they are, and states look like something."""

from __future__ import annotations

import asyncio
import html
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from limpet import AgentNotFound, Limpet, StateMetadata, agent, tool
from limpet.cli.main import commands
from limpet.engine import declared
from limpet.model.validation import Finding, Rehearsed

CELL = """
from limpet import agent, tool

@tool
async def fetch(topic):
    if topic == "nothing":
        raise LookupError("there is nothing")
    return topic

@agent
async def research(topic):
    return await fetch(topic)
"""
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e & \"'"


def kernel(file: str, monkeypatch: pytest.MonkeyPatch, cell: str = CELL) -> Any:
    """A process in which a cell of a notebook was run."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(cell, file, "exec"), main.__dict__)  # what a notebook does
    return main


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


CELLS = ["/tmp/ipykernel_4711/1234.py", r"C:\Temp\ipykernel_4711\1234.py", "<ipython-input-1-0123456789ab>"]


@pytest.mark.parametrize("file", CELLS)
def test_an_agent_of_a_notebook_is_named_as_that(file: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet(store) as client, pytest.raises(LookupError):
        client.run_sync(kernel(file, monkeypatch).research, "nothing", state_id="kelp")
    shown = CliRunner().invoke(commands, ["show", "kelp", "--store", store]).output
    assert "research, declared in a notebook" in shown
    assert "`await client.resume('kelp')` in its notebook" in shown
    assert "ipykernel" not in shown
    assert "ipython" not in shown


def test_elsewhere_it_is_refused_with_what_to_do(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet(store) as client, pytest.raises(LookupError):
        client.run_sync(kernel(CELLS[0], monkeypatch).research, "nothing", state_id="kelp")
    # As in another process: nothing of the kernel is declared any more.
    monkeypatch.setattr(declared, "_by_reference", {})
    monkeypatch.setattr(declared, "_by_name", {})
    resumed = CliRunner().invoke(commands, ["resume", "kelp", "--store", store])
    assert 2 == resumed.exit_code
    assert "it was declared in a notebook" in resumed.output
    assert "give it with `agent=`" in resumed.output
    with Limpet(store) as client, pytest.raises(AgentNotFound, match="declared in a notebook"):
        asyncio.run(client.resume("kelp"))


def test_it_is_found_again_when_its_cells_were_run_in_a_new_kernel(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet(store) as client, pytest.raises(LookupError):
        client.run_sync(kernel(CELLS[0], monkeypatch).research, "nothing", state_id="kelp")
    mended = kernel("/tmp/ipykernel_4712/9.py", monkeypatch, CELL.replace('"nothing"', '"everything"'))
    with Limpet(store) as client:
        assert "nothing" == asyncio.run(client.resume("kelp"))
        assert "nothing" == asyncio.run(client.resume("kelp", agent=mended.research))


def test_a_line_of_a_cell_is_named_without_an_invented_file() -> None:
    found = Rehearsed("research::fetch::tool_call", Finding.MISSING, file=CELLS[0], line=7)
    assert "notebook cell, line 7: research::fetch::tool_call missing" == str(found)


@tool
async def fetch(number: int) -> int:
    if number < 0:
        raise LookupError(HOSTILE)
    return number


@agent
async def research(count: int) -> int:
    for number in range(count):
        await fetch.options(key=f"{number} {HOSTILE}")(number)
    return await fetch(count - 1)


class Tags(HTMLParser):
    """The tags that a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def test_a_history_and_a_state_say_what_they_are_in_a_line() -> None:
    client = Limpet("memory://")
    client.run_sync(research, 2, state_id="kelp")
    assert "<history of kelp: completed, 4 events>" == repr(client.history("kelp"))
    assert "<state kelp: completed, 4 events>" == repr(client.show("kelp"))


def test_a_notebook_shows_a_small_table_in_which_everything_is_escaped() -> None:
    client = Limpet("memory://")
    metadata = StateMetadata(tags=[HOSTILE], description=HOSTILE, pipeline_name=HOSTILE)
    client.run_sync(research, 100, state_id="kelp", metadata=metadata)
    with pytest.raises(LookupError):
        client.run_sync(research, 0, state_id="failing", metadata=metadata)
    for shown in (client.show(each) for each in ("kelp", "failing")):
        for table in (shown._repr_html_(), shown.history._repr_html_()):
            assert {"table", "caption", "thead", "tbody", "tr", "th", "td"} <= Tags(table).found
            assert Tags(table).found <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
            assert {"\x1b", "\u202e"}.isdisjoint(html.unescape(table))
    whole = client.history("kelp")._repr_html_()
    assert 22 == len(re.findall("<tr>", whole))
    assert "… and 82 more" in whole
    assert "history of kelp: completed, 102 events" in whole
