"""``limpet demo``: a pipeline that is really killed, and goes on."""

from __future__ import annotations

import click

from limpet.cli.exit_codes import ExitCode
from limpet.demo.driver import run_demo


@click.command("demo", short_help="Watch a run being killed and going on.")
@click.option("--keep", "is_kept", is_flag=True, help="Keep the folder, to look into the store afterwards.")
def demo(is_kept: bool) -> None:
    """Run a small research pipeline, kill its process in the middle, and run the same line again.

    The model is scripted: nothing leaves this machine. Ends with the bill: what the model was asked for, with the crash
    and without.
    """
    if not run_demo(is_kept=is_kept):
        click.get_current_context().exit(ExitCode.RUN_FAILED)
