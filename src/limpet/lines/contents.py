"""A frame as the content of a line, and back to the very bytes.

    a plain frame     {"record": {"event": {…}}, "chain": "1f2e3d4c", "version": 3}
      of which not all fields are stored, as in older ones: {"record": {…}, "fields": 14, "chain": …, "version": 1}
    a sealed frame    {"sealed": base64 of the body, "chain": "1f2e3d4c", "version": 4}
    any other bytes   {"bytes": base64 of all of it}

    frame = chain (4 bytes) version (1 byte) own (4 bytes; not in versions 1 and 2) body

Of versions 3 and 4 ``own`` is not written, since it can be computed: it is the CRC-32 over version and body, begun with
the CRC-32 of the id of the state that wrote the frame. A frame in which it is another one is written as "any other
bytes"; so is whatever does not come back exactly from the forms above, which is tried at every writing, and a record of
more parts than a line has. Reading takes such a line for every frame, as a later version may have a readable form for
what an earlier one did not know.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from limpet.lines.damage import LineDamaged, from_base64, to_base64
from limpet.lines.line import MOST_PARTS
from limpet.lines.parts import has_more_parts
from limpet.lines.records import TextOf, body_of_record, record_of_body
from limpet.lines.values import quick_text, text_of_value

_PLAIN: Final = frozenset({1, 3})
_SEALED: Final = frozenset({2, 4})
_WITH_OWN: Final = frozenset({3, 4})
_FAULTS: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, msgspec.MsgspecError)
_SURELY_FITS: Final = 1 << 20
"""Each part takes a byte or more, and every field of a record is a part."""
_MOST_PARTS: Final = MOST_PARTS - 100
"""What else is in the line has a few."""
_crc32 = zlib.crc32


def content_of(frame: bytes, owner: str) -> dict[str, Any]:
    """The content of the line of a frame, in the order in which it is written: only what JSON has.

    ``owner`` is the state that wrote the frame. ``frame_of`` gives the same bytes again, whatever they are.
    """
    # The quick form of a value is right nearly always. Where it is not, each value is tried by itself.
    for text_of in (quick_text, text_of_value):
        try:
            content = _readable(frame, text_of)
            if _rebuilt(content, owner) == frame:
                return content if _fits_a_line(content, frame) else {"bytes": to_base64(frame)}
        except _FAULTS:
            continue
    return {"bytes": to_base64(frame)}


def _fits_a_line(content: Mapping[str, Any], frame: bytes) -> bool:
    return len(frame) <= _SURELY_FITS or not has_more_parts(msgspec.json.encode(content), _MOST_PARTS)


def frame_of(content: Mapping[str, Any], owner: str) -> bytes:
    """The frame that has this content. Raises LineDamaged for content that ``content_of`` gives for no frame."""
    try:
        return _rebuilt(content, owner)
    except LineDamaged:
        raise
    except _FAULTS as error:
        raise LineDamaged(f"it holds no record that is written so ({error})") from error


def _readable(frame: bytes, text_of: TextOf) -> dict[str, Any]:
    version = frame[4] if len(frame) > 4 else 0
    body = frame[9:] if version in _WITH_OWN else frame[5:]
    chain = frame[:4].hex()
    if version in _SEALED:
        return {"sealed": to_base64(body), "chain": chain, "version": version}
    if version not in _PLAIN:
        raise ValueError("its version is not known")
    record, stored = record_of_body(body, text_of)
    if stored is None:
        return {"record": record, "chain": chain, "version": version}
    return {"record": record, "fields": stored, "chain": chain, "version": version}


def _rebuilt(content: Mapping[str, Any], owner: str) -> bytes:
    match content:
        case {"record": record, "chain": chain, "version": version} if version in _PLAIN and len(content) == 3:
            body = body_of_record(record)
        case {"record": record, "fields": int(stored), "chain": chain, "version": version} if version in _PLAIN:
            _expect(4, content)
            body = body_of_record(record, stored)
        case {"sealed": sealed, "chain": chain, "version": version} if version in _SEALED:
            _expect(3, content)
            body = from_base64(sealed)
        case {"bytes": frame}:
            _expect(1, content)
            return from_base64(frame)
        case _:
            raise ValueError("it is of no kind that is known")
    return _framed(chain, version, body, owner)


def _expect(count: int, content: Mapping[str, Any]) -> None:
    if len(content) != count:
        raise ValueError("there is more in it than there should be")


def _framed(chain: Any, version: Any, body: bytes, owner: str) -> bytes:
    link = bytes.fromhex(chain)
    # True and 1.0 are equal to 1, and there are several ways to write the same digits.
    if type(version) is not int or len(link) != 4 or link.hex() != chain:
        raise ValueError("its chain or its version is not written as it should be")
    kept = bytes([version]) + body
    if version not in _WITH_OWN:
        return link + kept
    own = _crc32(kept, _crc32(owner.encode()))
    return link + kept[:1] + own.to_bytes(4, "big") + body
