"""The settings as people read them: their values, and the table in the reference, made of the model. Pure."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, cast

from limpet.config.model import SETTINGS, TABLES, Described
from limpet.config.problems import without_secrets
from limpet.config.variables import variable_of
from limpet.model.amounts import duration_text

BEGIN: Final = "<!-- settings: written by `make docs` -->"
END: Final = "<!-- end of settings -->"


def shown(value: object) -> str:
    """A value as a configuration file has it; a dash for none."""
    match value:
        case None:
            return "–"
        case bool():
            return str(value).lower()
        case StrEnum():
            return str(value)
        case timedelta():
            return duration_text(value)
        case ():
            return "[]"
        case tuple():
            return ", ".join(map(str, cast("tuple[Any, ...]", value)))
        case _:
            return without_secrets(str(value))


def reference() -> str:
    """The tables of all settings as Markdown."""
    parts = [_table("")]
    parts += [f"### [{table}]\n\n{about}\n\n{_table(f'{table}.')}" for table, about in TABLES.items()]
    return "\n\n".join(parts)


def with_reference(page: str) -> str:
    """A page in which the tables between the two markers are those of the model."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


def _table(place: str) -> str:
    inside = [each for key, each in SETTINGS.items() if key.startswith(place) and "." not in key.removeprefix(place)]
    rows = [_row(each, each.key.removeprefix(place)) for each in inside]
    return "\n".join(["| key | default | allowed | what it does |", "| --- | --- | --- | --- |", *rows])


def _row(setting: Described, name: str) -> str:
    default = "–" if setting.default is None else f"`{shown(setting.default)}`"
    fixed = " Cannot change while a store is open." if setting.is_fixed else ""
    about = f"{setting.about}{fixed} `{variable_of(setting.key)}`"
    return f"| `{name}` | {default} | {setting.kind.allowed} | {about} |"
