"""Fields that are left out of what is written: those marked as secret, and those marked as not stored.

A note stands for each. That of a secret comes back as a note, that of a field which is not stored as the default that
its class declares. Notes are put in their places before anybody looks at the fields: a large secret must not become an
artifact on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from limpet.codec.kinds import Kind, NotStorable
from limpet.codec.marks import hints_of_class, is_marked
from limpet.codec.names import find_class, name_of
from limpet.codec.secrets import MissingSecret, secret_fields
from limpet.codec.user_types.families import family_of
from limpet.errors import ValueNotReadable

EXCEPTION: Final = 21
REGISTERED: Final = 36
"""The tags of what is stored by more than its fields: by its arguments, or as the program says."""

_NONE: Final = object()


class NotStored:
    """Marks a field that is not stored: ``cache: Annotated[dict, NotStored] = field(default_factory=dict)``.

    It comes back with its default, so it must have one.
    """


class LeftOut(msgspec.Struct, frozen=True):
    """Stands for a field that is not stored."""

    cls: type
    field: str


def _build(parts: Any) -> Any:
    name, field = parts
    cls = find_class(name)
    if family_of(cls) is None or not is_marked(hints_of_class(cls).get(field), NotStored):
        raise ValueNotReadable(name, f"its field {field!r} was not stored, and is not marked so any more")
    try:
        return _default(cls, field)()
    except NotStorable as error:
        raise ValueNotReadable(name, error.why) from error


LEFT_OUT: Final = Kind(39, lambda value, _lower: [name_of(value.cls), value.field], _build)
"""The kind of what stands for a field that is not stored."""


def leaving_out(kind: Kind, cls: type) -> Kind:
    """The kind of a class without its marked fields; the kind itself where none is marked."""
    stand_ins = stand_ins_of(cls)
    if not stand_ins:
        return kind

    def lower(value: Any, lower_part: Callable[[Any], Any]) -> Any:
        def leave_out(part: Any) -> Any:
            # A kind hands the fields of an instance down as one dict.
            if type(part) is not dict:
                return lower_part(part)
            fields = cast("dict[str, object]", part)
            return lower_part({name: stand_ins.get(name, item) for name, item in fields.items()})

        parts = kind.lower(value, leave_out)
        if kind.tag == EXCEPTION or (kind.tag == REGISTERED and type(parts[2]) is not int):
            raise NotStorable(cls, "has fields that are marked to be left out, and is stored by more than its fields")
        return parts

    return Kind(kind.tag, lower, kind.build)


def stand_ins_of(cls: type) -> Mapping[str, LeftOut | MissingSecret]:
    """What is written in place of each marked field. Raises NotStorable for one that could not come back."""
    stand_ins: dict[str, LeftOut | MissingSecret] = {}
    for name, hint in hints_of_class(cls).items():
        if is_marked(hint, NotStored):
            _default(cls, name)
            stand_ins[name] = LeftOut(cls, name)
    return stand_ins | {name: MissingSecret(f"{cls.__name__}.{name}") for name in secret_fields(cls)}


def _default(cls: Any, name: str) -> Callable[[], object]:
    """Gives the default of a field. Raises NotStorable where it has none."""
    fields = getattr(cls, "__dataclass_fields__", None)
    attributes = getattr(cls, "__attrs_attrs__", None)
    models = getattr(cls, "model_fields", None)
    if models is not None and name in models and not models[name].is_required():
        return lambda: models[name].get_default(call_default_factory=True)
    if fields is not None and name in fields:
        return _of(cls, name, fields[name].default, fields[name].default_factory)
    if attributes is not None:
        given = getattr(attributes, name).default
        return _of(cls, name, *((_NONE, given.factory) if hasattr(given, "factory") else (given, _NONE)))
    if issubclass(cls, msgspec.Struct):
        field = next(each for each in msgspec.structs.fields(cls) if each.encode_name == name or each.name == name)
        return _of(cls, name, field.default, field.default_factory)
    return _of(cls, name, getattr(cls, "_field_defaults", {}).get(name, _NONE), _NONE)


def _of(cls: type, name: str, value: object, factory: Any) -> Callable[[], object]:
    if callable(factory):
        return cast("Callable[[], object]", factory)
    if value is _NONE or value is msgspec.NODEFAULT or type(value).__name__ in ("_MISSING_TYPE", "_Nothing"):
        raise NotStorable(cls, f"has the field {name!r}, which is marked as not stored and has no default")
    return lambda: value
