"""A state does not choose what is executed, whatever stands in it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from acceptance.trust_attacks import forge, forge_asking, forge_done, plant

from limpet import (
    AgentNotAllowed,
    AgentNotFound,
    Encryption,
    FileSystemStateBackend,
    Limpet,
    MemoryStateBackend,
    SQLiteStateBackend,
    StateBackend,
    StateCorrupted,
    StateMetadata,
    agent,
    new_key,
)
from limpet.backends.contract import Append, Claim, StateUpdate
from limpet.engine.allowed_code import AllowedCode, allowed_code
from limpet.engine.declared import find_actor
from limpet.engine.lease import new_holder
from limpet.model.origin import Arrival, with_origin

STORE = "sqlite:///runs.db"
COMMANDS: dict[str, tuple[str, ...]] = {
    "resume": ("resume", "failed"),
    "rerun": ("rerun", "failed"),
    "rerun-plan": ("rerun", "failed", "--plan"),
    "validate": ("validate", "done"),
    "rehearse": ("rehearse", "done"),
    "fork": ("fork", "failed"),
    "fork-run": ("fork", "failed", "--run"),
    "roll-back": ("roll-back", "failed", "--yes"),
    "recover": ("recover", "failed"),
    "answer": ("answer", "asking", '"red"'),
}


class Machine:
    """A project that has imported forged states, and a file outside of it that must not be run."""

    def __init__(self, folder: Path) -> None:
        self.project, self.canary = folder / "project", folder / "canary"
        self.project.mkdir()
        self.evil = plant(folder / "elsewhere", self.canary)
        source = MemoryStateBackend()
        reference = f"{self.evil}:evil"
        forge(source, "failed", reference)
        forge_done(source, "done", reference)
        forge_asking(source, "asking", reference)
        forge_asking(source, "answered", reference, answered=True)
        with Limpet(f"sqlite:///{self.project}/runs.db") as client:
            for state_id in ("failed", "done", "asking", "answered"):
                client.import_(Limpet(source).export(state_id, folder / f"{state_id}.zip"))

    def typed(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "limpet.cli.main", *arguments, "--store", STORE]
        environment = {**os.environ, **variables}
        return subprocess.run(
            command, cwd=self.project, env=environment, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_what_a_forged_export_names(command: str, machine: Machine) -> None:
    answer = machine.typed(*COMMANDS[command], "--json")
    assert not machine.canary.exists(), answer.stdout
    told = answer.stdout + answer.stderr
    if command == "answer":  # It is checked by what is recorded.
        assert 0 == answer.returncode, told
        return
    assert 0 != answer.returncode, told
    assert (True, True) == (str(machine.evil) in told, "--app" in told), told


def test_a_supervisor_does_not_run_what_a_forged_export_names(machine: Machine) -> None:
    command = [sys.executable, "-m", "limpet.cli.main", "serve", "--store", STORE]
    with subprocess.Popen(command, cwd=machine.project, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "answered" in line)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert (0, False) == (process.returncode, machine.canary.exists())
    assert (True, True) == (str(machine.evil) in told, "--app" in told), told


@pytest.mark.parametrize("way", ["--app file", "--app folder", "variable", "file of settings"])
def test_what_the_user_allows_is_run(way: str, machine: Machine) -> None:
    arguments, variables = [], {}
    match way:
        case "--app file":
            arguments = ["--app", str(machine.evil)]
        case "--app folder":
            arguments = ["--app", "../elsewhere/"]
        case "variable":
            variables = {"LIMPET_RUN_MODULES": str(machine.evil)}
        case _:
            (machine.project / "limpet.toml").write_text('[run]\nmodules = ["../elsewhere"]\n')
    answer = machine.typed("resume", "failed", *arguments, "--json", **variables)
    assert (0, "kelp") == (answer.returncode, json.loads(answer.stdout)["result"]), answer.stderr
    assert machine.canary.exists()


def test_a_program_does_not_run_what_a_forged_state_names(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine.project)
    with Limpet(STORE) as client:
        for begin in (
            lambda: client.resume("failed"),
            lambda: client.rerun("failed"),
            lambda: client.validate("done"),
            lambda: client.rehearse("done"),
            lambda: client.roll_back("failed"),
        ):
            with pytest.raises(AgentNotAllowed, match="evil_flow"):
                asyncio.run(begin())
        client.answer("asking", "red")  # It is checked by what is recorded, and imports nothing.
        assert "evil_flow" in str(asyncio.run(client.validate(["done"]))["done"])
    assert not machine.canary.exists()


def test_a_program_runs_what_it_allows(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine.project)
    with Limpet(STORE, modules=[str(machine.evil)]) as client:
        assert "kelp" == asyncio.run(client.resume("failed", on_drift="ignore"))
    del sys.modules["evil_flow"]


def test_an_agent_that_the_program_has_declared_is_run_instead(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine.project)

    @agent
    async def evil(topic: str) -> str:
        return f"mine: {topic}"

    with Limpet(STORE) as client:
        assert "mine: kelp" == asyncio.run(client.resume("failed", on_drift="ignore"))
    assert not machine.canary.exists()


def allowed_here(*named: str) -> Callable[[], AllowedCode]:
    return lambda: allowed_code(named)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with code of its own, of others inside it, and links out of it."""
    canary = tmp_path / "canary"
    project = tmp_path / "project"
    outside = plant(tmp_path / "elsewhere", canary).parent
    plant(tmp_path / "elsewhere" / "pack", canary, "__init__.py")
    plant(tmp_path / "elsewhere" / "pack", canary, "deep.py")
    for folder in ("venv/lib/python3/site-packages", "lib/site-packages", ".hidden", "env/src"):
        plant(project / folder, canary)
    (project / "env" / "pyvenv.cfg").touch()
    (project / "pyproject.toml").touch()
    (project / "linked.py").symlink_to(outside / "evil_flow.py")
    (project / "linked").symlink_to(outside)
    (project / "half").mkdir()
    (project / "half" / "evil_flow.py").symlink_to(outside / "evil_flow.py")
    plant(outside, canary, "evil\nflow.py")
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [str(project), *sys.path, str(outside), str(project / "lib" / "site-packages")])
    known = set(sys.modules)
    gc.collect()
    yield tmp_path
    forget(known)


