"""From the tables ``[retry]`` and ``[retry.tool_call]`` to configurations of retries."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from limpet.config.exception_types import exception_types
from limpet.config.kinds import NotAllowed
from limpet.config.merging import Merged
from limpet.config.model import SETTINGS, RetryOfType
from limpet.config.problems import wrong_value
from limpet.errors import ConfigurationError, ConfigurationProblem
from limpet.model import EventType, RetryConfig

_EXCEPTIONS = ("retry_on_exceptions", "exclude_exceptions")


def retry_configs(merged: Merged) -> tuple[RetryConfig | None, dict[EventType, RetryConfig]]:
    """What counts for all calls, and what for those of each type; nothing where a table says nothing.

    What the table of a type does not say is as in ``[retry]``. Exception types are looked up now: whoever only looks
    into a store need not have imported them. Raises ConfigurationError where one is not found.
    """
    problems: list[ConfigurationProblem] = []
    every = _given(merged, "retry", problems)
    by_type = {kind: _given(merged, f"retry.{kind}", problems) for kind in EventType}
    if problems:
        raise ConfigurationError(tuple(problems))
    return (
        RetryConfig(**every) if every else None,
        {kind: RetryConfig(**{**every, **own}) for kind, own in by_type.items() if own},
    )


def _given(merged: Merged, table: str, problems: list[ConfigurationProblem]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(RetryOfType):
        key = f"{table}.{field.name}"
        value = merged.values[key]
        if value is None:
            continue
        if field.name in _EXCEPTIONS:
            try:
                value = exception_types(cast("tuple[str, ...]", value))
            except NotAllowed as error:
                what = wrong_value(SETTINGS[key], value, str(error))
                problems.append(ConfigurationProblem(merged.origins[key].where, key, what))
                continue
        found[field.name] = value
    return found
