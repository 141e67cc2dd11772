"""What stands between the brackets of a generic class, as plain parts: ``Box[list[int | None]]``.

A parameter is described as ``[form, …]``. Reading one follows the names of classes and puts them together again; it
evaluates no text, and calls nothing that a class defines for itself.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import reduce
from types import ClassMethodDescriptorType, NoneType
from typing import Any, Final, Generic, Literal, TypeVar, Union, cast

from limpet.codec.kinds import NotStorable, listed
from limpet.codec.names import find_class, find_entry, name_of
from limpet.codec.user_types.families import entry_of, is_derived
from limpet.errors import ValueNotReadable

MAX_DEPTH: Final = 20

DescribeModel = Callable[[type, int], list[Any] | None]
"""The parts of a generic model with its parameters; None for any other class."""
BuildModel = Callable[[Any, int], type]
"""The model that those parts stand for."""

_PLAIN: Final = (NoneType, bool, int, str, bytes)
_type_of = cast("Callable[[Any], type[Any]]", type)
_MEMBER: Final = "member"
_Alias: Final = cast("type[Any]", type(vars(typing)["List"]))


def describe(parameter: Any, describe_model: DescribeModel, depth: int = 0) -> list[Any]:
    """The parts that stand for a parameter. Raises NotStorable where it cannot be described."""
    if depth > MAX_DEPTH:
        raise NotStorable(_type_of(parameter), f"is a parameter inside more than {MAX_DEPTH} others")

    def inside() -> list[Any]:
        return [describe(each, describe_model, depth + 1) for each in typing.get_args(parameter)]

    origin = typing.get_origin(parameter)
    alias: Any = getattr(parameter, "_name", None)
    match parameter:
        case None:
            return ["none"]
        case types.EllipsisType():
            return ["ellipsis"]
        case TypeVar():
            return ["variable", f"{parameter.__module__}:{parameter.__name__}"]
        case types.UnionType():
            return ["or", inside()]
        case _ if origin is Union:
            return ["union", inside()]
        case _ if origin is Literal:
            return ["literal", [_describe_literal(each) for each in typing.get_args(parameter)]]
        case _ if isinstance(parameter, _Alias):
            return ["typing", alias]
        case _ if isinstance(find_entry(f"typing:{alias}"), _Alias):
            return ["typing", alias, inside()]
        case _ if isinstance(origin, type) and name_of(origin) != "typing:Annotated":
            return ["of", name_of(origin), inside()]
        case type():
            return _describe_class(parameter, describe_model, depth)
        case _:
            raise NotStorable(_type_of(parameter), f"is a parameter that cannot be described: {parameter!r}")


def _describe_class(cls: type, describe_model: DescribeModel, depth: int) -> list[Any]:
    if cls is NoneType:
        return ["class", "types:NoneType"]  # It calls itself a built-in name, which it is not.
    model = describe_model(cls, depth + 1)
    return ["class", name_of(cls)] if model is None else ["model", *model]


def _describe_literal(value: Any) -> Any:
    if isinstance(value, Enum):
        return [_MEMBER, name_of(type(value)), value._name_]
    if type(value) in _PLAIN:
        return value
    raise NotStorable(_type_of(value), f"is a literal that cannot be described: {value!r}")


def build(parts: Any, build_model: BuildModel, depth: int = 0) -> Any:
    """The parameter that the parts stand for. Raises ValueNotReadable where there is none."""
    if depth > MAX_DEPTH:
        raise ValueNotReadable("generic", f"its parameters stand inside more than {MAX_DEPTH} others")

    def inside(described: list[Any]) -> tuple[Any, ...]:
        return tuple(build(each, build_model, depth + 1) for each in listed(described))

    match listed(parts):
        case ["none"]:
            return None
        case ["ellipsis"]:
            return ...
        case ["variable", str(name)]:
            return _variable(name)
        case ["or", [_, _, *_]]:
            return reduce(_or, inside(parts[1]))
        case ["union", [_, _, *_]]:
            return Union[inside(parts[1])]  # noqa: UP007 - it is not the same as | before Python 3.14
        case ["literal", [_, *_]]:
            return Literal[tuple(map(_literal, listed(parts[1])))]
        case ["typing", str(alias)]:
            return _alias(alias)
        case ["typing", str(alias), [*_]]:
            return _alias(alias)[inside(parts[2])]
        case ["of", str(name), [*_]]:
            return _generic(name)[inside(parts[2])]
        case ["class", str(name)]:
            return find_class(name)
        case ["model", *model]:
            return build_model(model, depth + 1)
        case _:
            raise ValueNotReadable("generic", "its parameters are not described in a form that is known")


def _or(one: Any, other: Any) -> Any:
    return one | other


def _variable(name: str) -> Any:
    found = find_entry(name)
    if type(found) is not TypeVar:
        raise ValueNotReadable(name, "there is no type variable of that name")
    return found


def _alias(name: str) -> Any:
    found = find_entry(f"typing:{name}")
    if not isinstance(found, _Alias):
        raise ValueNotReadable(f"typing:{name}", "it takes no parameters")
    return found


def _literal(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    _, name, member = cast("list[Any]", value)
    cls = cast("type[Any]", find_class(name))
    found = cls._member_map_.get(member) if is_derived(cls, Enum) else None
    if found is None:
        raise ValueNotReadable(name, f"it has no member {member!r}")
    return found


def _generic(name: str) -> Any:
    """A class that is made generic by Python's own means, whose brackets run nothing of its own."""
    cls = find_class(name)
    hook = entry_of(cls, "__class_getitem__")
    is_plain = cls is type or hook is _GENERIC or type(hook) is ClassMethodDescriptorType
    if not is_plain and isinstance(hook, classmethod):
        is_plain = cast("classmethod[Any, ..., Any]", hook).__func__ is cast(object, types.GenericAlias)
    if not is_plain or entry_of(type(cls), "__getitem__") is not None:
        raise ValueNotReadable(name, "it takes no parameters, or has a way of its own to take them")
    return cls


_GENERIC: Final = vars(Generic)["__class_getitem__"]
