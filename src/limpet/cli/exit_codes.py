"""What the exit code of a command says, and which one an error gives."""

from __future__ import annotations

from enum import IntEnum

from limpet.errors import (
    Awaiting,
    BackendError,
    EventFailed,
    ExecutionInterrupted,
    LeaseHeld,
    LimpetError,
    OutcomeUnknown,
)
from limpet.model import InterruptReason


class ExitCode(IntEnum):
    """How a command ended. No command has both meanings of 1: a run fails, a check finds a difference."""

    DONE = 0
    RUN_FAILED = 1
    DIFFERENT = 1
    USAGE = 2
    HELD = 3
    STORE_FAILED = 4
    STOPPED = 5
    AWAITING = 6
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.RUN_FAILED: "the run failed: its code raised; or something differs, is damaged, or could not be copied",
    ExitCode.USAGE: "the command, or what it was given, is not right",
    ExitCode.HELD: "the state is held by another process",
    ExitCode.STORE_FAILED: "the store failed",
    ExitCode.STOPPED: "stopped by its budget or its time; the state can be resumed",
    ExitCode.AWAITING: "awaits an answer, a time or a message, or that a person says what became of a call",
    ExitCode.INTERRUPTED: "interrupted; the state can be resumed",
}

LEFT = (ExitCode.STOPPED, ExitCode.AWAITING, ExitCode.INTERRUPTED)
"""A run was left before its end: its code may still be at work on a thread."""


def exit_code_of(error: LimpetError) -> ExitCode:
    """The exit code for an error that is not the failure of a run."""
    match error:
        case LeaseHeld():
            return ExitCode.HELD
        case BackendError():
            return ExitCode.STORE_FAILED
        case EventFailed():
            return ExitCode.RUN_FAILED
        case ExecutionInterrupted(reason=InterruptReason.BUDGET | InterruptReason.TIMEOUT):
            return ExitCode.STOPPED
        case ExecutionInterrupted():
            return ExitCode.INTERRUPTED
        case OutcomeUnknown() | Awaiting():
            return ExitCode.AWAITING
        case _:
            return ExitCode.USAGE
