"""Methods as agents: their object is stored with the run, so that any process resumes it; or the start says why not."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

from limpet import (
    Actor,
    Limpet,
    NotResumableWarning,
    NotStored,
    Secret,
    SecretNeeded,
    StateMismatch,
    UsageError,
    agent,
    register_type,
    tool,
)

executed: Counter[str] = Counter()
broken: set[str] = set()


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()
    broken.clear()


@tool
async def count(what: str) -> int:
    executed[what] += 1
    return executed[what]


async def sells(shop: Any, number: int) -> tuple[str, int, int]:
    counted = await count(shop.name)
    if broken:
        raise RuntimeError("a bug")
    return shop.name, number, counted


@dataclass
class DataShop:
    name: str

    @agent
    async def sell(self, number: int = 1) -> Any:
        return await sells(self, number)

    @agent
    @classmethod
    async def open(cls, number: int) -> Any:
        return cls.__name__, await sells(cls("opened"), number)

    @agent
    @staticmethod
    def kinds(number: int) -> Any:
        return count.call("kinds"), number

    @agent
    def sell_plainly(self, number: int) -> Any:
        return self.name, count.call(self.name), number


class BigShop(DataShop):
    pass


class ModelShop(BaseModel):
    model_config = ConfigDict(ignored_types=(Actor,))
    name: str

    @agent
    async def sell(self, number: int) -> Any:
        return await sells(self, number)


class TupleShop(NamedTuple):
    name: str

    @agent
    async def sell(self, number: int) -> Any:
        return await sells(self, number)


class StructShop(msgspec.Struct):
    name: str

    @agent
    async def sell(self, number: int) -> Any:
        return await sells(self, number)


@attrs.define
class AttrsShop:
    name: str

    @agent
    async def sell(self, number: int) -> Any:
        return await sells(self, number)


class PlainShop:
    def __init__(self, name: str) -> None:
        self.name = name

    @agent
    async def sell(self, number: int) -> Any:
        return await sells(self, number)


class RegisteredShop(PlainShop):
    pass


register_type(RegisteredShop, encode=lambda shop: shop.name, decode=RegisteredShop)


@dataclass
class SafeShop:
    name: str
    key: Annotated[str, Secret] = "hunter"
    cache: Annotated[list[int], NotStored] = field(default_factory=lambda: [7])

    @agent
    async def sell(self, number: int) -> Any:
        self.cache.append(number)
        return await sells(self, number), self.cache

    @agent
    async def tell(self) -> None:
        await sells(self, 1)
        raise ValueError(f"the key is {self.key}")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


STORABLE: list[Any] = [DataShop, ModelShop, TupleShop, StructShop, AttrsShop, RegisteredShop]


def made(shop: Any, name: str) -> Any:
    return shop(name) if shop is RegisteredShop else shop(name=name)


@pytest.mark.parametrize("shop", STORABLE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_a_method_is_resumed_with_the_object_that_is_stored(shop: Any, kind: str, store: str) -> None:
    client = Limpet(store if kind == "sqlite" else "memory://")
    broken.add("now")
    with pytest.raises(RuntimeError):
        client.run_sync(made(shop, "kelp").sell, 3, state_id="x")
    broken.clear()
    for _ in range(2):
        assert ("kelp", 3, 1) == asyncio.run(client.resume("x", on_drift="error"))
        assert ("kelp", 3, 1) == client.run_sync(made(shop, "kelp").sell, 3, state_id="x", on_drift="error")
        assert ("kelp", 3, 1) == client.run_sync(made(shop, "kelp").sell(number=3), state_id="x")
    assert asyncio.run(client.rehearse("x")).is_ok
    assert ("kelp", 3, 2) == asyncio.run(client.rerun("x"))
    assert ("kelp", 3, 3) == asyncio.run(client.resume(client.fork("x", "count")))


def test_a_plain_method_is_resumed_as_well(store: str) -> None:
    client = Limpet(store)
    assert ("kelp", 1, 3) == client.run_sync(DataShop("kelp").sell_plainly, 3, state_id="x")
    assert ("kelp", 2, 3) == asyncio.run(client.rerun("x"))


def test_another_object_is_another_input_and_both_are_shown(store: str) -> None:
    client = Limpet(store)
    client.run_sync(DataShop("kelp").sell, 3, state_id="x")
    with pytest.raises(StateMismatch, match=r"self=DataShop\(name='kelp'\), number=3\), not .*name='wrack'") as refused:
        client.run_sync(DataShop("wrack").sell, 3, state_id="x")
    assert "they differ first at input['self'].name: 'kelp' -> 'wrack'" in str(refused.value)
    assert ("kelp", 1, 2) == client.run_sync(DataShop("kelp").sell, state_id="y")
    assert ("kelp", 1, 2) == client.run_sync(DataShop("kelp").sell, 1, state_id="y"), "a default that is said"


def test_what_is_secret_or_not_stored_of_the_object_is_not_stored(tmp_path: Path) -> None:
    store = f"file://{tmp_path}/states"
    client = Limpet(store)
    broken.add("now")
    with pytest.raises(RuntimeError):
        client.run_sync(SafeShop("kelp", "a-secret-hunter").sell, 3, state_id="x")
    broken.clear()
    assert (("kelp", 3, 1), [7, 3]) == asyncio.run(client.resume("x"))
    with pytest.raises(ValueError, match="the key is a-secret-hunter"):
        client.run_sync(SafeShop("kelp", "a-secret-hunter").tell, state_id="y")
    with pytest.raises(SecretNeeded, match=r"The secret SafeShop\.key is needed"):
        asyncio.run(client.resume("y"))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"a-secret-hunter" in path.read_bytes()]


def test_class_methods_and_static_methods_are_resumed_by_reference(store: str) -> None:
    client = Limpet(store)
    for number, (call, expected) in enumerate(
        [(BigShop.open, ("BigShop", ("opened", 3, 1))), (DataShop.open, ("DataShop", ("opened", 3, 2)))]
    ):
        assert expected == client.run_sync(call, 3, state_id=f"x{number}")
        assert expected == asyncio.run(client.resume(f"x{number}"))
    assert ("BigShop", ("opened", 3, 3)) == asyncio.run(client.rerun("x0"))
    assert (1, 3) == client.run_sync(DataShop.kinds, 3, state_id="static")
    assert (2, 3) == asyncio.run(client.rerun("static"))


def test_the_start_of_a_run_that_no_other_process_can_resume_says_so(store: str) -> None:
    client = Limpet(store)
    with pytest.warns(NotResumableWarning) as told:
        assert ("kelp", 3, 1) == client.run_sync(PlainShop("kelp").sell, 3, state_id="x")
    (warning,) = told
    assert (
        "Only a program that has this PlainShop can resume a run of its method PlainShop.sell: self cannot be stored: "
        f"{__name__}.PlainShop is not a kind of value that can be stored. Make PlainShop storable (a dataclass, or "
        "`register_type`), keep the object at the top level of a module that is imported, make it inside an agent that "
        "is a function, or resume with `agent=`."
    ) == str(warning.message)
    with pytest.raises(
        UsageError, match=r"method 'PlainShop.sell', and its object \(.*PlainShop\) is not stored. Give"
    ):
        asyncio.run(client.resume("x"))
    assert ("kelp", 3, 1) == asyncio.run(client.resume("x", agent=PlainShop("kelp").sell, on_drift="error"))
    assert ("kelp", 3, 2) == asyncio.run(client.rerun("x", agent=PlainShop("kelp").sell))


def test_where_warnings_are_errors_nothing_is_begun(store: str) -> None:
    client = Limpet(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NotResumableWarning):
            client.run_sync(PlainShop("kelp").sell, 3, state_id="x")
    assert [] == client.list_states()


def test_a_store_that_is_gone_with_the_process_needs_no_warning() -> None:
    client = Limpet("memory://")
    shop = PlainShop("kelp")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ("kelp", 3, 1) == client.run_sync(shop.sell, 3, state_id="x")
    assert ("kelp", 3, 1) == asyncio.run(client.resume("x", agent=shop.sell))


def test_an_object_of_a_local_class_is_not_storable(store: str) -> None:
    @dataclass
    class Local:
        name: str

        @agent
        async def sell(self) -> str:
            return self.name

    with pytest.warns(NotResumableWarning, match="Only a program that has this Local can resume a run of its method"):
        Limpet(store).run_sync(Local("kelp").sell)


def test_a_method_inside_a_run_needs_no_storable_object(store: str) -> None:
    shop = PlainShop("kelp")

    @agent
    async def factory(number: int) -> Any:
        return await shop.sell(number)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ("kelp", 3, 1) == Limpet(store).run_sync(factory, 3)


PROGRAM = """
import asyncio, os, signal, sys, threading
from dataclasses import dataclass
from limpet import Limpet, agent, tool

