"""A failure that the program caught is part of the flow: it is raised again, and its call is not executed again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crash.stores import opener

from limpet import ExecutionStatus, Limpet, RetryConfig, agent, tool

executions: Counter[str] = Counter()
down: set[str] = set()
"""The services that do not answer."""


class Unreachable(Exception):
    """What a service that is down raises; nothing retries it by itself."""


class GaveUp(Exception):
    """What the agent says of its own accord."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    down.clear()
    down.update(("cheap", "other", "bug"))


@pytest.fixture(params=["memory", "normal", "files"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Limpet]:
    with opener(request.param, tmp_path / "store")() as backend:
        yield Limpet(backend)


@tool
async def ask(service: str) -> str:
    executions[service] += 1
    if service in down:
        raise Unreachable(service)
    return f"{service} answers"


def bug() -> None:
    if "bug" in down:
        raise RuntimeError("a bug in the code of the agent")


def is_on_its_way(client: Limpet, agent: Any, expected: Any, **given: Any) -> None:
    """Fail a run twice, mend everything, and have it completed."""
    for _ in range(2):
        with pytest.raises(Exception, match=r"."):
            client.run_sync(agent, state_id="flow", timeout_s=20, **given)
    down.clear()
    assert expected == client.run_sync(agent, state_id="flow", timeout_s=20, **given)


def test_a_bug_that_comes_later_leaves_the_fallback_chosen(client: Limpet) -> None:
    @agent
    async def falls_back() -> str:
        try:
            answer = await ask("cheap")
        except Unreachable:
            answer = await ask("dear")
        bug()
        return answer

    is_on_its_way(client, falls_back, "dear answers")
    assert {"cheap": 1, "dear": 1} == executions


def test_a_bug_inside_the_except_block_behind_the_fallback_leaves_it_chosen(client: Limpet) -> None:
    @agent
    async def falls_back() -> str:
        try:
            return await ask("cheap")
        except Unreachable:
            answer = await ask("dear")
            bug()
            return answer

    is_on_its_way(client, falls_back, "dear answers")
    assert {"cheap": 1, "dear": 1} == executions


@pytest.mark.parametrize("slip", [KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError, AssertionError])
def test_a_slip_in_the_except_block_is_a_bug_and_passes_nothing_on(client: Limpet, slip: type[Exception]) -> None:
    @agent
    async def slips() -> str:
        try:
            return await ask("cheap")
        except Unreachable:
            if "bug" in down:
                raise slip("the except block is wrong")  # noqa: B904
            return "without it"

    is_on_its_way(client, slips, "without it")
    assert {"cheap": 1} == executions


def wrapped_from(error: Exception) -> None:
    raise GaveUp("no answer") from error


def wrapped_hidden(error: Exception) -> None:
    raise GaveUp("no answer") from None


def wrapped_implicitly(error: Exception) -> None:
    raise GaveUp("no answer")


def wrapped_as_a_slip_from(error: Exception) -> None:
    raise KeyError("no answer") from error


def raised_anew(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "wrap", [wrapped_from, wrapped_hidden, wrapped_implicitly, wrapped_as_a_slip_from, raised_anew]
)
def test_a_failure_that_is_wrapped_in_the_except_block_is_passed_on(
    client: Limpet, wrap: Callable[[Exception], None]
) -> None:
    @agent
    async def wraps() -> str | None:
        try:
            return await ask("cheap")
        except Unreachable as error:
            wrap(error)
            return None

    is_on_its_way(client, wraps, "cheap answers")
    assert {"cheap": 3} == executions


def test_a_failure_that_is_wrapped_behind_a_further_call_is_passed_on_only_where_that_is_said(client: Limpet) -> None:
    @agent
    async def wraps(is_said: bool) -> str:
        try:
            return await ask("cheap")
        except Unreachable as error:
            answer = await ask("dear")
            if "bug" not in down:
                return answer
            if is_said:
                raise GaveUp(answer) from error
            raise GaveUp(answer)  # noqa: B904

    is_on_its_way(client, wraps, "dear answers", is_said=False)
    assert {"cheap": 1, "dear": 1} == executions
    down.update(("cheap", "bug"))
    with pytest.raises(GaveUp):
        client.run_sync(wraps, True, state_id="said")
    down.clear()
    assert "cheap answers" == client.run_sync(wraps, True, state_id="said")


def test_what_the_run_gives_up_after_is_not_executed_again_unless_that_is_asked_for(client: Limpet) -> None:
    @agent
    async def gives_up() -> str:
        for _ in range(2):
            try:
                return await ask("cheap")
            except Unreachable:
                continue
        raise GaveUp("twice")

    with pytest.raises(GaveUp):
        client.run_sync(gives_up, state_id="flow")
    down.clear()
    with pytest.raises(GaveUp):
        client.run_sync(gives_up, state_id="flow")
    assert {"cheap": 2} == executions
    assert "cheap answers" == asyncio.run(client.resume("flow", agent=gives_up, retry_caught=True))
    assert {"cheap": 3} == executions


def test_who_asks_for_it_has_caught_failures_executed_again_wherever_they_are(client: Limpet) -> None:
    @agent
    async def inner() -> str:
        try:
            return await ask("cheap")
        except Unreachable:
            raise GaveUp("inner") from None

    @agent
    async def outer() -> list[str]:
        found: list[str] = []
        for call in (inner, lambda: ask("other")):
            try:
                found.append(await call())
            except Exception as error:
                found.append(type(error).__name__)
        found.append(await ask("steady"))
        bug()
        return found

    with pytest.raises(RuntimeError):
        client.run_sync(outer, state_id="flow")
    down.clear()
    resumed = asyncio.run(client.resume("flow", agent=outer, retry_caught=True))
    assert ["cheap answers", "other answers", "steady answers"] == resumed
    assert {"cheap": 2, "other": 2, "steady": 1} == executions


def test_of_a_gather_that_failed_only_what_it_passed_on_is_executed_again(client: Limpet) -> None:
    async def careful(service: str) -> str:
        try:
            return await ask(service)
        except Unreachable:
            return "caught"

    @agent
    async def gathers() -> list[str]:
        caught = asyncio.ensure_future(careful("other"))
        await asyncio.wait([caught])
        return list(await asyncio.gather(caught, ask("cheap"), ask("steady")))

    is_on_its_way(client, gathers, ["caught", "cheap answers", "steady answers"])
    assert {"other": 1, "cheap": 3, "steady": 1} == executions


def test_failures_that_a_gather_returns_are_caught(client: Limpet) -> None:
    @agent
    async def gathers() -> list[str]:
        found = await asyncio.gather(ask("cheap"), ask("steady"), ask("other"), return_exceptions=True)
        bug()
        return [str(each) for each in found]

    is_on_its_way(client, gathers, ["cheap", "steady answers", "other"])
    assert {"cheap": 1, "other": 1, "steady": 1} == executions


def test_one_of_the_failures_that_a_gather_returns_is_passed_on_when_it_is_raised(client: Limpet) -> None:
    @agent
    async def gathers() -> list[str]:
        found = await asyncio.gather(ask("other"), ask("cheap"), return_exceptions=True)
        if isinstance(found[1], BaseException):
            raise found[1]
        return [str(each) for each in found]

    is_on_its_way(client, gathers, ["other", "cheap answers"])
    assert {"cheap": 3, "other": 1} == executions


def test_a_task_group_passes_on_all_its_failures_and_an_except_star_catches_them(client: Limpet) -> None:
    @agent
    async def groups(is_caught: bool) -> list[str]:
        async def together() -> list[str]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(service)) for service in ("cheap", "other")]
            return [task.result() for task in tasks]

        if not is_caught:
            return await together()
        try:
            return await together()
        except* Unreachable:
            await ask("dear")
        bug()
        return ["dear"]

    is_on_its_way(client, groups, ["dear"], is_caught=True)
    assert {"cheap": 1, "other": 1, "dear": 1} == executions
    down.update(("cheap", "other"))
    with pytest.raises(ExceptionGroup):
        client.run_sync(groups, False, state_id="passes-on")
    down.clear()
    assert ["cheap answers", "other answers"] == client.run_sync(groups, False, state_id="passes-on")
    assert {"cheap": 3, "other": 3, "dear": 1} == executions


