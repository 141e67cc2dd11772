"""The kinds of the user's own classes: enums, dataclasses, named tuples, pydantic models, exceptions.

Building one sets its fields and calls neither ``__init__`` nor a validator: the value was whole when it was written.
A class whose instances carry something that would not be written is refused.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection
from enum import Enum, Flag
from functools import cache
from types import MemberDescriptorType
from typing import Any, Final, cast

from holdfast.codec.kinds import Kind, Lower, NotStorable
from holdfast.codec.names import find_class, name_of
from holdfast.errors import ValueNotReadable


def _found(name: object, family: str) -> type:
    cls = find_class(str(name))
    if family_of(cls) != family:
        raise ValueNotReadable(str(name), f"it was recorded as {family}, and the class of that name is none now")
    return cls


def _name(value: object) -> str:
    return name_of(type(value))


def _require_same_fields(name: str, recorded: set[str], declared: set[str]) -> None:
    if recorded != declared:
        raise ValueNotReadable(
            name,
            f"it was recorded with the fields {', '.join(sorted(recorded))} and now has {', '.join(sorted(declared))}",
        )


def _lower_enum(value: Enum, lower: Lower) -> Any:
    if isinstance(value, Flag):
        return [name_of(type(value)), None, lower(value.value)]
    return [name_of(type(value)), value.name, None]


def _build_enum(parts: Any) -> Enum:
    name, member, value = parts
    cls = cast("type[Enum]", _found(name, "an enum"))
    if issubclass(cls, Flag) and member is None:
        try:
            return cls(value)
        except ValueError as error:
            raise ValueNotReadable(name, f"it does not have the value {value!r} any more") from error
    found = cls.__members__.get(member)
    if found is None:
        raise ValueNotReadable(name, f"it has no member {member!r} any more")
    return found


def _others(value: Any, fields: Collection[str], lower: Lower) -> dict[str, Any]:
    """What an instance carries besides its fields, such as a cached property."""
    attributes: dict[str, Any] | None = getattr(value, "__dict__", None)
    if not attributes:
        return {}
    return {key: lower(item) for key, item in attributes.items() if key not in fields and key != MADE_FROM}


MADE_FROM = "__orig_class__"
"""typing's note that an instance was made by calling ``Box[int]``, which is not part of its value."""


