"""An encoded value (msgpack) in a form that JSON has and people can read, and back to the very bytes.

    null, bool, int, finite float, text, list, map with text keys      as they are
    map with a key that begins with $      {"$map": [[key, value], …]}
    bytes                                  {"$bytes": base64}
    float that is none of JSON             {"$float": "nan"}, "inf" or "-inf"
    extension                              {"$tuple": content}, by the names in ``tags.py``, or {"$tag 77": content}
      whose content cannot be read         {"$tuple": {"$encoded": base64}}
      a UUID, an int of up to 256 bytes    {"$uuid": "0189…"}, {"$int": "18446744073709551616"}
    a value that would not come back       {"$encoded": base64}
      exactly, or is nested too deep

What comes back exactly is found out by doing it, whenever a value is written. Most values are plain: they are found
plain, and packed again, without a look at each of their parts in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, nan
from types import NoneType
from typing import Any, Final, cast

import msgspec
import ormsgpack

from limpet.lines.damage import LineDamaged, from_base64, to_base64
from limpet.lines.notations import NOTATIONS
from limpet.lines.tags import MARK, MARKS, TAGS_BY_MARK

MOST_LEVELS: Final = 60
"""How deep lists and maps may be nested in the readable form. Those who read the JSON have a stack that ends."""

_SHALLOW: Final = 5
_SCALARS: Final = frozenset({NoneType, bool, int, float, str})
_CERTAIN: Final = _SCALARS - {float}
_EXTENSIONS: Final = frozenset(bytes([head]) for head in (0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8))
"""What an extension may begin with."""
_FLOATS: Final = {"nan": nan, "inf": inf, "-inf": -inf}
_UNREADABLE: Final = (ValueError, TypeError, KeyError, RecursionError, msgspec.MsgspecError)

# Without these, objects that are no JSON would be packed as something else.
OPTIONS: Final = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_packb = ormsgpack.packb
_unpackb = ormsgpack.unpackb
_type_of = cast("Callable[[Any], Any]", type)


def _plain_type(levels: int) -> Any:
    """The type of a value that is its own readable form, but for some floats and keys. Deeper ones are not in it."""
    scalar: Any = None | bool | int | float | str
    plain = scalar
    for _ in range(levels):
        plain = scalar | list[plain] | dict[str, plain]
    return plain


_decode_plain: Final[Callable[[bytes], Any]] = msgspec.msgpack.Decoder(_plain_type(_SHALLOW)).decode


class _Extension(msgspec.Struct, frozen=True, gc=False):
    """A part that msgpack does not have. Made by ormsgpack, which would swallow an interrupt inside a function."""

    tag: int
    content: bytes


def text_of_value(data: bytes) -> Any:
    """The readable form of an encoded value: only what JSON has, floats finite. ``value_of_text`` gives ``data`` again.

    Takes any bytes: what is no value, or one that is written in an unusual way, is ``{"$encoded": base64}``.
    """
    try:
        text = quick_text(data)
        if value_of_text(text) == data:
            return text
    except _UNREADABLE:
        pass
    return {"$encoded": to_base64(data)}


def quick_text(data: bytes) -> Any:
    """As ``text_of_value``, for a caller that finds out by itself whether ``data`` comes back, and then asks that one.

    Raises ValueError, TypeError, RecursionError or MsgspecError where there is no such form.
    """
    if data[:1] not in _EXTENSIONS:
        try:
            value = _decode_plain(data)
        except (ValueError, msgspec.MsgspecError):
            pass
        else:
            return value if _type_of(value) is str else _shown_plain(value, data)
    return _shown(_unpackb(data, ext_hook=_Extension), _certain_in(data), MOST_LEVELS)


def _shown_plain(value: Any, data: bytes) -> Any:
    # A key that begins with "$" cannot hide from this. What has such a byte for another reason is looked through.
    certain = _certain_in(data)
    return value if certain is _SCALARS and b"$" not in data else _shown(value, certain, MOST_LEVELS)


def _certain_in(data: bytes) -> frozenset[type]:
    """The types of which every part of a value is its own readable form. Floats are not where one may not be finite."""
    return _CERTAIN if b"\xcb" in data and (b"\xcb\x7f" in data or b"\xcb\xff" in data) else _SCALARS


def value_of_text(text: Any) -> bytes:
    """The encoded value of a readable form. Raises LineDamaged for what is none."""
    try:
        return _packed(text, MOST_LEVELS)
    except _UNREADABLE as error:
        raise LineDamaged(f"it holds a value that nobody wrote so ({error})") from error


def _shown(value: Any, certain: frozenset[type], room: int) -> Any:
    """The readable form of a value that msgpack gave, with room for so many levels."""
    kind = _type_of(value)
    if kind in certain:
        return value
    if room <= 0:
        raise ValueError("it is nested too deep")
    if kind is list:
        if certain.issuperset(map(type, value)):
            return value
        return [item if type(item) in certain else _shown(item, certain, room - 1) for item in value]
    if kind is dict:
        return _shown_map(value, certain, room)
    if kind is _Extension:
        return _shown_extension(value, certain, room - 1)
    if kind is bytes:
        return {"$bytes": to_base64(value)}
    return value if isfinite(value) else {"$float": str(value)}


def _shown_map(value: dict[str, Any], certain: frozenset[type], room: int) -> Any:
    if _has_mark(value):
        return {"$map": [[key, _shown(item, certain, room - 3)] for key, item in value.items()]}
    if certain.issuperset(map(type, value.values())):
        return value
    return {key: item if type(item) in certain else _shown(item, certain, room - 1) for key, item in value.items()}


def _shown_extension(part: _Extension, certain: frozenset[type], room: int) -> Any:
    mark = MARKS[part.tag]
    try:
        content = _unpackb(part.content, ext_hook=_Extension)
        if part.tag in NOTATIONS and type(content) is bytes:
            noted = NOTATIONS[part.tag].write(content)
            return {mark: {"$bytes": to_base64(content)} if noted is None else noted}
        return {mark: _shown(content, certain, room)}
    except (ValueError, TypeError):
        return {mark: {"$encoded": to_base64(part.content)}}


def _has_mark(keys: dict[str, Any]) -> bool:
    if len(keys) == 1:
        [key] = keys
        return key[:1] == MARK
    return MARK in "".join(keys) and any(key[:1] == MARK for key in keys)


def _packed(text: Any, room: int) -> bytes:
    """The bytes that stand for a readable form: of a whole value, or of the content of an extension."""
    packed = _packb(text, None, OPTIONS)
    if b"$" not in packed or _type_of(text) is str:
        return packed
    if _type_of(text) is dict and len(text) == 1 and "$encoded" in text:
        return from_base64(text["$encoded"])
    return _packb(_meant(text, room), None, OPTIONS)


def _meant(text: Any, room: int) -> Any:
    """What is packed for a readable form."""
    kind = _type_of(text)
    if kind in _SCALARS:
        return text
    if room <= 0:
        raise ValueError("it is nested too deep")
    if kind is list:
        if _SCALARS.issuperset(map(type, text)):
            return text
        return [item if type(item) in _SCALARS else _meant(item, room - 1) for item in text]
    if kind is not dict:
        raise TypeError("a part of it is none that JSON has")
    if _has_mark(text):
        return _meant_by_mark(text, room - 1)
    if _SCALARS.issuperset(map(type, text.values())):
        return text
    return {key: item if type(item) in _SCALARS else _meant(item, room - 1) for key, item in text.items()}


def _meant_by_mark(text: dict[str, Any], room: int) -> Any:
    [(mark, content)] = text.items()
    tag = TAGS_BY_MARK.get(mark)
    if tag is not None:
        if tag in NOTATIONS and type(content) is str:
            return ormsgpack.Ext(tag, _packb(NOTATIONS[tag].read(content)))
        return ormsgpack.Ext(tag, _packed(content, room))
    match mark:
        case "$bytes":
            return from_base64(content)
        case "$float":
            return _FLOATS[content]
        case "$map":
            return _meant_map(content, room)
        case _:
            raise ValueError(f"nothing is written as {mark!r}")


def _meant_map(pairs: Any, room: int) -> dict[str, Any]:
    # Text of two characters could be taken for a key and its item as well.
    if type(pairs) is not list or not {list}.issuperset(map(type, cast("list[Any]", pairs))):
        raise TypeError("the items of a map are no lists")
    items = cast("list[Any]", pairs)
    meant = {key: _meant(item, room - 2) for key, item in items}
    if len(meant) != len(items) or not _has_mark(meant):
        raise ValueError("the items of a map are none that are written so")
    return meant
