"""What can be declared of an actor, and what of it contradicts itself. Declares nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from limpet.errors import UsageError
from limpet.model import DeterminismLevel, RetryConfig

Condition = Callable[..., object]
"""Given a handler's arguments (before it) or its result (after it); False or an exception stops the event."""

Comparison = Callable[[Any, Any], object]
"""Given the recorded result and the one of executing again; true if the second counts as the first."""

Probe = Callable[..., object]
"""Given a handler's arguments; Happened(result), DidNotHappen(), or anything else where it does not know."""

TOLERANCE = 1e-6
"""How far numbers of an approximate actor may be apart, unless it says so itself."""


class Options(TypedDict, total=False):
    """What can be declared of an actor, by decorator or class."""

    name: str
    description: str
    version: str
    preconditions: Sequence[Condition]
    postconditions: Sequence[Condition]
    is_artifact: bool
    """Store every result as an artifact, whatever its size."""
    gate: bool
    """Where the policy saves on gates: all that was recorded is saved with the outcome of this."""
    total_events: int
    """Of an agent: about how many events its runs have, from which their progress is told."""
    once: bool
    """Never executed twice without a person's word: the start is durable before the handler runs."""
    probe: Probe
    """Of what is declared ``once``: finds out whether a call that was cut off has done its work."""
    undo: Callable[..., object]
    """What undoes a call when its run is rolled back: given its arguments, and ``result`` if it takes that."""
    retry_config: RetryConfig
    """How often and when a call that failed is tried again."""
    timeout_s: float
    """How long one attempt may take; then it is cancelled, and fails with EventTimedOut."""
    total_timeout_s: float
    """How long a call may take as a whole, with all attempts and the waits between them."""
    determinism: DeterminismLevel
    """How far executing it again gives the same; what a validation compares. Strict where nothing is said."""
    tolerance: float
    """Of an approximate actor: how far numbers may be apart, relative to them."""
    compare: Comparison
    """Of an approximate actor: whether a result counts as the recorded one."""
    cacheable: bool
    """Accepted from older programs; does nothing."""
    cache_ttl: int
    """Accepted from older programs; does nothing."""


def determinism_of(
    name: str, level: DeterminismLevel | str | None, tolerance: float | None, compare: Comparison | None
) -> DeterminismLevel | None:
    """The level that is declared; a tolerance or a comparison says that it is approximate."""
    if level is not None and level not in list(DeterminismLevel):
        raise UsageError(
            f"The actor {name!r} has the determinism {level!r}.", f"Use one of {', '.join(DeterminismLevel)}."
        )
    if tolerance is not None and not 0 <= tolerance < 1:
        raise UsageError(f"The actor {name!r} has the tolerance {tolerance!r}.", "Give a number from 0 to less than 1.")
    if tolerance is None and compare is None:
        return None if level is None else DeterminismLevel(level)
    if level not in (None, DeterminismLevel.APPROXIMATE):
        raise UsageError(
            f"The actor {name!r} is declared {level}, and has a tolerance or a comparison.",
            "Declare it approximate, or leave those out.",
        )
    return DeterminismLevel.APPROXIMATE


def check_limits(
    name: str, retry_config: object, timeout_s: float | None = None, total_timeout_s: float | None = None
) -> None:
    """Raises UsageError for what cannot limit a call."""
    if retry_config is not None and not isinstance(retry_config, RetryConfig):
        raise UsageError(f"The actor {name!r} has the retry_config {retry_config!r}.", "Give a RetryConfig.")
    for option, limit in (("timeout_s", timeout_s), ("total_timeout_s", total_timeout_s)):
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit is not None and not (is_number and 0 < limit < float("inf")):
            raise UsageError(f"The actor {name!r} has the {option} {limit!r}.", "Give seconds, more than 0.")


def check_total(name: str, total: object) -> None:
    if total is not None and (not isinstance(total, int) or isinstance(total, bool) or total < 1):
        raise UsageError(f"The actor {name!r} has the total_events {total!r}.", "Give a whole number from 1 on.")


def require_known(options: Mapping[str, object]) -> None:
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)} is no option of an actor.", f"The options are {', '.join(Options.__annotations__)}."
        )
