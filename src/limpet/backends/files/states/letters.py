"""The inboxes of states: a file for each letter in the folder of its state, and a notice in that of the store.

A letter is there as soon as its file is, and is never changed. Reading takes no lock: what is just being put or
discarded is seen or not. Damage is named by whoever looks for it, and hides no other letter.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import said
from limpet.backends.files.states.layout import NEW, LetterFile, digest_of, letter_file_of
from limpet.backends.files.states.notices import Notice, Notices, greatest_noted, greatest_number, noted
from limpet.backends.files.states.seeing import see, state_folder
from limpet.backends.files.states.small_files import opened, read_line, remove_file, replace_line
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import open_folder
from limpet.errors import StateCorrupted
from limpet.lines import LineDamaged
from limpet.lines.damage import from_base64, to_base64
from limpet.model import Letter


class Inboxes:
    """The letters of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: int | None = None
        """The greatest notice when this process first looked; it counts where the file of the count was lost."""

    def deliver(self, state_id: str, name: str, body: bytes, now: float) -> Letter | None:
        """Put a letter into the inbox of a state, or find the one of that name; None if there is no such state.

        Raises StateCorrupted where one of that name is there and cannot be read.
        """
        if see(self._store, state_id) is None:
            return None
        with (
            self._store.tree.made() as root,
            Notices.locked(self._store, root) as notices,
            # Nobody deletes a state while this lock is held, but it may have been deleted before.
            _made_inbox(self._store, state_id) as inbox,
        ):
            if inbox is None:
                return None
            files = _swept(inbox)
            digest = digest_of(name)
            for file in files:
                if file.digest == digest:
                    return self._standing(inbox, file, state_id, name)
            number = notices.take_number(max((file.number for file in files), default=0))
            letter = Letter(number, state_id, name, bytes(body), now)
            self._put(notices, inbox, letter)
            return letter

    def read(self, state_id: str, after: int) -> list[Letter]:
        """The letters of a state behind a number, but for those that are damaged."""
        letters: list[Letter] = []
        with _inbox(self._store, state_id) as inbox:
            if inbox is None:
                return []
            for file in self._files_behind(inbox, state_id, after):
                # It may have been discarded meanwhile.
                with suppress(LineDamaged):
                    letter = read_letter(inbox, file, state_id)
                    if letter is not None:
                        letters.append(letter)
        return letters

    def arrivals(self, root: int, after: int, limit: int) -> list[tuple[int, str]]:
        """The letters of all states behind a number. Where nothing is new, this is a look at the length of a file."""
        there = (notice for notice in self._noted_behind(root, after) if has_letter(root, notice))
        return [(notice.number, notice.state_id) for notice in islice(there, max(limit, 0))]

    def _files_behind(self, inbox: int, state_id: str, after: int) -> list[LetterFile]:
        """The letters in an inbox behind a number, without a gap that a later look would fill.

        Who has read before asks for what is new, which the notices tell however many letters there are.
        """
        if after > 0:
            with self._store.tree.opened() as root:
                found = () if root is None else self._noted_behind(root, after)
                return [notice.file for notice in found if notice.state_id == state_id]
        greatest = max((file.number for file in files_in(inbox)), default=0)
        # A listing may show a file that comes while it is made, and not one that came before that. All up to the
        # greatest one of a first listing were there before a second one began.
        return [file for file in files_in(inbox) if after < file.number <= greatest]

    def _noted_behind(self, root: int, after: int) -> Iterator[Notice]:
        """The notices of the store behind a number, in order."""
        folder = open_folder(root, layout.LETTERS)
        if folder is None:
            return
        try:
            if self._noted is None:
                self._noted = greatest_noted(folder)
            greatest = max(greatest_number(folder), self._noted)
            if greatest <= after:
                return
            for notice in noted(folder, after):
                # What came since may have come in an order that a listing does not show.
                if notice.number > greatest:
                    return
                yield notice
        finally:
            os.close(folder)

    def discard(self, root: int, folder: int, state_id: str, names: Sequence[str]) -> None:
        """Forget letters of a state whose folder is given, and whose lock is held."""
        inbox = open_folder(folder, layout.LETTERS)
        if inbox is None:
            return
        try:
            digests = {digest_of(name) for name in names}
            with Notices.locked(self._store, root) as notices:
                files = [file for file in _swept(inbox) if file.digest in digests]
                for file in files:
                    os.unlink(file.name, dir_fd=inbox)
                if files and self._store.is_synced:
                    os.fsync(inbox)
                for file in files:
                    notices.remove(Notice(file.number, file.digest, state_id))
        finally:
            os.close(inbox)

    def _put(self, notices: Notices, inbox: int, letter: Letter) -> None:
        file = LetterFile(letter.number, digest_of(letter.name))
        notice = Notice(file.number, file.digest, letter.state_id)
        content = {"number": letter.number, "name": letter.name, "at": letter.at, "body": to_base64(letter.body)}
        try:
            notices.add(notice)
            replace_line(inbox, file.name, content, letter.state_id, is_synced=self._store.is_synced)
        except BaseException:
            remove_file(inbox, file.name)
            notices.remove(notice)
            raise

    def _standing(self, inbox: int, file: LetterFile, state_id: str, name: str) -> Letter:
        """A letter that was found, made durable: whoever put it may not have come to that."""
        try:
            letter = read_letter(inbox, file, state_id)
        except LineDamaged as error:
            why = f"its letter {name!r} in {layout.LETTERS}/{file.name} cannot be read ({error})"
            raise StateCorrupted(state_id, 0, why) from error
        assert letter is not None
        if self._store.is_synced:
            handle = opened(inbox, file.name)
            if handle is not None:
                os.fsync(handle)
                os.close(handle)
            os.fsync(inbox)
        return letter


