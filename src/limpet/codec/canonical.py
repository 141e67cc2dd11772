"""Bytes by which two values are told to be the same, wherever they were made. They are never stored, and never read.

Dicts that are equal have the same bytes in whatever order they were filled. Where an exception was raised says nothing
of what it is, and what cannot be kept of a recorded one cannot be compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final, cast

import ormsgpack

from limpet.codec import values
from limpet.codec.kinds import Lower, Opaque
from limpet.codec.names import find_class
from limpet.codec.python_types.standard import OPTIONS, lower_big_int
from limpet.codec.user_types.exceptions import put_origin, without_tracebacks
from limpet.codec.user_types.families import is_derived
from limpet.codec.user_types.http_parts import STAND_INS
from limpet.codec.user_types.http_snapshots import is_of_exchange
from limpet.codec.user_types.not_kept import NotKept
from limpet.codec.user_types.stand_in_exceptions import RECORDED_AS, make_as, recorded_as
from limpet.errors import ValueNotReadable

_type_of = cast("Callable[[object], type[Any]]", type)

_UNORDERED: Final = (dict, Counter, defaultdict)
_NOT_KEPT: Final = frozenset({Opaque, NotKept, *STAND_INS})
"""What stands in a recorded exception for what was not kept, or not as it was."""

_MAP: Final = 126
_NOTHING: Final = ormsgpack.Ext(127, b"")


def canonical(value: object, offer: values.Offer) -> bytes:
    """The bytes of a value, with a reference in place of each part that ``offer`` gives one for."""

    def lower(part: Any) -> Any:
        cls = _type_of(part)
        if cls in _UNORDERED:
            return _lower_map(part, lower)
        if is_derived(cls, BaseException):
            return values.lower_leniently(_as_recorded(part), lower_in_exception)
        reference = None if cls is list else offer(part)
        return values.lower_leniently(part if reference is None else reference, lower)

    def lower_in_exception(part: Any) -> Any:
        cls = _type_of(part)
        if cls in _NOT_KEPT or is_of_exchange(cls):
            return _NOTHING
        try:
            if cls in _UNORDERED:
                return _lower_map(part, lower_in_exception)
            part = _as_recorded(part) if is_derived(cls, BaseException) else part
            return values.lower_carefully(part, lower_in_exception)
        except values.UNSTORABLE:
            return _NOTHING

    with without_tracebacks():
        return _packed(lower(value))


def _as_recorded(error: BaseException) -> BaseException:
    """An exception of the class that a stand-in stands for, where that is there; any other exception as it is."""
    named = recorded_as(error)
    try:
        cls: Any = None if named is None else find_class(named[0][0])
    except ValueNotReadable:
        return error
    made = None if cls is None else make_as(cls, error.args)
    if made is None:
        return error
    made.__dict__.update(error.__dict__)
    del made.__dict__[RECORDED_AS]
    put_origin(made, error.__cause__, error.__suppress_context__, None)
    return made


def _lower_map(value: dict[Any, Any], lower: Lower) -> ormsgpack.Ext:
    items = sorted([_packed(lower(key)), _packed(lower(item))] for key, item in value.items())
    return ormsgpack.Ext(_MAP, _packed([_type_of(value).__name__, items]))


def _packed(lowered: Any) -> bytes:
    return ormsgpack.packb(lowered, lower_big_int, OPTIONS)
