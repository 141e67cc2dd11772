"""Carrying a run out for the command line: it is told about while it goes on, and its end is reported.

Only the failure of the pipeline's own code is the failure of a run; what Holdfast refuses goes on up as it is.
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

import holdfast.engine
from holdfast.cli.calls import failed_at, run_of
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.options import Telling, command_to_resume
from holdfast.cli.output import CommandFailed, say_json, say_result
from holdfast.cli.progress import Progress
from holdfast.client import Holdfast
from holdfast.codec.values import without_secrets
from holdfast.engine.actors import Actor
from holdfast.engine.bus import EventBus
from holdfast.engine.state import ExecutionState
from holdfast.errors import DriftWarning, HoldfastError
from holdfast.model import EventRecord, Failure, StateStatus

_PACKAGE = Path(holdfast.engine.__file__).parents[1]
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

    client: Holdfast
    store: str | None
    """The store as it was named on the command line, if it was."""
    state_id: str
    actor: Actor[..., Any] | None
    """None: Holdfast finds the agent, or says that there is none."""
    begin: Callable[[Any, EventBus], Coroutine[Any, Any, Any]]
    """Makes the run, of an agent (or None) and a bus."""
    telling: Telling
    announcement: tuple[str, ...] = ()
    """What people are told when the run begins, where that is not simply taking it up."""
    about: dict[str, Any] = {}
    """What JSON says of the state besides its id."""


def carry_out(task: Task) -> None:
    """Run to the end and print the result. Raises CommandFailed, or what Holdfast refuses."""
    header = task.client.backend.find_state(task.state_id)
    recorded = None if header is None or task.announcement else _recorded(task)
    progress = Progress(task.state_id, recorded, task.telling, task.announcement)
    bus = EventBus()
    bus.subscribe(progress.notice)
    actor = None if task.actor is None else progress.announced(task.actor)
    try:
        with drift_is_told_otherwise(), stdout_is_ours(task.telling.as_json):
            result = asyncio.run(task.begin(actor, bus))
    except KeyboardInterrupt:
        raise _interrupted(task, "Interrupted", "KeyboardInterrupt", ExitCode.INTERRUPTED) from None
    except SystemExit as left:
        what = f"The pipeline called sys.exit({left.code!r})"
        raise _interrupted(task, what, "SystemExit", ExitCode.RUN_FAILED) from None
    except Exception as error:
        record = _failure_since(task, 0 if header is None else header.position)
        if record is None and isinstance(error, HoldfastError):
            raise
        raise _failed(task, error, record) from error
    finally:
        bus.flush()
    progress.end()
    result = without_secrets(result)
    if task.telling.as_json:
        say_json({"state_id": task.state_id, **task.about, "status": StateStatus.COMPLETED, "result": result})
    else:
        say_result(result)


def _recorded(task: Task) -> list[str]:
    """The addresses whose outcome is recorded and given again. It is the run itself that says what is damaged."""
    try:
        state = ExecutionState.load_from_state_id(task.state_id, task.client.backend)
    except HoldfastError:
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
    except HoldfastError:
        return None
    is_new = view.header.status is StateStatus.FAILED and view.header.position > position
    return failed_at(view.history) if is_new else None


def _failed(task: Task, error: Exception, record: EventRecord | None) -> CommandFailed:
    kind = type(error).__name__
    where = "" if record is None else f" at {record.address}"
    recorded = None if record is None else _recorded_failure(task)
    text = str(error) if recorded is None else recorded.message
    message = f"The run failed{where}: {kind}: {' '.join(text.split())}".rstrip(": ")
    return CommandFailed(
        ExitCode.RUN_FAILED,
        message,
        error={"type": kind, "message": text, "address": None if record is None else record.address},
        about={"state_id": task.state_id, "status": StateStatus.FAILED},
        notes=[*_traceback(error, recorded, task.telling), *_how_to_go_on(task, "Run it again with")],
    )


def _recorded_failure(task: Task) -> Failure | None:
    """What is recorded of the failure of the run as a whole: it has a mask in place of every secret."""
    run = run_of(task.client.history(task.state_id))
    return None if run is None else run.error


def _interrupted(task: Task, what: str, kind: str, code: ExitCode) -> CommandFailed:
    header = task.client.backend.find_state(task.state_id)
    go_on = "".join(_how_to_go_on(task, " Go on with"))
    return CommandFailed(
        code,
        f"{what}.{go_on if header is not None else ''}",
        error={"type": kind, "message": f"{what}."},
        about={"state_id": task.state_id, "status": None if header is None else header.status},
    )


def _how_to_go_on(task: Task, words: str) -> list[str]:
    # A state in memory is gone with this process.
    is_kept = task.client.backend.name != "memory://"
    return [f"{words}: {command_to_resume(task.state_id, task.store)}"] if is_kept else []


def _traceback(error: Exception, recorded: Failure | None, telling: Telling) -> list[str]:
    """The traceback, if it is wanted, without the frames between one call of the pipeline and the next."""
    if not telling.is_verbose:
        return []
    if recorded is not None and recorded.message != str(error):
        return [recorded.traceback.rstrip()]  # There are secrets in the exception itself.
    told = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in told.stack if not frame.filename.startswith(_NOT_THE_PIPELINE)]
    told.stack = traceback.StackSummary.from_list(frames)
    return ["".join(told.format()).rstrip()]
