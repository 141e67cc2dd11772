"""What a failure records of its traceback: what no call inside it has recorded already.

An exception that has failed a call knows the record of that failure. When it fails the next call, only the frames that
it has come through since are recorded, and the number of that record.
"""

from __future__ import annotations

import operator
import traceback
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, cast

from limpet.codec.secrets import scrubbed
from limpet.codec.user_types.exceptions import FAILED_CALL, RECORDED_TRACEBACK
from limpet.journal.tracebacks import TITLE, Block, Pieces, joined

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


class Recorded:
    """In which record of which state a failure is recorded, and what the exception was like then."""

    __slots__ = ("cause", "context", "frames", "number", "pieces", "shown", "state_id")

    def __init__(self, state_id: str, number: int, error: BaseException, pieces: Pieces) -> None:
        self.state_id = state_id
        self.number = number
        self.pieces = pieces
        self.frames = error.__traceback__
        self.cause, self.context = error.__cause__, error.__context__
        self.shown = _shown_by(error)

    def is_as_it_was(self, error: BaseException) -> bool:
        """Whether nothing of an exception was changed since it was recorded."""
        shown = _shown_by(error)
        return len(shown) == len(self.shown) and all(map(operator.is_, shown, self.shown))

    def __reduce__(self) -> Any:
        return _nothing, ()  # A traceback cannot be copied, and the copy of an exception is another one.


def _nothing() -> None:
    return None


def _shown_by(error: BaseException) -> list[object]:
    """What of an exception is recorded beside its traceback, as far as code may change it."""
    attributes = [item for name, item in error.__dict__.items() if name not in (FAILED_CALL, RECORDED_TRACEBACK)]
    notes = getattr(error, "__notes__", ())
    return [error.args, *attributes, *(notes if type(notes) is list else ())]


def recorded(error: BaseException, state_id: str) -> Recorded | None:
    """Where a failure is recorded in this state; None where it is not, or is raised from something else now."""
    noted: Any = error.__dict__.get(FAILED_CALL)
    *_, found = cast("tuple[object, ...]", noted) if type(noted) is tuple else (None,)
    if not isinstance(found, Recorded) or found.state_id != state_id:
        return None
    return found if error.__cause__ is found.cause and error.__context__ is found.context else None


def note_recorded(error: BaseException, state_id: str, number: int, pieces: Pieces) -> None:
    """Remember in which record an exception stands, and give it the text of its traceback.

    The text is the same when the exception fails a call as when it is raised again.
    """
    error.__dict__[RECORDED_TRACEBACK] = str(pieces)
    noted = error.__dict__[FAILED_CALL]
    error.__dict__[FAILED_CALL] = (*noted[:2], Recorded(state_id, number, error, pieces))


class OwnTraceback(NamedTuple):
    """What a failure records of its traceback."""

    text: str
    blocks: tuple[Block, ...]
    """Where it says which part of the text belongs to what; none where that is plain."""
    inside: Mapping[int, Pieces]
    """The pieces of the failure that it names, by the number of its record."""

    def joined(self) -> Pieces:
        """The whole text."""
        return joined(self.text, self.blocks, self.inside)


def own_traceback(error: BaseException, state_id: str, secrets: Collection[str]) -> OwnTraceback:
    """The text of a traceback, as Python prints it, without what is recorded in this state already."""
    try:
        texts = list(_texts(error, state_id))
    except Exception:  # A class may raise when it is asked for its text, as for ``bool()``.
        return OwnTraceback(_as_recorded("".join(traceback.format_tb(error.__traceback__)), secrets), (), {})
    text, blocks, inside = "", list[Block](), dict[int, Pieces]()
    for upper, lower, known in reversed(texts):
        begin, number = len(text), 0
        if known is not None:
            number = known.number
            inside[number] = known.pieces
        text += _as_recorded(upper, secrets)
        blocks.append((begin, len(text), number))
        text += _as_recorded(lower, secrets)
    is_plain = len(blocks) == 1 and not inside and (text.startswith(TITLE) or not blocks[0][1])
    return OwnTraceback(text, () if is_plain else tuple(blocks), inside)


def _as_recorded(text: str, secrets: Collection[str]) -> str:
    return as_utf8(scrubbed(text, secrets))


def as_utf8(text: str) -> str:
    """Text as a record can hold it: an exception may speak of what is no text, such as the name of a file."""
    return text.encode("utf-8", "backslashreplace").decode()


def _texts(error: BaseException, state_id: str) -> Iterator[tuple[str, str, Recorded | None]]:
    """Of an exception and of those that it was raised from, up to the first one that is recorded: the title with the
    frames, what it says, and where it is recorded."""
    seen: set[int] = set()
    one: BaseException | None = error
    link = ""
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        known = recorded(one, state_id)
        is_group = known is None and issubclass(type(one), BaseExceptionGroup)
        upper, lower = _group(one) if is_group else _single(one, known)
        yield upper, lower + link, known
        if known is not None:
            return
        cause, context = one.__cause__, None if one.__suppress_context__ else one.__context__
        link = _CAUSE if cause is not None else _CONTEXT
        one = cause if cause is not None else context


def _single(error: BaseException, known: Recorded | None) -> tuple[str, str]:
    count = None if known is None else _frames_until(error.__traceback__, known.frames)
    # Without the exceptions that it was raised from: to go through all of them each time takes too long.
    told = traceback.TracebackException(type(error), error, error.__traceback__, limit=count, compact=True, _seen=set())
    told.exceptions = None
    title = TITLE if error.__traceback__ is not None else ""
    return title + "".join(told.stack.format()), "".join(told.format_exception_only())


def _frames_until(frames: TracebackType | None, end: TracebackType | None) -> int:
    count = 0
    while frames is not None and frames is not end:
        frames, count = frames.tb_next, count + 1
    return count


def _group(error: BaseException) -> tuple[str, str]:
    told = traceback.TracebackException.from_exception(error, compact=True)
    lines = list(told.format(chain=False))
    end = 1 + len(told.stack.format()) if error.__traceback__ is not None else 0
    return "".join(lines[:end]), "".join(lines[end:])
