"""Values to bytes and back: equal and of the same type, or refused with the place named. No pickle.

Plain values (None, bool, int, float, str, bytes, list, dict with text keys) are msgpack as any tool reads it. Every
other type is a msgpack extension whose tag stands in ``standard.py`` or ``classes.py``. First a value is *lowered* to
what msgpack has, which leaves plain parts as they are; then it is packed. Where that fails, a careful walk does the
rare cases, or names the place.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from types import NoneType
from typing import Any, Final, cast

import ormsgpack

from holdfast.codec.classes import FAMILIES, kind_of_class
from holdfast.codec.kinds import Kind, Lower, NotStorable, Opaque
from holdfast.codec.places import refusal
from holdfast.codec.standard import OPTIONS, STANDARD_KINDS, lower_big_int
from holdfast.errors import ValueNotReadable

_SCALARS: Final = frozenset({NoneType, bool, int, float, str, bytes})
_TEXT: Final = frozenset({str})
_packb = ormsgpack.packb
_unpackb = ormsgpack.unpackb
_type_of = cast("Callable[[Any], Any]", type)

# The kind of every type seen so far; a class is asked for its kind once.
_kinds: Final[dict[type, Kind]] = dict(STANDARD_KINDS)
_kinds_by_tag: Final = {kind.tag: kind for kind in (*STANDARD_KINDS.values(), *FAMILIES.values())}

_UNSTORABLE = (TypeError, ValueError, AttributeError, NotStorable)
_FAILURES = (*_UNSTORABLE, RecursionError)


class _Raised(local):
    """What building a part raised. ormsgpack says only that its hook failed, and swallows even an interrupt."""

    error: BaseException | None = None


_raised: Final = _Raised()


def encode(value: object, place: str = "value") -> bytes:
    """The bytes of a value. Raises ValueNotStorable that names the place inside it, counted from ``place``."""
    try:
        return _packb(_lower(value), lower_big_int, OPTIONS)
    except _FAILURES:
        return _encode_carefully(value, place, _careful)


def encode_leniently(value: object, place: str = "value") -> bytes:
    """The bytes of a value in which parts that cannot be stored are replaced by a note of their type (Opaque)."""
    try:
        return _packb(_lower(value), lower_big_int, OPTIONS)
    except _FAILURES:
        return _encode_carefully(value, place, _noting)


def encode_arguments(arguments: Any) -> bytes:
    """As ``encode_leniently``, with a short way for a list of plain values: every call of a run comes through here."""
    if _type_of(arguments) is list:
        for argument in arguments:
            if _type_of(argument) not in _SCALARS:
                break
        else:
            try:
                return _packb(arguments, lower_big_int, OPTIONS)
            except TypeError:
                pass  # Text with lone surrogates; the careful way knows it.
    return encode_leniently(arguments, "input")


def decode(data: bytes) -> Any:
    """A fresh value from its bytes. Raises ValueNotReadable; runs nothing that the bytes name."""
    try:
        return _unpackb(data, ext_hook=_build)
    except (ValueError, TypeError, RecursionError) as error:
        cause, _raised.error = _raised.error or error, None
    if isinstance(cause, ValueNotReadable) or not isinstance(cause, Exception):
        raise cause
    raise ValueNotReadable("unknown", f"its bytes are damaged ({cause})") from cause


def _lower(value: Any) -> Any:
    kind = _type_of(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return value if _SCALARS.issuperset(map(type, value)) else [_lower(item) for item in value]
    if kind is dict and _is_text_keyed(value):
        if _SCALARS.issuperset(map(type, value.values())):
            return value
        return {key: _lower(item) for key, item in value.items()}
    return _lower_by_kind(value, _lower)


def _is_text_keyed(value: dict[Any, Any]) -> bool:
    return _TEXT.issuperset(map(type, value))


def _lower_by_kind(value: Any, lower: Lower) -> ormsgpack.Ext:
    cls = _type_of(value)
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = kind_of_class(cls)
    return ormsgpack.Ext(kind.tag, _packb(kind.lower(value, lower), lower_big_int, OPTIONS))


def _careful(value: Any) -> Any:
    """As ``_lower``, and looks at text too: lone surrogates fail only inside msgpack."""
    cls = _type_of(value)
    if cls is str:
        return value if _is_utf8(value) else _lower_by_kind(value, _careful)
    if cls in _SCALARS:
        return value
    if cls is list:
        return [_careful(item) for item in value]
    if cls is dict and all(type(key) is str and _is_utf8(key) for key in value):
        return {key: _careful(item) for key, item in value.items()}
    return _lower_by_kind(value, _careful)


def _noting(value: Any) -> Any:
    """As ``_careful``, with a note in place of each part that cannot be stored."""
    cls = _type_of(value)
    if cls is list:
        return [_noting(item) for item in value]
    if cls is dict and all(type(key) is str and _is_utf8(key) for key in value):
        return {key: _noting(item) for key, item in value.items()}
    try:
        return _careful(value) if cls in _SCALARS else _lower_by_kind(value, _noting)
    except _UNSTORABLE:
        return _lower_by_kind(Opaque(f"{cls.__module__}.{cls.__qualname__}"), _noting)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encode_carefully(value: object, place: str, lower: Lower) -> bytes:
    try:
        return _packb(lower(value), lower_big_int, OPTIONS)
    except _FAILURES as error:
        raise refusal(value, place, error, _careful) from None


def _build(tag: int, data: bytes) -> Any:
    try:
        kind = _kinds_by_tag.get(tag)
        if kind is None:
            raise ValueNotReadable(f"with tag {tag}", "this version of Holdfast does not know it")
        return kind.build(_unpackb(data, ext_hook=_build))
    except BaseException as error:
        _raised.error = _raised.error or error
        raise
