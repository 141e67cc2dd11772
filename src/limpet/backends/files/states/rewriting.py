"""Puts other bytes in the place of records that stand, of several states at once: all of them or none.

The segments are made anew in ``tmp`` from the first changed line on, since every line names the sum of the one before.
``rewriting.json`` then says which file goes where, and that is the moment at which all is decided: whoever meets the
note finishes the moves, which may be done any number of times.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from limpet.backends.contract import Append
from limpet.backends.files.states import layout
from limpet.backends.files.states.appending import Addition, addition_of, contents_of, is_newest
from limpet.backends.files.states.forks import is_standing, notes_in
from limpet.backends.files.states.header_lines import Standing, said
from limpet.backends.files.states.journal import Journal, mark
from limpet.backends.files.states.layout import STORE, SUFFIXES, Segment, is_state_id, segment_of
from limpet.backends.files.states.pieces import pieces_of
from limpet.backends.files.states.segments import packed_text, read_segment, segments_in
from limpet.backends.files.states.small_files import read_line, remove_file, replace_line, write_all
from limpet.backends.files.states.store import Store
from limpet.backends.files.states.wishes import drop_wish
from limpet.backends.files.tree import FILE_MODE, open_folder
from limpet.errors import LeaseLost, PositionTaken, StoreDamaged
from limpet.lines import LineDamaged, to_line

_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Rewritten(msgspec.Struct, frozen=True):
    """What is to become of one state: other records, more lines behind the last, and how it stands then."""

    journal: Journal
    bodies: Mapping[int, bytes]
    contents: Sequence[Mapping[str, Any]]
    standing: Standing


class _Move(msgspec.Struct, frozen=True):
    """A new segment, and the state whose it is."""

    source: str
    state_id: str
    first: int
    suffix: str = ""
    """Of one that is packed."""


class _Moves(msgspec.Struct, frozen=True):
    folder: str
    moves: tuple[_Move, ...]


def rewritten(append: Append, journal: Journal | None, before: Rewritten | None) -> Rewritten:
    """What an append rewrites, with what others of the same state do. Raises LeaseLost or PositionTaken.

    A state rewrites only what it wrote itself.
    """
    lease, first = append.lease, append.first_seq
    if journal is None or not is_newest(lease, journal.standing.header):
        raise LeaseLost(lease.state_id, lease.fence)
    bases = journal.standing.header.bases
    own = bases[-1].last + 1 if bases else 1
    last = first + len(append.bodies) - 1
    if append.bodies and not own <= first <= last <= journal.standing.position:
        raise PositionTaken(lease.state_id, first)
    before = before or Rewritten(journal, {}, (), journal.standing)
    added = addition_of(Append(lease, 1, (), append.update), before.standing, lambda _, __: ())
    assert isinstance(added, Addition)
    bodies = {**before.bodies, **dict(enumerate(append.bodies, first))}
    return Rewritten(journal, bodies, (*before.contents, *added.contents), added.standing)


def require_unshared(root: int, changes: Mapping[str, Rewritten]) -> None:
    """Raises PositionTaken where a state that is not among them shares records that are rewritten.

    Needs the lock of the store, so that no fork is made meanwhile.
    """
    keys = {change.standing.header.key for change in changes.values()}
    for state_id, change in changes.items():
        first = min(change.bodies, default=None)
        for key, (fork, last) in notes_in(change.journal.folder).items():
            if first is not None and last >= first and key not in keys and is_standing(root, fork, key):
                raise PositionTaken(state_id, first)


def rewrite(store: Store, root: int, changes: Sequence[Rewritten]) -> None:
    """Rewrite records of states. Needs the lock of the store, and those of the states."""
    name = secrets.token_hex(16)
    with store.folder(root, layout.TEMPORARY) as temporary:
        os.mkdir(name, 0o700, dir_fd=temporary)
        folder = open_folder(temporary, name)
        assert folder is not None
        try:
            moves: list[_Move] = []
            for change in changes:
                moves += _prepared(folder, change, len(moves))
            os.fsync(folder)
            os.fsync(temporary)
            for change in changes:
                # Before it is decided: whoever has a journal open looks anew before it is written, and meets the note.
                mark(change.journal.lock, layout.MOVE)
            content = {"rewriting": msgspec.to_builtins(_Moves(name, tuple(moves)))}
            replace_line(root, layout.REWRITING_FILE, content, STORE, is_synced=True)
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(name, dir_fd=temporary)
            raise
        finally:
            os.close(folder)
    for change in changes:
        drop_wish(change.journal.folder, change.journal.standing.header, change.standing.header)
        change.journal.forget()
    finish_rewriting(store, root)


def finish_rewriting(store: Store, root: int) -> bool:
    """Do what a rewriting has decided and not yet done; False if there is none. Needs the lock of the store."""
    try:
        line = read_line(root, layout.REWRITING_FILE, STORE)
        if line is None:
            return False
        moves = said(line.content, "rewriting", _Moves)
    except LineDamaged as error:
        why = f"{layout.REWRITING_FILE} cannot be read ({error})"
        raise StoreDamaged(store.name, why) from error
    with store.folder(root, layout.TEMPORARY) as temporary, store.folder(root, layout.STATES) as states:
        folder = open_folder(temporary, moves.folder) if moves.folder.isalnum() else None
        try:
            for state_id in sorted({move.state_id for move in moves.moves}):
                if is_state_id(state_id):
                    _move_all(folder, states, state_id, [move for move in moves.moves if move.state_id == state_id])
        finally:
            if folder is not None:
                os.close(folder)
        os.unlink(layout.REWRITING_FILE, dir_fd=root)
        os.fsync(root)
        with suppress(OSError):
            shutil.rmtree(moves.folder, dir_fd=temporary)
    return True


def _prepared(folder: int, change: Rewritten, number: int) -> list[_Move]:
    """Write the new segments of one state, from the first that changes on."""
    journal, state_id = change.journal, change.journal.state_id
    moves: list[_Move] = []
    last: int | None = None
    for segment, text in _changed(journal, min(change.bodies, default=journal.segment.first)):
        anew, last = _anew(text, state_id, change.bodies, last)
        if segment.first == journal.segment.first:
            anew += _added(change, journal.standing.sum if last is None else last)
        packing = next((each for each, suffix in SUFFIXES.items() if suffix == segment.suffix), None)
        if packing is not None:
            anew = packed_text(anew, packing)
        source = str(number + len(moves))
        handle = os.open(source, _NEW_FILE, FILE_MODE, dir_fd=folder)
        try:
            write_all(handle, anew)
            os.fsync(handle)
        finally:
            os.close(handle)
        moves.append(_Move(source, state_id, segment.first, segment.suffix))
    return moves


def _changed(journal: Journal, first: int) -> list[tuple[Segment, bytes]]:
    segments = segments_in(journal.folder)
    begin = max((number for number, segment in enumerate(segments) if segment.first <= first), default=0)
    return [(segment, read_segment(journal.folder, segment) or b"") for segment in segments[begin:]]


def _anew(text: bytes, owner: str, bodies: Mapping[int, bytes], last: int | None) -> tuple[bytes, int | None]:
    """The text of a segment with other records; what is damaged in it stays as it is. And the sum of its last line."""
    anew: list[bytes] = []
    for piece in pieces_of(text, owner):
        if piece.line is None:
            anew.append(piece.raw)
            continue
        content: Mapping[str, Any] = piece.line.content
        seq = content.get("seq", 0)
        if seq in bodies:
            (content,) = contents_of([bodies[seq]], seq, owner)
        after = piece.line.after if last is None else last
        line, last = to_line(content, owner, after, piece.line.left)
        anew.append(line)
    return b"".join(anew), last


def _added(change: Rewritten, after: int) -> bytes:
    """The lines that a rewriting adds at the end, as one commit."""
    lines: list[bytes] = []
    for left, content in zip(range(len(change.contents) - 1, -1, -1), change.contents, strict=True):
        line, after = to_line(content, change.journal.state_id, after, left)
        lines.append(line)
    return b"".join(lines)


def _move_all(source: int | None, states: int, state_id: str, moves: Sequence[_Move]) -> None:
    folder = open_folder(states, state_id)
    if folder is None:
        return
    try:
        lock = os.open(layout.LOCK_FILE, _LOCK, FILE_MODE, dir_fd=folder)
        try:
            # Before anything is moved: whoever reads meanwhile reads again.
            mark(lock, layout.MOVE)
        finally:
            os.close(lock)
        remove_file(folder, layout.HEADER_FILE)
        names = {move.first: Segment(move.first, move.suffix).name for move in moves}
        for move in moves:
            if source is not None and move.source.isdigit() and segment_of(names[move.first]) is not None:
                with suppress(FileNotFoundError):
                    os.rename(move.source, names[move.first], src_dir_fd=source, dst_dir_fd=folder)
        for name in os.listdir(folder):
            segment = segment_of(name)
            if segment is not None and names.get(segment.first, name) != name:
                remove_file(folder, name)
        os.fsync(folder)
    finally:
        os.close(folder)
