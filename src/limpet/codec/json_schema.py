"""Whether a value fits a JSON schema, as far as that is told by the parts that the schemas of types are made of.

A schema is data that somebody recorded, so it decides nothing by running: patterns are not tried, references lead only
into the schema itself, and what is not known is let pass.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

_MOST_STEPS: Final = 10_000
"""So many parts of a schema are held against a value, whatever the schema says."""
_NAMES: Final = {"boolean": "bool", "string": "str", "integer": "int", "number": "float"}
_AS_TEXT: Final = (str, bytes, date, datetime, time, Decimal, UUID)
"""What JSON has as text."""
_BOUNDS: Final[tuple[tuple[str, str, Callable[[Any, Any], bool]], ...]] = (
    ("minimum", ">=", operator.ge),
    ("exclusiveMinimum", ">", operator.gt),
    ("maximum", "<=", operator.le),
    ("exclusiveMaximum", "<", operator.lt),
)


def schema_flaw(value: object, schema: object) -> str | None:
    """What keeps a value from fitting a schema, with the place inside of it; None where nothing does."""
    try:
        return next(_Check(schema).flaws(value, schema, "$"), None)
    except RecursionError:
        return None


class _Check:
    def __init__(self, root: object) -> None:
        self._root = root
        self._steps = 0

    def flaws(self, value: Any, schema: Any, place: str) -> Iterator[str]:
        self._steps += 1
        if self._steps > _MOST_STEPS or not isinstance(schema, dict):
            if schema is False:
                yield f"Nothing is accepted{_at(place)}"
            return
        schema = cast("dict[str, Any]", schema)
        if isinstance(schema.get("$ref"), str):
            yield from self.flaws(value, self._found(schema["$ref"]), place)
        for each in _list(schema.get("allOf")):
            yield from self.flaws(value, each, place)
        yield from self._flaws_of_choice(value, schema, place)
        wanted = _list(schema.get("type")) or [schema["type"]] if "type" in schema else []
        if wanted and not any(_is(value, each) for each in wanted):
            names = " | ".join(_NAMES.get(str(each), str(each)) for each in wanted)
            yield f"Expected `{names}`, got `{_name_of(value)}`{_at(place)}"
        elif isinstance(value, dict):
            yield from self._flaws_of_object(cast("dict[Any, Any]", value), schema, place)
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from self._flaws_of_array(list(cast("list[Any]", value)), schema, place)
        else:
            yield from _flaws_of_size(value, schema, place)

    def _flaws_of_choice(self, value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
        if isinstance(schema.get("enum"), list) and not any(_equal(value, each) for each in schema["enum"]):
            yield f"{value!r} is none of {', '.join(map(repr, schema['enum']))}{_at(place)}"
        if "const" in schema and not _equal(value, schema["const"]):
            yield f"{value!r} is not {schema['const']!r}{_at(place)}"
        for kind in ("anyOf", "oneOf"):
            ways = [next(self.flaws(value, each, place), None) for each in _list(schema.get(kind))]
            if ways and None not in ways:
                yield (
                    str(ways[0])
                    if len(ways) == 1
                    else f"It fits none of {len(ways)} types: {'; '.join(map(str, ways))}"
                )

    def _flaws_of_object(self, value: dict[Any, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
        for name in _list(schema.get("required")):
            if name not in value:
                yield f"Object missing required field `{name}`{_at(place)}"
        known = schema.get("properties")
        known = cast("dict[str, Any]", known) if isinstance(known, dict) else {}
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in known:
                yield from self.flaws(item, known[name], f"{place}.{name}")
            elif others is False:
                yield f"Object contains unknown field `{name}`{_at(place)}"
            else:
                yield from self.flaws(item, others, f"{place}[{name!r}]")

    def _flaws_of_array(self, value: list[Any], schema: dict[str, Any], place: str) -> Iterator[str]:
        for key, sign, is_wrong in (("minItems", ">=", int.__lt__), ("maxItems", "<=", int.__gt__)):
            if type(schema.get(key)) is int and is_wrong(len(value), schema[key]):
                yield f"Expected `array` of length {sign} {schema[key]}{_at(place)}"
        first = _list(schema.get("prefixItems"))
        for number, item in enumerate(value):
            wanted = first[number] if number < len(first) else schema.get("items", True)
            yield from self.flaws(item, wanted, f"{place}[{number}]")

    def _found(self, reference: str) -> Any:
        """The part of the schema that a reference names; True, which anything fits, where there is none."""
        found: Any = self._root
        for part in reference.removeprefix("#/").split("/"):
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
        return True if found is None else found


def _flaws_of_size(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, str):
        for key, sign, is_wrong in (("minLength", ">=", int.__lt__), ("maxLength", "<=", int.__gt__)):
            if type(schema.get(key)) is int and is_wrong(len(value), schema[key]):
                yield f"Expected `str` of length {sign} {schema[key]}{_at(place)}"
    elif _is(value, "number"):
        for key, sign, fits in _BOUNDS:
            if _is(schema.get(key), "number") and not fits(value, schema[key]):
                yield f"Expected `{_name_of(value)}` {sign} {schema[key]}{_at(place)}"


def _is(value: object, wanted: object) -> bool:
    match wanted:
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, _AS_TEXT)
        case "null":
            return value is None
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, (list, tuple, set, frozenset))
        case _:
            return True


def _equal(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _name_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "object"
        case list() | tuple() | set() | frozenset():
            return "array"
        case _:
            return type(value).__name__


def _at(place: str) -> str:
    return "" if place == "$" else f" - at `{place}`"
