"""What the families of users' classes have in common: which one a class belongs to, and what its instances carry.

A class is read past its metaclass, so that looking at one that data names runs nothing of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from types import MemberDescriptorType
from typing import Any, Final, cast

import msgspec

from limpet.codec.kinds import Kind, Lower, NotStorable
from limpet.codec.names import entries_of_class, find_class, name_of
from limpet.errors import ValueNotReadable

MADE_FROM: Final = "__orig_class__"
"""typing's note that an instance was made by calling ``Box[int]``, which is not part of its value."""

SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
"""What msgpack has as it is."""

LEAVE_SCALARS: Final = set[Lower]()
"""Ways down that give scalars back as they are, so that these need not be handed to them."""

_IS_HEAP_TYPE: Final = 1 << 9
_bases_of = cast("Callable[[type], tuple[type, ...]]", vars(type)["__mro__"].__get__)
_base_of = cast("Callable[[type], type]", vars(type)["__base__"].__get__)
flags_of: Final = cast("Callable[[type], int]", vars(type)["__flags__"].__get__)
"""What Python notes of a class. Its metaclass is not asked."""


class Family(Kind, frozen=True):
    """A kind that many classes share. Its parts begin with the name of the class."""

    name: str
    plan: Callable[[type], object]
    """Finds out what a class of this family needs. Raises NotStorable where its instances would lose something."""
    build_as: Callable[[Any, Any], Any]
    """As ``build``, with the class given instead of found by its name."""


class RegisteredKind(Kind, frozen=True):
    """The kind of one class that the program has registered."""

    family: Family | None
    """By which its instances are written; None where the program has its own way to write them."""


REGISTERED_KINDS: Final[dict[type, RegisteredKind]] = {}
"""The kinds of the classes that the program has registered."""

READ_AS_OLD: Final[dict[type, Callable[[int, Any], Any]]] = {}
"""How records from before a class was registered are read, by their tag and parts, where it has a later version now."""


def make_family(
    tag: int,
    name: str,
    plan: Callable[[type], object],
    lower: Callable[[Any, Lower], Any],
    build_as: Callable[[Any, Any], Any],
) -> Family:
    """A family whose classes are found by the name that stands first in the parts of an instance."""

    def build(parts: Any) -> Any:
        cls = find_class(parts[0])
        read_as_old = READ_AS_OLD.get(cls)
        return build_as(cls, parts) if read_as_old is None else read_as_old(tag, parts)

    return Family(tag, lower, build, name, plan, build_as)


def plan_for_reading(cls: type, family: str, plan: Callable[[type], Any], name: str) -> Any:
    """The plan of a class that data names. Raises ValueNotReadable where it is not what it was recorded as."""
    if family_of(cls) != family:
        raise ValueNotReadable(name, f"it was recorded as {family}, and the class of that name is none now")
    try:
        return plan(cls)
    except NotStorable as error:
        raise ValueNotReadable(name, f"the class of that name {error.why}") from error


def is_derived(cls: type, base: type) -> bool:
    """Whether a class has that base. Unlike issubclass this asks neither of them."""
    return any(each is base for each in _bases_of(cls))


def entry_of(cls: type, name: str) -> Any:
    """What a class or the nearest of its bases defines under that name; None where none does."""
    for base in _bases_of(cls):
        entries = entries_of_class(base)
        if name in entries:
            return entries[name]
    return None


def family_of(cls: type) -> str | None:
    """Which family of classes this one belongs to, if any."""
    if is_derived(cls, Enum):
        return "an enum"
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and is_derived(cls, pydantic.BaseModel):
        return "a pydantic model"
    if is_derived(cls, BaseException):
        return "an exception"
    if is_derived(cls, msgspec.Struct):
        return "a msgspec struct"
    if entry_of(cls, "__attrs_attrs__") is not None:
        return "an attrs class"
    if entry_of(cls, "__dataclass_fields__") is not None:
        return "a dataclass"
    if is_derived(cls, tuple) and entry_of(cls, "_fields") is not None:
        return "a named tuple"
    return None


def require_same_fields(name: str, recorded: Collection[str], declared: Collection[str]) -> None:
    """Raise ValueNotReadable, with both shapes named, where a class no longer has the fields that were recorded."""
    if set(recorded) != set(declared):
        raise ValueNotReadable(
            name,
            f"it was recorded with the fields {_listed(recorded)} and now has {_listed(declared)}; register it with "
            "`version=` and an `upgrade=` that turns the one into the other",
        )


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def lower_fields(fields: dict[str, Any], lower: Lower) -> Any:
    """Fields by name, each lowered, in a dict of their own."""
    lowered = fields.copy()
    if lower not in LEAVE_SCALARS:
        return lower(lowered)
    for name, item in fields.items():
        if type(item) not in SCALARS:
            lowered[name] = lower(item)
    return lowered


def others_of(attributes: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """What an instance carries besides its fields, such as a cached property."""
    return {key: item for key, item in attributes.items() if key not in fields and key != MADE_FROM}


def layout_of(cls: type) -> type:
    """The built-in class that the instances of this one are laid out as."""
    while flags_of(cls) & _IS_HEAP_TYPE:
        cls = _base_of(cls)
    return cls


def slots_of(cls: type) -> dict[str, MemberDescriptorType]:
    """The slots of the classes that this one derives from, by their names."""
    slots: dict[str, MemberDescriptorType] = {}
    for base in reversed(_bases_of(cls)):
        entries = entries_of_class(base)
        if "__slots__" in entries:
            slots |= {name: entry for name, entry in entries.items() if isinstance(entry, MemberDescriptorType)}
    return slots


def require_plain_layout(cls: type) -> None:
    """Raise NotStorable where instances are also something built in, whose content would be lost."""
    layout = layout_of(cls)
    if layout is not object:
        raise NotStorable(cls, f"is also a {layout.__name__}, and has content that is not in its fields")


def require_known_slots(cls: type, known: Collection[str]) -> None:
    """Raise NotStorable where instances have a slot that would be lost."""
    for name in slots_of(cls):
        if name not in known:
            raise NotStorable(cls, f"has the slot {name!r}, which is not one of its fields")


def require_findable(cls: type) -> None:
    """Raise NotStorable where a class could not be found again by its name."""
    try:
        is_findable = find_class(name_of(cls)) is cls
    except ValueNotReadable:
        is_findable = False
    if not is_findable:
        raise NotStorable(cls, "cannot be found again by its name; declare it at the top of a module")
