"""Reading an exported state back, with every checksum checked. ``form.py`` has the format.

What is read may come from anybody: nothing is unpacked to a path, nothing is read beyond what the manifest says, and
nothing of it is run. Any damage ends in NotImported.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from limpet.artifacts.stored_values import StoredValues
from limpet.engine.arriving import Original, require_usable
from limpet.engine.portable.form import (
    JOURNAL,
    LETTERS,
    MANIFEST,
    Manifest,
    Unreadable,
    from_json,
    header_of,
    letters_in,
    name_of_artifact,
    owner_of,
)
from limpet.engine.progress import Told
from limpet.errors import ArtifactMissing, NotImported, StateCorrupted
from limpet.lines import LineDamaged, frame_of, from_line
from limpet.model import Content, Letter, StateHeader
from limpet.model.artifacts import CHUNK

_LARGEST_MANIFEST = 1 << 26
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FAULTS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, RuntimeError, NotImplementedError),
    *(ValueError, LookupError, OverflowError),
)
"""What the zipfile module raises for a damaged file."""


@contextmanager
def opened_export(path: Path, stored: StoredValues, on_progress: Told | None = None) -> Generator[Original]:
    """An exported state, checked in full, ready to be brought to a store. Raises NotImported, UnsupportedVersion."""
    with ExitStack() as kept_open:
        with _refusing(path):
            tree = kept_open.enter_context(_tree(path))
            original = _checked(path, tree, stored, on_progress)
        yield original


@contextmanager
def _refusing(path: Path) -> Generator[None]:
    try:
        yield
    except Unreadable as error:
        raise NotImported(str(path), str(error)) from error
    except StateCorrupted as error:
        raise NotImported(str(path), f"record {error.seq} is damaged: {error.why}") from error


def _checked(path: Path, tree: _Tree, stored: StoredValues, on_progress: Told | None) -> Original:
    manifest = from_json(b"".join(tree.chunks(MANIFEST, _LARGEST_MANIFEST)))
    for number, name in enumerate(manifest.files, 1):
        _require_as_written(tree, manifest, name)
        if on_progress is not None:
            on_progress(number, len(manifest.files), name)
    header = header_of(manifest)
    read = list(_frames(tree, manifest, header))
    require_usable(header, read, stored)
    letters: list[Letter] = []
    if LETTERS in manifest.files:
        letters = letters_in(b"".join(tree.chunks(LETTERS, manifest.files[LETTERS].size)), header.state_id)
    return Original(header, lambda after: read[after:], _contents(path, tree, manifest), stored, lambda: letters)


def _contents(path: Path, tree: _Tree, manifest: Manifest) -> Callable[[str], Content]:
    def content(artifact_id: str) -> Content:
        name = name_of_artifact(artifact_id)
        file = manifest.files.get(name)
        if file is None:
            raise ArtifactMissing(str(path), artifact_id)

        def chunks() -> Iterator[bytes]:
            with _refusing(path):
                yield from tree.chunks(name, file.size)

        return Content(file.size, chunks, f"{name} in {path}")

    return content


def _require_as_written(tree: _Tree, manifest: Manifest, name: str) -> None:
    file = manifest.files[name]
    digest, size = hashlib.sha256(), 0
    for chunk in tree.chunks(name, file.size):
        digest.update(chunk)
        size += len(chunk)
    if size != file.size:
        raise Unreadable(f"{name} is cut off: {size} of its {file.size} bytes are there")
    if digest.hexdigest() != file.sha256:
        raise Unreadable(f"{name} was changed or damaged: its SHA-256 is another one")


def _frames(tree: _Tree, manifest: Manifest, header: StateHeader) -> Iterator[tuple[int, bytes]]:
    after = 0
    seq = 0
    for seq, line in enumerate(_lines(tree.chunks(JOURNAL, manifest.files[JOURNAL].size)), 1):
        owner = owner_of(header, seq)
        try:
            said = from_line(line, owner)
            content = dict(said.content)
            if said.after != after or said.left or content.pop("owner", header.state_id) != owner:
                raise LineDamaged("it does not stand in its place")
            yield seq, frame_of(content, owner)
        except LineDamaged as error:
            raise Unreadable(f"line {seq} of {JOURNAL} is damaged: {error}") from error
        after = said.sum
    if seq != manifest.records:
        raise Unreadable(f"{JOURNAL} has {seq} records instead of {manifest.records}")


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*begun, end, b"\n"))
            begun = []
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join(begun)


class _Tree(ABC):
    """The tree of an export, to look files up in by their names."""

    @abstractmethod
    @contextmanager
    def _opened(self, name: str) -> Generator[BinaryIO]:
        """One file of the tree."""

    def chunks(self, name: str, most: int) -> Iterator[bytes]:
        """The content of a file in pieces. Raises Unreadable where it is missing, damaged, or longer than allowed."""
        try:
            with self._opened(name) as file:
                size = 0
                # One byte more than allowed is enough to see that there is more.
                while chunk := file.read(min(CHUNK, most + 1 - size)):
                    size += len(chunk)
                    if size > most:
                        raise Unreadable(f"{name} is longer than the {most} bytes that it may have")
                    yield chunk
        except KeyError:
            raise Unreadable(f"{name} is missing in it") from None
        except Unreadable:
            raise
        except _FAULTS as error:
            raise Unreadable(f"{name} cannot be read ({error})") from error


class _ZipTree(_Tree):
    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    @contextmanager
    def _opened(self, name: str) -> Generator[BinaryIO]:
        info = self._file.getinfo(name)
        if info.compress_type not in _METHODS:
            raise Unreadable(f"{name} is compressed in a way that is not used here")
        with self._file.open(info) as file:
            yield cast(BinaryIO, file)


class _FolderTree(_Tree):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def _opened(self, name: str) -> Generator[BinaryIO]:
        try:
            # A link could lead anywhere, and a pipe would never end.
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise KeyError(name) from None
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Unreadable(f"{name} is no file")
            yield file


@contextmanager
def _tree(path: Path) -> Generator[_Tree]:
    if path.is_dir():
        if (path / "format").exists():
            raise Unreadable(f"it is a store of states, which `limpet copy file://{path} …` copies")
        yield _FolderTree(path)
        return
    try:
        file = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise Unreadable("it is not there") from None
    except _FAULTS as error:
        raise Unreadable(f"it is no zip file, or a damaged one ({error})") from error
    with file:
        yield _ZipTree(file)
