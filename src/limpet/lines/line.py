"""One line of a file: a JSON object that carries a checksum of itself and that of the line before.

    line  = {"sum":"xxxxxxxx","after":"xxxxxxxx","left":2,…the content…} and a line end
    sum   = CRC-32 over the bytes behind the comma of the sum, up to and with the last brace, begun with the CRC-32 of
            the id of the owner; 8 hexadecimal digits
    after = the sum of the line before
    left  = how many more lines belong to the same commit; not there where that is none

So a line that is damaged, or moved to the file of another owner, is noticed by itself. Whether it stands behind the
right one is for the caller to see, who knows the sum of the line before. Any JSON tool reads a line: keys do not
repeat, text is not escaped more than JSON demands, and no line end stands inside.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, cast

import msgspec

from limpet.lines.damage import LineDamaged
from limpet.lines.parts import has_more_parts

MOST_PARTS: Final = 3_000_000
"""How many lists, maps and items a line has at most: they take far more room in memory than in the line."""

_OPENING: Final = b'{"sum":"'
_SUM_END: Final = len(_OPENING) + 8
_START: Final = _SUM_END + 2
"""Where that begins which the sum is taken over."""
_OWN_KEYS: Final = ("sum", "after", "left")
_HEAD: Final = re.compile(rb'\{"after":"([0-9a-f]{8})"(?:,"left":([1-9][0-9]{0,17}))?[,}]').match
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_crc32 = zlib.crc32


class Line(msgspec.Struct, frozen=True):
    """What a line says."""

    sum: int
    after: int
    left: int
    content: dict[str, Any]


def to_line(content: Mapping[str, Any], owner: str, after: int, left: int = 0) -> tuple[bytes, int]:
    """The line with this content behind the line whose sum is ``after``, and its own sum.

    Raises ValueError for content that would not come back: a float that is not finite, text with lone surrogates, a
    key that every line has.
    """
    if not content.keys().isdisjoint(_OWN_KEYS):
        raise ValueError(f"A line cannot have content under {', '.join(_OWN_KEYS)}. Give the content another key.")
    whole = {"after": f"{after:08x}", "left": left, **content} if left else {"after": f"{after:08x}", **content}
    kept = _encode(whole)
    # A float that is not finite is written as null without a word.
    if b"null" in kept and _decode(kept) != whole and not is_finite(whole):
        raise ValueError("A number that is not finite cannot stand in a line. Write it as text.")
    rest = kept[1:]
    checksum = _crc32(rest, _crc32(owner.encode()))
    return b'{"sum":"%08x",%b\n' % (checksum, rest), checksum


def from_line(line: bytes, owner: str) -> Line:
    """What a line says. Raises LineDamaged for a line that ``to_line`` does not give for this owner.

    Numbers and text may be written in another way that JSON has, as by another version of the library that writes it.
    """
    if line[-2:] != b"}\n":
        raise LineDamaged("it does not end as a line does")
    rest = line[_START:-1]
    checksum = _crc32(rest, _crc32(owner.encode()))
    if line[:_START] != b'%b%08x",' % (_OPENING, checksum):
        raise LineDamaged("its sum does not fit its bytes and its owner")
    if len(line) > MOST_PARTS and has_more_parts(line, MOST_PARTS):
        raise LineDamaged("it has more lists, maps and items than are written here")
    try:
        return _read(b"{" + rest, checksum)
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.MsgspecError) as error:
        raise LineDamaged(f"its sum is right, but it is no line that is written here ({error})") from error


def _read(kept: bytes, checksum: int) -> Line:
    content = cast("dict[str, Any]", _decode(kept))
    # Almost always the same version of the same library wrote it.
    if _encode(content) != kept:
        _refuse_irregular(kept)
    head = _HEAD(kept)
    if head is None:
        raise ValueError("it does not say which line stands before it, or how many are left")
    after, left = head.groups()
    del content["after"]
    if left is not None:
        del content["left"]
    if not content.keys().isdisjoint(_OWN_KEYS):
        raise ValueError("it says twice what its place is")
    return Line(checksum, int(after, 16), int(left or 0), content)


def _refuse_irregular(kept: bytes) -> None:
    """Raise ValueError for JSON that another version of the library would not have written either."""
    if b"\n" in kept:
        raise ValueError("a line end stands inside it")
    json.loads(kept, object_pairs_hook=_require_single)


def _require_single(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key stands twice in it")


def is_finite(part: Any) -> bool:
    """Whether JSON has every number in this."""
    if isinstance(part, Mapping):
        return all(map(is_finite, cast("Mapping[str, Any]", part).values()))
    if isinstance(part, list | tuple):
        return all(map(is_finite, cast("list[Any] | tuple[Any, ...]", part)))
    return not isinstance(part, float) or isfinite(part)
