"""The summary of many stored runs that were held against the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from limpet.engine.validation import ValidationReport
from limpet.model import Mismatch, NotChecked, RehearsalReport, ReplayMode
from limpet.model.validation import first_lines

Report = ValidationReport | RehearsalReport | NotChecked


class Checked(msgspec.Struct, frozen=True):
    """What a validation or a rehearsal has found of each state, in the order in which they were given."""

    mode: ReplayMode
    reports: Mapping[str, Report]

    @property
    def is_ok(self) -> bool:
        """Whether every state went through."""
        return all(report.is_ok for report in self.reports.values())

    @property
    def exit_code(self) -> int:
        """0 if every state went through, else 1: what a gate before a deployment ends with."""
        return 0 if self.is_ok else 1

    @property
    def failed(self) -> list[str]:
        """The ids of the states that did not go through."""
        return [state_id for state_id, report in self.reports.items() if not report.is_ok]

    @property
    def mismatches(self) -> list[Mismatch]:
        """Of a validation: every address at which executing again gave something else than is recorded."""
        return [
            mismatch
            for report in self.reports.values()
            if isinstance(report, ValidationReport)
            for mismatch in report.mismatches
        ]

    def __getitem__(self, state_id: str) -> Report:
        return self.reports[state_id]

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports.values())

    def __len__(self) -> int:
        return len(self.reports)

    def __str__(self) -> str:
        shown = [line for report in self.reports.values() if not report.is_ok for line in str(report).split("\n")]
        went = len(self.reports) - len(self.failed)
        verb = "validated" if self.mode is ReplayMode.VALIDATION else "rehearsed"
        states = "1 state" if len(self.reports) == 1 else f"{len(self.reports)} states"
        return "\n".join([*first_lines(shown), f"{states} {verb}: {went} went through, {len(self.failed)} did not."])
