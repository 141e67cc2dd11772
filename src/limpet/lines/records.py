"""The body of a plain frame as fields by their names, and back.

    {"event": {"seq": 3, "address": "research::fetch::tool_call", "status": "completed", …}}

The names are those of ``model/records.py``, and the kinds ``event``, ``checkpoint``, ``storage``, ``timeline``,
``dropped``, ``timer`` and ``read``.

* A field that has its default is left out; so is a value that there is none of, where null is the value None.
* A record has as many fields as ``_FIELDS`` says, unless the line says otherwise: older records had fewer, and later
  ones may have more. So those numbers and the defaults are part of the format, and never change.
* Inputs, results, values of the storage and of failures are in their readable form (``values.py``), fingerprints in
  hexadecimal digits, failures and parts of timelines by the names of their fields.
* Metadata is JSON inside the JSON where that gives the same text again, else it is the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, Final, cast

import msgspec
import ormsgpack

from limpet.lines.values import MOST_LEVELS, OPTIONS, value_of_text
from limpet.model import (
    CheckpointRecord,
    DroppedRecord,
    EventRecord,
    ReadRecord,
    Record,
    StorageRecord,
    TimelineRecord,
    TimerRecord,
)

_packb = ormsgpack.packb
_unpackb = ormsgpack.unpackb
_decode: Final[Callable[[bytes], Record]] = msgspec.msgpack.Decoder(Record).decode
_type_of = cast("Callable[[Any], Any]", type)

TextOf = Callable[[bytes], Any]
"""Gives the readable form of an encoded value."""


class _Layout(msgspec.Struct, frozen=True):
    """The fields of a kind of record, in the order in which they are stored."""

    tag: int
    kind: str
    count: int
    """How many fields are stored where the line does not say it."""
    names: tuple[str, ...]
    defaults: dict[str, Any]
    """Of each field that may be left out: what is stored then."""
    left_out: tuple[Any, ...]
    """Of each field what is left out; of one that never is, something that it cannot be."""


_FIELDS: Final = {"event": 15, "checkpoint": 4, "storage": 7, "timeline": 7, "dropped": 5, "timer": 5, "read": 9}
_FAILURE: Final = ("type_name", "message", "traceback", "value")
_PART: Final = ("first", "last", "below")


def _layout(cls: type[Record], kind: str) -> _Layout:
    tag = cls.__struct_config__.tag
    assert type(tag) is int
    fields = msgspec.structs.fields(cls)
    # A tuple is stored as a list. A change of the storage has no default value, and None where a key was deleted.
    defaults: dict[str, Any] = {
        field.name: [] if field.default == () else field.default for field in fields if not field.required
    }
    if cls is StorageRecord:
        defaults["value"] = None
    names = cls.__struct_fields__
    left_out = tuple(defaults.get(name, msgspec.UNSET) for name in names)
    return _Layout(tag, kind, _FIELDS[kind], names, defaults, left_out)


_LAYOUTS: Final = (
    _layout(EventRecord, "event"),
    _layout(CheckpointRecord, "checkpoint"),
    _layout(StorageRecord, "storage"),
    _layout(TimelineRecord, "timeline"),
    _layout(DroppedRecord, "dropped"),
    _layout(TimerRecord, "timer"),
    _layout(ReadRecord, "read"),
)
_BY_TAG: Final = {layout.tag: layout for layout in _LAYOUTS}
_BY_KIND: Final = {layout.kind: layout for layout in _LAYOUTS}
_ENCODED: Final = ("input", "result", "value")


def record_of_body(body: bytes, text_of: TextOf) -> tuple[dict[str, Any], int | None]:
    """The fields of a record under its kind, and how many are stored, where that is to be said.

    Nothing is promised of what is no record as it is written: the caller finds out whether ``body_of_record`` gives the
    same bytes. Raises ValueError, TypeError, KeyError or what ``text_of`` raises where there is no such form.
    """
    tag, *fields = cast("list[Any]", _unpackb(body))
    layout = _BY_TAG[tag]
    shown: dict[str, Any] = {
        name: field
        for name, field, default in zip(layout.names, fields, layout.left_out, strict=False)
        if field != default
    }
    for name in _ENCODED:
        if name in shown:
            shown[name] = text_of(shown[name])
    if not isfinite(shown.get("at", 0.0) + shown.get("duration_s", 0.0)):
        raise ValueError("a time in it is none that JSON has")
    for name, show in _SHOWN.items():
        if name in shown:
            shown[name] = show(shown[name], text_of)
    return {layout.kind: shown}, None if len(fields) == layout.count else len(fields)


def body_of_record(record: Any, stored: int | None = None) -> bytes:
    """The body whose fields by their names these are. Raises what is wrong with them, of many types."""
    [(kind, shown)] = record.items()
    layout = _BY_KIND[kind]
    given = {**layout.defaults, **shown}
    for name in _ENCODED:
        if name in shown:
            given[name] = value_of_text(shown[name])
    for name, mean in _MEANT.items():
        if name in shown:
            given[name] = mean(shown[name])
    _check_names(shown, given, layout)
    names = layout.names[: layout.count] if stored is None else _first(stored, layout)
    if len(names) != len(layout.names) and not shown.keys() <= set(names):
        raise ValueError("it has more fields than it says")
    body = _packb([layout.tag, *map(given.__getitem__, names)], None, OPTIONS)
    _decode(body)
    return body


def _check_names(shown: dict[str, Any], given: dict[str, Any], layout: _Layout) -> None:
    if len(given) != len(layout.names):
        raise ValueError("its fields are not those of such a record")
    defaults = layout.defaults
    for name in shown:
        if name in defaults and given[name] == defaults[name]:
            raise ValueError("a field is there that would have been left out")


def _first(stored: Any, layout: _Layout) -> tuple[str, ...]:
    if type(stored) is not int or not 0 < stored <= len(layout.names) or stored == layout.count:
        raise ValueError("it says that it has other fields than it has")
    return layout.names[:stored]


def _shown_failure(fields: list[Any], text_of: TextOf) -> dict[str, Any]:
    shown: dict[str, Any] = dict(zip(_FAILURE, fields, strict=True))
    value = shown.pop("value")
    return shown if value is None else {**shown, "value": text_of(value)}


def _meant_failure(shown: dict[str, Any]) -> list[Any]:
    value = value_of_text(shown["value"]) if "value" in shown else None
    given = {**shown, "value": value}
    if len(given) != len(_FAILURE):
        raise ValueError("its failure has other fields")
    return [given[name] for name in _FAILURE]


def _shown_parts(parts: list[list[int]], _text_of: TextOf) -> list[dict[str, int]]:
    return [dict(zip(_PART, part, strict=True)) for part in parts]


def _meant_parts(shown: list[dict[str, int]]) -> list[list[int]]:
    if any(len(part) != len(_PART) for part in shown):
        raise ValueError("a part of its timeline has other fields")
    return [[part[name] for name in _PART] for part in shown]


def _shown_metadata(text: str, _text_of: TextOf) -> Any:
    """The metadata as a map, where that has the same text. Python's own JSON is the measure, as it does not change."""
    if text.count("{") + text.count("[") > MOST_LEVELS:
        return text
    try:
        metadata = json.loads(text)
        return metadata if text[:1] == "{" and text == _json(metadata) else text
    except ValueError:
        return text


def _json(metadata: Any) -> str:
    return json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _meant_metadata(shown: Any) -> str:
    return _json(shown) if _type_of(shown) is dict else shown


def _shown_fingerprint(fingerprint: bytes, _text_of: TextOf) -> str:
    return fingerprint.hex()


def _meant_fingerprint(shown: str) -> bytes:
    fingerprint = bytes.fromhex(shown)
    if fingerprint.hex() != shown:
        raise ValueError("its fingerprint is not written as it should be")
    return fingerprint


_SHOWN: Final[dict[str, Callable[[Any, TextOf], Any]]] = {
    "fingerprint": _shown_fingerprint,
    "error": _shown_failure,
    "parts": _shown_parts,
    "metadata": _shown_metadata,
}
_MEANT: Final[dict[str, Callable[[Any], Any]]] = {
    "fingerprint": _meant_fingerprint,
    "error": _meant_failure,
    "parts": _meant_parts,
    "metadata": _meant_metadata,
}
