"""Carrying a run out for the command line: it is told about while it goes on, and its end is reported.

Only the failure of the pipeline's own code is the failure of a run; what Limpet refuses goes on up as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
import warnings
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import msgspec

import limpet.engine
from limpet.cli.calls import failed_at, run_of
from limpet.cli.exit_codes import ExitCode, exit_code_of
from limpet.cli.options import Telling, command_on
from limpet.cli.output import CommandFailed, say_json, say_result
from limpet.cli.progress import Progress
from limpet.cli.questions import question_for_programs
from limpet.cli.stop_reports import told_of
from limpet.cli.unknown_calls import how_to_settle, unknown_calls
from limpet.client import Limpet
from limpet.codec.values import without_secrets
from limpet.engine.actors import Actor
from limpet.engine.answer_text import question_lines
from limpet.engine.bus import EventBus
from limpet.engine.declared import find_actor
from limpet.engine.history_set import HistorySet
from limpet.engine.state import ExecutionState
from limpet.errors import (
    Awaiting,
    AwaitingAnswer,
    DriftWarning,
    ExecutionInterrupted,
    LimpetError,
    OutcomeUnknown,
)
from limpet.model import EventRecord, Failure, InterruptReason, StateStatus
from limpet.model.waits import Question

_PACKAGE = Path(limpet.engine.__file__).parents[1]
_LIBRARY = Path(asyncio.__file__).parents[1]
_NOT_THE_PIPELINE = tuple(
    str(place)
    for place in (
        _PACKAGE / "engine",
        _PACKAGE / "cli",
        _PACKAGE / "client",
        _LIBRARY / "asyncio",
        _LIBRARY / "concurrent",
    )
)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a command was asked for."""

    client: Limpet
    store: str | None
    """The store as it was named on the command line, if it was."""
    state_id: str
    actor: Actor[..., Any] | None
    """None: Limpet finds the agent, or says that there is none."""
    begin: Callable[[Any, EventBus], Coroutine[Any, Any, Any]]
    """Makes the run, of an agent (or None) and a bus."""
    telling: Telling
    announcement: tuple[str, ...] = ()
    """What people are told when the run begins, where that is not simply taking it up."""
    about: dict[str, Any] = {}
    """What JSON says of the state besides its id."""
    what: str = "run"
    """What people call it."""
    verb: str = "resume"
    """The command that goes on with it."""
    whole: Callable[[HistorySet], EventRecord | None] = run_of
    """The newest record of the call that it consists of, in a history."""


def carry_out(task: Task) -> None:
    """Run to the end and print the result. Raises CommandFailed, or what Limpet refuses."""
    is_new = task.client.backend.find_state(task.state_id) is None
    recorded = None if is_new or task.announcement else _recorded(task)
    progress = Progress(task.state_id, recorded, task.telling, task.announcement)
    result = performed(task, progress)
    progress.end()
    if task.telling.as_json:
        say_json({"state_id": task.state_id, **task.about, "status": StateStatus.COMPLETED, "result": result})
    else:
        say_result(result)


def performed(task: Task, progress: Progress) -> Any:
    """Run to the end, telling how it goes on, and give the result. Raises CommandFailed, or what Limpet refuses."""
    header = task.client.backend.find_state(task.state_id)
    bus = EventBus()
    bus.subscribe(progress.notice)
    actor = None if task.actor is None else progress.announced(task.actor)
    try:
        with drift_is_told_otherwise(), stdout_is_ours(task.telling.as_json):
            return _shown(task, asyncio.run(task.begin(actor, bus)))
    except KeyboardInterrupt:
        raise _left(task, "Interrupted.", "KeyboardInterrupt", ExitCode.INTERRUPTED) from None
    except SystemExit as left:
        what = f"The pipeline called sys.exit({left.code!r})."
        raise _left(task, what, "SystemExit", ExitCode.RUN_FAILED) from None
    except asyncio.CancelledError:
        what = "The pipeline cancelled itself."
        raise _left(task, what, "CancelledError", ExitCode.RUN_FAILED) from None
    except BaseException as error:
        record = _failure_since(task, 0 if header is None else header.position)
        if record is None and isinstance(error, LimpetError):
            stopped = _stopped(task, error)
            if stopped is None:
                raise
            raise stopped from error
        raise _failed(task, error, record) from error
    finally:
        bus.flush()


def _shown(task: Task, result: Any) -> Any:
    """A result without its secrets, by its type and by what its agent says of it."""
    header = task.client.backend.find_state(task.state_id)
    actor = task.actor
    if actor is None and header is not None and header.agent is not None:
        actor = find_actor(header.agent, "", task.client.allowed_code)  # It has just run.
    return without_secrets(result if actor is None else actor.hide_result(result))


def _recorded(task: Task) -> list[str]:
    """The addresses whose outcome is recorded and given again. It is the run itself that says what is damaged."""
    try:
        state = ExecutionState.load_from_state_id(task.state_id, task.client.backend)
    except LimpetError:
        return []
    return [address for address in state.history.addresses() if state.should_skip_event(address)]


