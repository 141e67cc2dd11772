"""Settings from real files, the real environment and the command line do what they say."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    Budget,
    BudgetExceeded,
    ConfigurationError,
    EventRecord,
    ExecutionInterrupted,
    ExecutionState,
    FileSystemStateBackend,
    InvalidKey,
    Limpet,
    MemoryStateBackend,
    RetryConfig,
    SQLiteStateBackend,
    agent,
    load_config,
    new_key,
    tool,
)

PROGRAM = """
import asyncio
from limpet import agent, tool

@tool
def double(number: int) -> int:
    return 2 * number

@agent
async def pipeline(number: int) -> int:
    return await double(await double(number))

if __name__ == "__main__":
    print(asyncio.run(pipeline.run(3, state_id="six")))
"""

tries: list[int] = []


@tool
async def unreliable(times: int) -> int:
    tries.append(1)
    if len(tries) < times:
        raise ConnectionError("the tide is out")
    return len(tries)


@agent
async def persistent(times: int) -> int:
    tries.clear()
    return await unreliable(times)


@tool
async def echo(text: str) -> str:
    return text


@agent
async def echoing(count: int, size: int = 1) -> int:
    return sum([len(await echo(str(number) * size)) for number in range(count)])


@agent
async def endless() -> None:
    await asyncio.Event().wait()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("LIMPET_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(folder: Path, text: str) -> None:
    (folder / "limpet.toml").write_text(text)


def called(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a program or a command prints in that folder, with nothing of ours in the environment but this."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}
    environment = {**clean, "COLUMNS": "120", "NO_COLOR": "1", **variables}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def limpet(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return called(folder, "-m", "limpet.cli.main", *words, **variables)


def test_every_source_names_a_store(folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)
    configure(folder, 'store = "sqlite:///filed.db"')
    (folder / "below").mkdir()
    assert "12\n" == called(folder / "below", "../program.py").stdout
    assert (folder / "filed.db").exists()
    assert "12\n" == called(folder, "program.py", LIMPET_STORE="sqlite:///said.db").stdout
    assert (folder / "said.db").exists()
    listed = limpet(folder, "list", "--json")
    assert ["six"] == [state["state_id"] for state in json.loads(listed.stdout)["states"]]
    assert 2 == limpet(folder, "list", "--store", "sqlite:///gone.db").returncode


def test_without_persistence_nothing_is_kept(folder: Path) -> None:
    configure(folder, "persistence = false")
    assert 3 == asyncio.run(echoing.run(3))
    assert not (folder / ".limpet").exists()
    with Limpet() as client:
        assert isinstance(client.backend, MemoryStateBackend)
    with Limpet("sqlite:///named.db") as client:
        assert isinstance(client.backend, SQLiteStateBackend)


def test_durability_and_compression_are_those_of_urls_that_do_not_say_it(folder: Path) -> None:
    configure(folder, 'durability = "normal"\ncompression = "gzip"')
    urls = ("sqlite:///a.db", "sqlite:///b.db?synchronous=full", "file://a", "file://b?synchronous=full")
    waits = []
    for url in urls:
        with Limpet(url) as client:
            waits.append(client.backend.commit_waits)
    assert [False, True, False, True] == waits
    packed = {"file://c": "gzip", "file://d?compression=zstd": "zstd", "file://e?compression=none": None}
    for url, compression in packed.items():
        with Limpet(url) as client:
            assert isinstance(client.backend, FileSystemStateBackend)
            assert compression == client.backend._journals._rules.compression


def test_large_is_what_the_threshold_says(folder: Path) -> None:
    configure(folder, 'store = "memory://"\nartifact_threshold = "1 KiB"')
    with Limpet() as client:
        client.run_sync(echoing, 1, 2000, state_id="large")
        client.run_sync(echoing, 1, 1000, state_id="small")
        assert any(record.artifacts for record in events(client, "large"))
        assert not any(record.artifacts for record in events(client, "small"))
    with Limpet(artifact_threshold=4096) as client:
        client.run_sync(echoing, 1, 2000, state_id="large")
        assert not any(record.artifacts for record in events(client, "large"))
        assert "argument" == client.config.origin("artifact_threshold")


def events(client: Limpet, state_id: str) -> list[EventRecord]:
    return [record for record in client.history(state_id) if isinstance(record, EventRecord)]


def test_retries_are_as_configured_unless_they_are_given(folder: Path) -> None:
    configure(folder, 'store = "memory://"\n[retry]\ninitial_delay = 0\n[retry.tool_call]\nmax_attempts = 5')
    with Limpet() as client:
        assert 5 == client.run_sync(persistent, 5)
    with Limpet(default_retry_config=RetryConfig(max_attempts=1)) as client, pytest.raises(ConnectionError):
        client.run_sync(persistent, 2)


def test_only_the_exceptions_that_are_named_are_tried_again(folder: Path) -> None:
    table = "[retry]\ninitial_delay = 0\nretry_on_exceptions = "
    configure(folder, f'store = "memory://"\n{table}["json:JSONDecodeError"]')
    with Limpet() as client, pytest.raises(ConnectionError):
        client.run_sync(persistent, 2)
    configure(folder, f'store = "memory://"\n{table}["ConnectionError"]')
    with Limpet() as client:
        assert 2 == client.run_sync(persistent, 2)


def test_a_budget_and_a_time_limit_runs_that_are_given_none(folder: Path) -> None:
    configure(folder, 'store = "memory://"\ntimeout_s = 0.01\n[budget]\nevents = 3')
    with Limpet() as client:
        with pytest.raises(BudgetExceeded):
            client.run_sync(echoing, 5, timeout_s=60)
        assert 5 == client.run_sync(echoing, 5, budget=Budget(), timeout_s=60)
        with pytest.raises(ExecutionInterrupted, match="time"):
            client.run_sync(endless)


def test_the_command_line_keeps_the_configured_limits_that_no_option_names(folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)
    configure(folder, "[budget]\nevents = 2")
    assert 5 == limpet(folder, "run", "program:pipeline", "number=3", "--max-tokens", "9").returncode
    assert 0 == limpet(folder, "run", "program:pipeline", "number=3", "--max-events", "9").returncode


def test_inputs_drift_leases_and_capture_are_as_configured(folder: Path) -> None:
    configure(
        folder, 'store = "memory://"\nrecord_inputs = false\ncapture = "off"\nlease_ttl_s = 7\non_drift = "error"'
    )
    with Limpet() as client:
        client.run_sync(echoing, 1, state_id="quiet")
        assert all(record.input is None for record in events(client, "quiet") if "echo::" in record.address)
        assert {} == client.show("quiet").header.metadata.environment
        assert 7.0 == client._writer.keeper.ttl_s
        client.run_sync(echoing, 1, state_id="told", record_inputs=True)
        assert any(record.input is not None for record in events(client, "told") if "echo::" in record.address)
    state = ExecutionState()
    assert {} == state._live.header.metadata.environment


def test_keys_are_in_the_variable_that_is_configured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(folder, '[secrets]\nkey_variable = "KELP_KEYS"')
    with pytest.raises(InvalidKey, match="KELP_KEYS"):
        Limpet()
    with pytest.raises(InvalidKey, match="KELP_KEYS"):
        ExecutionState()
    monkeypatch.setenv("KELP_KEYS", new_key())
    with Limpet() as client:
        assert client._stored.cipher is not None


def test_everything_wrong_is_told_at_once(folder: Path) -> None:
    configure(folder, 'on_drft = "warn"\ntimeout_s = 5\n\n[retry]\nmax_attempts = 0\n')
    done = limpet(folder, "config", "check", LIMPET_DURABILTY="full")
    assert (2, "") == (done.returncode, done.stdout)
    assert [
        "limpet.toml:1: 'on_drft' is no setting. Nearest: 'on_drift'.",
        "LIMPET_DURABILTY: no setting has the variable LIMPET_DURABILTY. Nearest: LIMPET_DURABILITY.",
        "limpet.toml:5: retry.max_attempts cannot be 0. Allowed is a whole number from 1 on, or 'none'.",
    ] == sorted(done.stderr.splitlines(), key=lambda line: ("max_attempts" in line, "DURABIL" in line))
    as_json = json.loads(limpet(folder, "config", "check", "--json").stdout)
    assert ["on_drft", "retry.max_attempts"] == [problem["key"] for problem in as_json["problems"]]
    for command in (("list",), ("config",), ("run", "program:pipeline")):
        assert 2 == limpet(folder, *command).returncode
    with pytest.raises(ConfigurationError) as caught:
        Limpet()
    assert ["limpet.toml:1", "limpet.toml:5"] == [problem.where for problem in caught.value.problems]


def test_the_command_line_says_where_values_come_from(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.limpet]\ncapture = 'minimal'\n")
    key = new_key()
    done = limpet(folder, "config", "--store", "memory://", LIMPET_TIMEOUT_S="3", LIMPET_KEY=key)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    assert ["minimal", "pyproject.toml:2"] == rows["capture"]
    assert ["3.0", "LIMPET_TIMEOUT_S"] == rows["timeout_s"]
    assert ["memory://", "argument"] == rows["store"]
    assert ["default", "default"] == rows["on_drift"]
    assert key not in done.stdout + done.stderr
    as_json = json.loads(limpet(folder, "config", "--json").stdout)
    assert {"value": "minimal", "origin": "pyproject.toml:2"} == as_json["settings"]["capture"]
    assert f"{folder}/pyproject.toml\n" == limpet(folder, "config", "path").stdout
    (folder / "pyproject.toml").unlink()
    done = limpet(folder, "config", "path")
    assert (0, "") == (done.returncode, done.stdout)


def test_a_limpet_follows_its_file_in_runs_that_begin_later(folder: Path) -> None:
    configure(folder, 'store = "memory://"\n[retry]\ninitial_delay = 0\nmax_attempts = 1')
    with Limpet() as client, Limpet(on_drift="ignore", artifact_threshold=5000) as fixed:
        with pytest.raises(ConnectionError):
            client.run_sync(persistent, 2)
        configure(
            folder,
            'store = "sqlite:///other.db"\non_drift = "error"\nartifact_threshold = 100\nrecord_inputs = false\n'
            "[budget]\nevents = 3\n[retry]\ninitial_delay = 0\nmax_attempts = 2",
        )
        reloaded = client.config.reload()
        assert ["store"] == [change.key for change in reloaded.fixed]
        assert 2 == client.run_sync(persistent, 2)
        client.run_sync(echoing, 1, 200, state_id="large")
        assert any(record.artifacts for record in events(client, "large"))
        assert all(record.input is None for record in events(client, "large") if "echo::" in record.address)
        with pytest.raises(BudgetExceeded):
            client.run_sync(echoing, 5)
        fixed.config.reload()
        fixed.run_sync(echoing, 1, 200, state_id="kept")
        assert not any(record.artifacts for record in events(fixed, "kept"))
    assert not (folder / "other.db").exists()


def test_a_wrong_change_leaves_a_program_running_as_before(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    configure(folder, 'store = "memory://"\n[retry]\ninitial_delay = 0\nmax_attempts = 2')
    with Limpet() as client:
        configure(folder, "[retry\nmax_attempts = 1")
        assert not client.config.reload().is_applied
        assert 2 == client.run_sync(persistent, 2)
    assert "limpet.toml:1:7" in caplog.text


def test_two_configurations_live_side_by_side(folder: Path) -> None:
    files: dict[str, Any] = {"one": 1, "three": 3}
    for name, attempts in files.items():
        text = f'store = "memory://"\n[retry]\ninitial_delay = 0\nmax_attempts = {attempts}'
        (folder / f"{name}.toml").write_text(text)
    with Limpet(config=load_config("one.toml")) as one, Limpet(config=load_config("three.toml")) as three:
        assert 3 == three.run_sync(persistent, 3)
        with pytest.raises(ConnectionError):
            one.run_sync(persistent, 3)
        assert 3 == three.run_sync(persistent, 3)


def test_importing_reads_no_file(folder: Path) -> None:
    configure(folder, "this is not toml")
    assert "" == called(folder, "-c", "import limpet").stderr
    assert "limpet.toml:1:" in called(folder, "-c", "import limpet; limpet.Limpet()").stderr