def _lower_dataclass(value: Any, lower: Lower) -> Any:
    fields = {field.name: lower(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return [_name(value), fields, _others(value, fields, lower)]


def _build_dataclass(parts: Any) -> Any:
    name, fields, others = parts
    cls: Any = _found(name, "a dataclass")
    _require_same_fields(name, set(fields), {field.name for field in dataclasses.fields(cls)})
    value = object.__new__(cls)
    for key, item in {**fields, **others}.items():
        object.__setattr__(value, key, item)
    return value


def _lower_named_tuple(value: Any, lower: Lower) -> Any:
    fields = dict(zip(value._fields, map(lower, value), strict=True))
    return [_name(value), fields, _others(value, (), lower)]


def _build_named_tuple(parts: Any) -> Any:
    name, fields, others = parts
    cls: Any = _found(name, "a named tuple")
    _require_same_fields(name, set(fields), set(cls._fields))
    value = cls._make([fields[field] for field in cls._fields])
    for key, item in others.items():
        object.__setattr__(value, key, item)
    return value


@cache
def _model_fields(cls: Any) -> frozenset[str]:
    return frozenset(cls.model_fields)


def _lower_model(value: Any, lower: Lower) -> Any:
    cls: type = value.__class__
    declared = _model_fields(cls)
    attributes: dict[str, Any] = value.__dict__
    fields = {key: lower(item) for key, item in attributes.items() if key in declared}
    if len(fields) != len(declared):
        raise NotStorable(cls, f"has no value for {', '.join(sorted(declared - set(fields)))}")
    extra = value.__pydantic_extra__
    return [
        name_of(cls),
        fields,
        None if extra is None else lower(extra),
        sorted(value.__pydantic_fields_set__),
        {} if len(attributes) == len(fields) else _others(value, fields, lower),
    ]


def _build_model(parts: Any) -> Any:
    name, fields, extra, fields_set, others = parts
    cls: Any = _found(name, "a pydantic model")
    _require_same_fields(name, set(fields), set(_model_fields(cls)))
    model = object.__new__(cls)
    object.__setattr__(model, "__dict__", {**fields, **others})
    object.__setattr__(model, "__pydantic_fields_set__", set(fields_set))
    for key, item in (("__pydantic_extra__", extra), ("__pydantic_private__", _private_defaults(cls))):
        if getattr(cls, key) is not item:  # A root model has None there for all its instances.
            object.__setattr__(model, key, item)
    return model


def _private_defaults(cls: Any) -> dict[str, Any] | None:
    """What private attributes begin with: they are no part of a model's value, and may hold what cannot be stored."""
    if not cls.__private_attributes__:
        return None
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    defaults: dict[str, Any] = {}
    for key, attribute in cls.__private_attributes__.items():
        default = attribute.get_default() if attribute.default_factory is None else attribute.default_factory()
        if default is not undefined:
            defaults[key] = default
    return defaults


def _lower_exception(value: BaseException, lower: Lower) -> Any:
    args = list(value.args)
    if isinstance(value, OSError) and value.filename is not None and len(args) == 2:
        # OSError takes the names of files as arguments, and does not show them as such.
        args += [value.filename] if value.filename2 is None else [value.filename, None, value.filename2]
    try:
        _make_exception(type(value), args)
    except Exception as error:
        raise NotStorable(type(value), f"cannot be built again from its arguments ({error})") from error
    members = {key: lower(getattr(value, key)) for key in _members(type(value))}
    return [_name(value), lower(args), _others(value, (), lower), members]


def _build_exception(parts: Any) -> BaseException:
    name, args, others, members = parts
    cls = cast("type[BaseException]", _found(name, "an exception"))
    try:
        error = _make_exception(cls, args)
    except Exception as cause:
        raise ValueNotReadable(name, f"it cannot be built from its arguments ({cause})") from cause
    error.__dict__.update(others)
    for key in _members(cls):
        setattr(error, key, members.get(key))
    return error


def _make_exception(cls: type[BaseException], args: list[Any]) -> BaseException:
    # The initialisers of built-in exceptions fill fields from the arguments; those of users' classes are not called.
    built_in: Any = _layout(cls)
    error = built_in.__new__(cls, *args)
    built_in.__init__(error, *args)
    return error


def _members(cls: type[BaseException]) -> tuple[str, ...]:
    """What a built-in exception keeps beside its arguments and its ``__dict__``."""
    if issubclass(cls, ImportError):
        return ("name", "path")
    return ("name",) if issubclass(cls, (AttributeError, NameError)) else ()


FAMILIES: Final[dict[str, Kind]] = {
    "an enum": Kind(17, _lower_enum, _build_enum),
    "a dataclass": Kind(18, _lower_dataclass, _build_dataclass),
    "a named tuple": Kind(19, _lower_named_tuple, _build_named_tuple),
    "a pydantic model": Kind(20, _lower_model, _build_model),
    "an exception": Kind(21, _lower_exception, _build_exception),
}


def family_of(cls: type) -> str | None:
    """Which family of classes this one belongs to, if any."""
    if issubclass(cls, Enum):
        return "an enum"
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(cls, pydantic.BaseModel):
        return "a pydantic model"
    if issubclass(cls, BaseException):
        return "an exception"
    if dataclasses.is_dataclass(cast("type[object]", cls)):
        return "a dataclass"
    if issubclass(cls, tuple) and hasattr(cast("type[object]", cls), "_fields"):
        return "a named tuple"
    return None


def kind_of_class(cls: type) -> Kind:
    """The kind of a user's class. Raises NotStorable where it has none, or could not be found again by its name."""
    family = family_of(cls)
    if family is None:
        raise NotStorable(cls)
    try:
        is_findable = find_class(name_of(cls)) is cls
    except ValueNotReadable:
        is_findable = False
    if not is_findable:
        raise NotStorable(cls, "cannot be found again by its name; declare it at the top of a module")
    if family in _KEPT_SLOTS:
        _require_that_nothing_is_lost(cls, family)
    return FAMILIES[family]


_IS_HEAP_TYPE: Final = 1 << 9
_KEPT_SLOTS: Final = {
    "a dataclass": frozenset[str](),
    "a pydantic model": frozenset({"__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"}),
    "an exception": frozenset[str](),
}


def _layout(cls: type) -> type:
    """The built-in class that the instances of this one are laid out as."""
    while cls.__flags__ & _IS_HEAP_TYPE:
        cls = cast(type, cls.__base__)
    return cls


def _require_that_nothing_is_lost(cls: type, family: str) -> None:
    if family != "an exception" and _layout(cls) is not object:
        raise NotStorable(cls, f"is also a {_layout(cls).__name__}, and has content that is not in its fields")
    fields = {field.name for field in dataclasses.fields(cls)} if family == "a dataclass" else set[str]()
    for base in cls.__mro__:
        for name, entry in vars(base).items() if "__slots__" in vars(base) else ():
            if isinstance(entry, MemberDescriptorType) and name not in fields | _KEPT_SLOTS[family]:
                raise NotStorable(cls, f"has the slot {name!r}, which is not one of its fields")