@contextlib.contextmanager
def drift_is_told_otherwise() -> Generator[None]:
    """No warnings of drift: the bus or a report tells it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        yield


@contextlib.contextmanager
def stdout_is_ours(is_ours: bool = True) -> Generator[None]:
    """What the pipeline prints goes to stderr: it must not stand in the middle of JSON or of a report."""
    with contextlib.redirect_stdout(sys.stderr) if is_ours else contextlib.nullcontext():
        yield


def _failure_since(task: Task, position: int) -> EventRecord | None:
    """Where the run failed, if it has failed behind that position of the journal."""
    try:
        view = task.client.show(task.state_id)
    except LimpetError:
        return None
    is_new = view.header.status is StateStatus.FAILED and view.header.position > position
    return failed_at(view.history, task.whole(view.history)) if is_new else None


def _failed(task: Task, error: BaseException, record: EventRecord | None) -> CommandFailed:
    kind = type(error).__name__
    where = "" if record is None else f" at {record.address}"
    recorded = None if record is None else _recorded_failure(task)
    text = str(error) if recorded is None else recorded.message
    message = f"The {task.what} failed{where}: {kind}: {' '.join(text.split())}".rstrip(": ")
    return CommandFailed(
        ExitCode.RUN_FAILED,
        message,
        error={"type": kind, "message": text, "address": None if record is None else record.address},
        about={"state_id": task.state_id, "status": StateStatus.FAILED},
        notes=[*_traceback(error, recorded, task.telling), *_how_to_go_on(task, "Run it again with")],
    )


def _recorded_failure(task: Task) -> Failure | None:
    """What is recorded of the failure of the whole: it has a mask in place of every secret."""
    whole = task.whole(task.client.history(task.state_id))
    return None if whole is None else whole.error


def _left(task: Task, what: str, kind: str, code: ExitCode, **more: Any) -> CommandFailed:
    """What is told where the end was not reached: what stopped it, and how to go on."""
    header = task.client.backend.find_state(task.state_id)
    go_on = "".join(_how_to_go_on(task, " Go on with"))
    return CommandFailed(
        code,
        f"{what}{go_on if header is not None else ''}",
        error={"type": kind, "message": what, **more},
        about={"state_id": task.state_id, "status": None if header is None else header.status},
    )


def _stopped(task: Task, error: LimpetError) -> CommandFailed | None:
    """What is told where the run itself was stopped; None where Limpet says something else."""
    code, kind = exit_code_of(error), type(error).__name__
    match error:
        case ExecutionInterrupted(state_id=task.state_id):
            message = error.message or told_of(error)
            more = {"message": message, "reason": error.reason, "triggered_by": error.triggered_by}
            return _left(task, told_of(error), kind, code, **more)
        case OutcomeUnknown(state_id=task.state_id):
            return _awaiting(task, error)
        case Awaiting(state_id=task.state_id):
            return _waiting(task, error)
        case _:
            return None


def _awaiting(task: Task, error: OutcomeUnknown) -> CommandFailed:
    what = f"{error.address} is declared once and was cut off: it may or may not have done its work."
    return CommandFailed(
        ExitCode.AWAITING,
        f"{what} {task.state_id} awaits that somebody finds out, and says so:",
        error={
            "type": type(error).__name__,
            "message": what,
            "reason": InterruptReason.UNKNOWN_OUTCOME,
            "triggered_by": "",
            "address": error.address,
        },
        about={"state_id": task.state_id, "status": StateStatus.AWAITING},
        notes=how_to_settle(task.state_id, task.store, _named_if_needed(task, error.address)),
    )


def _waiting(task: Task, error: Awaiting) -> CommandFailed:
    """What is told where the run waits for something outside of itself."""
    what = f"{task.state_id} waits for {error.what}."
    questions = error.questions if isinstance(error, AwaitingAnswer) else ()
    asked = [line for question in questions for line in (*question_lines(question), _how_to_answer(task, question))]
    return CommandFailed(
        ExitCode.AWAITING,
        what,
        error={
            "type": type(error).__name__,
            "message": what,
            "reason": InterruptReason.WAITING,
            "questions": [question_for_programs(question) for question in questions],
        },
        about={"state_id": task.state_id, "status": StateStatus.AWAITING},
        notes=[*asked, *_how_to_go_on(task, "Then go on with")],
    )


def _how_to_answer(task: Task, question: Question) -> str:
    return f"  {command_on('answer', task.state_id, task.store, '--at', question.address)} …"


def _named_if_needed(task: Task, address: str) -> str | None:
    """The address, where the state has other calls that are to be settled."""
    header = task.client.backend.find_state(task.state_id)
    return address if header is not None and len(unknown_calls(task.client, header)) > 1 else None


def _how_to_go_on(task: Task, words: str) -> list[str]:
    # A state in memory is gone with this process.
    is_kept = task.client.backend.name != "memory://"
    return [f"{words}: {command_on(task.verb, task.state_id, task.store)}"] if is_kept else []


def _traceback(error: BaseException, recorded: Failure | None, telling: Telling) -> list[str]:
    """The traceback, if it is wanted, without the frames between one call of the pipeline and the next."""
    if not telling.is_verbose:
        return []
    if recorded is not None and recorded.message != str(error):
        return recorded.traceback.rstrip().split("\n")  # There are secrets in the exception itself.
    told = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in told.stack if not frame.filename.startswith(_NOT_THE_PIPELINE)]
    told.stack = traceback.StackSummary.from_list(frames)
    return "".join(told.format()).rstrip().split("\n")
