"""The options that limit a run, and what ``Limpet.run`` is given for them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypedDict

import click

from limpet.cli.output import tell
from limpet.client.running import StoppingOptions
from limpet.config import load_config
from limpet.model import Budget

_COUNT = click.IntRange(min=0)
_AMOUNT = click.FloatRange(min=0)

_BUDGET: dict[str, tuple[str, click.IntRange | click.FloatRange, str, str]] = {
    "events": ("--max-events", _COUNT, "N", "Stop before more calls than so many are made."),
    "model_calls": ("--max-model-calls", _COUNT, "N", "Stop before more calls of models than so many are made."),
    "tokens": ("--max-tokens", _COUNT, "N", "Stop when model calls have used so many tokens."),
    "cost": ("--max-cost", _AMOUNT, "AMOUNT", "Stop when model calls have cost so much."),
    "wall_time_s": ("--max-time", _AMOUNT, "SECONDS", "Stop when the run has taken so long, over all processes."),
    "repeats": ("--max-repeats", _COUNT, "N", "Stop before the same call is made with the same input more often."),
}
"""By the field of a Budget: the option, its type, and what is told of it."""


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that limit a run. A command gets them as one: ``stopping``, what may stop the run."""

    @functools.wraps(function)
    def limited(*args: Any, timeout_s: float | None, **given: Any) -> Any:
        limits = {field: given.pop(field) for field in _BUDGET}
        stopping = StoppingOptions(timeout_s=timeout_s, budget=_budget(limits), **signal_options())
        return function(*args, stopping=stopping, **given)

    made: Callable[..., Any] = limited
    for field, (option, kind, metavar, told) in reversed(_BUDGET.items()):
        made = click.option(option, field, type=kind, metavar=metavar, help=told)(made)
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Stop after so long; the run can be resumed.",
    )(made)


def _budget(limits: dict[str, Any]) -> Budget | None:
    """The limits that options give, with the configured ones for the rest; None where no option gives any."""
    if Budget(**limits).is_empty:
        return None
    configured = asdict(load_config().values.budget)
    return Budget(**{field: configured[field] if limit is None else limit for field, limit in limits.items()})


class SignalOptions(TypedDict):
    """What ``Limpet.run`` is given for SIGINT and SIGTERM."""

    handle_signals: bool
    on_first_signal: Callable[[], None]


def signal_options() -> SignalOptions:
    """SIGINT and SIGTERM stop a run that is begun in the main thread, which alone they reach; people are told how."""
    return {
        "handle_signals": threading.current_thread() is threading.main_thread(),
        "on_first_signal": lambda: tell("Finishing what is being executed; once more to stop at once."),
    }
