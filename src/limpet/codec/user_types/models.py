"""Pydantic models: by their fields, without validating them again. Private attributes are no part of a model's value.

A generic model is recorded as the class it was declared as and a description of its parameters, so that it is found in
a process that has not made that class yet. pydantic is never imported here: there are no models where it is not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from limpet.codec.kinds import Lower, NotStorable, listed, mapped
from limpet.codec.names import find_class, name_of
from limpet.codec.user_types import parameters
from limpet.codec.user_types.families import (
    LEAVE_SCALARS,
    READ_AS_OLD,
    SCALARS,
    Family,
    entry_of,
    lower_fields,
    others_of,
    plan_for_reading,
    require_known_slots,
    require_plain_layout,
    require_same_fields,
)
from limpet.errors import ValueNotReadable

_TAG: Final = 20
_FAMILY: Final = "a pydantic model"
_SLOTS: Final = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_HOOK: Final = "__class_getitem__"
_new = cast("Callable[[Any], Any]", object.__new__)
_type_of = cast("Callable[[Any], type[Any]]", type)


_Put = Callable[[Any, Any], None]


class _Plan(msgspec.Struct, frozen=True):
    name: str
    fields: tuple[str, ...]
    names: set[str]
    parameters: list[Any] | None
    private: dict[str, Any]
    """The private attributes of the class, by name."""
    put_dict: _Put
    put_given: _Put
    put_extra: _Put | None
    """None for a root model: it has one value for all its instances there, as for what is private."""
    put_private: _Put


_plans: Final[dict[type, _Plan]] = {}

# What most models need, ready to be taken apart: those that are not generic and have nothing private.
_quick_down: Final[dict[type, tuple[str, tuple[str, ...], set[str]]]] = {}
_quick_up: Final[dict[type, tuple[tuple[str, ...], set[str], _Put, _Put, _Put, _Put]]] = {}


def _plan(cls: type[Any]) -> _Plan:
    require_plain_layout(cls)
    require_known_slots(cls, _SLOTS)
    described = _describe(cls)
    plan = _plans[cls] = _Plan(
        name_of(cls) if described is None else described[0],
        tuple(cls.model_fields),
        set(cls.model_fields),
        None if described is None else described[1],
        dict(cls.__private_attributes__),
        *(cast(Any, getattr(entry_of(cls, name), "__set__", None)) for name in ("__dict__", *_SLOTS)),
    )
    if described is None and not plan.private and plan.put_extra is not None:
        _quick_down[cls] = (plan.name, plan.fields, plan.names)
        _quick_up[cls] = (plan.fields, plan.names, plan.put_dict, plan.put_given, plan.put_extra, plan.put_private)
    return plan


def _describe(cls: type[Any], depth: int = 0) -> list[Any] | None:
    """The name and the parameters of a generic model; None for any other class."""
    metadata: dict[str, Any] = entry_of(cls, "__pydantic_generic_metadata__") or {}
    origin = metadata.get("origin")
    if origin is None:
        return None
    parts = [parameters.describe(each, _describe, depth) for each in metadata["args"]]
    return [name_of(origin), parts]


def _parametrised(parts: Any, depth: int = 0) -> type:
    name, described = parts
    origin: Any = find_class(name)
    pydantic: Any = sys.modules.get("pydantic")
    metadata: dict[str, Any] = entry_of(origin, "__pydantic_generic_metadata__") or {}
    if not metadata.get("parameters") or entry_of(origin, _HOOK) is not vars(pydantic.BaseModel)[_HOOK]:
        raise ValueNotReadable(
            name, "it was recorded as a generic pydantic model, and the class of that name is none now"
        )
    arguments = tuple(parameters.build(each, _parametrised, depth) for each in listed(described))
    try:
        return origin[arguments]
    except Exception as error:
        raise ValueNotReadable(name, f"it does not take its recorded parameters any more ({error})") from error


def is_findable(cls: type) -> bool:
    """Whether a generic model with parameters would be found again as that very class. False for any other class."""
    try:
        described = _describe(cls)
        return described is not None and _parametrised(described) is cls
    except ValueNotReadable as error:
        raise NotStorable(cls, f"cannot be found again by its parameters ({error.why})") from error


def _lower(value: Any, lower: Lower) -> list[Any]:
    quick = _quick_down.get(_type_of(value))
    if quick is None:
        return _lower_with_care(value, lower)
    name, order, names = quick
    attributes: dict[str, Any] = value.__dict__
    if tuple(attributes) != order or value.__pydantic_extra__ is not None:
        return _lower_with_care(value, lower)
    fields: dict[str, Any] = attributes.copy()
    if lower in LEAVE_SCALARS:
        for key, item in attributes.items():
            if type(item) not in SCALARS:
                fields[key] = lower(item)
    else:
        fields = lower(fields)
    given = value.__pydantic_fields_set__
    return [name, fields] if given == names else [name, fields, None, sorted(given)]


def _lower_with_care(value: Any, lower: Lower) -> list[Any]:
    plan = _plans.get(_type_of(value)) or _plan(_type_of(value))
    attributes: dict[str, Any] = value.__dict__
    fields = {name: attributes[name] for name in plan.fields if name in attributes}
    if len(fields) < len(plan.fields):
        raise NotStorable(_type_of(value), f"has no value for {', '.join(sorted(plan.names - set(fields)))}")
    extra = value.__pydantic_extra__
    parts = [
        plan.name,
        lower_fields(fields, lower),
        None if extra is None else lower(extra),
        lower(sorted(value.__pydantic_fields_set__)),
        lower(others_of(attributes, plan.names)),
    ]
    return parts if plan.parameters is None else [*parts, lower(plan.parameters)]


def _build(parts: Any) -> Any:
    length = len(parts)
    cls = find_class(parts[0]) if length < 6 else _parametrised([parts[0], parts[5]])
    if cls in READ_AS_OLD:
        return READ_AS_OLD[cls](_TAG, parts)
    quick = _quick_up.get(cls)
    if quick is None or (length > 2 and (length > 4 or parts[2] is not None)):
        return _build_as(cls, parts)
    order, names, put_dict, put_given, put_extra, put_private = quick
    fields: dict[str, Any] = mapped(parts[1])
    if tuple(fields) != order:
        return _build_as(cls, parts)
    model = _new(cls)
    put_dict(model, fields)
    put_given(model, names.copy() if length == 2 else set(listed(parts[3])))
    put_extra(model, None)
    put_private(model, None)
    return model


def _build_as(cls: type[Any], parts: Any) -> Any:
    plan: _Plan = _plans.get(cls) or plan_for_reading(cls, _FAMILY, _plan, parts[0])
    fields: dict[str, Any] = mapped(parts[1])
    if tuple(fields) != plan.fields:
        require_same_fields(parts[0], fields, plan.fields)
    extra, given, others = [*parts[2:5], None, None, None][:3]
    model = _new(cls)
    plan.put_dict(model, {**fields, **mapped(others)} if others else fields)
    plan.put_given(model, plan.names.copy() if given is None else set(listed(given)))
    if plan.put_extra is not None:
        plan.put_extra(model, extra)
        plan.put_private(model, _private_defaults(plan) if plan.private else None)
    return model


def with_fields(parts: list[Any], fields: dict[str, Any]) -> list[Any]:
    """The later parts of a model whose fields an upgrade has changed: those that it added were not given by anybody."""
    extra: dict[str, Any] | None
    extra, given, *rest = [*parts, None, None][: max(len(parts), 2)]
    if given is None:
        return [extra, None, *rest]
    known = fields.keys() | (extra.keys() if extra else set[str]())
    return [extra, [name for name in given if name in known], *rest]


def _private_defaults(plan: _Plan) -> dict[str, Any]:
    """What private attributes begin with: they are no part of a model's value, and may hold what cannot be stored."""
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    defaults: dict[str, Any] = {}
    for key, attribute in plan.private.items():
        default = attribute.get_default() if attribute.default_factory is None else attribute.default_factory()
        if default is not undefined:
            defaults[key] = default
    return defaults


MODEL: Final = Family(_TAG, _lower, _build, _FAMILY, _plan, _build_as)
"""Parts: the name of the class and its fields by name; and where there is any of it: extra fields by name, the names of
the fields that were given (None for all), what an instance carries besides, and the parameters of a generic class."""
