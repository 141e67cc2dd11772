"""Finding an agent again by what was declared, and by where it can be imported from."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet import Agent, AgentNotFound, agent, tool
from limpet.engine.actors import FunctionActor
from limpet.engine.allowed_code import AllowedCode
from limpet.engine.declared import find_actor, import_actor
from limpet.engine.references import reference_of

MODULE = """
from limpet import Agent, agent
ready = []

@agent
async def research(topic):
    return topic

class Needs(Agent):
    def __init__(self, what):
        super().__init__(name=what, handler=print)

class Plain(Agent):
    def __init__(self):
        super().__init__(name="plain", handler=print)

class Shelf:
    @agent
    async def inside(self):
        return None
"""


async def _handle(*_: object) -> None:
    return None


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = tmp_path / "declared_sample.py"
    file.write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    sys.modules.pop("declared_sample", None)


def test_an_agent_is_imported_by_module_and_name(module: Path) -> None:
    found = import_actor("declared_sample:research")
    assert "research" == found.name
    assert "declared_sample:research" == found.reference
    assert found is import_actor("declared_sample:research")
    assert found is find_actor("declared_sample:research", "anything", AllowedCode)
    assert "inside" == import_actor("declared_sample:Shelf.inside").name


def test_an_agent_is_imported_by_file_once(module: Path) -> None:
    found = import_actor(f"{module}:research")
    assert found is import_actor(f"{module}:research")
    assert found is import_actor("declared_sample:research")


def test_a_class_of_agents_is_made_without_arguments(module: Path) -> None:
    found = import_actor("declared_sample:Plain")
    assert isinstance(found, Agent)
    assert "declared_sample:Plain" == found.reference
    with pytest.raises(AgentNotFound, match="cannot be made without arguments"):
        import_actor("declared_sample:Needs")


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("research", "not of the form module:agent"),
        ("declared_sample:", "not of the form"),
        ("declared_sample:not-a-name", "not of the form"),
        ("declared_sample:missing", r"has no agent 'missing' \(it has: research\)"),
        ("declared_sample:ready", "has no agent 'ready'"),
        ("nowhere_at_all:research", "cannot be imported"),
        ("nowhere.py:research", "no such file"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why(module: Path, reference: str, why: str) -> None:
    with pytest.raises(AgentNotFound, match=why):
        import_actor(reference)


def test_a_file_does_not_take_the_place_of_another_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(MODULE)
    with pytest.raises(AgentNotFound, match="another module called 'json' is imported already"):
        import_actor(f"{tmp_path}/json.py:research")


def test_a_file_that_fails_is_not_left_half_imported(tmp_path: Path) -> None:
    file = tmp_path / "declared_broken.py"
    file.write_text("raise ZeroDivisionError")
    with pytest.raises(ZeroDivisionError):
        import_actor(f"{file}:research")
    assert "declared_broken" not in sys.modules


def test_an_agent_declared_in_a_function_is_found_while_it_lives() -> None:
    @agent(name="declared-for-a-while")
    async def passing() -> None:
        return None

    assert passing.reference is None
    assert passing is find_actor(None, "declared-for-a-while", AllowedCode)
    del passing
    gc.collect()
    with pytest.raises(AgentNotFound, match="inside a function"):
        find_actor(None, "declared-for-a-while", AllowedCode)


def test_what_has_only_a_name_is_not_hidden_by_a_later_actor_of_the_same_name() -> None:
    by_hand = Agent(name="twofold", handler=_handle)
    by_module = agent(name="twofold")(_handle)
    assert by_module.reference is not None
    assert by_hand is find_actor(None, "twofold", AllowedCode)


def test_a_state_whose_agent_is_not_imported_yet_imports_it(module: Path) -> None:
    allowed = AllowedCode(modules=frozenset({"declared_sample"}))
    assert "research" == find_actor("declared_sample:research", "research", lambda: allowed).name


def test_what_is_declared_in_the_running_script_is_named_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.setattr(main, "__file__", "/somewhere/script.py", raising=False)
    assert "/somewhere/script.py:research" == reference_of("__main__", "research")
    monkeypatch.delattr(main, "__file__")
    assert reference_of("__main__", "research") is None


def test_a_script_that_runs_as_a_module_is_named_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec:
        name = "package.__main__"

    monkeypatch.setattr(sys.modules["__main__"], "__spec__", Spec)
    assert "package:research" == reference_of("__main__", "research")


def test_an_actor_shows_its_name() -> None:
    @tool
    async def fetch() -> None:
        """Fetches."""

    assert "<FunctionActor fetch>" == repr(fetch)
    assert isinstance(fetch, FunctionActor)
    assert ("fetch", "Fetches.", "Fetches.") == (fetch.__name__, fetch.__doc__, fetch.description)
