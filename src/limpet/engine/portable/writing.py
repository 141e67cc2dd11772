"""Writing a state as one file or as a folder, which appears only when it is whole. ``form.py`` has the format.

What is written goes to a hidden name beside the place, is synced, and moved there in the end. Only its owner may read
it. An export that was there is replaced only where that is asked for, and nothing else ever is.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from limpet.engine.arriving import Original, end_of, require_usable
from limpet.engine.environment.packages import version_of
from limpet.engine.portable.form import (
    JOURNAL,
    LETTERS,
    MANIFEST,
    Portable,
    lines_of_letters,
    manifest_of,
    name_of_artifact,
    owner_of,
    to_json,
)
from limpet.engine.progress import Told
from limpet.engine.reading import Frames
from limpet.errors import UsageError
from limpet.lines import content_of, to_line
from limpet.model import StateHeader

_LARGE = 1 << 30
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can name: the same state makes the same file."""


def write_export(
    original: Original, path: Path, *, as_folder: bool, overwrite: bool, on_progress: Told | None = None
) -> None:
    """Write a state. Raises StateCorrupted, WrongKey, ArtifactMissing, or UsageError where it cannot be written."""
    header, read = original.header, original.read(0)
    require_usable(header, read, original.stored)
    contents = {artifact_id: original.content(artifact_id) for artifact_id in sorted(original.named_by(read))}
    letters = original.letters()
    total = len(contents) + 1 + bool(letters)
    with _writing(path, as_folder=as_folder, overwrite=overwrite) as tree:
        files: dict[str, Portable] = {}

        def add(name: str, size: int, chunks: Iterable[bytes]) -> None:
            files[name] = tree.add(name, size, chunks)
            if on_progress is not None:
                on_progress(len(files), total, name)

        add(JOURNAL, sum(len(frame) for _, frame in read) * 4, _lines(header, read))
        for artifact_id, content in contents.items():
            add(name_of_artifact(artifact_id), content.size, content.chunks())
        if letters:
            lines = lines_of_letters(letters)
            add(LETTERS, len(lines), (lines,))
        by = f"limpet {version_of('limpet') or '(not installed)'}"
        manifest = to_json(manifest_of(header, end_of(read), files, by))
        tree.add(MANIFEST, len(manifest), (manifest,))


def _lines(header: StateHeader, read: Frames) -> Iterator[bytes]:
    after = 0
    for seq, frame in read:
        owner = owner_of(header, seq)
        content = content_of(frame, owner)
        shared = {} if owner == header.state_id else {"owner": owner}
        line, after = to_line({**shared, **content}, owner, after)
        yield line


class _NewTree(ABC):
    """A tree that is being written."""

    @abstractmethod
    def open(self, name: str, size: int) -> BinaryIO:
        """A file of the tree, to write about so many bytes into it."""

    def add(self, name: str, size: int, chunks: Iterable[bytes]) -> Portable:
        digest, written = hashlib.sha256(), 0
        with self.open(name, size) as file:
            for chunk in chunks:
                digest.update(chunk)
                written += len(chunk)
                file.write(chunk)
        return Portable(written, digest.hexdigest())


class _NewZip(_NewTree):
    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    def open(self, name: str, size: int) -> BinaryIO:
        info = zipfile.ZipInfo(name, _FIRST_DAY)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        return cast(BinaryIO, self._file.open(info, "w", force_zip64=size > _LARGE))


class _NewFolder(_NewTree):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, name: str, size: int) -> BinaryIO:
        path = self._folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return cast(BinaryIO, _Synced(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"))


class _Synced:
    """A new file that is synced when it is closed."""

    def __init__(self, handle: int, mode: str) -> None:
        self._file = os.fdopen(handle, mode)

    def __enter__(self) -> BinaryIO:
        return cast(BinaryIO, self._file)

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())


@contextmanager
def _writing(path: Path, *, as_folder: bool, overwrite: bool) -> Generator[_NewTree]:
    """A tree to write, which is moved to its place when all went well."""
    _require_free(path, as_folder=as_folder, overwrite=overwrite)
    unfinished = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}")
    try:
        with _translating(path):
            if as_folder:
                unfinished.mkdir(mode=0o700)
                yield _NewFolder(unfinished)
                for folder, _, _ in os.walk(unfinished):
                    _sync(Path(folder))
                _put_folder(unfinished, path)
            else:
                handle = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                with _Synced(handle, "w+b") as file, zipfile.ZipFile(file, "w") as zipped:
                    yield _NewZip(zipped)
                _put_file(unfinished, path, overwrite=overwrite)
            _sync(path.absolute().parent)
    finally:
        if as_folder:
            shutil.rmtree(unfinished, ignore_errors=True)
        else:
            unfinished.unlink(missing_ok=True)


def _put_file(unfinished: Path, path: Path, *, overwrite: bool) -> None:
    if not overwrite:
        try:
            # Unlike a move this fails where somebody has put something there meanwhile.
            os.link(unfinished, path)
            return
        except FileExistsError:
            raise _taken(path) from None
        except OSError:
            pass  # Not every file system has links.
    unfinished.replace(path)


def _put_folder(unfinished: Path, path: Path) -> None:
    if not os.path.lexists(path):
        unfinished.rename(path)
        return
    replaced = path.with_name(f"{unfinished.name}.old")
    path.rename(replaced)
    unfinished.rename(path)
    shutil.rmtree(replaced)


def _require_free(path: Path, *, as_folder: bool, overwrite: bool) -> None:
    """Raises UsageError where something stands in the place that is not to be replaced, or is no export."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise _taken(path)
    # A folder is deleted with all that is in it, so it has to be one that was written here.
    is_export = path.is_dir() and {entry.name for entry in path.iterdir()} <= {MANIFEST, JOURNAL, LETTERS, "artifacts"}
    if is_export and as_folder and (path / MANIFEST).is_file():
        return
    if as_folder or not path.is_file():
        raise UsageError(f"{path} is not replaced: it is no {_kind(as_folder)} of an export.", "Give another path.")


def _kind(as_folder: bool) -> str:
    return "folder" if as_folder else "file"


def _taken(path: Path) -> UsageError:
    return UsageError(
        f"There is something at {path} already.", "Give another path, or `overwrite=True` (--overwrite) to replace it."
    )


@contextmanager
def _translating(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The export cannot be written to {path} ({error.strerror or error}). Nothing was written.",
            "Give a path in a folder that is there and can be written, on a disk that has room.",
        ) from error


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
