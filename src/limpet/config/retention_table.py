"""From the table ``[retention]`` to a retention. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from limpet.config.model import RetentionSettings
from limpet.model import Retention

# What lets states go has no value unless somebody gives it one; all else keeps them.
_LIMITS = frozenset(field.name for field in msgspec.structs.fields(Retention) if field.default is None)


def retention_of(table: RetentionSettings, given: Mapping[str, Any] | None = None) -> Retention:
    """The retention that a table describes, with other values for some of its fields. It may have no limit.

    Where one of the values that are given is a limit, no limit of the table counts: nothing goes that the giver did not
    ask for. What keeps states is as the table says unless it is given, too.
    """
    values = {field.name: getattr(table, field.name) for field in fields(table)}
    values = {name: value for name, value in values.items() if name in Retention.__struct_fields__}
    if given and _LIMITS & given.keys():
        values = {name: value for name, value in values.items() if name not in _LIMITS}
    return Retention(**{**values, **(given or {})})
