"""Finding what a model call used in what it returned.

Every model call asks for it, so it must neither cost nor break anything: text and numbers are passed over at once,
nothing is imported, and what goes wrong is reported to the log and never raised. What comes out can be stored as it is.

Which classes have a hook is a fact about the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeVar, cast

from limpet.errors import UsageError
from limpet.logs import logger
from limpet.model.usage import LLMResult, Usage

T = TypeVar("T")

log = logger("limpet.usage")

MOST_TOKENS = 2**63 - 1
LONGEST_NAME = 200
"""Names of models are cut to so many characters: they stand in every record."""

_PLAIN: Final = frozenset({type(None), str, bytes, bytearray, bool, int, float, complex, list, tuple, set, frozenset})
_TOKENS: Final = (
    # Cached input is not among the input tokens where it is told under these names.
    ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    ("prompt_tokens", "completion_tokens"),
)
_NOTHING: Final = Usage()

_hooks: Final[dict[type, Callable[[Any], Usage | None]]] = {
    LLMResult: lambda result: Usage(result.tokens_used, result.cost, result.model_name)
}
_reported: Final[set[str]] = set()


def register_usage(cls: type[T], usage_of: Callable[[T], Usage | None]) -> None:
    """Tell what a model call used that returned an instance of this class, or of a subclass without a hook of its own.

    A later hook for the same class takes the place of the earlier one. A hook gives None where it does not know, and
    should be quick, since every call of a model waits for it. One that raises is reported once to the log
    ``limpet.usage``, and counts as one that does not know. Raises UsageError where it could never be asked.
    """
    given = cast(object, cls)
    if not isinstance(given, type):
        raise UsageError(f"register_usage was given {given!r}, which is not a class.", "Give it the class itself.")
    if given in _PLAIN:
        raise UsageError(
            f"{given.__qualname__} cannot have a hook: results of that type say nothing of what was used.",
            "Return an LLMResult, or a class of your own that holds it.",
        )
    if not callable(usage_of):
        raise UsageError(
            f"register_usage was given {usage_of!r} for {given.__qualname__}, which cannot be called.",
            "Give a function from a result to a Usage.",
        )
    _hooks[cls] = usage_of
    _reported.discard(_name(cls))


def usage_of(result: object) -> Usage | None:
    """What a model call used that returned this; None where nothing is known of it. Never raises."""
    cls = type(result)
    try:
        if cls in _PLAIN:
            return None
        hook = next((_hooks[base] for base in cls.__mro__ if base in _hooks), _by_shape)
        found = cast(object, hook(result))
        if found is None:
            return None
        if not isinstance(found, Usage):
            raise TypeError(f"the hook gave {type(found).__name__}, which is neither a Usage nor None")
        return _clean(found)
    except Exception as error:
        _report(cls, error)
        return None


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _report(cls: type, error: Exception) -> None:
    name = _name(cls)
    if name not in _reported:
        _reported.add(name)
        log.warning(
            "What a model call used cannot be told from its result of type %s, and is not counted. Mend the class, or "
            "its hook (register_usage). This is reported once.",
            name,
            exc_info=error,
        )


def _by_shape(result: object) -> Usage | None:
    """By the attributes, or the keys, that results of well-known libraries have."""
    tokens, used = _part(result, "tokens_used"), None
    if not _is_whole(tokens):
        used = _part(result, "usage")
        tokens = None if used is None else _tokens_of(used)
        if tokens is None:
            return None
    costs = (_amount(_part(part, "cost")) for part in (result, used) if part is not None)
    models = (_text(_part(result, name)) for name in ("model_name", "model"))
    return Usage(cast(int, tokens), next(filter(None, costs), 0.0), next(filter(None, models), ""))


def _part(whole: object, name: str) -> object:
    if isinstance(whole, dict):
        return cast("dict[object, object]", whole).get(name)
    return getattr(whole, name, None)


def _tokens_of(used: object) -> int | None:
    total = _part(used, "total_tokens")
    if _is_whole(total):
        return _count(total)
    for names in _TOKENS:
        counts = [_count(count) for name in names if _is_whole(count := _part(used, name))]
        if counts:
            return sum(counts)
    return None


def _clean(found: Usage) -> Usage | None:
    clean = Usage(_count(found.tokens), _amount(found.cost), _text(found.model))
    return None if clean == _NOTHING else clean


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: object) -> int:
    return min(max(int(cast(int, value)), 0), MOST_TOKENS) if _is_whole(value) else 0


def _amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        return 0.0
    try:
        amount = float(value)
    except (OverflowError, ValueError):
        return 0.0
    return amount if 0.0 < amount < math.inf else 0.0


def _text(value: object) -> str:
    return value[:LONGEST_NAME].encode("utf-8", "replace").decode() if isinstance(value, str) else ""
