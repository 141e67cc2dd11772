"""The options that several commands share, and opening the store that they name."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from holdfast.client import Holdfast

F = TypeVar("F", bound=Callable[..., Any])

STORE_HELP = "The store. Default: HOLDFAST_STORE, else sqlite:///.holdfast/runs.db."


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


def run_options(function: F) -> F:
    """The options of the commands that run a pipeline."""
    for option in reversed(
        (
            click.option(
                "--wait",
                "wait_s",
                type=click.FloatRange(min=0),
                metavar="SECONDS",
                help="Wait while another process runs it.",
            ),
            click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Tell every event, and tracebacks."),
            click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Tell nothing but errors and the result."),
        )
    ):
        function = option(function)
    return json_option(store_option(function))


def open_holdfast(store: str | None, *, create: bool = False) -> Holdfast:
    """The store that was named, else the configured one. Looking into a store that is not there does not make it."""
    return Holdfast(store, create=create)


def command_to_resume(state_id: str, store: str | None) -> str:
    """What a person types to go on with a state."""
    return shlex.join(["holdfast", "resume", state_id, *(() if store is None else ("--store", store))])