def test_a_sibling_that_fails_after_the_caught_one_is_not_executed_again_either(client: Limpet) -> None:
    @tool
    async def slow(service: str) -> str:
        executions[service] += 1
        await released.wait()
        raise Unreachable(service)

    released = asyncio.Event()

    @agent
    async def gathers() -> str:
        nonlocal released
        released = asyncio.Event()
        late = asyncio.ensure_future(slow("late"))
        try:
            await asyncio.gather(late, ask("cheap"))
        except Unreachable:
            answer = await ask("dear")
        else:
            answer = "both"
        released.set()
        await asyncio.wait([late])
        bug()
        return answer

    is_on_its_way(client, gathers, "dear answers")
    assert {"cheap": 1, "late": 1, "dear": 1} == executions


def test_a_sibling_that_fails_after_its_agent_had_failed_is_not_executed_again(client: Limpet) -> None:
    @tool
    async def slow(service: str) -> str:
        executions[service] += 1
        await released.wait()
        raise Unreachable(service)

    released = asyncio.Event()
    late: asyncio.Task[str] | None = None

    @agent
    async def inner() -> None:
        nonlocal late
        late = asyncio.ensure_future(slow("late"))
        await asyncio.gather(late, ask("cheap"))

    @agent
    async def outer() -> str:
        nonlocal released, late
        released, late = asyncio.Event(), None
        try:
            await inner()
        except Unreachable:
            answer = await ask("dear")
        else:
            answer = "both"
        released.set()
        if late is not None:
            await asyncio.wait([late])
        bug()
        return answer

    is_on_its_way(client, outer, "dear answers")
    assert {"cheap": 1, "late": 1, "dear": 1} == executions


