"""Files as values: a file given by its path is stored piece by piece, whatever its size, and read the same way."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from limpet.artifacts.adapters import ArtifactAdapter, Source
from limpet.errors import UsageError
from limpet.model.artifacts import CHUNK, Content, id_of_chunks


class ArtifactFile:
    """A file that is stored as an artifact: return it from a tool, pass it on, or put it into the storage.

    ``ArtifactFile("film.mp4")`` names a file of yours. Once it is stored, what it gives is read from the store, so that
    the file itself may go; a replay gives such an object too. Two are equal if their content and their names are.

    Nothing is read into memory as a whole unless you ask for it. What is read is verified: the last piece is given
    only after the whole was found to be what was stored.
    """

    __slots__ = ("_chunks", "_content_id", "_path", "_size", "name")

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        self._path: Path | None = Path(path)
        if not self._path.is_file():
            raise UsageError(
                f"{self._path} cannot be stored as an artifact: it is no file.", "Give the path of a file."
            )
        self.name = self._path.name if name is None else name
        self._size = self._path.stat().st_size
        self._chunks: Callable[[], Iterator[bytes]] = self._read_path
        self._content_id: str | None = None

    @classmethod
    def from_source(cls, source: Source) -> ArtifactFile:
        """For the engine: a file that is stored."""
        file = cls.__new__(cls)
        file._path = None
        file._content_id, _, file.name = source.reference.details.partition("/")
        file.read_from(source)
        return file

    def read_from(self, source: Source) -> None:
        """For the engine: read it from where it is stored from now on. So a live object becomes what a replay gives."""
        self._size, self._chunks = source.reference.size, source.chunks

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._size

    @property
    def content_id(self) -> str:
        """The hash of the content, ``sha256:…``. Found by reading the file once, where it is not stored yet."""
        if self._content_id is None:
            self._content_id = id_of_chunks(self._chunks())
        return self._content_id

    def chunks(self) -> Iterator[bytes]:
        """The content in pieces of at most a megabyte."""
        return self._chunks()

    def open(self) -> BinaryIO:
        """The content as a binary file to read from its beginning to its end."""
        return io.BufferedReader(_Pieces(self._chunks()), CHUNK)

    def read_bytes(self) -> bytes:
        """The whole content in memory."""
        return b"".join(self._chunks())

    def save_to(self, path: str | os.PathLike[str]) -> Path:
        """Write the content to a file, which appears only when it is whole and verified; replaces one that is there."""
        return write_whole(self._chunks(), Path(path))

    def _read_path(self) -> Iterator[bytes]:
        assert self._path is not None
        with self._path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArtifactFile):
            return NotImplemented
        return (self.name, self._size) == (other.name, other._size) and self.content_id == other.content_id

    def __hash__(self) -> int:
        return hash((self.name, self._size))

    def __repr__(self) -> str:
        return f"<ArtifactFile {self.name} of {self._size:,} bytes>"


def write_whole(chunks: Iterable[bytes], target: Path) -> Path:
    """Write pieces to a file that appears only when the last one was given; what was begun is removed if one is not."""
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        with unfinished.open("xb") as file:
            file.writelines(chunks)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return target


class _Pieces(io.RawIOBase):
    """Pieces as a raw file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        space = memoryview(buffer)  # pyright: ignore[reportArgumentType]  # typeshed has no buffer type on 3.11
        count = min(len(space), len(self._rest))
        space[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class FileAdapter(ArtifactAdapter):
    """The content of a file as it is; its name stands in the reference."""

    name = "file"
    type_names = ("limpet.artifacts.file:ArtifactFile",)

    def size(self, value: ArtifactFile) -> int:
        return value.size

    def content(self, value: ArtifactFile) -> Content:
        return Content(value.size, value.chunks, f"The file {value.name}")

    def details(self, value: ArtifactFile) -> str:
        return f"{value.content_id}/{value.name}"

    def read(self, source: Source) -> ArtifactFile:
        return ArtifactFile.from_source(source)

    def preview(self, value: ArtifactFile) -> str:
        return f"file {value.name}, {value.size:,} bytes"


FILE = FileAdapter()
