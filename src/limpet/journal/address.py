"""The grammar of addresses: where a call stands in the tree of calls.

    address  = scope segment "::" event-type            research::fetch[page-2]#3::tool_call
    scope    = { segment "::" }                          the enclosing calls and branches, outermost first
    segment  = name [ "[" key "]" ] [ "#" number ]       the number from the second same-labelled call in a scope on

The characters ``% : [ ] #`` and control characters are written as ``%XX`` or ``%uXXXX`` in names and keys, so that
every address reads back as what it was built from.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

import msgspec

from limpet.errors import InvalidAddress, UsageError
from limpet.model import EventType
from limpet.model.words import WaitType

SEPARATOR = "::"

_MEANINGFUL = re.compile(r"[%:\[\]#\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ESCAPE = re.compile(r"%(?:u([0-9A-F]{4})|([0-9A-F]{2}))")
_SEGMENT = re.compile(r"(?P<name>[^:\[\]#]+)(?:\[(?P<key>[^:\[\]#]*)\])?(?:#(?P<number>[1-9][0-9]{0,17}))?")


class Segment(msgspec.Struct, frozen=True):
    """One step of the way: a call, or a branch."""

    name: str
    key: str | None = None
    number: int = 1

    def __str__(self) -> str:
        written = label(self.name, self.key)
        return written if self.number == 1 else f"{written}#{self.number}"


class Address(msgspec.Struct, frozen=True):
    """An address taken apart."""

    segments: tuple[Segment, ...]
    event_type: EventType | WaitType

    @property
    def name(self) -> str:
        return self.segments[-1].name

    @property
    def scope(self) -> str:
        """The enclosing calls and branches, as they are written; empty for a call at the top."""
        return SEPARATOR.join(str(segment) for segment in self.segments[:-1])

    @property
    def path(self) -> str:
        """The address without its event type: the scope of the calls made inside it."""
        return SEPARATOR.join(str(segment) for segment in self.segments)

    def __str__(self) -> str:
        return f"{self.path}{SEPARATOR}{self.event_type}"


def escape(text: str) -> str:
    """A name or key as it is written in an address."""
    return _MEANINGFUL.sub(_escaped, text) if _MEANINGFUL.search(text) else text


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"%{code:02X}" if code < 0x100 else f"%u{code:04X}"


def unescape(text: str) -> str:
    """The name or key that ``escape`` was given."""
    return _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text) if "%" in text else text


def label(name: str, key: str | None = None) -> str:
    """A segment without its number. Raises UsageError for a key that is no text."""
    if key is None:
        return escape(name)
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # of code without types
        raise UsageError(
            f"{key!r} was given to {name!r} as a key, which is text.",
            'Write `key=str(…)`, or a text: `key=f"page-{n}"`.',
        )
    return f"{escape(name)}[{escape(key)}]"


def parse(address: str) -> Address:
    """Take an address apart. Raises InvalidAddress that says where it goes wrong."""
    *path, event_type = address.split(SEPARATOR)
    if event_type not in _EVENT_TYPES:
        raise InvalidAddress(address, f"it does not end in {', '.join(_EVENT_TYPES)}")
    if not path:
        raise InvalidAddress(address, "it names no call before the event type")
    return Address(tuple(_parse_segment(text, address) for text in path), _EVENT_TYPES[event_type])


_EVENT_TYPES: dict[str, EventType | WaitType] = {str(kind): kind for kind in (*EventType, *WaitType)}


def _parse_segment(text: str, address: str) -> Segment:
    match = _SEGMENT.fullmatch(text)
    if match is None:
        raise InvalidAddress(address, f"{text!r} is not a name with an optional [key] and #number")
    key, number = match["key"], match["number"]
    segment = Segment(unescape(match["name"]), None if key is None else unescape(key), int(number or 1))
    # Each call has one address: a second way of writing it would be found nowhere.
    if str(segment) != text:
        raise InvalidAddress(address, f"{text!r} is to be written {str(segment)!r}")
    return segment


def is_top_level(address: str) -> bool:
    """Whether no other call encloses the one at this address."""
    return address.count(SEPARATOR) == 1


def enclosing_path(address: str) -> str:
    """The path of the call or branch that encloses the one at this address; empty at the top."""
    return SEPARATOR.join(address.split(SEPARATOR)[:-2])


def matching(text: str, known: Collection[str]) -> list[str]:
    """The known addresses that a person may mean by this text: the address itself, or those that it is the end of.

    The event type may be left out, and so may enclosing calls from the outside: ``fetch#2`` and ``inner::fetch#2`` mean
    ``research::inner::fetch#2::tool_call``. Whole segments are compared, so ``fetch`` does not mean ``fetch[page-2]``.
    """
    if text in known:
        return [text]
    has_type = text.rpartition(SEPARATOR)[2] in _EVENT_TYPES
    endings = [text] if has_type else [f"{text}{SEPARATOR}{each}" for each in _EVENT_TYPES]
    wholes = tuple(f"{SEPARATOR}{ending}" for ending in endings)
    return [address for address in known if address in endings or address.endswith(wholes)]


def nearest_ends(text: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """The known addresses whose ends, of as many segments as the text has, look most like it; for errors."""
    count = text.count(SEPARATOR) + 1
    has_type = text.rpartition(SEPARATOR)[2] in _EVENT_TYPES
    ends: dict[str, str] = {}
    for address in known:
        path = address if has_type else address.rpartition(SEPARATOR)[0]
        ends.setdefault(SEPARATOR.join(path.split(SEPARATOR)[-count:]), address)
    return tuple(ends[end] for end in nearest(text, ends, most))


def nearest(address: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """The known addresses (or ids) that look most like this one, for errors."""
    return tuple(difflib.get_close_matches(address, list(known), n=most, cutoff=0.6))
