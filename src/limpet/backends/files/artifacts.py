"""Artifacts in a folder.

The format, version 1. Folders have mode 0700 and files 0600; times are seconds since 1970 UTC.

    format                              ``limpet artifacts 1`` and a line end
    lock                                empty; who changes what stands in the tree has it locked (flock)
    deleted                             empty; its time is the greatest ``put_at`` of all that was ever deleted
    ab/<62 hex>                         the content of the artifact sha256:ab…, as it is
    ab/<62 hex>.zst                     the same, compressed
    pins/<store>.<state>.<fence>/<hex>  empty; that lease pins this artifact
    stores/<store>                      JSON with the name of an enlisted store
    tmp/<32 hex>                        what is being written, locked by its writer (flock)

A compressed file is a skippable frame of Zstandard with two little-endian numbers of 8 bytes, the size of the content
and the length of the file, and then one frame with the content: ``zstd -d`` unpacks it.

What always holds:
  * A file in ``ab`` is written in ``tmp``, checked against its name, and moved to its place in one step. It is never
    changed there; only its time is, which is its ``put_at``.
  * A pin stands before the content does, or before its new ``put_at``.
  * Times of puts grow: a put again is later than the one before, and new content is later than anything deleted.
  * Puts and deletes take the lock for the step that is seen, never while content is written.

What is true after a crash: content is there whole or not at all. What was acknowledged is there after the death of the
process; after the death of the machine too with ``synchronous="full"``, where content is synced before it is moved, and
its folder afterwards. Pins and times are not synced: after the death of the machine nobody is left who is about to
write a record. What was in ``tmp`` is without a lock then, and is cleared away when the tree is next opened or listed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.artifact_rules import (
    StoredContent,
    checked_pieces,
    checked_start,
    checked_store_id,
    damaged,
    hex_of,
    id_of_hex,
    readable,
    verified,
)
from limpet.backends.compression import compressed_where_it_pays
from limpet.backends.files import layout, notes
from limpet.backends.files.faults import translating
from limpet.backends.files.layout import Place, place_of
from limpet.backends.files.stored import (
    StoredFile,
    deleted_put_at,
    look,
    note_deleted,
    opened,
    put_later,
    rests_in,
    sync_content,
)
from limpet.backends.files.temporary import TemporaryFile, clear_leftovers
from limpet.backends.files.tree import Tree
from limpet.errors import ArtifactMissing, UsageError
from limpet.model.artifacts import CHUNK, ArtifactInfo, Content, Pin, checked_artifact_id


class FileSystemArtifactBackend(ArtifactBackend):
    """Artifacts in a folder, which is made when something is first put there, readable by its owner alone.

    ``synchronous="full"`` waits for the disk at every put and loses nothing when the machine dies; ``"normal"`` does
    not wait, and loses nothing when the process dies. Raises NotAStore for a folder with something else in it, and
    UnsupportedVersion; both leave it alone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".state_store/artifacts",
        synchronous: Literal["full", "normal"] = "full",
        clock: Callable[[], float] = time.time,
        lock_timeout_s: float = 30.0,
    ) -> None:
        if synchronous not in ("full", "normal"):
            raise UsageError(
                f"synchronous={synchronous!r} is no setting of a folder of artifacts.", "Use 'full' or 'normal'."
            )
        self._tree = Tree(path, synchronous == "full", lock_timeout_s)
        self.name = self._tree.name
        self.waits = True
        self._clock = clock
        self._is_closed = False
        with self._looking() as root:
            self._clear_leftovers(root)

    def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
        place = place_of(checked_artifact_id(artifact_id))
        pin_folder = None if pin is None else layout.folder_of_pin(pin)
        if self._put_again(place, content.size, pin_folder):
            return False
        with self._new_file() as file:
            is_compressed = self._write(file, artifact_id, content)
            name = place.rest + layout.COMPRESSED if is_compressed else place.rest
            return self._publish(file, place, name, content.size, pin_folder)

    def read(self, artifact_id: str) -> Iterator[bytes]:
        pieces = self._pieces(checked_artifact_id(artifact_id))
        # Opens the file now, and makes sure that it is closed also if nothing more is asked for.
        next(pieces)
        return pieces

    def find(self, artifact_id: str) -> ArtifactInfo | None:
        place = place_of(checked_artifact_id(artifact_id))
        with self._standing(place.folder) as found:
            stored = None if found is None else look(found[1], place.rest)
        return None if stored is None else ArtifactInfo(artifact_id, stored.size, stored.put_at)

    def list_artifacts(self, after: str = "", limit: int = 1000) -> list[ArtifactInfo]:
        start = hex_of(checked_start(after))
        found: list[ArtifactInfo] = []
        with self._looking() as root:
            if not start:
                # A collection begins so.
                self._clear_leftovers(root)
            names = () if root is None else filter(layout.PREFIX.fullmatch, sorted(os.listdir(root)))
            for name in names:
                if len(found) >= limit:
                    break
                if name >= start[:2]:
                    found += self._listed(name, start, limit - len(found))
        return found

    def delete(self, artifact_id: str, put_at: float) -> bool:
        place = place_of(checked_artifact_id(artifact_id))
        with self._standing(place.folder) as handles:
            if handles is None:
                return False
            root, folder = handles
            with self._tree.locked(root):
                stored = look(folder, place.rest)
                if stored is None or stored.put_at != put_at:
                    return False
                note_deleted(root, put_at)
                os.unlink(stored.name, dir_fd=folder)
                return True

    def pins(self) -> Mapping[Pin, frozenset[str]]:
        with self._standing("pins") as handles:
            return {} if handles is None else notes.pins_in(handles[1])

    def unpin(self, pins: Sequence[Pin]) -> None:
        names = [layout.folder_of_pin(pin) for pin in pins]
        with self._standing("pins") as handles:
            if handles is None:
                return
            for name in names:
                with self._tree.locked(handles[0]):
                    notes.remove_pin(handles[1], name)

    def enlist(self, store_id: str, name: str) -> None:
        checked_store_id(store_id)
        wanted = readable(name)
        if self.stores().get(store_id) != wanted:
            with self._new_file() as file:
                file.write(notes.written_store(wanted))
                self._sync(file)
                with self._changing("stores") as (_, folder):
                    file.move(folder, store_id)
        with self._changing("stores") as (_, folder):
            self._sync_folder(folder)

    def stores(self) -> Mapping[str, str]:
        with self._standing("stores") as handles:
            return {} if handles is None else notes.stores_in(handles[1])

    def close(self) -> None:
        self._is_closed = True

    @contextmanager
    def _looking(self) -> Generator[int | None]:
        """A handle of the tree; None if there is none yet, and none is made."""
        self._require_open()
        with translating(self.name), self._tree.opened() as root:
            yield root

    @contextmanager
    def _standing(self, name: str) -> Generator[tuple[int, int] | None]:
        """Handles of the tree and of a folder in it; None if that is not there, and none is made."""
        with self._looking() as root:
            if root is None:
                yield None
                return
            with self._tree.folder(root, name) as folder:
                yield None if folder is None else (root, folder)

    @contextmanager
    def _changing(self, name: str) -> Generator[tuple[int, int]]:
        """Handles of the tree and of a folder in it; both are made where they are missing."""
        self._require_open()
        with translating(self.name), self._tree.made() as root, self._tree.made_folder(root, name) as folder:
            yield root, folder

    def _put_again(self, place: Place, size: int, pin_folder: str | None) -> bool:
        """Take note that content is put which is there; False if it is not."""
        with self._standing(place.folder) as handles:
            if handles is None:
                return False
            root, folder = handles
            if not _holds(look(folder, place.rest), size):
                return False
            with self._tree.locked(root), opened(folder, place.rest) as found:
                if found is None or not _holds(found[1], size):
                    return False
                self._note_put(root, place, pin_folder, found[0], found[1].put_at)
            self._sync_standing(folder, place)
        return True

    def _publish(self, file: TemporaryFile, place: Place, name: str, size: int, pin_folder: str | None) -> bool:
        """Move what was written to its place, unless the same has come there meanwhile."""
        with self._changing(place.folder) as (root, folder):
            with self._tree.locked(root), opened(folder, place.rest) as found:
                stands = found is not None and _holds(found[1], size)
                if found is not None and stands:
                    self._note_put(root, place, pin_folder, found[0], found[1].put_at)
                else:
                    before = max(deleted_put_at(root), 0.0 if found is None else found[1].put_at)
                    self._note_put(root, place, pin_folder, file.handle, before)
                    if found is not None and found[1].name != name:
                        # Damaged, and of the other kind.
                        os.unlink(found[1].name, dir_fd=folder)
                    file.move(folder, name)
            self._sync_standing(folder, place)
        return not stands

    def _note_put(self, root: int, place: Place, pin_folder: str | None, file: int, before: float) -> None:
        if pin_folder is not None:
            with self._tree.made_folder(root, "pins") as pins:
                notes.add_pin(pins, pin_folder, place.digits)
        put_later(file, self._clock(), before)

    def _sync_standing(self, folder: int, place: Place) -> None:
        """Whoever put the content may not have synced it, or not yet."""
        if not self._tree.is_synced:
            return
        with opened(folder, place.rest) as found:
            if found is not None:
                sync_content(found[0])
        os.fsync(folder)

    @contextmanager
    def _new_file(self) -> Generator[TemporaryFile]:
        with self._changing("tmp") as (_, folder):
            file = TemporaryFile(os.dup(folder), self.name)
        with file:
            yield file

    def _write(self, file: TemporaryFile, artifact_id: str, content: Content) -> bool:
        """Write the content, checked and synced; True if compressed. Errors of the content's own are not translated."""
        is_compressed, pieces = compressed_where_it_pays(content.size, checked_pieces(artifact_id, content))
        if is_compressed:
            file.write(bytes(layout.HEADER_LENGTH))
        for piece in pieces:
            file.write(piece)
        if is_compressed:
            file.write_header(layout.header_of_compressed(content.size, file.length))
        self._sync(file)
        return is_compressed

    def _pieces(self, artifact_id: str) -> Iterator[bytes]:
        """Nothing as soon as the file is open, and then the pieces of the content."""
        file, stored = self._opened(artifact_id)
        try:
            yield b""
            content = StoredContent(self.name, artifact_id, stored.size, stored.is_compressed)
            if not stored.is_whole:
                raise damaged(content, "its header and its length do not fit")
            yield from verified(content, self._read_from(file))
        finally:
            os.close(file)

    def _opened(self, artifact_id: str) -> tuple[int, StoredFile]:
        place = place_of(artifact_id)
        with self._standing(place.folder) as handles:
            if handles is not None:
                with opened(handles[1], place.rest) as found:
                    if found is not None:
                        return os.dup(found[0]), found[1]
        raise ArtifactMissing(self.name, artifact_id)

    def _read_from(self, file: int) -> Iterator[bytes]:
        while True:
            with translating(self.name):
                piece = os.read(file, CHUNK)
            if not piece:
                return
            yield piece

    def _listed(self, name: str, start: str, limit: int) -> list[ArtifactInfo]:
        found: list[ArtifactInfo] = []
        with self._standing(name) as handles:
            if handles is None:
                return found
            for rest in rests_in(handles[1]):
                if len(found) >= limit:
                    break
                if name + rest > start and (stored := look(handles[1], rest)) is not None:
                    found.append(ArtifactInfo(id_of_hex(name + rest), stored.size, stored.put_at))
        return found

    def _clear_leftovers(self, root: int | None) -> None:
        if root is None:
            return
        with self._tree.folder(root, "tmp") as folder:
            if folder is not None:
                clear_leftovers(folder)

    def _sync(self, file: TemporaryFile) -> None:
        if self._tree.is_synced:
            file.sync()

    def _sync_folder(self, folder: int) -> None:
        if self._tree.is_synced:
            os.fsync(folder)

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                f"The artifacts at {self.name} are closed.", "Open them again, and close them when everything is done."
            )


def _holds(stored: StoredFile | None, size: int) -> bool:
    """Whether content of that size stands there, as far as can be seen without reading it."""
    return stored is not None and stored.is_whole and stored.size == size
