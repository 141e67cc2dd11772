"""From what the sources say to the values that count, where each comes from, and all that is wrong. Pure.

What is wrong is left out and told; it never takes its neighbours with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, cast

from limpet.config.kinds import NotAllowed
from limpet.config.lines import Place
from limpet.config.model import SETTINGS, TABLES, Settings, settings_from
from limpet.config.problems import no_table, unknown_key, wrong_value
from limpet.config.variables import SHORT, VARIABLES, unknown_variable
from limpet.errors import ConfigurationProblem

ARGUMENT = "argument"
DEFAULT = "default"


class Source(IntEnum):
    """The sources, in the order in which one counts more than the ones before it."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    ARGUMENT = 3


class Origin(NamedTuple):
    """Where a value comes from."""

    source: Source
    where: str
    """As people are told it: ``limpet.toml:12``, ``LIMPET_STORE``, ``argument`` or ``default``."""


class Given(NamedTuple):
    """What one source says of one setting."""

    key: str
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The values that count, by their keys."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]

    @property
    def settings(self) -> Settings:
        return settings_from(dict(self.values))


Found = Iterator[Given | ConfigurationProblem]


def in_tables(data: Mapping[Any, Any], source: Source, where: Callable[[Place], str], place: Place = ()) -> Found:
    """What the tables of a file, or the arguments of a call, say; ``where`` tells the origin of each place."""
    for name, value in data.items():
        here = (*place, str(name))
        key = ".".join(map(str, here))
        if key in TABLES:
            if isinstance(value, Mapping):
                yield from in_tables(cast("Mapping[Any, Any]", value), source, where, here)
            else:
                yield ConfigurationProblem(where(here), key, no_table(key, value))
        elif key in SETTINGS and "." not in str(name):
            yield Given(key, value, Origin(source, where(here)))
        else:
            yield ConfigurationProblem(where(here), key, unknown_key(key))


def in_variables(variables: Mapping[str, str]) -> Found:
    """What variables of the environment say, of which all are meant for Limpet."""
    for name, text in variables.items():
        key = VARIABLES.get(name) or SHORT.get(name)
        if key is not None:
            yield Given(key, text, Origin(Source.ENVIRONMENT, name))
        else:
            yield ConfigurationProblem(name, "", unknown_variable(name))


def merged(found: Iterable[Given | ConfigurationProblem]) -> tuple[Merged, tuple[ConfigurationProblem, ...]]:
    """The values that count, where later ones count more, and all problems, in the order of the sources."""
    values: dict[str, Any] = {key: setting.default for key, setting in SETTINGS.items()}
    origins = dict.fromkeys(SETTINGS, Origin(Source.DEFAULT, DEFAULT))
    problems: list[ConfigurationProblem] = []
    for each in found:
        if isinstance(each, ConfigurationProblem):
            problems.append(each)
            continue
        kind = SETTINGS[each.key].kind
        is_text = each.origin.source is Source.ENVIRONMENT
        try:
            values[each.key] = kind.from_text(each.value) if is_text else kind.read(each.value)
        except NotAllowed as error:
            what = wrong_value(SETTINGS[each.key], each.value, str(error))
            problems.append(ConfigurationProblem(each.origin.where, each.key, what))
        else:
            origins[each.key] = each.origin
    # A variable that is named as the one with the keys is ours, and no setting.
    keys = values["secrets.key_variable"]
    return Merged(values=values, origins=origins), tuple(each for each in problems if each.key or each.where != keys)


def store_of(merged: Merged) -> str:
    """The store of whoever names none. Without persistence it is the memory, unless a later source names a store."""
    names, switches_off = merged.origins["store"].source, merged.origins["persistence"].source
    if not merged.values["persistence"] and names <= switches_off:
        return "memory://"
    return merged.values["store"]
