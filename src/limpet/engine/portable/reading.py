"""Reading an exported state back, with every checksum checked. ``form.py`` has the format.

What is read may come from anybody: nothing is unpacked to a path, nothing is read beyond what the manifest says and
what ``limits.py`` allows, and nothing of it is run. Any damage ends in NotImported. Artifacts are read in pieces; the
records and the inbox of the state are held in memory.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO
from zipfile import BadZipFile, ZipFile

from limpet.artifacts.stored_values import StoredValues
from limpet.engine.arriving import Original, require_usable
from limpet.engine.portable.files import opened_in
from limpet.engine.portable.form import (
    JOURNAL,
    LETTERS,
    MANIFEST,
    Manifest,
    from_json,
    header_of,
    letters_in,
    name_of_artifact,
    owner_of,
    require_allowed,
)
from limpet.engine.portable.limits import Limits, TooLarge, Unreadable
from limpet.engine.portable.zipped import opened_member, opened_zip
from limpet.engine.progress import Told
from limpet.errors import ArtifactMissing, ImportTooLarge, NotImported, StateCorrupted
from limpet.lines import LineDamaged, frame_of, from_line
from limpet.model import Content, Letter, StateHeader
from limpet.model.amounts import size_text
from limpet.model.artifacts import CHUNK

_FAULTS = (
    *(BadZipFile, zlib.error, struct.error, OSError, EOFError, RuntimeError, NotImplementedError),
    *(ValueError, LookupError, OverflowError),
)
"""What the zipfile module raises for a damaged file."""


@contextmanager
def opened_export(
    path: Path, stored: StoredValues, limits: Limits, on_progress: Told | None = None
) -> Generator[Original]:
    """An exported state, checked in full, ready to be brought to a store. Raises NotImported, UnsupportedVersion."""
    with ExitStack() as kept_open:
        with refusing(path, limits):
            tree = kept_open.enter_context(_tree(path, limits))
            original = _checked(path, tree, stored, limits, on_progress)
        yield original


@contextmanager
def refusing(path: Path, limits: Limits) -> Generator[None]:
    """Raises NotImported for what cannot be read."""
    try:
        yield
    except TooLarge as error:
        raise ImportTooLarge(str(path), str(error), limits.total) from error
    except Unreadable as error:
        raise NotImported(str(path), str(error)) from error
    except StateCorrupted as error:
        raise NotImported(str(path), f"record {error.seq} is damaged: {error.why}") from error


def _checked(path: Path, tree: _Tree, stored: StoredValues, limits: Limits, on_progress: Told | None) -> Original:
    text = b"".join(tree.chunks(MANIFEST, limits.text, too_long=TooLarge))
    limits.require_parts(text, MANIFEST)
    manifest = from_json(text)
    require_allowed(manifest, limits)
    for number, name in enumerate(manifest.files, 1):
        _require_as_written(tree, manifest, name)
        if on_progress is not None:
            on_progress(number, len(manifest.files), name)
    header = header_of(manifest)
    read = list(_frames(tree, manifest, header, limits))
    require_usable(header, read, stored)
    letters: list[Letter] = []
    if LETTERS in manifest.files:
        letters = letters_in(_lines(tree, manifest, LETTERS, limits), header.state_id)
    contents = _contents(path, tree, manifest, limits)
    return Original(header, lambda after: read[after:], contents, stored, lambda: letters)


def _contents(path: Path, tree: _Tree, manifest: Manifest, limits: Limits) -> Callable[[str], Content]:
    def content(artifact_id: str) -> Content:
        name = name_of_artifact(artifact_id)
        file = manifest.files.get(name)
        if file is None:
            raise ArtifactMissing(str(path), artifact_id)

        def chunks() -> Iterator[bytes]:
            with refusing(path, limits):
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


def _frames(tree: _Tree, manifest: Manifest, header: StateHeader, limits: Limits) -> Iterator[tuple[int, bytes]]:
    after = 0
    seq = 0
    for seq, line in enumerate(_lines(tree, manifest, JOURNAL, limits), 1):
        if seq > manifest.records:
            raise Unreadable(f"{JOURNAL} has more than {manifest.records} records")
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


def _lines(tree: _Tree, manifest: Manifest, name: str, limits: Limits) -> Iterator[bytes]:
    """The lines of a file, none of which is longer, or would take more room, than one text may."""
    for number, line in enumerate(_split(tree.chunks(name, manifest.files[name].size), name, limits), 1):
        limits.require_parts(line, f"line {number} of {name}")
        if name == LETTERS:
            limits.require_files(number, "letters")
        yield line


def _split(chunks: Iterator[bytes], name: str, limits: Limits) -> Iterator[bytes]:
    begun: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*begun, end, b"\n"))
            begun, size = [], 0
        if rest:
            begun.append(rest)
            size += len(rest)
        if size > limits.text:
            raise TooLarge(f"a line of {name} is longer than {size_text(limits.text)}")
    if begun:
        yield b"".join(begun)


class _Tree(ABC):
    """The tree of an export, to look files up in by their names."""

    @abstractmethod
    def _opened(self, name: str) -> AbstractContextManager[BinaryIO]:
        """One file of the tree. Raises KeyError, FileNotFoundError or Unreadable, or one of the faults."""

    def chunks(self, name: str, most: int, *, too_long: type[Unreadable] = Unreadable) -> Iterator[bytes]:
        """The content of a file in pieces. Raises Unreadable where it is missing, damaged, or longer than that."""
        try:
            with self._opened(name) as file:
                size = 0
                # One byte more than allowed is enough to see that there is more.
                while chunk := file.read(min(CHUNK, most + 1 - size)):
                    size += len(chunk)
                    if size > most:
                        raise too_long(f"{name} is longer than the {most} bytes that it may have")
                    yield chunk
        except (KeyError, FileNotFoundError):
            raise Unreadable(f"{name} is missing in it") from None
        except Unreadable:
            raise
        except _FAULTS as error:
            raise Unreadable(f"{name} cannot be read ({error})") from error


class _ZipTree(_Tree):
    def __init__(self, file: ZipFile) -> None:
        self._file = file

    def _opened(self, name: str) -> AbstractContextManager[BinaryIO]:
        return opened_member(self._file, name)


class _FolderTree(_Tree):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _opened(self, name: str) -> AbstractContextManager[BinaryIO]:
        return opened_in(self._folder, name)


@contextmanager
def _tree(path: Path, limits: Limits) -> Generator[_Tree]:
    if path.is_dir():
        if (path / "format").exists():
            raise Unreadable(f"it is a store of states, which `limpet copy file://{path} …` copies")
        yield _FolderTree(path)
        return
    with ExitStack() as kept_open:
        try:
            file = kept_open.enter_context(opened_zip(path, limits))
        except FileNotFoundError:
            raise Unreadable("it is not there") from None
        except Unreadable:
            raise
        except _FAULTS as error:
            raise Unreadable(f"it is no zip file, or a damaged one ({error})") from error
        yield _ZipTree(file)