STORE = "sqlite:///runs.db"
met = []

@tool
async def count(what):
    print("counting", what, flush=True)
    return what

async def sells(name, number):
    first = await count(f"{name} {number}")
    if "die" in sys.argv:
        met.append(name)
        if len(met) == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.Event().wait()
    return [first, await count(f"rest of {name}")]

@dataclass
class Shop:
    name: str

    @agent
    async def sell(self, number):
        return await sells(self.name, number)

    @agent
    @classmethod
    async def of_class(cls, number):
        return await sells(cls.__name__, number)

    @staticmethod
    @agent
    async def of_nothing(number):
        return await sells("static", number)

class Unstorable:
    def __init__(self, name):
        self.name, self.lock = name, threading.Lock()

    @agent
    async def sell(self, number):
        return await sells(self.name, number)

kept = Unstorable("kept")
"""

BEGIN = """
import asyncio
import shops
from limpet import Limpet

async def main():
    lost = shops.Unstorable("lost")
    client = Limpet(shops.STORE)
    calls = {
        "stored": shops.Shop("kelp").sell, "class": shops.Shop.of_class, "static": shops.Shop.of_nothing,
        "kept": shops.kept.sell, "lost": lost.sell,
    }
    await asyncio.gather(*(client.run(call, 3, state_id=name) for name, call in calls.items()))

