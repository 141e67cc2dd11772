"""Imports and copies small files that could take a great deal: ``python -m hostile.bombs_program FOLDER``.

What each came to is printed as JSON: its outcome, and how much time and memory it took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from hostile.bombs import bombs, segments
from hostile.importing_program import Forged, material, taken
from hostile.watch import limit_address_space

from limpet import Limpet, MemoryStateBackend


class Measured(msgspec.Struct):
    """What reading one file came to."""

    expected: str
    outcome: str
    packed: int
    """Bytes of the file."""
    seconds: float
    growth: int
    """By how many bytes the memory grew at most."""


def measured(expected: str, path: Path, take: Callable[[Limpet], object]) -> Measured:
    Path("/proc/self/clear_refs").write_text("5")  # The peak begins anew.
    before, began = _memory("VmRSS"), time.process_time()
    outcome = taken(Forged(path, take), Limpet(MemoryStateBackend()), uses_commands=False)
    seconds, growth = time.process_time() - began, _memory("VmHWM") - before
    packed = sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    return Measured(expected, outcome, packed, seconds, growth)


def _memory(what: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{what}:")[2].split(maxsplit=1)[0]) * 1024


def main(folder: str) -> None:
    root = Path(folder)
    honest = material(root / "honest")
    limit_address_space()
    found: dict[str, Measured] = {}
    tree = next(tree for tree in honest.trees if any(name.startswith("artifacts/") for name in tree))
    for name, (expected, make) in bombs(root, tree).items():
        path = make()
        found[name] = measured(expected, path, lambda client, path=path: client.import_all(path))
    for number, name in enumerate(segments(root, root)):
        store = root / f"store {number}"
        Limpet.copy(f"file://{honest.folders[0]}", f"file://{store}?synchronous=normal")
        path = segments(root, store)[name]()
        source = f"file://{path}?synchronous=normal"
        found[f"a segment: {name}"] = measured(
            "partly_taken", path, lambda client, source=source: Limpet.copy(source, client)
        )
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