def forget(known: set[str]) -> None:
    """Have the process forget the modules that it did not know, and the agents that they declared."""
    for name in set(sys.modules) - known:
        del sys.modules[name]
    gc.collect()


ATTACKS = (
    "{outside}/evil_flow.py:evil",
    "{outside}/evil_flow.py:Evil.inside",
    "{outside}/evil\nflow.py:evil",
    "{project}/../elsewhere/evil_flow.py:evil",
    "../elsewhere/evil_flow.py:evil",
    "./../elsewhere/./evil_flow.py:evil",
    "{project}/linked.py:evil",
    "linked.py:evil",
    "linked/evil_flow.py:evil",
    "{project}/lib/site-packages/evil_flow.py:evil",
    "venv/lib/python3/site-packages/evil_flow.py:evil",
    "env/src/evil_flow.py:evil",
    ".hidden/evil_flow.py:evil",
    "{outside}/pack/__init__.py:evil",
    "linked:evil",
    "linked.evil_flow:evil",
    "half.evil_flow:evil",
    "evil_flow:evil",
    "pack:evil",
    "pack.deep:evil",
    "pack.missing:evil",
    "pack.deep.deeper:evil",
    "lib.site-packages.evil_flow:evil",
    "venv.lib.python3.evil_flow:evil",
    "env.src.evil_flow:evil",
    "env.src.missing:evil",
    "antigravity:evil",
    "this:s",
    "idlelib.idle:evil",
    "os:system",
    "os.path:join",
    "subprocess:run",
    "builtins:exec",
    "builtins:__import__",
    "sys:modules",
    "__main__:main",
    "limpet.declare:Agent",
    "limpet.engine.actors:Actor",
    "limpet.engine.actors:FunctionActor.reference",
    "concurrent.futures:ProcessPoolExecutor",
    "a::b",
    "{outside}/evil_flow.py:evil:evil",
    "{outside}/evil_flow.py:",
    "{outside}/evil_flow:evil",
    "{outside}/evil_flow.py:evil()",
    "{outside}/evil_flow.py:__builtins__.exec",
    "{outside}/evil_flow.py\0:evil",
    "/dev/stdin.py:evil",
    "{outside}:evil",
    "..elsewhere.evil_flow:evil",
    ".evil_flow:evil",
    "file://{outside}/evil_flow.py:evil",
    "pathlib:Path('{outside}').touch",
    ":evil",
    ":",
    "",
    "x" * 300 + ".py:evil",
    "a." * 2000 + "b:evil",
)


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_no_reference_has_code_of_others_executed(attack: str, places: Path) -> None:
    reference = attack.replace("{outside}", f"{places}/elsewhere").replace("{project}", f"{places}/project")
    before = set(sys.modules)
    with pytest.raises((AgentNotAllowed, AgentNotFound)) as raised:
        find_actor(reference, "nobody", allowed_here())
    assert (False, set()) == ((places / "canary").exists(), set(sys.modules) - before)
    assert "\n" not in str(raised.value)


