"""Classes whose instances are made of named fields: dataclasses, attrs classes, named tuples and msgspec structs.

Building one sets its fields and calls neither ``__init__`` nor ``__post_init__``, a converter or a validator: the value
was whole when it was written. What a class needs is found out once and kept as its plan.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import isdatadescriptor
from typing import Any, Final, cast

import msgspec
from msgspec.structs import force_setattr

from limpet.codec.kinds import Lower, mapped
from limpet.codec.names import name_of
from limpet.codec.user_types.families import (
    Family,
    entry_of,
    lower_fields,
    make_family,
    others_of,
    plan_for_reading,
    require_known_slots,
    require_plain_layout,
    require_same_fields,
    slots_of,
)

Put = Callable[[Any, Any], None]

_CACHED_HASH: Final = "_attrs_cached_hash"
"""Where attrs keeps a hash. That of text differs from process to process, so it is left to be computed again."""

_new = cast("Callable[[Any], Any]", object.__new__)
_new_tuple = cast("Callable[[Any, Any], Any]", tuple.__new__)
_type_of = cast("Callable[[Any], type[Any]]", type)
_set = object.__setattr__


class Plan(msgspec.Struct, frozen=True):
    """What is known of a class."""

    name: str
    fields: tuple[str, ...]
    puts: tuple[tuple[str, Put], ...] = ()
    """How each field is set that does not simply stand in the ``__dict__`` of an instance."""
    slots: dict[str, Any] = {}
    """The slots besides the fields, whose content is carried where they have one."""
    make: Callable[..., Any] = object
    """Makes a struct of its fields."""


def fields_of(cls: type) -> tuple[str, ...]:
    """The names of the fields that a dataclass or an attrs class declares; none for any other class."""
    attributes = entry_of(cls, "__attrs_attrs__")
    if attributes is not None:
        return tuple(attribute.name for attribute in attributes)
    declared: dict[str, Any] = entry_of(cls, "__dataclass_fields__") or {}
    # The notes of class variables and of what only __init__ takes stand there as well.
    return tuple(name for name, field in declared.items() if field._field_type.name == "_FIELD")


def _fielded(tag: int, family: str, is_losing: Callable[[type, tuple[str, ...]], None]) -> Family:
    """The family of dataclasses, and that of attrs classes."""
    plans: dict[type, Plan] = {}

    def plan_of(cls: type) -> Plan:
        require_plain_layout(cls)
        fields = fields_of(cls)
        is_losing(cls, fields)
        slots = slots_of(cls)
        more = {name: slot for name, slot in slots.items() if name not in fields}
        plan = plans[cls] = Plan(name_of(cls), fields, _puts(cls, fields, slots), more)
        return plan

    def lower_instance(value: Any, lower: Lower) -> list[Any]:
        plan = plans.get(_type_of(value)) or plan_of(_type_of(value))
        attributes: dict[str, Any] | None = getattr(value, "__dict__", None)
        if attributes is not None and tuple(attributes) == plan.fields:
            return [plan.name, lower_fields(attributes, lower)]
        fields = {name: getattr(value, name) for name in plan.fields}
        return _with_others([plan.name, lower_fields(fields, lower)], _others(value, attributes or {}, plan), lower)

    def build_as(cls: type, parts: Any) -> Any:
        plan = plans.get(cls) or plan_for_reading(cls, family, plan_of, parts[0])
        fields: dict[str, Any] = mapped(parts[1])
        if tuple(fields) != plan.fields:
            require_same_fields(parts[0], fields, plan.fields)
        value = _new(cls)
        if plan.puts:
            _put_apart(value, plan, fields)
        else:
            _set(value, "__dict__", fields)
        if len(parts) > 2:
            _put_others(value, parts[2], plan)
        return value

    return make_family(tag, family, plan_of, lower_instance, build_as)


def _puts(cls: type, fields: tuple[str, ...], slots: dict[str, Any]) -> tuple[tuple[str, Put], ...]:
    puts: list[tuple[str, Put]] = []
    for name in fields:
        if name in slots:
            puts.append((name, slots[name].__set__))
        elif isdatadescriptor(entry_of(cls, name)):
            puts.append((name, _put_by(name)))
    return tuple(puts)


def _put_by(name: str) -> Put:
    """Sets a field through the descriptor that the class itself has declared for it."""
    return lambda value, item: _set(value, name, item)


def _put_apart(value: Any, plan: Plan, fields: dict[str, Any]) -> None:
    rest = dict(fields)
    for name, put in plan.puts:
        put(value, rest.pop(name))
    if rest:
        _dict_of(value).update(rest)


def _dict_of(value: Any) -> dict[str, Any]:
    return object.__getattribute__(value, "__dict__")


def _others(value: Any, attributes: dict[str, Any], plan: Plan) -> dict[str, Any]:
    others = others_of(attributes, plan.fields)
    for name, slot in plan.slots.items():
        with suppress(AttributeError):  # It is empty, as that of a cached property is until it is asked for.
            others[name] = slot.__get__(value)
    if _CACHED_HASH in others:
        others[_CACHED_HASH] = None
    return others


def _with_others(parts: list[Any], others: dict[str, Any], lower: Lower) -> list[Any]:
    return [*parts, lower(others)] if others else parts


def _put_others(value: Any, others: dict[str, Any], plan: Plan) -> None:
    rest = dict(mapped(others))
    for name in plan.slots.keys() & rest.keys():
        plan.slots[name].__set__(value, rest.pop(name))
    if rest:
        _dict_of(value).update(rest)


DATACLASS: Final = _fielded(18, "a dataclass", require_known_slots)
"""Parts: the name of the class, its fields by name, and what an instance carries besides, if anything."""

ATTRS_CLASS: Final = _fielded(23, "an attrs class", lambda _cls, _fields: None)
"""As a dataclass. attrs adds slots of its own, for cached properties; what they hold is carried."""


_tuples: Final[dict[type, Plan]] = {}
_structs: Final[dict[type, Plan]] = {}


def _tuple_plan(cls: type) -> Plan:
    plan = _tuples[cls] = Plan(name_of(cls), tuple(entry_of(cls, "_fields")))
    return plan


def _lower_tuple(value: Any, lower: Lower) -> list[Any]:
    plan = _tuples.get(_type_of(value)) or _tuple_plan(_type_of(value))
    fields = dict(zip(plan.fields, value, strict=True))
    return _with_others([plan.name, lower_fields(fields, lower)], others_of(getattr(value, "__dict__", {}), ()), lower)


def _build_tuple_as(cls: type[tuple[Any, ...]], parts: Any) -> Any:
    plan = _tuples.get(cls) or plan_for_reading(cls, "a named tuple", _tuple_plan, parts[0])
    fields: dict[str, Any] = mapped(parts[1])
    require_same_fields(parts[0], fields, plan.fields)
    value = _new_tuple(cls, [fields[name] for name in plan.fields])
    if len(parts) > 2 and parts[2]:
        _dict_of(value).update(mapped(parts[2]))
    return value


NAMED_TUPLE: Final = make_family(19, "a named tuple", _tuple_plan, _lower_tuple, _build_tuple_as)
"""Parts: as those of a dataclass."""


class _Silent(msgspec.Struct):
    """Stands before a struct among the bases of the class that its instances are made with, and keeps it silent."""

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    def __post_init__(self) -> None:
        pass


def _struct_plan(cls: type[Any]) -> Plan:
    make = cls if entry_of(cls, "__post_init__") is None else _silently(cls)
    plan = _structs[cls] = Plan(name_of(cls), cls.__struct_fields__, make=make)
    return plan


def _silently(cls: type[Any]) -> Callable[..., Any]:
    """Makes instances of a struct without calling its ``__post_init__``, for which msgspec has no way of its own."""
    config = cls.__struct_config__
    make_class: Any = type(cls)
    silent = make_class(cls.__name__, (_Silent, cls), {}, frozen=config.frozen, cache_hash=config.cache_hash)

    def make(**fields: Any) -> Any:
        value = silent(**fields)
        force_setattr(value, "__class__", cls)
        return value

    return make


def _lower_struct(value: Any, lower: Lower) -> list[Any]:
    plan = _structs.get(_type_of(value)) or _struct_plan(_type_of(value))
    fields = {name: getattr(value, name) for name in plan.fields}
    return _with_others([plan.name, lower_fields(fields, lower)], others_of(getattr(value, "__dict__", {}), ()), lower)


def _build_struct_as(cls: type, parts: Any) -> Any:
    plan = _structs.get(cls) or plan_for_reading(cls, "a msgspec struct", _struct_plan, parts[0])
    fields: dict[str, Any] = mapped(parts[1])
    require_same_fields(parts[0], fields, plan.fields)
    value = plan.make(**fields)
    if len(parts) > 2:
        _dict_of(value).update(mapped(parts[2]))
    return value


STRUCT: Final = make_family(22, "a msgspec struct", _struct_plan, _lower_struct, _build_struct_as)
"""Parts: as those of a dataclass."""
