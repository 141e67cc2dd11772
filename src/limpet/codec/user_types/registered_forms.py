"""What is recorded of an instance of a registered type, and how that becomes a value of the version registered now.

parts = [name, version, form, stored]
form  = the tag of a family: ``stored`` are the parts of an instance of it
        None:                ``stored`` is what the type's own ``encode`` gave
        "pickle":            ``stored`` are bytes for pickle, read only where the type is registered with it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from limpet.codec.kinds import Lower, NotStorable, listed, mapped
from limpet.codec.user_types.classes import FAMILIES
from limpet.codec.user_types.enums import ENUM
from limpet.codec.user_types.exceptions import EXCEPTION
from limpet.codec.user_types.families import Family
from limpet.codec.user_types.models import MODEL, with_fields
from limpet.errors import ValueNotReadable

TAG: Final = 36
PICKLE: Final = "pickle"
_FAMILIES: Final = {family.tag: family for family in FAMILIES.values()}


class Registered(msgspec.Struct, frozen=True):
    """How a type is registered."""

    cls: type[Any]
    name: str
    aliases: tuple[str, ...]
    version: int
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None
    upgrade: Callable[[Any, int], Any] | None
    adapter: str | None
    family: Family | None
    """By which instances are written; None where there is an ``encode`` or an adapter."""


def lowering(entry: Registered) -> Callable[[Any, Lower], list[Any]]:
    """The way from an instance of a registered type to its parts."""

    def lower_registered(value: Any, lower: Lower) -> list[Any]:
        if entry.family is not None:
            return [entry.name, entry.version, entry.family.tag, entry.family.lower(value, lower)]
        if entry.encode is None:
            return [entry.name, entry.version, PICKLE, _encoded(entry, _pickle, value, "with pickle")]
        return [entry.name, entry.version, None, lower(_encoded(entry, entry.encode, value, "by its `encode`"))]

    return lower_registered


def _encoded(entry: Registered, encode: Callable[[Any], Any], value: Any, way: str) -> Any:
    try:
        return encode(value)
    except Exception as error:
        raise NotStorable(entry.cls, f"could not be encoded {way} ({_shown(error)})") from error


def read(entry: Registered, version: Any, form: Any, stored: Any) -> Any:
    """The value of which that was recorded. Raises ValueNotReadable."""
    if type(version) is not int or version < 1:
        raise ValueNotReadable(entry.name, f"its bytes are damaged (version {version!r})")
    if version > entry.version:
        raise ValueNotReadable(
            entry.name,
            f"it was recorded with version {version}, and this program has registered version {entry.version}",
        )
    if form is not None and form != PICKLE and form not in _FAMILIES:
        raise ValueNotReadable(entry.name, f"its bytes are damaged (form {form!r})")
    if version < entry.version:
        return _read_older(entry, version, form, stored)
    if form == PICKLE:
        return _unpickled(entry, stored)
    return _decoded(entry, stored) if form is None else _built(entry, _FAMILIES[form], stored)


def _read_older(entry: Registered, version: int, form: Any, stored: Any) -> Any:
    family = _FAMILIES.get(form) if isinstance(form, int) else None
    if entry.upgrade is None:
        if family is not None:
            _built(entry, family, stored)  # Names both shapes, where the class has another one now.
        raise ValueNotReadable(
            entry.name,
            f"it was recorded with version {version}, and version {entry.version} is registered without an `upgrade`",
        )
    upgraded = _called(entry, "upgrade", entry.upgrade, _content(entry, form, stored), version)
    if entry.adapter is not None:
        return _checked(entry, upgraded, "upgrade")
    if entry.family is None:
        return _decoded(entry, upgraded)
    return _built(entry, entry.family, _with_content(entry, family, stored, upgraded))


def _content(entry: Registered, form: Any, stored: Any) -> Any:
    """What an ``upgrade`` is given: of an instance of a family its fields, where it has any."""
    if form is None:
        return stored
    if form == PICKLE:
        return _unpickled(entry, stored)
    if form == ENUM.tag:
        return stored[2] if stored[1] is None else stored[1]
    if form == EXCEPTION.tag:
        return {"args": stored[1], **mapped(stored[2])}
    return dict(mapped(stored[1]))


def _with_content(entry: Registered, recorded: Family | None, parts: Any, content: Any) -> list[Any]:
    """The parts of an instance with that content; what else was recorded of it is kept where the family still is."""
    family = cast(Family, entry.family)
    rest: list[Any] = list(parts[2:]) if recorded is family else []
    if family is ENUM:
        return [entry.name, content, None] if isinstance(content, str) else [entry.name, None, content]
    if not isinstance(content, dict):
        raise ValueNotReadable(entry.name, f"its `upgrade` gave {_article(content)}, not the dict of its fields")
    fields = cast("dict[str, Any]", content)
    if family is EXCEPTION:
        args = fields.pop("args", [])
        return [entry.name, args, fields, *(rest[1:] or [{}])]
    if family is MODEL:
        rest = with_fields(rest, fields)
    return [entry.name, fields, *rest]


def _built(entry: Registered, family: Family, parts: Any) -> Any:
    return family.build_as(entry.cls, [entry.name, *listed(parts)[1:]])


def _decoded(entry: Registered, stored: Any) -> Any:
    if entry.decode is None:
        raise ValueNotReadable(
            entry.name,
            "it was recorded by an `encode`, and is registered without a `decode`; raise its `version` and give an "
            "`upgrade`",
        )
    return _checked(entry, _called(entry, "decode", entry.decode, stored), "decode")


def _unpickled(entry: Registered, stored: Any) -> Any:
    if entry.adapter != PICKLE:
        raise ValueNotReadable(
            entry.name, 'it was recorded with pickle, and is not registered with `adapter="pickle"` in this program'
        )
    return _checked(entry, _called(entry, "adapter", _unpickle, stored), "adapter")


# Only a program that has asked for pickle loads it.


def _pickle(value: object) -> bytes:
    import pickle

    return pickle.dumps(value)


def _unpickle(stored: bytes) -> Any:
    import pickle

    return pickle.loads(stored)


def _called(entry: Registered, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        raise ValueNotReadable(entry.name, f"its `{what}` raised {_shown(error)}") from error


def _checked(entry: Registered, value: Any, what: str) -> Any:
    if type(value) is not entry.cls:
        raise ValueNotReadable(entry.name, f"its `{what}` gave {_article(value)}, not a {entry.cls.__qualname__}")
    return value


def _article(value: object) -> str:
    return f"a value of type {type(value).__qualname__}"


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
