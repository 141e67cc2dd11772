"""``limpet resume``: go on with a run, from what its state names."""

from __future__ import annotations

import click

from limpet.cli.options import Telling, app_option, open_limpet, run_options
from limpet.cli.performing import Task, carry_out
from limpet.cli.run import load_actor_of, load_apps
from limpet.client.running import StoppingOptions


@click.command("resume", short_help="Go on with a run.")
@click.argument("state_id", metavar="ID")
@click.option("--retry-caught", is_flag=True, help="Execute again also what failed and was caught.")
@app_option
@run_options
def resume(
    state_id: str,
    retry_caught: bool,
    apps: tuple[str, ...],
    store: str | None,
    wait_s: float | None,
    stopping: StoppingOptions,
    as_json: bool,
    is_verbose: bool,
    is_quiet: bool,
) -> None:
    """Go on with a run where it stands, with the input that it was begun with, and print its result.

    A failure that the program caught is raised again, and its call is not executed, unless `--retry-caught` is given.
    The agent is imported from where it was declared; type this in the folder that the run was begun in.
    """
    load_apps(apps)
    with open_limpet(store, apps=apps) as client:
        actor = load_actor_of(client, state_id)
        carry_out(
            Task(
                client=client,
                store=store,
                state_id=state_id,
                actor=actor,
                begin=lambda announced, bus: client.resume(
                    state_id, agent=announced, event_bus=bus, wait_s=wait_s, retry_caught=retry_caught, **stopping
                ),
                telling=Telling(as_json, is_verbose, is_quiet),
            )
        )
