"""What a measurement finds: ratios, the bar that they are held against, and how they are shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median
from typing import Any

AT_LEAST = ">="
AT_MOST = "<="


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the table. The median of the rounds counts; the best and the worst round show the noise."""

    name: str
    ratios: Sequence[float]
    direction: str
    bar: float
    detail: str
    unit: str = "x"

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def best(self) -> float:
        return max(self.ratios) if self.direction == AT_LEAST else min(self.ratios)

    @property
    def worst(self) -> float:
        return min(self.ratios) if self.direction == AT_LEAST else max(self.ratios)

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.bar if self.direction == AT_LEAST else self.ratio <= self.bar

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ratio": self.ratio,
            "best": self.best,
            "worst": self.worst,
            "bar": f"{self.direction} {self.bar:g}",
            "unit": self.unit,
            "is_met": self.is_met,
            "detail": self.detail,
        }


def at_least(name: str, bar: float, ours: Sequence[float], theirs: Sequence[float], detail: str) -> Finding:
    """Our rates are to be at least so many times theirs."""
    return Finding(name=name, ratios=_ratios(ours, theirs), direction=AT_LEAST, bar=bar, detail=detail)


def at_most(name: str, bar: float, ours: Sequence[float], theirs: Sequence[float], detail: str) -> Finding:
    """Our costs are to be at most so many times theirs."""
    return Finding(name=name, ratios=_ratios(ours, theirs), direction=AT_MOST, bar=bar, detail=detail)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def rate(events_per_s: Sequence[float]) -> str:
    """A rate as people read it."""
    middle = median(events_per_s)
    return f"{middle:,.0f}/s ({1e6 / middle:,.1f} µs)"


def table(findings: Sequence[Finding]) -> str:
    """The findings as text, one line each."""
    rows = [("measurement", "median", "best", "worst", "bar", "met", "detail")]
    for one in findings:
        shown = (_number(one.ratio), _number(one.best), _number(one.worst))
        bar = f"{one.direction} {one.bar:g}{'' if one.unit == 'x' else ' ' + one.unit}"
        rows.append((one.name, *shown, bar, "yes" if one.is_met else "NO", one.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = row[: len(widths)]
    cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]
    return "  ".join([*cells, row[-1]])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
