"""``limpet run``: run an agent, or go on with a run of it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from limpet.cli.arguments import arguments_of
from limpet.cli.options import Telling, open_limpet, run_options
from limpet.cli.performing import Task, carry_out
from limpet.client import Limpet, new_state_id
from limpet.client.running import StoppingOptions
from limpet.config.project import is_path, project_folder, without_name
from limpet.engine.actors import Actor
from limpet.engine.allowed_code import require_allowed
from limpet.engine.declared import find_declared, import_actor, import_code
from limpet.errors import AgentNotAllowed, AgentNotFound, LimpetError, UsageError
from limpet.model import StateHeader, StateMetadata, checked_state_id


@click.command("run", short_help="Run an agent.")
@click.argument("reference", metavar="MODULE:AGENT")
@click.argument("given", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--id", "state_id", metavar="ID", help="The id of the state. Default: a new one.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag the state; may be given several times.")
@run_options
def run(
    reference: str,
    given: tuple[str, ...],
    state_id: str | None,
    tags: tuple[str, ...],
    store: str | None,
    wait_s: float | None,
    stopping: StoppingOptions,
    as_json: bool,
    is_verbose: bool,
    is_quiet: bool,
) -> None:
    """Run an agent durably and print its result.

    MODULE is found from the current folder, or is a file: `limpet run research.py:research topic=kelp`.

    With the id of a state that exists, the run goes on where it stands; a completed one gives its recorded result.
    """
    checked = None if state_id is None else checked_state_id(state_id)
    actor = load_actor(reference)
    args, kwargs = arguments_of(actor, given)
    _require_free_names(actor, kwargs)
    chosen = checked or new_state_id(actor.name)
    with open_limpet(store, create=True) as client:
        carry_out(
            Task(
                client=client,
                store=store,
                state_id=chosen,
                actor=actor,
                begin=lambda announced, bus: client.run(
                    announced,
                    *args,
                    state_id=chosen,
                    metadata=StateMetadata(tags=list(tags)),
                    event_bus=bus,
                    wait_s=wait_s,
                    **stopping,
                    **kwargs,
                ),
                telling=Telling(as_json, is_verbose, is_quiet),
            )
        )


def _require_free_names(actor: Actor[..., Any], kwargs: dict[str, Any]) -> None:
    taken = [name for name in kwargs if name in inspect.signature(Limpet.run).parameters]
    if taken:
        raise UsageError(
            f"{actor.name!r} takes {taken[0]!r} by name alone, and so does `Limpet.run`.",
            "Give the parameter of the agent another name.",
        )


def load_actor(reference: str) -> Actor[..., Any]:
    """The agent at 'module:agent' or 'file.py:agent'. Raises AgentNotFound, or UsageError where its module fails."""
    place = reference.rpartition(":")[0]
    find_modules_beside(place)
    with _explaining(place):
        return import_actor(reference)


def load_actor_of(client: Limpet, state_id: str) -> Actor[..., Any] | None:
    """The agent that a state names; None where it names none.

    Raises UnknownState, AgentNotAllowed where its code may not be run because a state names it, StateCorrupted where
    the header names another agent than the journal, and what ``load_actor`` raises.
    """
    header = header_of(client, state_id)
    named = None if header.agent is None else client.named_agent(header)
    if named is None or named.reference is None:
        return None
    find_modules_beside("")
    try:
        require_allowed(named.reference, client.allowed_code())
        return load_actor(named.reference)
    except (AgentNotAllowed, AgentNotFound):
        # What was named with `--app` has it perhaps, under the same name: code that has moved, for instance.
        declared = find_declared(named.reference, named.name) if client.modules else None
        if declared is None:
            raise
        return declared


def load_apps(apps: Sequence[str]) -> None:
    """Import the modules and files that a person allows. Raises UsageError where there is no such, or one fails."""
    for entry in apps:
        place = without_name(entry)
        find_modules_beside(place)
        if is_path(place) and not place.endswith(".py"):
            if not Path(place).is_dir():
                raise UsageError(f"There is no folder {place!r}.", "Name a module, a file or a folder with `--app`.")
        else:
            with _explaining(place):
                _import_app(place)


def _import_app(place: str) -> None:
    try:
        import_code(place, place)
    except AgentNotFound as error:
        raise UsageError(f"`--app` names code that is not there: {error.why}.", "Name a module or a file.") from error


@contextmanager
def _explaining(place: str) -> Generator[None]:
    """Say of a module that fails while it is imported how to see where."""
    try:
        yield
    except LimpetError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(
            f"{place} cannot be imported: {said}.", f"`python -c 'import {_module_name(place)}'` shows where it fails."
        ) from error


def header_of(client: Limpet, state_id: str) -> StateHeader:
    """The header of a state, without reading its journal. Raises UnknownState, with the nearest ids."""
    return client.backend.find_state(checked_state_id(state_id)) or client.show(state_id).header


def find_modules_beside(place: str) -> None:
    """Let modules be imported as Python itself does: from the current folder, and from the folder of a script.

    ``place`` is what a person typed, never what a state names.
    """
    folders = [str(Path(place).resolve().parent)] if place.endswith(".py") else []
    for folder in [str(Path.cwd()), *folders]:
        if folder not in sys.path:
            sys.path.insert(0, folder)
    # A state of the project may name a module by its place in it, wherever in the project this is typed.
    project = str(project_folder())
    if project not in sys.path:
        sys.path.append(project)


def _module_name(place: str) -> str:
    return Path(place).stem if place.endswith(".py") else place
