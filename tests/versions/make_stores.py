"""Makes the stores of one version of Limpet: ``python make_stores.py FOLDER``, with that version on the path.

A store that is checked in is never made again: what it is worth is that an old version wrote it. To keep one of a newer
version, check out its commit and give its code and the folder ``tests`` to Python:

    git worktree add /tmp/old COMMIT
    PYTHONPATH=/tmp/old/src:tests python tests/versions/make_stores.py tests/versions/stores/NAME

Each store is made with the facts about it beside it, in JSON. What a version cannot do yet is left out: ``plain`` is
made by all, ``sealed`` by those that encrypt, ``folder`` by those that can keep states in one.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before Limpet is imported: what is captured of this machine is nobody's business.
socket.gethostname = lambda: "reef"
os.environ["LIMPET_CAPTURE"] = "minimal"


def load_actors() -> Any:
    """The actors, with a name of their file that is the same everywhere, since it stands in tracebacks."""
    file = Path(__file__).with_name("kept_actors.py")
    spec = importlib.util.spec_from_file_location("versions.kept_actors", file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["versions.kept_actors"] = module
    exec(compile(file.read_text(), "tests/versions/kept_actors.py", "exec"), module.__dict__)
    return module


actors = load_actors()

from versions.kept_facts import TEST_KEY, facts_of  # noqa: E402

import limpet  # noqa: E402
from limpet import ExecutionEvent, ExecutionState, Limpet, StateMetadata, StateStatus  # noqa: E402

CAN_STORE_ARTIFACTS = hasattr(limpet, "ArtifactBackend")
CAN_TRAVEL = hasattr(Limpet, "fork")


try:
    from limpet.backends.files.states import FileSystemStateBackend
except ImportError:
    FileSystemStateBackend = None


def options_of(name: str) -> dict[str, Any]:
    return {"encryption": limpet.Encryption(TEST_KEY)} if name.startswith("sealed") else {}


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Limpet]:
    if name == "folder" and FileSystemStateBackend is not None:
        # Small segments, so that there are several, and some of them packed.
        with FileSystemStateBackend(folder / name, compression="zstd", segment_size=4_000) as backend:
            yield Limpet(backend)
    else:
        with Limpet(f"sqlite:///{folder}/{name}.db", **options_of(name)) as client:
            yield client


def make_runs(client: Limpet) -> None:
    metadata = StateMetadata(
        tags=["reef", "spring"], description="Two dives", pipeline_name="kelp", custom_data={"n": [1]}
    )
    client.run_sync(actors.survey, ["north", "south"], state_id="whole", metadata=metadata)
    actors.weather.add("storm")
    try:
        client.run_sync(actors.haul, 5, state_id="failed", metadata=StateMetadata(tags=["reef"]))
    except actors.Storm:
        actors.weather.clear()
    if CAN_STORE_ARTIFACTS:
        client.run_sync(actors.archive, state_id="large")


async def make_explicit(client: Limpet, **options: Any) -> None:
    state = ExecutionState(
        state_backend=client.backend, state_id="explicit", metadata=StateMetadata(tags=["hand"]), **options
    )
    first = await ExecutionEvent(actors.AddOne())(actors.CountInput(value=5), None, state)
    state.storage.set("place", actors.Place("north", actors.Depth.DEEP, (1.0, 2.0)))
    state.storage.set("gone", 1)
    state.save_checkpoint()
    state.storage.delete("gone")
    if CAN_STORE_ARTIFACTS:
        state.storage.set_artifact("page", "kelp and tide, " * 4_000)
    await ExecutionEvent(actors.AddOne(), tag="again")(first, None, state)
    state.save_checkpoint(StateStatus.INTERRUPTED)


async def travel(client: Limpet) -> None:
    """A state with a second timeline, a fork of it that is finished, one of that fork that is not, and an orphan."""
    await client.run(actors.haul, 4, state_id="travelled")
    await client.rerun("travelled", "haul::stow::lift::tool_call", replace=200)
    client.fork("travelled", "stow#2", new_state_id="fork")
    await client.resume("fork")
    client.fork("fork", "stow#2::lift", replace=300, new_state_id="fork-of-fork")
    await client.run(actors.haul, 3, state_id="parent")
    client.fork("parent", "stow::lift", new_state_id="orphan")
    client.delete("parent")


def kill(folder: Path, name: str) -> None:
    """A run in a process that is killed in the middle of it."""
    assert -9 == subprocess.run([sys.executable, __file__, str(folder), "--killed", name]).returncode


def make_store(folder: Path, name: str) -> None:
    options = options_of(name)
    with opened(folder, name) as client:
        make_runs(client)
        asyncio.run(make_explicit(client, **options))
        if CAN_TRAVEL:
            asyncio.run(travel(client))
    kill(folder, name)
    with opened(folder, name) as client:
        facts = facts_of(client, with_timelines=CAN_TRAVEL, **options)
    (folder / f"{name}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if sys.argv[2:3] == ["--killed"]:
        actors.weather.add("collapse")
        with opened(folder, sys.argv[3]) as client:
            client.run_sync(actors.haul, 5, state_id="killed", metadata=StateMetadata(description="Cut short"))
    folder.mkdir(parents=True, exist_ok=True)
    make_store(folder, "plain")
    if CAN_STORE_ARTIFACTS:
        make_store(folder, "sealed")
    if FileSystemStateBackend is not None:
        make_store(folder, "folder")


if __name__ == "__main__":
    main()
