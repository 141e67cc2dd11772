"""The kinds of the user's own classes: those that the program has registered, and families that need no registering.

Building an instance sets its fields and calls neither ``__init__`` nor a validator: the value was whole when it was
written. A class whose instances carry something that would not be written is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from limpet.codec.kinds import Kind, NotStorable
from limpet.codec.user_types.enums import ENUM
from limpet.codec.user_types.exceptions import EXCEPTION
from limpet.codec.user_types.families import (
    MADE_FROM,
    REGISTERED_KINDS,
    Family,
    RegisteredKind,
    family_of,
    require_findable,
)
from limpet.codec.user_types.models import MODEL, is_findable
from limpet.codec.user_types.structs import ATTRS_CLASS, DATACLASS, NAMED_TUPLE, STRUCT, fields_of

__all__ = ["FAMILIES", "MADE_FROM", "family_of", "kind_of_class", "parts_of"]

FAMILIES: Final[dict[str, Family]] = {
    family.name: family for family in (ENUM, DATACLASS, NAMED_TUPLE, MODEL, EXCEPTION, STRUCT, ATTRS_CLASS)
}


def kind_of_class(cls: type) -> Kind:
    """The kind of a user's class. Raises NotStorable where it has none, or could not be found again by its name."""
    registered = REGISTERED_KINDS.get(cls)
    if registered is not None:
        return registered
    family = family_of(cls)
    if family is None:
        raise NotStorable(cls)
    if family != MODEL.name or not is_findable(cls):
        require_findable(cls)
    FAMILIES[family].plan(cls)
    return FAMILIES[family]


def parts_of(value: Any, place: str) -> Iterator[tuple[object, str]]:
    """The parts of an instance and their places. Raises NotStorable where its class has no kind."""
    cls = cast("type[Any]", type(value))
    kind = kind_of_class(cls)
    family = kind.family if isinstance(kind, RegisteredKind) else kind
    if family is None or family is ENUM:
        return
    if isinstance(value, BaseException):
        yield from ((item, f"{place}.args[{number}]") for number, item in enumerate(value.args))
        if value.__cause__ is not None:
            yield value.__cause__, f"{place}.__cause__"
    fields = dict.fromkeys((*getattr(value, "__struct_fields__", ()), *fields_of(cls)))
    attributes = {name: getattr(value, name) for name in fields if hasattr(value, name)}
    attributes |= {name: getattr(value, name) for name in getattr(value, "_fields", ()) if family is NAMED_TUPLE}
    attributes |= getattr(value, "__dict__", {}) | (getattr(value, "__pydantic_extra__", None) or {})
    yield from ((item, f"{place}.{name}") for name, item in attributes.items() if name != MADE_FROM)
