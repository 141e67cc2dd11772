"""The options that several commands share, and opening the store that they name."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from limpet.cli.limits import limit_options
from limpet.client import Limpet

F = TypeVar("F", bound=Callable[..., Any])

STORE_HELP = "The store. Default: as configured (LIMPET_STORE), else .limpet/runs.db in the project."


def _remember_store(context: click.Context, _: click.Parameter, url: str | None) -> str | None:
    # The option stands before the command or after it; the nearer one counts.
    url = context.find_object(str) if url is None else url
    context.obj = url
    return url


def store_option(function: F) -> F:
    return click.option("--store", metavar="URL", callback=_remember_store, help=STORE_HELP)(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too.")(function)


class Telling(msgspec.Struct, frozen=True):
    """How much is told on stderr while a run goes on, and in which form its result is given."""

    as_json: bool
    is_verbose: bool
    is_quiet: bool


def telling_options(function: F) -> F:
    """The options that say how much is told, and where the store is."""
    for option in (
        click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Tell nothing but errors and the result."),
        click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Tell every event, and tracebacks."),
    ):
        function = option(function)
    return json_option(store_option(function))


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the commands that run a pipeline."""
    wait = click.option(
        "--wait",
        "wait_s",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="Wait while another process runs it.",
    )
    return wait(limit_options(telling_options(function)))


def timeline_option(help_text: str) -> Callable[[F], F]:
    """The option that names a timeline of a state. What it is for differs from command to command."""
    return click.option("--timeline", type=click.IntRange(min=1), metavar="N", help=help_text)


def replace_options(function: F) -> F:
    """The options that give a call another result."""
    for option in (
        click.option("--any-type", is_flag=True, help="Take the JSON as it is, whatever type was recorded."),
        click.option(
            "--replace",
            metavar="JSON",
            help="Do not execute the call at the address: let it give this value. @FILE reads it from a file.",
        ),
    ):
        function = option(function)
    return function


def again_option(function: F) -> F:
    """The option that allows to do again what should be done once."""
    return click.option("--again", is_flag=True, help="Execute again even what is declared `once`.")(function)


def app_option(function: F) -> F:
    """The option that allows code to be run because a state names it."""
    return click.option(
        "--app",
        "apps",
        multiple=True,
        metavar="MODULE",
        help="Allow and import the code of this module, package or file; may be given several times.",
    )(function)


def open_limpet(store: str | None, *, create: bool = False, apps: tuple[str, ...] = ()) -> Limpet:
    """The store that was named, else the configured one. Looking into a store that is not there does not make it."""
    return Limpet(store, create=create, modules=apps)


def command_on(verb: str, state_id: str, store: str | None, *options: str) -> str:
    """What a person types to have something done with a state."""
    return shlex.join(["limpet", verb, state_id, *options, *(() if store is None else ("--store", store))])


def command_to_resume(state_id: str, store: str | None) -> str:
    """What a person types to go on with a state."""
    return command_on("resume", state_id, store)