@tool
async def ask_shared(service: str) -> str:
    """Waits for what somebody else has cancelled, as for a request that several calls share."""
    executions[service] += 1
    if service in down:
        shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        shared.cancel()
        await shared
    return f"{service} answers"


def test_a_cancellation_that_a_call_itself_raises_is_a_failure_that_is_raised_again(client: Limpet) -> None:
    @agent
    async def catches(service: str) -> list[str]:
        found: list[str] = []
        try:
            found.append(await ask_shared(service))
        except asyncio.CancelledError:
            found.append(await ask("dear"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in (ask_shared(service), ask("steady"))]
        found += ["cancelled" if task.cancelled() else task.result() for task in tasks]
        bug()
        return found

    is_on_its_way(client, catches, ["dear answers", "cancelled", "steady answers"], service="cheap")
    assert {"cheap": 2, "dear": 1, "steady": 1} == executions


def test_a_cancellation_that_a_call_itself_raises_and_nobody_catches_fails_the_run(client: Limpet) -> None:
    @agent
    async def inner() -> str:
        return await ask_shared("cheap")

    @agent
    async def outer() -> list[str]:
        return [await ask("steady"), await inner()]

    with pytest.raises(asyncio.CancelledError):
        client.run_sync(outer, state_id="flow")
    assert "failed" == client.show("flow").header.status
    down.clear()
    assert ["steady answers", "cheap answers"] == client.run_sync(outer, state_id="flow")
    assert {"cheap": 2, "steady": 1} == executions


def test_a_retried_agent_is_given_the_failures_again_that_it_had_caught(client: Limpet) -> None:
    @agent(retry_config=RetryConfig(max_attempts=3, initial_delay=0))
    async def careful() -> str:
        executions["careful"] += 1
        try:
            answer = await ask("cheap")
        except Unreachable:
            answer = await ask("dear")
        bug()
        return answer

    @agent
    async def run() -> str:
        return await careful()

    is_on_its_way(client, run, "dear answers")
    assert {"cheap": 1, "dear": 1, "careful": 7} == executions


def test_a_record_names_what_its_failure_passed_on_and_nothing_else(client: Limpet) -> None:
    @agent
    async def fails(passes_on: bool) -> None:
        try:
            await ask("cheap")
        except Unreachable:
            if passes_on:
                raise
        bug()

    for passes_on, causes in ((True, ("fails::ask::tool_call",)), (False, ())):
        with pytest.raises(Exception, match=r"."):
            client.run_sync(fails, passes_on, state_id=str(passes_on))
        record = client.history(str(passes_on))["fails::agent_call"]
        assert (ExecutionStatus.FAILED, causes) == (record.status, record.causes)


PROGRAM = """
from pathlib import Path

from limpet import agent, tool


@tool
def ask() -> str:
    with Path("asked").open("a") as asked:
        asked.write("x")
    if not Path("up").exists():
        raise LookupError("down")
    return "up"


@agent
def run() -> str:
    try:
        answer = ask.call()
    except LookupError:
        answer = "fallback"
    if not Path("up").exists():
        raise RuntimeError("a bug")
    return answer
"""


@pytest.mark.parametrize(("option", "answer", "asked"), [([], "fallback", "x"), (["--retry-caught"], "up", "xx")])
def test_the_command_line_executes_caught_failures_again_where_it_is_told_to(
    tmp_path: Path, option: list[str], answer: str, asked: str
) -> None:
    def limpet(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "limpet.cli.main", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    (tmp_path / "program.py").write_text(PROGRAM)
    assert 0 != limpet("run", "program:run", "--id", "flow").returncode
    (tmp_path / "up").touch()
    resumed = limpet("resume", "flow", *option)
    assert (0, answer) == (resumed.returncode, resumed.stdout.strip()), resumed.stderr
    assert asked == (tmp_path / "asked").read_text()
