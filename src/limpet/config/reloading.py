"""What a configuration that is read again changes, and what must stay as it is while a store is open. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from limpet.config.merging import Merged
from limpet.config.model import SETTINGS
from limpet.errors import ConfigurationProblem


class Change(NamedTuple):
    """A setting that has another value."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What came of reading a configuration again."""

    changed: tuple[Change, ...] = ()
    """What counts from now on: for runs that begin after this; of ``checkpoint`` also for those that are under way."""
    fixed: tuple[Change, ...] = ()
    """What has another value now, and cannot change while a store is open; it stays as it was."""
    problems: tuple[ConfigurationProblem, ...] = ()
    """Why nothing was changed, if anything is wrong."""

    @property
    def is_applied(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(["The configuration is not right and stays as it was.", *map(str, self.problems)])
        lines = [f"{each.key}: {each.before} -> {each.after}" for each in self.changed]
        lines += [f"{each.key} stays {each.before} until the program starts anew" for each in self.fixed]
        return "\n".join(lines) or "Nothing has changed."


def differences(before: Merged, after: Merged) -> Reloaded:
    """Which settings have other values, and which of them can change."""
    changes = [
        Change(key, before.values[key], after.values[key])
        for key in SETTINGS
        if before.values[key] != after.values[key]
    ]
    return Reloaded(
        changed=tuple(each for each in changes if not SETTINGS[each.key].is_fixed),
        fixed=tuple(each for each in changes if SETTINGS[each.key].is_fixed),
    )


def with_fixed(before: Merged, after: Merged) -> Merged:
    """The new values, with the old ones of what cannot change."""
    stays = [key for key, setting in SETTINGS.items() if setting.is_fixed and before.values[key] != after.values[key]]
    return Merged(
        values={**after.values, **{key: before.values[key] for key in stays}},
        origins={**after.origins, **{key: before.origins[key] for key in stays}},
    )
