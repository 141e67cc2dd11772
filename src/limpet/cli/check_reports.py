"""What a validation or a rehearsal has found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from limpet.cli.diff import differences_for_programs
from limpet.cli.output import styled
from limpet.engine.checked import Checked, Report
from limpet.engine.validation import ValidationReport
from limpet.escapes import one_line
from limpet.model import NotChecked, RehearsalReport, Rehearsed

_COLOURS = {"✓": "green", "✗": "red", "?": "yellow"}


def report_lines(checked: Checked, is_verbose: bool) -> Iterator[str]:
    """The report; with every state, and all that was found of it, where that is wanted."""
    lines = str(checked).split("\n")
    if is_verbose:
        lines = [line for report in checked for line in _whole(report)] + lines[-1:]
    for line in lines:
        sign = line[:1]
        yield f"{styled(sign, fg=_COLOURS[sign])}{line[1:]}" if sign in _COLOURS else line


def _whole(report: Report) -> Iterator[str]:
    """A report without an end to its lines."""
    yield str(report).split("\n")[0]
    match report:
        case ValidationReport():
            for mismatch in report.mismatches:
                yield from (f"    {line}" for line in str(mismatch).split("\n"))
            yield from (f"    - {address} was not executed" for address in report.missing)
            yield from (f"    + {address} is not recorded" for address in report.extra)
        case RehearsalReport():
            yield from (f"    {each}" for each in report.divergences)
            if report.error is not None:
                yield f"    failed: {one_line(report.error)}"
            if report.is_ok and report.goes_on_at is not None:
                yield f"    would go on at {report.goes_on_at.address}"
        case NotChecked():
            pass


def checked_for_programs(checked: Checked) -> dict[str, Any]:
    """The report as JSON says it."""
    return {
        "mode": checked.mode,
        "is_ok": checked.is_ok,
        "states": [
            {"state_id": state_id, "is_ok": report.is_ok, **_report_for_programs(report)}
            for state_id, report in checked.reports.items()
        ],
    }


def _report_for_programs(report: Report) -> dict[str, Any]:
    match report:
        case ValidationReport():
            return {
                "matched": len(report.matched),
                "mismatches": [
                    {"address": each.address, "differences": differences_for_programs(each.differences)}
                    for each in report.mismatches
                ],
                "missing": report.missing,
                "extra": report.extra,
            }
        case RehearsalReport():
            return {
                "calls": [_call_for_programs(call) for call in report.calls],
                "divergences": [_call_for_programs(call) for call in report.divergences],
                "error": report.error,
                "goes_on_at": None if report.goes_on_at is None else _call_for_programs(report.goes_on_at),
            }
        case NotChecked():
            return {"not_checked": report.why}


def _call_for_programs(call: Rehearsed) -> dict[str, Any]:
    return {
        "address": call.address,
        "finding": call.finding,
        "detail": call.detail,
        "file": call.file or None,
        "line": call.line or None,
    }
