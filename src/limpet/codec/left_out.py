"""Fields that are left out of what is written: those marked as secret, and those marked as not stored.

A note stands for each. That of a secret comes back as a note, that of a field which is not stored as the default that
its class declares. Notes are put in their places before anybody looks at the fields: a large secret must not become an
artifact on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from limpet.codec.annotations import NotUnderstood
from limpet.codec.kinds import Kind, NotStorable
from limpet.codec.marks import marked_fields
from limpet.codec.names import find_class, name_of
from limpet.codec.secret_annotations import Hiding, hidden_fields, hiding_of_type
from limpet.codec.secrets import MissingSecret
from limpet.codec.user_types.families import MADE_FROM, family_of
from limpet.errors import ValueNotReadable

EXCEPTION: Final = 21
REGISTERED: Final = 36
"""The tags of what is stored by more than its fields: by its arguments, or as the program says."""

EXTRA: Final = "__pydantic_extra__"
"""The annotation for all the extra fields of a model of pydantic."""

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
    if family_of(cls) is None or field not in _not_stored(cls):
        raise ValueNotReadable(name, f"its field {field!r} was not stored, and is not marked so any more")
    try:
        return _default(cls, field)()
    except NotStorable as error:
        raise ValueNotReadable(name, error.why) from error


LEFT_OUT: Final = Kind(39, lambda value, _lower: [name_of(value.cls), value.field], _build)
"""The kind of what stands for a field that is not stored."""


class StandIns(msgspec.Struct, frozen=True):
    """What is written in place of the marked fields of a class."""

    notes: Mapping[str, LeftOut | MissingSecret]
    hidden_inside: Mapping[str, tuple[Hiding, str]]
    """Of fields in which only a part is secret: what is hidden of them, and what they are called."""
    hides_all: str = ""
    """The name of a class of which it cannot be told what is secret."""

    def __bool__(self) -> bool:
        return bool(self.notes or self.hidden_inside or self.hides_all)

    def put_into(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Fields, with what stands for those that are marked."""
        if self.hides_all:
            return {name: MissingSecret(f"{self.hides_all}.{name}") for name in fields}
        put = {name: self.notes.get(name, item) for name, item in fields.items()}
        for name in self.hidden_inside.keys() & put.keys():
            hiding, called = self.hidden_inside[name]
            put[name] = hiding.hide(put[name], called)
        return put


def leaving_out(kind: Kind, cls: type) -> Kind:
    """The kind of a class without its marked fields; the kind itself where none is marked."""
    stand_ins = stand_ins_of(cls)
    if not stand_ins:
        return _by_parameters(kind, cls) if getattr(cls, "__parameters__", ()) else kind

    def lower(value: Any, lower_part: Callable[[Any], Any]) -> Any:
        def leave_out(part: Any) -> Any:
            # A kind hands the fields of an instance down as one dict.
            if type(part) is not dict:
                return lower_part(part)
            note = stand_ins.notes.get(EXTRA)
            if note is not None and part is value.__pydantic_extra__:
                return lower_part(dict.fromkeys(cast("dict[str, object]", part), note))
            return lower_part(stand_ins.put_into(cast("dict[str, object]", part)))

        parts = kind.lower(value, leave_out)
        if kind.tag == EXCEPTION or (kind.tag == REGISTERED and type(parts[2]) is not int):
            raise NotStorable(cls, "has fields that are marked to be left out, and is stored by more than its fields")
        return parts

    return Kind(kind.tag, lower, kind.build)


def _by_parameters(kind: Kind, cls: type) -> Kind:
    """The kind of a generic class, an instance of which may have been made with a secret as its parameter."""

    def lower(value: Any, lower_part: Callable[[Any], Any]) -> Any:
        made_from = getattr(value, MADE_FROM, None)
        if made_from is not None and _is_secret(made_from):
            raise NotStorable(cls, f"was made as {made_from}; declare a class of its own that derives from that")
        return kind.lower(value, lower_part)

    return Kind(kind.tag, lower, kind.build)


def _is_secret(wanted: object) -> bool:
    try:
        return bool(hiding_of_type(wanted))
    except NotUnderstood:
        return True


def stand_ins_of(cls: type) -> StandIns:
    """What is written in place of each marked field. Raises NotStorable for one that could not come back."""
    notes: dict[str, LeftOut | MissingSecret] = {}
    for name in _not_stored(cls):
        _default(cls, name)
        notes[name] = LeftOut(cls, name)
    return _stand_ins(cls, hidden_fields(cls), notes)


def secrets_only(cls: type) -> StandIns:
    """What is written in place of the secrets of a class, whatever else is marked."""
    try:
        return _stand_ins(cls, hidden_fields(cls), {})
    except NotStorable:
        return StandIns({}, {}, cls.__name__)


def _stand_ins(cls: type, hidden: Mapping[str, Hiding], notes: Mapping[str, LeftOut | MissingSecret]) -> StandIns:
    called = {name: f"{cls.__name__}.{name}" for name in hidden}
    whole = {name: MissingSecret(called[name]) for name, hiding in hidden.items() if hiding.is_whole}
    return StandIns(
        {**notes, **whole}, {name: (hiding, called[name]) for name, hiding in hidden.items() if name not in whole}
    )


def _not_stored(cls: type) -> frozenset[str]:
    try:
        return marked_fields(cls, NotStored)
    except NotUnderstood as error:
        raise NotStorable(
            cls, f"has a field annotated as {error.text!r}, and {error.name!r} cannot be found"
        ) from error


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
