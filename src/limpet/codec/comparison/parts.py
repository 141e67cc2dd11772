"""The parts of class instances by name, as the codec keeps them: with stand-ins for what is secret or not stored.

Unlike the codec this takes classes that could not be stored as well, such as one that is declared in a function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import cache
from typing import Any, Final, cast

from limpet.codec.annotations import hints_of_class
from limpet.codec.kinds import NotStorable
from limpet.codec.left_out import EXTRA, StandIns, secrets_only, stand_ins_of
from limpet.codec.secret_annotations import hidden_fields
from limpet.codec.secret_search import secrets_of_error
from limpet.codec.secrets import MissingSecret, kind_of_secret, masked
from limpet.codec.user_types.exceptions import FAILED_CALL, RECORDED_TRACEBACK
from limpet.codec.user_types.families import MADE_FROM, REGISTERED_KINDS, entry_of, family_of, slots_of
from limpet.codec.user_types.structs import fields_of

type_of = cast("Callable[[object], type[Any]]", type)
"""The class of an object, typed as what it is: anything."""

_NOTES: Final = frozenset({RECORDED_TRACEBACK, FAILED_CALL, MADE_FROM, "_attrs_cached_hash"})
"""Attributes that say where something happened or how it was made, and are no part of a value."""

_MEMBERS_OF_ERRORS: Final = (
    (ImportError, ("name", "path")),
    ((AttributeError, NameError), ("name",)),
    (OSError, ("filename", "filename2")),
)


def is_secret(value: object) -> bool:
    """Whether a value is a secret by its type, or stands for one."""
    return _is_secret_class(type_of(value))


@cache
def _is_secret_class(cls: type) -> bool:
    return cls is MissingSecret or kind_of_secret(cls) is not None


@cache
def marked_names(cls: type) -> frozenset[str]:
    """The fields of a class that have secrets."""
    try:
        return frozenset(hidden_fields(cls))
    except NotStorable:
        return frozenset(hints_of_class(cls))  # It cannot be told which.


@cache
def _family(cls: type) -> str | None:
    return family_of(cls)


def has_parts(cls: type) -> bool:
    """Whether instances are looked into by their fields. False where the program has its own way to store them."""
    family = _family(cls)
    if family is None or family == "an enum":
        return False
    registered = REGISTERED_KINDS.get(cls)
    return registered is None or registered.family is not None


def is_enum(cls: type) -> bool:
    """Whether a class is an enum."""
    return _family(cls) == "an enum"


def declared_parts(value: Any) -> dict[str, object]:
    """The fields that a class declares and the extra ones of a model; of an exception its arguments."""
    cls = type_of(value)
    if isinstance(value, BaseException):
        # The arguments of a class with secret fields are often just these.
        args: object = MissingSecret(f"{cls.__name__}.args") if marked_names(cls) else list(value.args)
        return _without_secrets(value, {"args": args, **_with_stand_ins(cls, _read(value, fields_of(cls)))})
    if _family(cls) == "a pydantic model":
        extra = cast("dict[str, object]", value.__pydantic_extra__ or {})
        declared: dict[str, object] = {
            name: value.__dict__[name] for name in cls.model_fields if name in value.__dict__
        }
        if EXTRA in marked_names(cls):
            hidden: dict[str, object] = dict.fromkeys(extra, MissingSecret(f"{cls.__name__}.{EXTRA}"))
            extra = hidden
        return _with_stand_ins(cls, declared | extra)
    if _family(cls) == "a named tuple":
        return _with_stand_ins(cls, dict(zip(entry_of(cls, "_fields"), tuple(value), strict=True)))
    names = cls.__struct_fields__ if _family(cls) == "a msgspec struct" else fields_of(cls)
    return _with_stand_ins(cls, _read(value, names))


def all_parts(value: Any) -> dict[str, object]:
    """The declared parts and all else that an instance carries, such as a cached property or the cause of an error."""
    cls = type_of(value)
    parts = declared_parts(value)
    if _family(cls) == "a pydantic model":
        parts["model_fields_set"] = frozenset[str](value.__pydantic_fields_set__)
    others: dict[str, object] = getattr(value, "__dict__", {}) | _read(value, slots_of(cls))
    others = {name: item for name, item in others.items() if name not in parts and name not in _NOTES}
    others = _with_stand_ins(cls, {name: item for name, item in others.items() if not _is_pydantic(cls, name)})
    if isinstance(value, BaseException):
        return parts | _without_secrets(value, _parts_of_error(value) | others)
    return parts | others


def _parts_of_error(error: BaseException) -> dict[str, object]:
    """What exceptions carry besides their arguments and their ``__dict__``."""
    parts: dict[str, object] = {"__cause__": error.__cause__, "__suppress_context__": error.__suppress_context__}
    for base, names in _MEMBERS_OF_ERRORS:
        parts |= _read(error, names) if isinstance(error, base) else {}
    if not error.args:
        # Such as that of pydantic, which has what it says out of reach.
        parts["__str__()"] = str(error)
    return parts


def _without_secrets(error: BaseException, parts: dict[str, object]) -> dict[str, object]:
    secrets = secrets_of_error(error)
    return {name: _masked(item, secrets) for name, item in parts.items()} if secrets else parts


def _masked(part: object, secrets: Collection[str]) -> object:
    if type(part) is list:
        return [_masked(each, secrets) for each in cast("list[object]", part)]
    if type(part) is tuple:
        return tuple(_masked(each, secrets) for each in cast("tuple[object, ...]", part))
    if type(part) is dict:
        pairs = cast("dict[object, object]", part).items()
        return {masked(key, secrets): _masked(item, secrets) for key, item in pairs}
    return masked(part, secrets)


def _is_pydantic(cls: type, name: str) -> bool:
    """Whether a slot is one in which pydantic keeps the state of a model, private attributes among it."""
    return name.startswith("__pydantic_") and _family(cls) == "a pydantic model"


def _read(value: Any, names: Iterable[str]) -> dict[str, object]:
    """Attributes by name, without those that have no value yet."""
    found: dict[str, object] = {}
    for name in names:
        with suppress(AttributeError):
            found[name] = getattr(value, name)
    return found


def _with_stand_ins(cls: type, parts: dict[str, object]) -> dict[str, object]:
    stand_ins = _stand_ins(cls)
    return stand_ins.put_into(parts) if stand_ins else parts


@cache
def _stand_ins(cls: type) -> StandIns:
    try:
        return stand_ins_of(cls)
    except NotStorable:
        # A field that is not stored has no default. What is secret stays so.
        return secrets_only(cls)
