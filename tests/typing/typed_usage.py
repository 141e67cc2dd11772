"""Typed usage of the public names. The type checker reads this file; nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import assert_type
from uuid import UUID

from limpet import (
    Checked,
    Checkpoint,
    DeterminismLevel,
    Limpet,
    Lineage,
    Mismatch,
    RerunPlan,
    StateDiff,
    StateHeader,
    StateMetadata,
    StatePoint,
    StateStatus,
    Timeline,
    agent,
    llm,
    now,
    random,
    register_type,
    tool,
    uuid4,
)


@dataclass(frozen=True)
class Page:
    url: str
    text: str


@dataclass(frozen=True)
class Report:
    topic: str
    summaries: list[str]


@register_type(name="tide", version=2)
class Tide:
    height: float = 0.0


assert_type(Tide().height, float)
assert_type(register_type(Page, encode=lambda page: page.url, decode=lambda url: Page(url, "")), type[Page])


@tool
async def fetch(url: str) -> Page:
    return Page(url, "kelp")


@tool(name="fetch-slowly", version="2", description="Takes its time.")
async def fetch_slowly(url: str, *, depth: int = 1) -> Page:
    return Page(url, "kelp" * depth)


@tool
def count_words(page: Page) -> int:
    return len(page.text.split())


@llm
async def summarise(page: Page, words: int = 100) -> str:
    return page.text[:words]


@llm(description="Says it in a plain function.")
def shorten(text: str) -> str:
    return text[:10]


@agent
async def research(topic: str) -> Report:
    page = await fetch(f"https://example.org/{topic}")
    return Report(topic, [await summarise(page)])


@agent(name="survey")
def survey(topics: list[str]) -> dict[str, int]:
    return {topic: count_words.call(fetch.call(topic)) for topic in topics}


async def calls_give_what_the_function_gives() -> None:
    page = assert_type(await fetch("u"), Page)
    assert_type(await fetch(url="u"), Page)
    assert_type(await fetch_slowly("u", depth=2), Page)
    assert_type(await count_words(page), int)
    assert_type(await summarise(page, words=10), str)
    assert_type(await shorten("kelp"), str)
    assert_type(await research("kelp"), Report)
    assert_type(await survey(["kelp"]), dict[str, int])


def blocking_calls_give_what_the_function_gives() -> None:
    page = assert_type(fetch.call("u"), Page)
    assert_type(count_words.call(page), int)
    assert_type(survey.call(["kelp"]), dict[str, int])


async def options_keep_parameters_and_result() -> None:
    page = assert_type(await fetch.options(key="x")("u"), Page)
    assert_type(await summarise.options(version="2")(page, words=3), str)
    assert_type(await count_words.options(key="x")(page), int)
    assert_type(fetch.options(key="x").call("u"), Page)


async def runs_give_what_the_agent_gives(client: Limpet) -> None:
    assert_type(await research.run("kelp", state_id="x"), Report)
    assert_type(await client.run(research, "kelp"), Report)
    assert_type(await client.run(research("kelp"), state_id="x"), Report)
    assert_type(client.run_sync(survey(["kelp"])), dict[str, int])
    assert_type(await client.run(research, "kelp", state_id="x", metadata=StateMetadata(tags=["demo"])), Report)
    assert_type(await client.run(survey, ["kelp"]), dict[str, int])
    assert_type(await client.resume("x", agent=research), Report)


def plain_verbs_are_typed(client: Limpet) -> None:
    assert_type(client.run_sync(research, "kelp"), Report)
    assert_type(client.run_sync(research, "kelp", state_id="x"), Report)
    assert_type(client.list_states(), list[StateHeader])
    assert_type(client.list_states(tags=["demo"], status=StateStatus.COMPLETED, limit=5), list[StateHeader])
    assert_type(client.list_states()[0].status, StateStatus)


@tool(once=True)
async def charge(amount: int) -> str:
    return f"receipt {amount}"


@llm(determinism=DeterminismLevel.NON_DETERMINISTIC)
async def think(page: Page) -> str:
    return page.text


@tool(tolerance=1e-3, compare=lambda recorded, actual: abs(recorded - actual) < 1)
async def measure(page: Page) -> float:
    return float(len(page.text))


def recorded_values_are_typed() -> None:
    assert_type(now(), datetime)
    assert_type(random(), Random)
    assert_type(uuid4(), UUID)


async def time_travel_is_typed(client: Limpet) -> None:
    assert_type(await charge(3), str)
    assert_type(await measure(Page("u", "kelp")), float)
    assert_type(await client.rerun("x", "fetch", agent=research), Report)
    assert_type(await client.rerun("x", at="fetch", replace=Page("u", ""), agent=survey), dict[str, int])
    assert_type(client.plan_rerun("x", at="fetch"), RerunPlan)
    assert_type(client.fork("x", at="fetch", replace=Page("u", "")), str)
    assert_type(client.timelines("x"), list[Timeline])
    assert_type(client.checkpoints("x"), list[Checkpoint])
    assert_type(client.lineage("x"), Lineage)
    assert_type(client.diff("x:1", StatePoint("x", timeline=2)), StateDiff)
    assert_type(await client.validate("x"), Checked)
    assert_type((await client.validate(["x"])).mismatches, list[Mismatch])
    assert_type(await client.rehearse(client.list_states()), Checked)


# An ignore that hides nothing is itself an error, so each of these lines must be wrong.
async def wrong_usage_is_an_error(client: Limpet) -> None:
    await fetch(3)  # pyright: ignore[reportArgumentType] -- a str is wanted
    await fetch()  # pyright: ignore[reportCallIssue] -- an argument is missing
    await fetch("u", depth=2)  # pyright: ignore[reportCallIssue] -- there is no such parameter
    await fetch_slowly("u", depth="2")  # pyright: ignore[reportArgumentType] -- an int is wanted
    await count_words("u")  # pyright: ignore[reportArgumentType] -- a Page is wanted
    fetch.call(3)  # pyright: ignore[reportArgumentType] -- a str is wanted
    await fetch.options(key="x")(3)  # pyright: ignore[reportArgumentType] -- a str is wanted
    await fetch.options(kee="x")("u")  # pyright: ignore[reportCallIssue] -- there is no such option
    await client.rerun("x", agent="research")  # pyright: ignore[reportArgumentType] -- an agent is wanted, not its name
    client.fork("x", "fetch", "value")  # pyright: ignore[reportCallIssue] -- a value is given by name
    await client.run("research", "kelp")  # pyright: ignore[reportArgumentType] -- an agent is wanted, not its name
    assert_type(await research("kelp"), Page)  # pyright: ignore[reportAssertTypeFailure] -- it is a Report
