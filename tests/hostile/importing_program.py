"""Imports and copies what was forged, under watch: ``python -m hostile.importing_program FOLDER LAST SEED COUNT``.

In FOLDER/work, where it runs, everything is forged and stored; FOLDER/outside has what nobody may run or change. LAST
is the file that holds which example it is at. What was found is printed as JSON.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
from acceptance.moving_stores import stepping
from click.testing import CliRunner
from hostile.decoding_program import Found, samples
from hostile.forged_exports import forged_tree, write_export
from hostile.forged_parts import Chance
from hostile.forged_stores import forged_folder, forged_snapshots, forged_sqlite
from hostile.fuzzing import Fuzzer
from hostile.watch import Watch, limit_address_space

from limpet import Encryption, ExecutionState, Limpet, LimpetError, MemoryStateBackend
from limpet.cli.main import commands
from limpet.model.moving import Copied

MOST_FAULTS = 5
MOST_SECONDS = 3.0
MOST_MEMORY = 200 << 20
LONGEST_S = 60
"""After so long the process dies, and says where it was."""
SEED_STORE = Path(__file__).parents[1] / "acceptance" / "seed_stores" / "finished" / "states"
KEY = "11" * 32


class Material(msgspec.Struct):
    """What is honest, and is forged again and again."""

    trees: list[dict[str, bytes]]
    sqlite: bytes
    folders: list[Path]
    snapshots: list[dict[str, Any]]


class Forged(msgspec.Struct):
    """A forged source, and what is done with it."""

    path: Path
    take: Callable[[Limpet], object]
    is_copied: bool = False
    """From a store, state by state: those before one that cannot be copied stay."""


def material(folder: Path) -> Material:
    folder.mkdir()
    with Limpet(f"sqlite:///{folder}/s.db?synchronous=normal") as client:
        _fill(client)
        trees = [_tree(client, state_id, folder) for state_id in ("run", "fork", "explicit")]
        folders = [folder / "files", folder / "packed"]
        Limpet.copy(client, f"file://{folders[0]}?synchronous=normal")
        Limpet.copy(client, f"file://{folders[1]}?synchronous=normal&compression=zstd")
    with Limpet(MemoryStateBackend(), encryption=Encryption(KEY)) as client:
        client.run_sync(stepping, 1, state_id="sealed")
        trees.append(_tree(client, "sealed", folder))
    snapshots = [msgspec.json.decode(file.read_bytes()) for file in sorted(SEED_STORE.iterdir())]
    return Material(trees, (folder / "s.db").read_bytes(), folders, snapshots)


def _fill(client: Limpet) -> None:
    client.run_sync(stepping, 2, state_id="run")
    client.fork("run", "step#2", new_state_id="fork")
    client.send("fork", "topic", {"fathoms": 20})
    state = ExecutionState(state_backend=client.backend, state_id="explicit")
    state.storage.set("depth", {"fathoms": [20, 2**70, 1.5]})
    state.storage.set_artifact("chart", b"kelp" * 1000)
    state.save_checkpoint()


def _tree(client: Limpet, state_id: str, folder: Path) -> dict[str, bytes]:
    path = client.export(state_id, folder / f"export of {state_id}", as_folder=True)
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def forged(chance: Chance, honest: Material, folder: Path) -> Forged:
    """One forged source."""
    match chance.random.randrange(12):
        case 0 | 1:
            path = forged_snapshots(chance, honest.snapshots, folder)
        case 2 | 3:
            path = forged_sqlite(chance, honest.sqlite, folder)
            return Forged(path, lambda client: Limpet.copy(f"sqlite:///{path}?synchronous=normal", client), True)
        case 4 | 5:
            path = forged_folder(chance, chance.random.choice(honest.folders), folder)
            return Forged(path, lambda client: Limpet.copy(f"file://{path}?synchronous=normal", client), True)
        case _:
            path = write_export(chance, forged_tree(chance, chance.random.choice(honest.trees)), folder)
    return Forged(path, lambda client: client.import_all(path))


def target_of(chance: Chance, folder: Path) -> Limpet:
    """A fresh store, mostly in memory, since those are quick to make."""
    kind = chance.random.randrange(20)
    encryption = Encryption(KEY, accept_plain=True) if chance.is_so(0.1) else None
    if kind == 0:
        return Limpet(f"sqlite:///{folder}/target.db?synchronous=normal", encryption=encryption)
    if kind == 1:
        return Limpet(f"file://{folder}/target?synchronous=normal", encryption=encryption)
    return Limpet(MemoryStateBackend(), encryption=encryption)


def taken(source: Forged, target: Limpet, uses_commands: bool) -> str:
    """What became of a forged source, and of all that is done with what came in."""
    try:
        done = source.take(target)
    except LimpetError as error:
        # Its text is made for people as well.
        left = [header.state_id for header in target.list_states()]
        if left and not source.is_copied:
            return f"{str(error)[:300]} was refused, and {left} stand there"
        return type(error).__name__
    except BaseException as error:
        return _what(error)
    refused = isinstance(done, Copied) and bool(done.refused)
    wrong = _looked_at(target, uses_commands)
    return wrong or ("partly_taken" if refused else "taken")


def _looked_at(client: Limpet, uses_commands: bool) -> str | None:
    """What goes wrong, other than by an error of ours, where everything in a store is looked at."""
    try:
        headers = client.list_states()
    except BaseException as error:
        return _what(error)
    verbs = (client.show, client.history, client.verify, client.timelines, client.checkpoints, client.questions)
    for header in headers:
        for verb in verbs:
            try:
                repr(verb(header.state_id))
            except LimpetError as error:
                str(error)
            except BaseException as error:
                return f"{verb.__name__}: {_what(error)}"
    return _typed(client, [header.state_id for header in headers]) if uses_commands else None


def _typed(client: Limpet, state_ids: list[str]) -> str | None:
    store = ["--store", client.backend.name]
    lines = [["list"], *(["show", each] for each in state_ids), *(["verify", each] for each in state_ids)]
    for line in lines:
        answer = CliRunner().invoke(commands, [*line, *store])
        if answer.exception is not None and not isinstance(answer.exception, SystemExit):
            return f"limpet {line[0]}: {_what(answer.exception)}"
    return None


def _what(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}: {str(error)[:200]} ({where})"


def run(folder: Path, last_input: Path, seed: str, first: int, count: int) -> Found:
    work, outside = folder / "work", folder / "outside"
    honest = material(folder / "honest")
    fuzzer = Fuzzer(samples(), 0)
    found = Found({}, [])
    canary = _what_is_outside(outside)
    limit_address_space()

    def example(number: int, watch: Watch | None) -> None:
        chance = Chance(f"{seed}/{number}", str(outside), fuzzer)
        place = work / "example"
        place.mkdir()
        source = forged(chance, honest, place)
        with target_of(chance, place) as target:
            uses_commands = chance.is_so(0.2) and not isinstance(target.backend, MemoryStateBackend)
            faulthandler.dump_traceback_later(LONGEST_S, exit=True)
            if watch is None:
                taken(source, target, True)
            else:
                reading = watch.read(f"{seed}/{number}".encode(), lambda _: taken(source, target, uses_commands))
                found.outcomes[reading.outcome] = found.outcomes.get(reading.outcome, 0) + 1
                faults = reading.faults(MOST_SECONDS, MOST_MEMORY) + (
                    [] if reading.outcome.isidentifier() else [reading.outcome]
                )
                if canary != _what_is_outside(outside):
                    faults.append("something outside was changed")
                if faults:
                    found.faults.append(f"{seed}/{number} {source.path.name}: {'; '.join(faults)}")
        faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(place)

    for number in range(-60, 0):
        example(number, None)  # Imports what is first needed.
    watch = Watch(last_input, folder=work)
    for number in range(first, first + count):
        example(number, watch)
        if len(found.faults) == MOST_FAULTS:
            break
    return found


def _what_is_outside(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {each.name: (each.stat().st_mtime_ns, each.read_bytes()) for each in folder.iterdir()}


def main(folder: str, last_input: str, seed: str, first: str, count: str) -> None:
    warnings.simplefilter("ignore")
    metadata.version("limpet")  # Imports what it takes to read that.
    os.chdir(Path(folder) / "work")
    sys.path.append(str(Path(folder) / "outside"))
    found = run(Path(folder), Path(last_input), seed, int(first), int(count))
    assert "canary" not in sys.modules
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
