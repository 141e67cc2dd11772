"""``limpet serve``: take up every state that can go on."""

from __future__ import annotations

import asyncio
import signal

import click

from limpet.cli.cleanup import outcome, run_for_programs
from limpet.cli.options import app_option, json_option, open_limpet, store_option
from limpet.cli.output import say_json, tell
from limpet.cli.readable import plain
from limpet.cli.run import find_modules_beside, load_apps
from limpet.client import Limpet
from limpet.client.serving import Served
from limpet.errors import Awaiting, ExecutionInterrupted
from limpet.model import CleanupRun


@click.command("serve", short_help="Take up every state that can go on.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=10, show_default=True, help="Run so many states at a time."
)
@app_option
@json_option
@store_option
def serve(concurrency: int, apps: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Take up every state of the store that can go on, until Ctrl-C or SIGTERM.

    A state can go on when what it waits for has come (an answer, a time, a message), and when the process that ran it
    has died or has handed it back. Agents are imported from where they were declared;
    type this in the folder that the runs were begun in. At the end what is being executed is finished first.

    The store is cleaned up meanwhile, if [retention] in the configuration has a schedule.
    """
    find_modules_beside("")
    load_apps(apps)
    with open_limpet(store, create=True, apps=apps) as client:
        if not as_json:
            tell(f"Serving {client.backend.name}. Ctrl-C ends it.")
        asyncio.run(_serve(client, concurrency, as_json))
    if not as_json:
        tell("Ended.")


async def _serve(client: Limpet, concurrency: int, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await client.serve(
        concurrency=concurrency,
        stop=stop,
        on_served=_for_programs if as_json else lambda served: tell(_line(served)),
        on_cleanup=_cleanup_for_programs if as_json else lambda run: tell(f"cleanup: {outcome(run)}"),
    )


def _line(served: Served) -> str:
    match served.error:
        case None:
            return f"{served.state_id} completed"
        case Awaiting() as awaiting:
            return f"{served.state_id} waits for {awaiting.what}"
        case ExecutionInterrupted():
            return f"{served.state_id} interrupted"
        case error:
            return f"{served.state_id} failed: {type(error).__name__}: {error}"


def _for_programs(served: Served) -> None:
    error = served.error
    say_json(
        {
            "state_id": served.state_id,
            "result": plain(served.result),
            "error": None if error is None else {"type": type(error).__name__, "message": str(error)},
        }
    )


def _cleanup_for_programs(run: CleanupRun) -> None:
    say_json({"cleanup": run_for_programs(run)})
