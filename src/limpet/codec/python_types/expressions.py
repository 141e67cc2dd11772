"""The kind of compiled regular expressions. Reading one compiles it again, at a cost that is bounded here."""

from __future__ import annotations

import re
from typing import Any, Final

from limpet.codec.kinds import Kind, Lower, NotStorable
from limpet.errors import ValueNotReadable

MAX_LENGTH: Final = 1 << 16
MAX_WIDE_RANGES: Final = 16

# DEBUG would print while a value is read.
_FLAGS: Final = int(re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE)

_IGNORES_CASE: Final = re.compile(r"\(\?[A-Za-z]*i")
# The end of a range that may lie far beyond ASCII: where case is ignored, Python looks at every character in between.
_WIDE_RANGE: Final = re.compile(r"-(?:[^\x00-\x7f]|\\[xuUN])")


def _hindrance(pattern: Any, flags: Any) -> str | None:
    """Why this expression is not one that is compiled when it is read; None where it is."""
    if type(pattern) not in (str, bytes):
        return f"has a pattern of type {type(pattern).__name__}"
    if type(flags) is not int or flags & ~_FLAGS:
        return "has flags that cannot be stored"
    if len(pattern) > MAX_LENGTH:
        return f"has a pattern of more than {MAX_LENGTH} characters"
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    if flags & re.IGNORECASE or _IGNORES_CASE.search(text):
        wide = sum(1 for _ in _WIDE_RANGE.finditer(text)) if isinstance(pattern, str) else 0
        if wide > MAX_WIDE_RANGES:
            return f"ignores case and has more than {MAX_WIDE_RANGES} ranges beyond ASCII, which is slow to compile"
    return None


def _lower(value: re.Pattern[Any], lower: Lower) -> Any:
    hindrance = _hindrance(value.pattern, value.flags)
    if hindrance is not None:
        raise NotStorable(type(value), hindrance)
    return [lower(value.pattern), value.flags]


def _build(parts: Any) -> re.Pattern[Any]:
    pattern, flags = parts
    hindrance = _hindrance(pattern, flags)
    if hindrance is not None:
        raise ValueNotReadable("re:Pattern", f"it {hindrance}")
    return re.compile(pattern, flags)


EXPRESSION: Final = Kind(29, _lower, _build)
"""The kind of ``re.Pattern``."""
