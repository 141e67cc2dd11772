"""Everything that can stand below ``@tool``, ``@llm`` and ``@agent``: it works, or one line says what to do."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from limpet import Agent, Limpet, Tool, UsageError, agent, llm, tool


def add(x: int, y: int = 2) -> int:
    return x + y


async def add_later(x: int, y: int = 2) -> int:
    return x + y


class Adder:
    def __call__(self, x: int) -> int:
        return x + 2


class LaterAdder:
    """Adds two."""

    async def __call__(self, x: int) -> int:
        return x + 2

    def method(self, x: int) -> int:
        return x + 2


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


FORMS: dict[str, tuple[Any, str]] = {
    "a partial function": (functools.partial(add, y=2), "add"),
    "a partial async function": (functools.partial(add_later, y=2), "add_later"),
    "a partial of a partial": (functools.partial(functools.partial(add), y=2), "add"),
    "a partial callable object": (functools.partial(Adder()), "Adder"),
    "a callable object": (Adder(), "Adder"),
    "an async callable object": (LaterAdder(), "LaterAdder"),
    "a bound method": (LaterAdder().method, "method"),
    "a method of C": ((2).__add__, "__add__"),
    "a function of C without a signature": (functools.partial(max, 5), "max"),
    "a lambda": (lambda x: x + 2, "<lambda>"),
    "a lambda that gives a coroutine": (lambda x: add_later(x), "<lambda>"),
    "a plain wrapper of an async function": (wrapped(add_later), "add_later"),
    "a static method": (staticmethod(add), "add"),
    "a cached function": (functools.lru_cache(add), "add"),
    "a single dispatch": (functools.singledispatch(add), "add"),
    "a mock": (Mock(return_value=5), "Mock"),
    "an async mock": (AsyncMock(return_value=5), "AsyncMock"),
}


@pytest.mark.parametrize("declare", [tool, llm, agent])
@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_function_can_be_declared(form: str, declare: Any) -> None:
    function, name = FORMS[form]
    declared = declare(function)
    assert name == declared.name

    @agent
    async def calls() -> list[int]:
        return [await declared(3), *await asyncio.gather(declared(3), asyncio.to_thread(declared.call, 3))]

    assert [5, 5, 5] == Limpet("memory://").run_sync(calls)
    assert 5 == asyncio.run(declared(3))
    assert 5 == declared.call(3)
    assert "named" == declare(name="named", version="2")(function).name


def test_the_documentation_of_what_is_declared_is_its_description() -> None:
    assert "Adds two." == tool(LaterAdder()).description


class Shelf:
    @tool
    @staticmethod
    def above_static(x: int) -> tuple[str, int]:
        return "none", x

    @staticmethod
    @tool
    async def below_static(x: int) -> tuple[str, int]:
        return "none", x

    @tool
    @classmethod
    async def above_class(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x

    @classmethod
    @tool
    def below_class(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x

    @tool
    def method(self, x: int) -> tuple[str, int]:
        return type(self).__name__, x

    partial = tool(functools.partial(lambda kind, x: (kind, x), "none"))
    callable_object = tool(name="callable")(Mock(return_value=("none", 1)))


class TopShelf(Shelf):
    pass


@pytest.mark.parametrize("place", [Shelf, TopShelf])
@pytest.mark.parametrize("is_object", [True, False])
@pytest.mark.parametrize(
    "name", ["above_static", "below_static", "above_class", "below_class", "partial", "callable_object"]
)
def test_static_and_class_methods_are_what_python_makes_of_them_in_either_order(
    name: str, is_object: bool, place: Any
) -> None:
    @agent
    async def calls() -> Any:
        return await getattr(place() if is_object else place, name)(1)

    expected = place.__name__ if "class" in name else "none"
    assert (expected, 1) == Limpet("memory://").run_sync(calls)


def gives_items() -> Iterator[int]:
    yield 1


async def gives_items_later() -> Any:
    yield 1


@dataclass
class Point:
    x: int


class ManyLater:
    async def __call__(self) -> Any:
        yield 1


REFUSED: dict[str, tuple[Any, str]] = {
    "text": (
        "fetch",
        r"`@tool` was given 'fetch', which is no function. Give options by their names: `@tool\(name='fetch'\)`",
    ),
    "a number": (3, "3 was declared as an actor, and is no function. Decorate a function"),
    "a class": (Point, "`@tool` stands above the class Point. Put it above a method of the class"),
    "a property": (property(add), "`@tool` stands above the property add, .* Leave `@property` out"),
    "a generator": (gives_items, "gives_items is a generator.* Return a list instead"),
    "an async generator": (gives_items_later, "gives_items_later is a generator.* Return a list instead"),
    "a partial generator": (functools.partial(gives_items), "gives_items is a generator.* Return a list instead"),
    "an object that generates": (ManyLater(), "ManyLater is a generator.* Return a list instead"),
    "a partial method": (functools.partialmethod(add), "is no function. Decorate a function"),
    "an actor": (tool(add), "add is declared as an actor already. Leave `@tool` out"),
    "an agent": (agent(add), "add is declared as an actor already. Leave `@tool` out"),
    "a static method that is an actor": (staticmethod(tool(add)), "add is declared as an actor already"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_cannot_be_declared_is_refused_with_what_to_do(form: str) -> None:
    thing, says = REFUSED[form]
    for declare in (tool, tool()):
        with pytest.raises(UsageError, match=says) as refused:
            declare(thing)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": 3}, "An actor needs a name, and has 3"),
        ({"version": 2}, "The actor 'add' has the version 2. Give a text"),
        ({"nmae": "x"}, "nmae is no option of an actor. The options are name"),
    ],
)
def test_options_of_the_wrong_kind_are_refused_when_they_are_declared(options: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        tool(**options)(add)


@pytest.mark.parametrize("handler", ["a name", 3])
def test_a_handler_that_cannot_be_called_is_refused_when_it_is_declared(handler: Any) -> None:
    with pytest.raises(UsageError, match=r"The handler of 'reads' is .* Give a function"):
        Tool(name="reads", handler=handler)
    with pytest.raises(UsageError, match="The actor 'reads' has no handler"):
        Agent(name="reads")


@tool
async def anything(self: int, args: int, /, *more: int, scope: int, actor: int = 4, **kwargs: int) -> Any:
    return self, args, more, scope, actor, kwargs


def test_parameters_may_have_any_names_and_kinds() -> None:
    @agent
    async def calls(self: int, *, agent: int) -> Any:
        return await anything(self, 2, 3, scope=agent, kwargs=5, self=6, state_id=7, name=8)

    expected = (1, 2, (3,), 9, 4, {"kwargs": 5, "self": 6, "state_id": 7, "name": 8})
    assert expected == Limpet("memory://").run_sync(calls, self=1, agent=9)


def test_arguments_that_do_not_fit_are_told_with_the_name_of_the_tool() -> None:
    @agent
    async def calls(arguments: dict[str, int]) -> None:
        await anything(1, 2, **arguments)

    with pytest.raises(TypeError, match=r"anything\(\) missing 1 required keyword-only argument: 'scope'"):
        Limpet("memory://").run_sync(calls, {})


def test_awaiting_an_actor_instead_of_a_call_says_to_call_it() -> None:
    @agent
    async def awaits() -> None:
        await anything  # pyright: ignore[reportGeneralTypeIssues]

    with pytest.raises(UsageError, match=r"`await anything` awaits the actor itself. Call it: `await anything\(…\)`"):
        Limpet("memory://").run_sync(awaits)


PROGRAM = """
import functools
from limpet import agent

def add(x, y):
    return x + y

two = agent(name="two")(functools.partial(add, 2))
three = agent(name="three")(functools.partial(add, 3))
fast = agent(name="fast")(add)
slow = agent(name="slow")(add)
short = agent(lambda x: x)
"""


def test_what_has_another_name_in_its_module_is_found_by_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "declared_under_others.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    import declared_under_others as module  # pyright: ignore[reportMissingImports]

    for name in ("two", "three", "fast", "slow", "short"):
        assert f"declared_under_others:{name}" == vars(module)[name].reference
    client = Limpet("memory://")
    assert 5 == client.run_sync(module.three, 2, state_id="x")
    assert 5 == asyncio.run(client.resume("x"))


def test_a_declaration_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function, _ in FORMS.values():
            tool(function)
