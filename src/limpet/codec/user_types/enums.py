"""Members of enums: by their names, and those of flags by their values."""

from __future__ import annotations

from enum import Enum, Flag
from typing import Any, Final

import msgspec

from limpet.codec.kinds import Lower
from limpet.codec.names import name_of
from limpet.codec.user_types.families import is_derived, make_family, plan_for_reading
from limpet.errors import ValueNotReadable


class _Plan(msgspec.Struct, frozen=True):
    name: str
    members: dict[str | None, Any]
    is_flag: bool


_plans: Final[dict[type, _Plan]] = {}


def _plan(cls: type[Any]) -> _Plan:
    plan = _plans[cls] = _Plan(name_of(cls), cls._member_map_, is_derived(cls, Flag))
    return plan


def _lower(value: Enum, lower: Lower) -> list[Any]:
    plan = _plans.get(type(value)) or _plan(type(value))
    # Not value.name: an enum may have a member of that name, and may define what its members say there.
    return [plan.name, None, lower(value._value_)] if plan.is_flag else [plan.name, value._name_, None]


def _build_as(cls: type[Enum], parts: Any) -> Enum:
    name: str = parts[0]
    member, value = parts[1:]
    plan: _Plan = _plans.get(cls) or plan_for_reading(cls, "an enum", _plan, name)
    if member is None and plan.is_flag:
        try:
            return cls(value)
        except ValueError as error:
            raise ValueNotReadable(name, f"it does not have the value {value!r} any more") from error
    found = plan.members.get(member)
    if found is None:
        raise ValueNotReadable(name, f"it has no member {member!r} any more")
    return found


ENUM: Final = make_family(17, "an enum", _plan, _lower, _build_as)
"""Parts: the name of the class, and either the name of the member or None and the value of a flag."""
