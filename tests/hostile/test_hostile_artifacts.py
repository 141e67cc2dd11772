"""Hostile content under an honest hash is refused as what it is, and nothing in it is executed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import ormsgpack
import polars as pl
import pytest
from hostile.artifact_contents import packed, read_content, reference_to
from hostile.decoding_program import VALUE, Found
from hostile.processes import watched

from limpet import ArtifactCorrupted, ExecutionState, MemoryArtifactBackend, StorageRecord, ValueNotReadable
from limpet.codec.values import encode

ARTIFACTS_PER_CASE = 10_000


def npy(array: Any, **header: Any) -> bytes:
    """An array as a file, whose header may say something else."""
    file = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_2_0(file, {**described, **header})
    return file.getvalue() + array.tobytes()


def npy_with_header(text: str) -> bytes:
    return b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text.encode()


def arrow(frame: Any) -> bytes:
    file = io.BytesIO()
    frame.write_ipc(file)
    return file.getvalue()


ARRAY = np.arange(10.0)
FRAME = arrow(pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]}))
LONG = npy(ARRAY, shape=(1000,))
HOSTILE = {
    "an adapter that is unknown": packed("nobody's", b"kelp"),
    "npy that is none": packed("npy", b"kelp" * 100),
    "npy of nothing": packed("npy", b""),
    "npy with a shape of terabytes": packed("npy", npy(ARRAY, shape=(2**40,))),
    "npy with a shape and a size of terabytes": packed("npy", npy(ARRAY, shape=(2**50,)), 2**53 + 128),
    "npy whose shape overflows": packed("npy", npy(ARRAY, shape=(2**62, 2**62))),
    "npy with a negative shape": packed("npy", npy(ARRAY, shape=(-10, -1))),
    "npy of objects": packed("npy", npy(ARRAY, descr="|O", shape=(10,))),
    "npy of objects inside a structure": packed("npy", npy(ARRAY, descr=[("a", "|O")], shape=(10,))),
    "npy with too little content": packed("npy", npy(ARRAY)[:-1]),
    "npy with too much content": packed("npy", npy(ARRAY) + b"\0"),
    "npy that claims more content than there is": packed("npy", LONG, len(LONG) + 990 * 8),
    "npy whose header is an expression": packed("npy", npy_with_header("__import__('os').system('touch hostile')")),
    "npy whose header is nested deeply": packed("npy", npy_with_header("[" * 50_000)),
    "npy whose header is signs only": packed("npy", npy_with_header("-" * 50_000 + "1")),
    "npy whose header is huge": packed("npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"),
    "arrow that is garbage": packed("arrow", b"ARROW1\0\0" + b"kelp" * 100 + b"ARROW1"),
    "arrow of nothing": packed("arrow", b""),
    "arrow that is truncated": packed("arrow", FRAME[: len(FRAME) // 2]),
    "arrow with a huge footer": packed("arrow", FRAME[:-10] + b"\xff\xff\xff\x7f" + FRAME[-6:]),
    "text that is not UTF-8": packed("text", b"\xff\xfe"),
    "text with a lone surrogate": packed("text", "\ud800".encode("utf-8", "surrogatepass")),
    "a value of os.system": packed("value", ormsgpack.packb(ormsgpack.Ext(18, ormsgpack.packb(["os:system", {}])))),
    "a value that is truncated": packed("value", b"\x92\x01"),
    "a value that is nothing": packed("value", b""),
    "a value nested deeply": packed("value", b"\x91" * 50_000),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_content_is_refused(what: str) -> None:
    with pytest.raises((ValueNotReadable, ArtifactCorrupted)):
        read_content(HOSTILE[what])


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_content_is_refused_by_the_storage(what: str) -> None:
    artifacts = MemoryArtifactBackend()
    reference = reference_to(HOSTILE[what], artifacts)
    state = ExecutionState(artifact_backend=artifacts, state_id="hostile")
    record = StorageRecord(1, "x", 0.0, encode(reference), (reference.artifact_id,), True)
    state._live.history.add(record)
    with pytest.raises((ValueNotReadable, ArtifactCorrupted)):
        state.storage.get_artifact("x")


def test_content_that_names_itself_is_refused() -> None:
    artifacts = MemoryArtifactBackend()
    inner = reference_to(packed("bytes", b"kelp"), artifacts)
    for _ in range(3000):
        inner = reference_to(packed("value", encode([inner])), artifacts)
    state = ExecutionState(artifact_backend=artifacts, state_id="hostile")
    state._live.history.add(StorageRecord(1, "x", 0.0, encode(inner), (), True))
    with pytest.raises(ValueNotReadable):
        state.storage.get_artifact("x")


@pytest.mark.parametrize("seed", range(2))
def test_changed_content_is_read_or_refused_and_does_nothing_else(seed: int, tmp_path: Path) -> None:
    found = watched(Found, tmp_path, "artifacts", seed, ARTIFACTS_PER_CASE)
    assert [] == found.faults
    assert {VALUE, "ValueNotReadable"} == set(found.outcomes)
    assert ARTIFACTS_PER_CASE == sum(found.outcomes.values())