def has_letter(root: int, notice: Notice) -> bool:
    """Whether the letter of a notice is there."""
    try:
        path = f"{layout.STATES}/{notice.state_id}/{layout.LETTERS}/{notice.file.name}"
        os.stat(path, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return True


def files_in(inbox: int) -> list[LetterFile]:
    """The letters in an inbox, in the order of their numbers, whether they can be read or not."""
    return _files_among(os.listdir(inbox))


def _files_among(names: list[str]) -> list[LetterFile]:
    files = (letter_file_of(name) for name in names)
    return sorted(file for file in files if file is not None)


def read_letter(inbox: int, file: LetterFile, state_id: str) -> Letter | None:
    """A letter; None if it is no longer there. Raises LineDamaged."""
    line = read_line(inbox, file.name, state_id)
    if line is None:
        return None
    name, body = said(line.content, "name", str), said(line.content, "body", str)
    if file != LetterFile(said(line.content, "number", int), digest_of(name)):
        raise LineDamaged("it is another letter than its name says")
    at = said(line.content, "at", float)
    try:
        return Letter(file.number, state_id, name, from_base64(body), at)
    except ValueError as error:
        raise LineDamaged(f"its body cannot be read ({error})") from error


@contextmanager
def letters_going(store: Store, root: int, folder: int, state_id: str) -> Generator[None]:
    """Around the moving of a state that is being deleted, by its open folder: nothing is delivered to it any more."""
    inbox = open_folder(folder, layout.LETTERS)
    if inbox is None:
        yield
        return
    try:
        with Notices.locked(store, root) as notices:
            files = files_in(inbox)
            yield
            with suppress(OSError):
                shutil.rmtree(layout.LETTERS, dir_fd=folder)
            for file in files:
                notices.remove(Notice(file.number, file.digest, state_id))
    finally:
        os.close(inbox)


@contextmanager
def _inbox(store: Store, state_id: str) -> Generator[int | None]:
    """A handle of the inbox of a state; None if there is none."""
    with state_folder(store, state_id) as folder:
        inbox = None if folder is None else open_folder(folder, layout.LETTERS)
        try:
            yield inbox
        finally:
            if inbox is not None:
                os.close(inbox)


@contextmanager
def _made_inbox(store: Store, state_id: str) -> Generator[int | None]:
    """A handle of the inbox of a state, which is made where it is missing; None if there is no such state."""
    with state_folder(store, state_id) as folder:
        if folder is None or see(store, state_id) is None:
            yield None
            return
        inbox = open_folder(folder, layout.LETTERS, make=True)
        assert inbox is not None
        try:
            if store.is_synced:
                os.fsync(folder)
            yield inbox
        finally:
            os.close(inbox)


def _swept(inbox: int) -> list[LetterFile]:
    """The letters in an inbox, after what a dead process left half-written is removed. Needs the lock."""
    names = os.listdir(inbox)
    for name in names:
        if name.endswith(NEW):
            remove_file(inbox, name)
    return _files_among(names)
