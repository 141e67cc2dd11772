"""Values to bytes and back: equal and of the same type, or refused with the place named. No pickle.

Plain values (None, bool, int, float, str, bytes, list, dict with text keys) are msgpack as any tool reads it. Every
other type is a msgpack extension whose tag stands in the folders beside this one. First a value is *lowered* to
what msgpack has, which leaves plain parts as they are; then it is packed. Where that fails, a careful walk does the
rare cases, or names the place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from threading import local
from types import NoneType
from typing import Any, Final, cast

import ormsgpack

from limpet.codec.kinds import Kind, Lower, NotStorable, Opaque
from limpet.codec.left_out import LEFT_OUT, LeftOut, leaving_out
from limpet.codec.library_types.optional import OPTIONAL_KINDS, kind_of
from limpet.codec.names import find_entry, name_of
from limpet.codec.places import refusal
from limpet.codec.python_types.standard import OPTIONS, STANDARD_KINDS, lower_big_int
from limpet.codec.references import REFERENCE
from limpet.codec.secrets import MARK as SECRET_MARK
from limpet.codec.secrets import MISSING, MissingSecret, kind_of_secret, masked, scrubbed
from limpet.codec.user_types.classes import FAMILIES
from limpet.codec.user_types.exceptions import EXCEPTION, lower_exception
from limpet.codec.user_types.families import LEAVE_SCALARS, REGISTERED_KINDS, is_derived
from limpet.codec.user_types.http_parts import HTTP, STAND_INS
from limpet.codec.user_types.http_snapshots import snapshot_of
from limpet.codec.user_types.not_kept import NOT_KEPT, NotKept
from limpet.codec.user_types.raised import RAISED, lower_briefly, lower_raised
from limpet.codec.user_types.registered import REGISTERED, keep_current, registering
from limpet.errors import LimpetError, SecretNeeded, ValueNotReadable
from limpet.model.artifacts import ArtifactReference

Offer = Callable[[Any], ArtifactReference | None]
"""Asked for every part of a value that is not a list or a dict: a reference if the part is to be an artifact."""

_DEEPEST: Final = 20
"""So many exceptions deep, through causes and groups, what failed an event is recorded."""

_SCALARS: Final = frozenset({NoneType, bool, int, float, str, bytes})
_SHORT: Final = frozenset({NoneType, bool, int, float})
_PLAIN: Final = _SCALARS | {list, dict}
_TEXT: Final = frozenset({str})
_packb = ormsgpack.packb
_unpackb = ormsgpack.unpackb
_Ext = ormsgpack.Ext
_type_of = cast("Callable[[Any], Any]", type)

# The kind of every type seen so far; a class is asked for its kind once.
_kinds: Final[dict[type, Kind]] = {
    **STANDARD_KINDS,
    ArtifactReference: REFERENCE,
    MissingSecret: MISSING,
    LeftOut: LEFT_OUT,
    NotKept: NOT_KEPT,
    **dict.fromkeys(STAND_INS, HTTP),
}
_kinds_by_tag: Final = {
    kind.tag: kind for kind in (*_kinds.values(), *FAMILIES.values(), *OPTIONAL_KINDS, REGISTERED, RAISED)
}
keep_current(_kinds)

NumberOf = Callable[[BaseException], int]

UNSTORABLE = (TypeError, ValueError, AttributeError, NotStorable)
"""What a value raises on its way down that cannot be stored."""

_FAILURES = (*UNSTORABLE, RecursionError)


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


def try_encode(value: object) -> bytes | None:
    """The bytes of a value by the short way; None where it needs a longer one, or cannot be stored."""
    try:
        return _packb(value if _type_of(value) in _SCALARS else _lower(value), lower_big_int, OPTIONS)
    except _FAILURES:
        return None


def encode_leniently(value: object, place: str = "value") -> bytes:
    """The bytes of a value in which parts that cannot be stored are replaced by a note of their type (Opaque)."""
    try:
        return _packb(_lower(value), lower_big_int, OPTIONS)
    except _FAILURES:
        return _encode_carefully(value, place, _noting)


def encode_failure(
    error: BaseException, message: str, secrets: Collection[str] = (), number_of: NumberOf = lambda _: 0
) -> bytes:
    """The bytes of an exception that failed an event, with a mask in place of every secret in it. Never refuses.

    ``message`` is what the exception says, without secrets. ``number_of`` gives the number of the record that a cause
    stands in already: then it is named by that. 0: it does not.
    """
    for says_message in (False, True):
        try:
            parts = _FailureParts(error, message, secrets, says_message, number_of)
            data = _packb(parts.lower(error), lower_big_int, OPTIONS)
            if says_message or _says(data, message):
                return data
        except (*_FAILURES, LimpetError):
            continue
    return _packb(_Ext(RAISED.tag, _packb(lower_briefly(error, message), lower_big_int, OPTIONS)))


def _says(data: bytes, message: str) -> bool:
    """Whether an exception that was written says the same when it is read."""
    try:
        read = decode(data)
        return str(read) == message or find_entry("pydantic_core:ValidationError") is _type_of(read)
    except Exception:
        return False


class _FailureParts:
    """The way down for an exception that failed an event, and for all that it refers to."""

    def __init__(
        self,
        error: BaseException,
        message: str,
        secrets: Collection[str],
        says_message: bool,
        number_of: NumberOf,
    ) -> None:
        self.error = error
        self.message = message
        self.secrets = secrets
        self.says_message = says_message
        self.number_of = number_of
        self.above: list[BaseException] = []
        """The exceptions that enclose what is being lowered: one that refers to itself is cut off there."""

    def lower(self, part: Any) -> Any:
        cls = _type_of(part)
        if not is_derived(cls, BaseException):
            kept = snapshot_of(part)
            return lower_leniently(masked(part if kept is None else kept, self.secrets), self.lower)
        if len(self.above) >= _DEEPEST or any(part is each for each in self.above):
            return _lower_by_kind(_opaque(cls), self.lower)
        self.above.append(part)
        try:
            return self._lower_exception(part, cls)
        finally:
            self.above.pop()

    def _lower_cause(self, part: Any) -> Any:
        number = 0 if part is None else self.number_of(part)
        return number or self.lower(part)

    def _lower_exception(self, part: BaseException, cls: type) -> Any:
        is_top = part is self.error
        if cls in REGISTERED_KINDS:
            with suppress(NotStorable):
                return _lower_by_kind(part, self.lower)
        elif cls.__module__ == "builtins" and not self.says_message:
            with suppress(NotStorable):
                parts = lower_exception(part, self.lower, not is_top, self._lower_cause)
                return _Ext(EXCEPTION.tag, _packb(parts, lower_big_int, OPTIONS))
        message = self.message if is_top else scrubbed(_told(part), self.secrets)
        parts = lower_raised(
            part,
            self.lower,
            message,
            with_traceback=not is_top,
            says_message=is_top and self.says_message,
            lower_cause=self._lower_cause,
        )
        return _Ext(RAISED.tag, _packb(parts, lower_big_int, OPTIONS))


def _told(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return ""


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


def encode_offering(value: object, place: str, offer: Offer, *, is_lenient: bool) -> bytes:
    """As ``encode`` or ``encode_leniently``, with a reference in place of each part that ``offer`` gives one for."""

    def lower(part: Any) -> Any:
        cls = _type_of(part)
        if cls is list or (cls is dict and _is_text_keyed(part)) or cls in _SHORT:
            return walk(part, lower)
        reference = offer(part)
        return walk(part, lower) if reference is None else _lower_by_kind(reference, lower)

    walk = lower_leniently if is_lenient else lower_carefully
    try:
        return _packb(lower(value), lower_big_int, OPTIONS)
    except _FAILURES as error:
        raise refusal(value, place, error, lower, lambda part: offer(part) is not None) from None


def without_secrets(value: object) -> Any:
    """The value as it may be shown: a copy in which notes stand for secrets, or itself where it has none."""
    data = try_encode(value)
    return value if data is None or SECRET_MARK not in data else decode(data)


def decode(data: bytes) -> Any:
    """A fresh value from its bytes. Raises ValueNotReadable; runs nothing that the bytes name."""
    try:
        return _unpackb(data, ext_hook=_build)
    except (ValueError, TypeError, RecursionError) as error:
        cause, _raised.error = _raised.error or error, None
    if not isinstance(cause, Exception) or (isinstance(cause, LimpetError) and not isinstance(cause, SecretNeeded)):
        raise cause
    if isinstance(cause, MemoryError):
        raise ValueNotReadable("unknown", "there is not enough memory for it") from cause
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
        return {key: item if type(item) in _SCALARS else _lower(item) for key, item in value.items()}
    known = _kinds.get(kind)
    if known is None:
        return _lower_by_kind(value, _lower)
    return _Ext(known.tag, _packb(known.lower(value, _lower), lower_big_int, OPTIONS))


LEAVE_SCALARS.add(_lower)


def _is_text_keyed(value: dict[Any, Any]) -> bool:
    return _TEXT.issuperset(map(type, value))


def _lower_by_kind(value: Any, lower: Lower) -> ormsgpack.Ext:
    cls = _type_of(value)
    kind = _kinds.get(cls)
    if kind is None:
        with registering:
            kind = _kinds[cls] = _kind_of(cls)
    return _Ext(kind.tag, _packb(kind.lower(value, lower), lower_big_int, OPTIONS))


def _kind_of(cls: type) -> Kind:
    kind = kind_of_secret(cls)
    return leaving_out(kind_of(cls), cls) if kind is None else kind


def _careful(value: Any) -> Any:
    """As ``_lower``, and looks at text too: lone surrogates fail only inside msgpack."""
    return lower_carefully(value, _careful)


def lower_carefully(value: Any, lower: Lower) -> Any:
    """A value, lowered with its parts by ``lower``. Raises one of ``UNSTORABLE`` where it cannot be stored."""
    cls = _type_of(value)
    if cls is str:
        return value if _is_utf8(value) else _lower_by_kind(value, lower)
    if cls in _SCALARS:
        return value
    if cls is list:
        return [lower(item) for item in value]
    if cls is dict and all(type(key) is str and _is_utf8(key) for key in value):
        return {key: lower(item) for key, item in value.items()}
    return _lower_by_kind(value, lower)


def _noting(value: Any) -> Any:
    """As ``_careful``, with a note in place of each part that cannot be stored."""
    return lower_leniently(value, _noting)


def lower_leniently(value: Any, lower: Lower) -> Any:
    """As ``lower_carefully``, with a note of its type in place of a value that cannot be stored."""
    try:
        return lower_carefully(value, lower)
    except UNSTORABLE:
        return _lower_by_kind(_opaque(_type_of(value)), lower)


def _opaque(cls: type) -> Opaque:
    # A class of the running script has the name that it has where the script is imported, to resume its run.
    return Opaque(name_of(cls).replace(":", ".", 1))


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
            raise ValueNotReadable(f"with tag {tag}", "this version of Limpet does not know it")
        parts = _unpackb(data, ext_hook=_build)
        if _type_of(parts) not in _PLAIN:
            raise TypeError("its parts are none that are written")
        return kind.build(parts)
    except BaseException as error:
        _raised.error = _raised.error or error
        raise