def test_the_same_code_is_found_where_it_is_allowed(places: Path) -> None:
    for reference, named in (
        ("evil_flow:evil", "evil_flow"),
        ("pack.deep:evil", "pack"),
        ("pack.deep:evil", "pack.*"),
        ("{outside}/evil_flow.py:evil", "../elsewhere"),
        ("linked.py:evil", "{outside}/evil_flow.py:evil"),
        (".hidden/evil_flow.py:evil", ".hidden/"),
    ):
        place = f"{places}/elsewhere"
        known = set(sys.modules)
        found = find_actor(
            reference.replace("{outside}", place), "nobody", allowed_here(named.replace("{outside}", place))
        )
        assert "evil" == found.name
        del found
        forget(known)


def test_a_module_is_not_allowed_because_its_name_begins_like_one_that_is(places: Path) -> None:
    for named in ("pac", "evil", "pack.deep", "packs", "evil_flow.evil"):
        with pytest.raises(AgentNotAllowed):
            find_actor("pack:evil", "nobody", allowed_here(named))
    assert not (places / "canary").exists()


def test_code_of_the_project_is_found_from_anywhere_in_it(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(places / "project" / "src" / "flows", places / "canary", "own_flow.py")
    plant(places / "project" / "a" / "b", places / "canary", "c.py")
    (places / "project" / "src" / "deeper").mkdir()
    monkeypatch.chdir(places / "project" / "src" / "deeper")
    assert "evil" == find_actor(f"{places}/project/src/flows/own_flow.py:evil", "nobody", allowed_here()).name
    assert "evil" == find_actor("a.b.c:evil", "nobody", allowed_here()).name


def test_all_files_of_the_machine_are_no_project(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(AgentNotAllowed):
        find_actor(f"{places}/elsewhere/evil_flow.py:evil", "nobody", allowed_here())


def test_what_is_not_an_actor_is_never_called_or_asked() -> None:
    class Asked(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if name == "evil":
                asked.append(name)
            return super().__getattribute__(name)

    class StandIn:
        @property
        def __class__(self) -> Any:  # type: ignore[override]
            asked.append("class")
            return type(agent)

    asked: list[str] = []
    module = Asked("asked_module")
    vars(module).update(thing=StandIn(), __getattr__=asked.append)
    sys.modules["asked_module"] = module
    try:
        for name in ("evil", "thing", "thing.inside", "missing"):
            with pytest.raises(AgentNotFound, match="has no agent"):
                find_actor(f"asked_module:{name}", "nobody", allowed_here())
    finally:
        del sys.modules["asked_module"]
    assert [] == asked


def test_an_agent_of_the_running_script_is_found_in_it(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "program.py"
    script.parent.mkdir()
    script.write_text(
        "import asyncio, sys\n"
        "from limpet import Limpet, agent\n"
        "print('loaded')\n"
        "@agent\n"
        "async def greets(name):\n"
        "    if sys.argv[1] == 'run': raise SystemExit(3)\n"
        "    return f'hello {name}'\n"
        "client = Limpet('sqlite:///runs.db')\n"
        "if sys.argv[1] == 'run': client.run_sync(greets, 'kelp', state_id='x')\n"
        "del greets\n"
        "@agent(name='greets')\n"
        "async def renamed(name):\n"
        "    return f'again {name}'\n"
        "print(asyncio.run(client.resume('x')))\n"
    )
    run = [sys.executable, str(script)]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert 3 == subprocess.run([*run, "run"], cwd=elsewhere, capture_output=True, check=False).returncode
    resumed = subprocess.run([*run, "on"], cwd=elsewhere, capture_output=True, text=True, check=False)
    assert "loaded\nagain kelp\n" == resumed.stdout, resumed.stderr


@pytest.fixture(params=["sqlite", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    if request.param == "sqlite":
        return lambda: SQLiteStateBackend(tmp_path / "s.db", "normal")
    return lambda: FileSystemStateBackend(tmp_path / "s", "normal")


def change_agent(backend: StateBackend, state_id: str, reference: str | None) -> None:
    """Change the header with all its checksums right, as somebody without a key can."""
    header = backend.find_state(state_id)
    assert header is not None
    [grant] = backend.acquire((Claim(header=header, holder=new_holder(), ttl_s=9, create=False, reopen=True),))
    assert grant is not None
    assert grant.lease is not None
    changed = msgspec.structs.replace(header, agent=reference)
    update = StateUpdate(at=header.updated_at.timestamp(), header=changed, releases=True)
    assert [None] == backend.append((Append(grant.lease, header.position + 1, (), update),))


@agent
async def honest(topic: str) -> str:
    raise LookupError(topic)


@pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "clear"])
@pytest.mark.parametrize("other", ["acceptance.test_trust:other", "/tmp/evil.py:evil", None])
def test_a_changed_agent_in_a_header_is_named_and_not_used(
    reopen: Callable[[], StateBackend], is_sealed: bool, other: str | None
) -> None:
    encryption = Encryption(new_key()) if is_sealed else None
    with reopen() as backend:
        with pytest.raises(LookupError):
            Limpet(backend, encryption=encryption).run_sync(honest, "kelp", state_id="x")
        assert Limpet(backend, encryption=encryption).verify("x").is_sound
        change_agent(backend, "x", other)
    with reopen() as backend:
        client = Limpet(backend, encryption=encryption)
        found = client.verify("x")
        assert (False, True) == (found.is_sound, found.needs_recovery)
        assert found.header_damage is not None
        assert (True, True) == (repr(other) in found.header_damage, repr(honest.reference) in found.header_damage)
        assert ["x"] == [each.state_id for each in client.doctor().unsound]
        for begin in (client.resume, client.rerun, client.validate):
            with pytest.raises(StateCorrupted, match="its header names the agent"):
                asyncio.run(begin("x"))
        assert client.recover("x").mended_header
        assert (True, honest.reference) == (client.verify("x").is_sound, client.show("x").header.agent)
        with pytest.raises(LookupError):
            asyncio.run(client.resume("x"))


def test_what_was_imported_or_copied_says_where_it_came_from(tmp_path: Path) -> None:
    source, target, last = (SQLiteStateBackend(tmp_path / f"{name}.db", "normal") for name in "abc")
    with source, target, last:
        with pytest.raises(LookupError):
            Limpet(source).run_sync(honest, "kelp", state_id="x")
        assert {} == Limpet(source).show("x").header.metadata.origin
        Limpet.copy(source, target)
        origin = Limpet(target).show("x").header.metadata.origin
        assert {"by": "copy", "from": source.name} == {key: origin[key] for key in ("by", "from")}
        assert ["x"] == Limpet.copy(source, target).unchanged
        fork = Limpet(target).fork("x", new_state_id="y")
        assert origin == Limpet(target).show(fork).header.metadata.origin
        Limpet(target).backup(last)
        backup = Limpet(last).show("x").header.metadata.origin
        assert ("backup", target.name, origin) == (backup["by"], backup["from"], backup["first"])
        exported = Limpet(last).export("x", tmp_path / "kelp.zip")
        with MemoryStateBackend() as fresh:
            Limpet(fresh).import_(exported)
            imported = Limpet(fresh).show("x").header.metadata.origin
            # What a file says of its own origin does not count.
            assert ["by", "from", "at"] == list(imported)
            assert ("import", "kelp.zip") == (imported["by"], imported["from"])
            with pytest.raises(LookupError):
                asyncio.run(Limpet(fresh).resume("x"))
            assert imported == Limpet(fresh).show("x").header.metadata.origin


def test_the_origin_is_shown_and_has_no_credentials() -> None:
    at = datetime(2026, 5, 4, 6, 30, tzinfo=UTC)
    marked = with_origin(StateMetadata(), Arrival.COPY, "postgresql://reef:s3cret@host:5432/runs?password=x", at)
    assert "postgresql://host:5432/runs" == marked.origin["from"]
    assert "kelp\ufffd.zip" == with_origin(marked, Arrival.IMPORT, "kelp\udcff.zip", at).origin["from"].replace(
        "?", "\ufffd"
    )


def test_the_command_line_shows_the_origin(machine: Machine) -> None:
    shown = machine.typed("show", "done")
    assert "import from done.zip" in shown.stdout
    assert "done.zip" == json.loads(machine.typed("show", "done", "--json").stdout)["origin"]["from"]
