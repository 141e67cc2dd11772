"""What is declared ``once`` is never executed twice without a person's word."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    OnceAgain,
    OutcomeUnknown,
    SQLiteStateBackend,
    StateStatus,
    agent,
    tool,
)
from limpet.testing import CrashingBackend, SimulatedCrash

executed: list[str] = []


@tool
async def price(item: str) -> int:
    executed.append(f"price {item}")
    return 10


@tool(once=True)
async def charge(amount: int) -> str:
    executed.append(f"charge {amount}")
    return f"receipt {amount}"


@agent
async def order(item: str) -> str:
    receipt = await charge(await price(item))
    executed.append("ship")
    return f"{item}: {receipt}"


CHARGE = "order::charge::tool_call"


@pytest.fixture(autouse=True)
def nothing_executed() -> None:
    executed.clear()


def stopped(backend: Any, stop_at: int, when: Any) -> None:
    crashing = CrashingBackend(backend, stop_at=stop_at, when=when)
    with pytest.raises(SimulatedCrash):
        Limpet(crashing).run_sync(order, "kelp", state_id="o")
    assert crashing.is_stopped


def stopped_inside_charge() -> MemoryStateBackend:
    """The start of the charge is durable, and its outcome is not."""
    backend = MemoryStateBackend()
    # The claim, the price, the start of the charge, and its outcome, which is lost.
    stopped(backend, 4, "before")
    assert ["price kelp", "charge 10"] == executed
    assert ExecutionStatus.STARTED is Limpet(backend).history("o")[CHARGE].status
    return backend


def test_the_start_is_durable_before_the_handler_runs() -> None:
    backend = MemoryStateBackend()
    stopped(backend, 3, "before")
    assert ["price kelp"] == executed
    assert CHARGE not in Limpet(backend).history("o")


def test_a_call_that_was_under_way_is_not_executed_again() -> None:
    client = Limpet(stopped_inside_charge())
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="may or may not"):
            client.run_sync(order, "kelp", state_id="o")
    assert ["price kelp", "charge 10"] == executed


def test_a_person_can_say_that_it_happened() -> None:
    client = Limpet(stopped_inside_charge())
    result = asyncio.run(client.rerun("o", at=CHARGE, replace="receipt found"))
    assert "kelp: receipt found" == result
    assert ["price kelp", "charge 10", "ship"] == executed


def test_a_person_can_say_that_it_did_not_happen() -> None:
    client = Limpet(stopped_inside_charge())
    with pytest.raises(OnceAgain, match="charge"):
        asyncio.run(client.rerun("o", at=CHARGE))
    assert "kelp: receipt 10" == asyncio.run(client.rerun("o", at=CHARGE, again=True))
    assert ["price kelp", "charge 10", "charge 10", "ship"] == executed


def test_running_on_from_before_it_needs_a_word() -> None:
    client = Limpet("memory://")
    client.run_sync(order, "kelp", state_id="o")
    position = client.show("o").header.position
    with pytest.raises(OnceAgain):
        asyncio.run(client.rerun("o", at="price"))
    with pytest.raises(OnceAgain):
        client.fork("o", at="order::price::tool_call")
    assert (position, 1) == (client.show("o").header.position, len(client.list_states()))
    fork = client.fork("o", at="order::price::tool_call", again=True)
    assert "kelp: receipt 10" == asyncio.run(client.resume(fork))


def test_running_on_from_behind_it_needs_none() -> None:
    client = Limpet("memory://")
    client.run_sync(order, "kelp", state_id="o")
    assert "kelp: paid" == asyncio.run(client.rerun("o", at=CHARGE, replace="paid"))
    fork = client.fork("o", at=CHARGE, replace="gratis")
    assert "kelp: gratis" == asyncio.run(client.resume(fork))


def test_a_plan_names_what_is_declared_once() -> None:
    client = Limpet("memory://")
    client.run_sync(order, "kelp", state_id="o")
    plan = client.plan_rerun("o", "price")
    assert [("charge", 1)] == [(calls.actor, calls.calls) for calls in plan.once_again]
    assert "declared once" in str(plan)
    assert () == client.plan_rerun("o", CHARGE, replace="x").once_again


def test_what_was_cancelled_before_it_began_is_executed_without_a_word() -> None:
    bugs = ["before the charge", "beside the charge"]

    async def checks() -> None:
        await price("kelp")
        if bugs:
            raise RuntimeError(bugs.pop(0))

    @agent
    async def pays() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(checks())
            charging = group.create_task(charge(10)) if len(bugs) < 2 else None
        return "nothing" if charging is None else charging.result()

    client = Limpet("memory://")
    for _ in range(2):
        with pytest.raises(ExceptionGroup):
            client.run_sync(pays, state_id="o")
    assert ExecutionStatus.CANCELLED is client.history("o")["pays::charge::tool_call"].status
    assert "receipt 10" == client.run_sync(pays, state_id="o")
    assert ["price kelp", "charge 10"] == executed


def test_what_was_cut_off_inside_stays_unknown_when_it_is_cancelled_before_it_could_begin_again() -> None:
    bugs = ["beside the charge"]
    is_charging = asyncio.Event()

    @tool(once=True)
    async def charges_slowly() -> None:
        executed.append("charge")
        is_charging.set()
        await asyncio.Event().wait()

    @tool
    async def take_from_stock() -> None:
        await is_charging.wait()
        raise LookupError("nothing is left")

    async def checks() -> None:
        await price("kelp")
        if "take_from_stock" in executed:
            raise RuntimeError(bugs.pop())
        executed.append("take_from_stock")
        await take_from_stock()

    @agent
    async def pays() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(charges_slowly())
            group.create_task(checks())

    client = Limpet("memory://")
    found: list[Any] = []
    for _ in range(2):
        with pytest.raises(ExceptionGroup):
            client.run_sync(pays, state_id="o")
        found.append(client.history("o")["pays::charges_slowly::tool_call"])
    assert [] == bugs
    assert found[0].seq < found[1].seq
    assert found[0].details.key
    assert found[0].details == found[1].details
    assert 1 == executed.count("charge")


PROGRAM = """
import os, signal, sys
from limpet import Limpet, agent, tool

@tool(once=True)
def charge(amount: int) -> str:
    with open("charges", "a") as file:
        file.write("charged\\n")
    if "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return "receipt"

@agent
async def order(amount: int) -> str:
    return await charge(amount)

print(Limpet("sqlite:///runs.db").run_sync(order, 5, state_id="o"))
"""


def test_a_process_that_is_killed_inside_it_does_not_charge_twice(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "program.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True)

    assert -signal.SIGKILL == run("kill").returncode
    again = run()
    assert again.returncode == 1
    assert "OutcomeUnknown" in again.stderr
    assert "charged\n" == (tmp_path / "charges").read_text()
    with Limpet(SQLiteStateBackend(tmp_path / "runs.db")) as client:
        assert ExecutionStatus.AWAITING is client.history("o")["order::charge::tool_call"].status
        assert StateStatus.AWAITING is client.show("o").header.status
