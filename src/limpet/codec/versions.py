"""Records of older formats, brought to the newest one step by step when they are read.

A step is a pure function from the array of a record in one format to its array in the next. A format that was ever
written is read for good: a step is never changed once a release has it, and a new format adds one at the end. What is
stored is not touched; ``Limpet.migrate`` rewrites it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

import msgspec

from limpet.model import FORMAT_VERSION, Record

Step = Callable[[list[Any]], list[Any]]

_STORAGE = 3
_STORAGE_FIELDS = 5
"""How many there were at first, with the tag: seq, key, at, value."""
_ADDED_TO_STORAGE: tuple[Any, ...] = ([], False, None)
"""What artifacts, is_artifact and behind are in records from before they were noted."""


def _to_2(record: list[Any]) -> list[Any]:
    """A storage record always says how far the newest start lies behind it. Where it did not, it was taken to be 0."""
    if record[0] != _STORAGE or len(record) < _STORAGE_FIELDS:
        return record
    *others, behind = [*record, *_ADDED_TO_STORAGE[len(record) - _STORAGE_FIELDS :]][: _STORAGE_FIELDS + 3]
    return [*others, 0 if behind is None else behind]


STEPS: Mapping[int, Step] = MappingProxyType({2: _to_2})
"""By the format that each step leads to."""

_decode = msgspec.msgpack.Decoder(list[Any]).decode


def from_older(body: bytes, version: int) -> Record:
    """The record in a body of an older format. Raises MsgspecError where it is none."""
    array = _decode(body)
    if not array:
        raise msgspec.ValidationError("it is an empty array")
    for newer in range(version + 1, FORMAT_VERSION + 1):
        array = STEPS[newer](array)
    return cast("Record", msgspec.convert(array, Record))
