"""Every row of the table of types on every backend: live, taken up again in the same process, and in a new one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache

import msgspec
import pytest
from acceptance.table_of_types import Secretive, rows
from acceptance.table_program import ASPECTS, BACKENDS, FAILURES, TABLE, WAYS, Outcome, begin, client

from limpet import Limpet, MemoryStateBackend, agent, tool
from limpet.codec.values import decode, encode

STAGES = ("live", "replayed", "in a new process")
TAKEN = [(stage, backend) for backend in BACKENDS for stage in STAGES if (stage, backend) != (STAGES[2], "memory")]
FAILED = [f"fail {aspect}" for aspect in FAILURES]

Find = Callable[[str, str], Outcome]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Find:
    """Runs the table once for each backend, when a test first asks for it."""

    @cache
    def of_backend(backend: str) -> dict[str, Outcome]:
        folder = tmp_path_factory.mktemp("table")
        with client(backend, folder) as limpet:
            found = {"live": begin(limpet), "replayed": begin(limpet)}
        if backend != "memory":
            found["in a new process"] = in_a_new_process(backend, str(folder))
        return found

    return lambda stage, backend: of_backend(backend)[stage]


def in_a_new_process(backend: str, folder: str) -> Outcome:
    # Warnings are errors there as well: a drift would be one.
    command = [sys.executable, "-W", "error", "-m", "acceptance.table_program", backend, folder]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert "" == answer.stderr
    return msgspec.json.decode(answer.stdout, type=Outcome)


@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("stage", "backend"), TAKEN)
def test_every_value_of_a_row_comes_back_equal_and_of_the_same_type(
    stage: str, backend: str, way: str, row: str, outcome: Find
) -> None:
    assert dict.fromkeys(TABLE[row], "") == outcome(stage, backend).ways[way][row]


@pytest.mark.parametrize(("stage", "backend"), TAKEN)
def test_a_failure_that_was_caught_comes_back_with_what_it_knows(stage: str, backend: str, outcome: Find) -> None:
    assert dict.fromkeys(FAILURES, "") == outcome(stage, backend).failures


@pytest.mark.parametrize(("stage", "backend"), TAKEN)
def test_only_the_first_run_executes_anything(stage: str, backend: str, outcome: Find) -> None:
    names = [f"{row}: {aspect}" for row, aspect in ASPECTS]
    everything = [*(f"give {name}" for name in names), *(f"keep {name}" for name in names), *FAILED]
    assert (everything if stage == "live" else []) == outcome(stage, backend).executed


def test_private_attributes_of_a_model_begin_anew() -> None:
    stored = rows()["pydantic models"]["private attributes excluded"]
    assert ([2], []) == (stored._hidden, decode(encode(stored))._hidden)
    assert Secretive(shown=1) == decode(encode(stored))


@tool
async def fail_unspeakably() -> None:
    raise ValueError("lone \ud800 surrogate")


@agent
async def goes_on() -> list[str]:
    said: list[str] = []
    for _ in range(2):
        try:
            await fail_unspeakably()
        except ValueError as error:
            said.append(str(error))
    return said


def test_a_failure_whose_text_is_not_utf8_is_recorded() -> None:
    limpet = Limpet(MemoryStateBackend())
    assert ["lone \ud800 surrogate"] * 2 == limpet.run_sync(goes_on, state_id="x")
    assert ["lone \ud800 surrogate"] * 2 == limpet.run_sync(goes_on, state_id="x")
