"""What a run is given: an agent and its arguments, in any form; and when it is the run that a state has already."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import SecretStr

from limpet import Agent, ExecutionEvent, Limpet, Secret, StateMismatch, Tool, UsageError, agent, tool


def plain(topic: str) -> str:
    return topic


async def plain_async(topic: str) -> str:
    return topic


@tool
async def fetch(url: str) -> str:
    return f"what stands at {url}"


@agent
async def research(topic: str, depth: int = 3, /, *more: int, lang: str = "en", **options: Any) -> Any:
    return topic, depth, more, lang, options


class Reads(Agent):
    def __init__(self) -> None:
        super().__init__(name="reads")

    async def handler(self, input: Any, context: Any, state: Any) -> Any:
        return input


class Plain:
    def method(self) -> None:
        pass


@pytest.fixture
def client() -> Limpet:
    return Limpet("memory://")


NO_AGENTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a function": (lambda: plain, "'plain' is not declared as an agent. Put `@agent` above `def plain`."),
    "an async function": (lambda: plain_async, "'plain_async' is not declared .* above `async def plain_async`."),
    "a method": (lambda: Plain().method, "'method' is not declared as an agent. Put `@agent` above `def method`."),
    "a coroutine": (
        lambda: plain_async("x"),
        "'plain_async' was called, and is not declared as an agent. Put `@agent`",
    ),
    "a partial function": (lambda: functools.partial(plain, "x"), "'plain' is not declared as an agent."),
    "a class": (lambda: Plain, "The class Plain is no agent. Give a function with `@agent`."),
    "a class of an agent": (lambda: Reads, r"The class Reads is no agent. Give an object of it: `Reads\(…\)`."),
    "the method run": (
        lambda: research.run,
        "`run` of an agent was given instead of the agent. Give the agent itself.",
    ),
    "text": (lambda: "flow:research", "The text 'flow:research' is no agent. Give the agent itself"),
    "nothing": (lambda: None, "None is no agent. Give a function with `@agent`"),
}


@pytest.mark.parametrize("what", NO_AGENTS)
def test_what_is_no_agent_is_refused_with_what_to_do(client: Limpet, what: str) -> None:
    make, says = NO_AGENTS[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for run in (client.run_sync, lambda given: asyncio.run(client.run(given))):
            with pytest.raises(UsageError, match=says) as refused:
                run(make())
            assert "\n" not in str(refused.value)
    assert [] == client.list_states()


@pytest.mark.parametrize("verb", ["resume", "rerun", "validate", "rehearse"])
def test_the_verbs_that_take_an_agent_refuse_what_is_none(client: Limpet, verb: str) -> None:
    client.run_sync(research, "kelp", state_id="x")
    with pytest.raises(UsageError, match=r"'plain' is not declared as an agent\. Put `@agent` above `def plain`"):
        asyncio.run(getattr(client, verb)("x", agent=plain))


def test_a_call_that_is_not_awaited_is_a_run_with_its_arguments(client: Limpet) -> None:
    expected = ("kelp", 1, (2,), "de", {"state_id": "an option of its own"})
    call = research("kelp", 1, 2, lang="de", state_id="an option of its own")
    assert expected == asyncio.run(client.run(call, state_id="x"))
    assert expected == client.run_sync(research("kelp", 1, 2, lang="de", state_id="an option of its own"), state_id="x")
    assert "kelp" == client.run_sync(Reads()("kelp"))
    assert "what stands at a" == client.run_sync(fetch("a"))
    assert expected[:2] == client.run_sync(functools.partial(research, "kelp"), 1)[:2]


def test_a_call_and_arguments_beside_it_are_refused(client: Limpet) -> None:
    with pytest.raises(UsageError, match="`run` was given a call of 'research', and 1, lang beside it"):
        client.run_sync(research("kelp"), 1, lang="de")
    assert [] == client.list_states()


def test_a_call_that_was_made_inside_a_run_is_no_run(client: Limpet) -> None:
    @agent
    async def runs() -> None:
        await client.run(fetch("a"))

    with pytest.raises(UsageError, match="The call of 'fetch' was made inside a run"):
        client.run_sync(runs)


def test_a_call_can_be_run_once(client: Limpet) -> None:
    async def runs() -> None:
        call = research("kelp")
        await client.run(call)
        await client.run(call)

    with pytest.raises(UsageError, match="The call of 'research' has begun already"):
        asyncio.run(runs())


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    [
        ((), {}, r"research\(\) missing a required argument: 'topic'"),
        ((), {"topic": "kelp"}, r"research\(\) .*'topic'"),
        (("kelp", 1), {"lang": "de"}, None),
    ],
)
def test_arguments_that_do_not_fit_make_no_state(client: Limpet, arguments: Any, named: Any, says: str | None) -> None:
    if says is None:
        client.run_sync(research, *arguments, **named)
        return
    with pytest.raises(TypeError, match=says):
        client.run_sync(research, *arguments, **named)
    with pytest.raises(TypeError, match="reads is run with one argument, its input"):
        client.run_sync(Reads(), 1, 2)
    assert [] == client.list_states()


def test_an_event_of_the_explicit_form_refuses_what_is_no_actor() -> None:
    with pytest.raises(UsageError, match=r"plain at .* is no actor\. Give a Tool, an LLM or an Agent, or put `@tool`"):
        ExecutionEvent(actor=plain)  # pyright: ignore[reportArgumentType]


def test_only_a_call_can_name_parameters_as_run_names_its_options(client: Limpet) -> None:
    @agent
    async def reads(*, store: str) -> str:
        return store

    with pytest.raises(UsageError, match="The agent 'reads' has the parameter store, which `run` takes for itself"):
        client.run_sync(reads, store="kelp")
    assert "kelp" == client.run_sync(reads(store="kelp"))


def test_an_option_of_run_that_is_misspelt_is_told(client: Limpet) -> None:
    @agent
    async def reads(topic: str) -> None: ...

    with pytest.raises(TypeError, match=r"reads\(\) got an unexpected keyword argument 'stateid'"):
        client.run_sync(reads, "kelp", stateid="x")


SAME: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("kelp",), {}),
    (("kelp", 3), {}),
    (("kelp",), {"lang": "en"}),
    (("kelp", 3), {"lang": "en"}),
]


@pytest.mark.parametrize("first", range(len(SAME)))
@pytest.mark.parametrize("second", range(len(SAME)))
def test_a_default_that_is_said_is_the_same_input_of_a_run(client: Limpet, first: int, second: int) -> None:
    expected = client.run_sync(research, *SAME[first][0], state_id="x", **SAME[first][1])
    before = client.list_states()
    assert expected == client.run_sync(research, *SAME[second][0], state_id="x", **SAME[second][1])
    assert before == client.list_states()


@agent
async def places(topic: str, depth: int = 3, *, lang: str = "en", **options: Any) -> Any:
    return topic, depth, lang, options


def test_names_places_and_the_order_of_names_make_no_other_input(client: Limpet) -> None:
    expected = client.run_sync(places, "kelp", 3, state_id="x", a={"b": 1, "c": 2}, d=3)
    assert expected == client.run_sync(places, d=3, depth=3, a={"c": 2, "b": 1}, topic="kelp", state_id="x", lang="en")


def test_a_default_that_is_said_is_the_same_input_of_a_run_that_has_failed(client: Limpet) -> None:
    is_broken = [True]

    @agent
    async def breaks(topic: str, depth: int = 3) -> str:
        if is_broken:
            raise RuntimeError("a bug")
        return topic

    with pytest.raises(RuntimeError):
        client.run_sync(breaks, "kelp", state_id="x")
    is_broken.clear()
    assert "kelp" == client.run_sync(breaks, "kelp", depth=3, state_id="x", on_drift="error")


@dataclass
class Order:
    number: int
    lines: list[str]


def refused(client: Limpet, *call: Any, **named: Any) -> str:
    before = client.list_states(), [*client.history("x").addresses()]
    with pytest.raises(StateMismatch) as mismatch:
        client.run_sync(*call, state_id="x", **named)
    assert before == (client.list_states(), [*client.history("x").addresses()])
    return str(mismatch.value)


def test_a_mismatch_shows_both_inputs_and_where_they_first_differ(client: Limpet) -> None:
    client.run_sync(places, "kelp", state_id="x")
    assert (
        "State 'x' is another run: 'places' runs there with another input: places(topic='kelp', depth=3, lang='en'), "
        "not places(topic='kelp', depth=4, lang='en'); they differ first at input['depth']: 3 -> 4. Nothing was "
        "changed. Give this run an id of its own, or go on with the stored one by `resume('x')`."
    ) == refused(client, places, "kelp", depth=4)
    assert "input['colour']: added 'red'" in refused(client, places, "kelp", colour="red")


def test_a_mismatch_shows_a_part_of_what_is_large(client: Limpet) -> None:
    lines = [f"line {number}" for number in range(10_000)]
    client.run_sync(places, Order(1, lines), state_id="x", note="x" * 3_000_000)
    said = refused(client, places, Order(1, [*lines[:-1], "another"]), note="x" * 3_000_000)
    assert "input['topic'].lines[9999]: 'line 9999' -> 'another'" in said
    assert 1_200 > len(said)


def test_a_mismatch_shows_no_secret(client: Limpet) -> None:
    @agent
    async def calls(
        topic: str, key: Annotated[str, Secret] = "default-hunter", token: SecretStr | None = None, **more: Any
    ) -> None: ...

    client.run_sync(calls, "kelp", "given-hunter", SecretStr("typed-hunter"), state_id="x")
    said = refused(client, calls, "wrack", "other-hunter", SecretStr("new-hunter"))
    assert "input['topic']: 'kelp' -> 'wrack'" in said
    assert "hunter" not in said
    assert "hunter" not in refused(client, calls, "wrack")


def test_a_mismatch_shows_both_inputs_of_the_explicit_form(client: Limpet) -> None:
    client.run_sync(Reads(), {"topic": "kelp"}, state_id="x")
    said = refused(client, Reads(), {"topic": "wrack"})
    assert "reads(input={'topic': 'kelp'}), not reads(input={'topic': 'wrack'})" in said
    assert "input['input']['topic']: 'kelp' -> 'wrack'" in said


def test_a_mismatch_shows_both_agents(client: Limpet) -> None:
    client.run_sync(places, "kelp", state_id="x")
    assert "it runs the agent 'places', not 'research'" in refused(client, research, "kelp")
    assert "it runs the agent 'places', not 'reads'" in refused(client, Reads(), "kelp")


def test_a_default_that_is_said_of_a_method_is_no_drift(client: Limpet) -> None:
    is_broken = [True]

    class Shop:
        @tool
        async def price(self, number: int, currency: str = "EUR") -> int:
            return number

    @agent
    async def buys() -> int:
        shop = Shop()
        found = await shop.price(3) if is_broken else await shop.price(3, currency="EUR")
        if is_broken:
            raise RuntimeError("a bug")
        return found

    with pytest.raises(RuntimeError):
        client.run_sync(buys, state_id="x")
    is_broken.clear()
    assert 3 == client.run_sync(buys, state_id="x", on_drift="error")


def test_an_input_of_the_explicit_form_is_compared_as_a_whole(client: Limpet) -> None:
    is_broken = [True]
    doubles = Tool(name="doubles", handler=lambda input, context, state: input * 2)

    @agent
    async def runs() -> int:
        found = await doubles(3)
        if is_broken:
            raise RuntimeError("a bug")
        return found

    with pytest.raises(RuntimeError):
        client.run_sync(runs, state_id="x")
    is_broken.clear()
    assert 6 == client.run_sync(runs, state_id="x", on_drift="error")
