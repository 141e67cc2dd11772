"""A process of its own that works on a folder of artifacts: ``python artifact_worker.py WORK FOLDER NUMBER``.

It says ``ready``, waits for a line, does its work, and says how that went in lines.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from limpet.backends.files import FileSystemArtifactBackend
from limpet.errors import ArtifactMissing, StoreFull
from limpet.model.artifacts import CHUNK, Content, Pin, content_of, id_of_chunks

STORE = "0123456789abcdef" * 2
CONTENTS = [random.Random(seed).randbytes(4000) if seed % 2 else bytes([seed]) * 4000 for seed in range(8)]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def put_aloud(backend: FileSystemArtifactBackend, number: int) -> None:
    """Put contents of several pieces, and say the id of each that is acknowledged, until killed."""
    for seed in range(10_000):
        piece = random.Random(number * 10_000 + seed).randbytes(CHUNK // 4)
        data = piece * 6 if seed % 2 else bytes(100) + piece
        content = content_of(data)
        artifact_id = id_of_chunks(content.chunks())
        backend.put(artifact_id, content, Pin(STORE, f"kelp-{number}", seed))
        say(artifact_id)


def put_halfway(backend: FileSystemArtifactBackend, number: int) -> None:
    """Put one content and stop in the middle of it, until killed."""
    data = random.Random(number).randbytes(3 * CHUNK) if number % 2 else bytes([number]) * 3 * CHUNK

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(data), CHUNK):
            if start == 2 * CHUNK:
                say("halfway")
                sys.stdin.readline()
            yield data[start : start + CHUNK]

    artifact_id = id_of_chunks(content_of(data).chunks())
    say(artifact_id)
    backend.put(artifact_id, Content(len(data), chunks), Pin(STORE, "halfway", number))


def put_and_delete(backend: FileSystemArtifactBackend, number: int) -> None:
    """Put and delete the same few contents as another process does, and say how often each was stored and deleted."""
    chance = random.Random(number)
    stored, deleted, wrong = [0] * len(CONTENTS), [0] * len(CONTENTS), 0
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        which = chance.randrange(len(CONTENTS))
        content = content_of(CONTENTS[which])
        artifact_id = id_of_chunks(content.chunks())
        if chance.random() < 0.5:
            stored[which] += backend.put(artifact_id, content, Pin(STORE, "kelp", number))
        elif (info := backend.find(artifact_id)) is not None:
            deleted[which] += backend.delete(artifact_id, info.put_at)
        try:
            wrong += CONTENTS[which] != b"".join(backend.read(artifact_id))
        except ArtifactMissing:
            continue
    say(json.dumps({"stored": stored, "deleted": deleted, "wrong": wrong}))


def fill(backend: FileSystemArtifactBackend) -> None:
    """Put more than there is room for, and then again with room. The limit on the size of files stands for the disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    data = random.Random(0).randbytes(3 * CHUNK)
    content = content_of(data)
    artifact_id = id_of_chunks(content.chunks())
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * CHUNK, hard))
    failed = ""
    try:
        backend.put(artifact_id, content)
    except StoreFull as error:
        failed = str(error)
    half = [str(entry) for entry in Path(backend.name.removeprefix("file://")).glob("*/*")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    is_stored = backend.put(artifact_id, content)
    is_right = data == b"".join(backend.read(artifact_id))
    say(json.dumps({"failed": failed, "half": half, "stored": is_stored, "right": is_right}))


def from_file(path: Path) -> Content:
    def chunks() -> Iterator[bytes]:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(CHUNK):
                yield piece

    return Content(path.stat().st_size, chunks, str(path))


def store_a_gibibyte(backend: FileSystemArtifactBackend) -> None:
    """Store and read a file of 1 GiB that cannot be compressed, and say by how much the memory grew at its peak."""
    source = Path(backend.name.removeprefix("file://")).with_name("source")
    tile = random.Random(0).randbytes(8 * CHUNK)
    with source.open("wb") as file:
        for _ in range(128):
            file.write(tile)
    del tile
    content = from_file(source)
    artifact_id = id_of_chunks(content.chunks())
    backend.put(id_of_chunks([bytes(5000)]), content_of(bytes(5000)))
    forget_peak()
    before = peak_kb()
    is_stored = backend.put(artifact_id, content, Pin(STORE, "kelp", 1))
    size = sum(len(piece) for piece in backend.read(artifact_id))
    say(json.dumps({"stored": is_stored, "size": size, "grown_kb": peak_kb() - before}))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_kb() -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def main(work: str, folder: str, number: int) -> None:
    say("ready")
    sys.stdin.readline()
    with FileSystemArtifactBackend(folder, "full" if work == "fill" else "normal") as backend:
        match work:
            case "put aloud":
                put_aloud(backend, number)
            case "put halfway":
                put_halfway(backend, number)
            case "put and delete":
                put_and_delete(backend, number)
            case "fill":
                fill(backend)
            case "store a gibibyte":
                store_a_gibibyte(backend)
            case _:
                os._exit(2)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
