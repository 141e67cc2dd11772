"""The names of the kinds of values that msgpack does not have, by the tag of their extension."""

from __future__ import annotations

from typing import Final

TAG_NAMES: Final[dict[int, str]] = {
    1: "tuple",
    2: "set",
    3: "frozenset",
    4: "dict",
    5: "int",
    6: "text",
    7: "bytearray",
    8: "complex",
    9: "datetime",
    10: "date",
    11: "time",
    12: "timedelta",
    13: "decimal",
    14: "fraction",
    15: "uuid",
    16: "path",
    17: "enum",
    18: "dataclass",
    19: "namedtuple",
    20: "model",
    21: "exception",
    22: "struct",
    23: "attrs",
    24: "deque",
    25: "range",
    26: "defaultdict",
    27: "ordereddict",
    28: "counter",
    29: "pattern",
    30: "opaque",
    31: "network",
    32: "numpy_array",
    33: "numpy_scalar",
    34: "pandas",
    35: "polars",
    36: "registered",
    37: "artifact",
    38: "secret",
    39: "left_out",
    40: "raised",
    41: "http",
}
"""A name is part of the format, as its tag is: it is never changed, nor given to another kind."""

MARK: Final = "$"
"""What the key of a map begins with that stands for something that JSON does not have."""

_TAGS: Final = range(128)

MARKS: Final = tuple(MARK + TAG_NAMES.get(tag, f"tag {tag}") for tag in _TAGS)
"""By tag: the key under which the content of an extension is written."""

# A tag that has no name yet is read by its number also when it has one later.
TAGS_BY_MARK: Final[dict[str, int]] = {
    **{f"{MARK}tag {tag}": tag for tag in _TAGS},
    **{mark: tag for tag, mark in enumerate(MARKS)},
}
"""By key: the tag of the extension that it stands for."""