asyncio.run(main())
"""

EXPECTED = {"stored": "kelp", "class": "Shop", "static": "static", "kept": "kept"}


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A folder with a program, and with its store as it was when that was killed in the middle of five runs."""
    (tmp_path / "shops.py").write_text(PROGRAM)
    (tmp_path / "begin.py").write_text(BEGIN)
    begun = subprocess.run(
        [sys.executable, "begin.py", "die"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert -signal.SIGKILL == begun.returncode, begun.stderr
    assert 1 == begun.stderr.count("NotResumableWarning: Only a program that has this Unstorable"), begun.stderr
    return tmp_path


def limpet(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "limpet.cli.main", *arguments, "--store", "sqlite:///runs.db"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_methods_of_a_killed_process_are_resumed_by_the_command_line(killed: Path) -> None:
    for state_id, name in EXPECTED.items():
        done = limpet(killed, "resume", state_id)
        assert f"['{name} 3', 'rest of {name}']" in done.stdout, done.stderr
        assert 1 == done.stdout.count("counting"), "what was recorded is not executed again"
    refused = limpet(killed, "resume", "lost")
    assert 0 != refused.returncode
    assert "method 'Unstorable.sell', and its object (shops.Unstorable) is not stored." in refused.stderr
    assert "Traceback" not in refused.stderr


def test_methods_of_a_killed_process_are_resumed_by_a_server(killed: Path) -> None:
    command = [sys.executable, "-m", "limpet.cli.main", "serve", "--json", "--store", "sqlite:///runs.db"]
    with subprocess.Popen(command, cwd=killed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        seen: list[str] = []
        while sum('"state_id"' in line for line in seen) < len(EXPECTED):
            seen.append(server.stdout.readline())
            assert seen[-1], "the server has ended"
        server.send_signal(signal.SIGTERM)
        assert server.stderr is not None
        said, errors = " ".join(("".join(seen) + server.stdout.read()).split()), server.stderr.read()
    for state_id, name in EXPECTED.items():
        assert f'"state_id": "{state_id}", "result": [ "{name} 3", "rest of {name}" ]' in said
    assert "State lost cannot be taken up here: The run is one of the method 'Unstorable.sell'" in errors
