"""The zip of an export: its list of files is no longer than is allowed, and names nothing but what an export has.

Nothing is unpacked to a path. All the same a name that leads elsewhere, stands there twice, or is that of a link is
refused: somebody has made such a file on purpose, and other programs may unpack it.
"""

from __future__ import annotations

import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from limpet.engine.portable.files import opened_file
from limpet.engine.portable.form import MANIFEST, is_name_in_tree
from limpet.engine.portable.limits import Limits, TooLarge, Unreadable

_METHODS = (ZIP_STORED, ZIP_DEFLATED)
_FOLDER = "artifacts/"
"""Programs that pack a folder may list it by itself."""
_ENTRY = b"PK\1\2"
_BYTES_OF_ENTRY = 512
"""In the list of files an artifact has a name of 74 characters, and not so much beside it."""


@contextmanager
def opened_zip(path: Path, limits: Limits) -> Generator[ZipFile]:
    """A zip whose list of files is right. Raises Unreadable, OSError, or what ``zipfile`` raises for a damaged one."""
    with opened_file(path) as file, ZipFile(cast(BinaryIO, _Careful(file, limits))) as zipped:
        _require_known(zipped.infolist(), limits)
        yield zipped


@contextmanager
def opened_member(zipped: ZipFile, name: str) -> Generator[BinaryIO]:
    """A file in a zip. Raises KeyError where it is not there, Unreadable, or what ``zipfile`` raises."""
    info = zipped.getinfo(name)
    if info.compress_type not in _METHODS:
        raise Unreadable(f"{name} is compressed in a way that is not used here")
    with zipped.open(info) as file:
        yield cast(BinaryIO, file)


class _Careful:
    """A file of which ``zipfile`` reads its list of files, which it does at once, only where that is not too long."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self.seek = file.seek
        self.tell = file.tell
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        most = self._limits.files * _BYTES_OF_ENTRY
        if size > most:
            raise TooLarge(f"its list of files is longer than {most:,} bytes")
        data = self._file.read(size if size >= 0 else most)
        self._limits.require_files(data.count(_ENTRY), "files")
        return data


def _require_known(infos: list[ZipInfo], limits: Limits) -> None:
    limits.require_files(len(infos), "files")
    if all(info.orig_filename != MANIFEST for info in infos):
        return  # It is something else, and that is said where its manifest is missed.
    seen: set[str] = set()
    for info in infos:
        name = info.orig_filename
        if name != _FOLDER and not is_name_in_tree(name):
            raise Unreadable(f"{name[:100]!r} is in it, which does not belong into an export")
        if name in seen:
            raise Unreadable(f"{name} is in it twice")
        if name != _FOLDER and stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise Unreadable(f"{name} is no file")
        seen.add(name)
