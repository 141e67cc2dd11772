"""An input that is the same, although its bytes or its surroundings are not, is no drift."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from limpet import Drift, DriftWarning, Limpet, RetryConfig, agent, tool

SCRIPT = """
import asyncio
from pathlib import Path

from limpet import agent, tool


class Client:
    pass


@tool
async def fetch(client: Client, url: str) -> str:
    return url


@agent
async def crawl() -> list[str]:
    client = Client()
    pages = await asyncio.gather(*(fetch(client, url) for url in ("a", "b")))
    if not Path("mended").exists():
        raise RuntimeError("a bug")
    return pages


if __name__ == "__main__":
    asyncio.run(crawl.run(state_id="x"))
"""


def test_a_run_of_a_script_whose_own_client_goes_into_calls_is_resumed_by_the_command_line(tmp_path: Path) -> None:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    (tmp_path / "crawler.py").write_text(SCRIPT)
    assert "RuntimeError: a bug" in python("crawler.py").stderr
    (tmp_path / "mended").touch()
    resumed = python("-m", "limpet.cli.main", "resume", "x")
    assert "['a', 'b']" in resumed.stdout, resumed.stderr
    assert "drifted" not in resumed.stderr


class Shop:
    """What is different in a resumed run."""

    is_broken = True
    other_input = False


@pytest.fixture(autouse=True)
def fresh() -> None:
    Shop.is_broken = True
    Shop.other_input = False


def resumed(agent_: Any, **options: Any) -> list[str]:
    """Fail a run, mend it and run it again: what is told of drift. Raises Drift where that is an error."""
    client = Limpet("memory://")
    with pytest.raises(RuntimeError):
        client.run_sync(agent_, state_id="x", **options)
    Shop.is_broken = False
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        client.run_sync(agent_, state_id="x", **options)
    return [str(warning.message) for warning in told if issubclass(warning.category, DriftWarning)]


class Refused(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code
        self.connection = object()


def declared() -> Exception:
    return Refused(code=402 if Shop.is_broken or not Shop.other_input else 403)


def caused() -> Exception:
    error = ValueError("no number")
    error.__cause__ = Refused(code=402)
    return error


def of_a_client() -> Exception:
    request = httpx.Request("GET", "http://127.0.0.1/page")
    return httpx.HTTPStatusError("404", request=request, response=httpx.Response(404, request=request))


def of_a_model() -> Exception:
    try:
        TypeAdapter(int).validate_python("x")
    except ValueError as error:
        return error
    raise AssertionError


def unstorable() -> Exception:
    return ValueError("of this type:", object)


def local() -> Exception:
    class Local(Refused):
        pass

    return Local(code=402)


making: list[Callable[[], Exception]] = []


@tool(retry_config=RetryConfig(enabled=False))
async def fails() -> None:
    raise making[0]()


@tool
async def report(error: object) -> None:
    pass


@tool(once=True)
async def refund(error: object) -> None:
    pass


@agent
async def reports() -> None:
    try:
        await fails()
    except Exception as error:
        await asyncio.gather(report(error), report({"errors": [error]}))
        await refund(error)
    if Shop.is_broken:
        raise RuntimeError("a bug")


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("make", [declared, caused, of_a_client, of_a_model, unstorable, local])
def test_a_caught_failure_that_goes_into_a_call_is_the_same_on_replay(
    make: Callable[[], Exception], records: bool
) -> None:
    making[:] = [make]
    assert [] == resumed(reports, record_inputs=records)


def test_another_exception_in_an_input_is_drift() -> None:
    @agent
    async def raises_itself() -> None:
        await refund(declared())
        if Shop.is_broken:
            raise RuntimeError("a bug")

    Shop.other_input = True
    with pytest.raises(Drift):
        resumed(raises_itself)


def test_the_recorded_text_of_a_traceback_is_the_same_on_replay() -> None:
    @agent
    async def tells() -> None:
        try:
            await inner()
        except ValueError as error:
            told.append(error.recorded_traceback)  # pyright: ignore[reportAttributeAccessIssue]
            await refund(error.recorded_traceback)  # pyright: ignore[reportAttributeAccessIssue]
        if Shop.is_broken:
            raise RuntimeError("a bug")

    @agent
    async def inner() -> None:
        try:
            await fails()
        except Refused as error:
            raise ValueError(error.recorded_traceback) from error  # pyright: ignore[reportAttributeAccessIssue]

    def raising() -> Exception:
        raise declared()

    told: list[str] = []
    making[:] = [raising]
    assert [] == resumed(tells)
    assert told[0] == told[1]
    assert "in raising" in told[0]


def in_order(pairs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return pairs if Shop.is_broken else pairs[::-1]


@tool
async def price(basket: object = None, **items: object) -> None:
    pass


@pytest.mark.parametrize("records", [True, False])
def test_the_order_in_which_a_dict_was_filled_is_no_part_of_an_input(records: bool) -> None:
    @agent
    async def prices() -> None:
        pairs = in_order([("kelp", 1), ("wrack", 2)])
        grouped = defaultdict(list, {name: [number] for name, number in pairs})
        await asyncio.gather(
            price(dict(pairs)), price({"all": [dict(pairs)]}), price(**dict(pairs)), price(Counter(dict(pairs)))
        )
        await asyncio.gather(price(grouped), price({number: {(name,): {name}} for name, number in pairs}))
        if Shop.is_broken:
            raise RuntimeError("a bug")

    assert [] == resumed(prices, record_inputs=records)


def test_another_value_in_a_dict_is_drift() -> None:
    @agent
    async def prices() -> None:
        await asyncio.gather(price({"kelp": 1}), price({"kelp": 1 if Shop.is_broken else 2}))
        if Shop.is_broken:
            raise RuntimeError("a bug")

    with pytest.raises(Drift):
        resumed(prices)


@tool
async def ship(order: str, carrier: str = "post", *, insured: bool = False) -> None:
    pass


def test_a_default_that_is_said_is_no_other_input() -> None:
    @agent
    async def ships() -> None:
        said: dict[str, Any] = {} if Shop.is_broken else {"insured": False}
        await asyncio.gather(
            ship("kelp", **said), ship("wrack", "post") if Shop.is_broken else ship("wrack"), ship(order="dulse")
        )
        if Shop.is_broken:
            raise RuntimeError("a bug")

    assert [] == resumed(ships)


@pytest.mark.parametrize("said", [{"insured": True}, {"carrier": "ship"}])
def test_what_is_said_instead_of_a_default_is_drift(said: dict[str, Any]) -> None:
    @agent
    async def ships() -> None:
        await asyncio.gather(ship("kelp", **({} if Shop.is_broken else said)), ship("wrack"))
        if Shop.is_broken:
            raise RuntimeError("a bug")

    with pytest.raises(Drift):
        resumed(ships)
