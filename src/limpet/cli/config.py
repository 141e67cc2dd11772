"""``limpet config``: the settings that count here, where each comes from, and whether they are right."""

from __future__ import annotations

from datetime import timedelta

import click

from limpet.cli.exit_codes import ExitCode
from limpet.cli.options import json_option, store_option
from limpet.cli.output import say, say_json, say_table, tell
from limpet.config import Configuration, load_config
from limpet.config.model import SETTINGS
from limpet.config.problems import without_secrets
from limpet.config.reference import shown
from limpet.errors import ConfigurationError
from limpet.model.amounts import duration_text

HEADING = ("SETTING", "VALUE", "FROM")


@click.group("config", short_help="Show the settings, and where they come from.", invoke_without_command=True)
@click.option("--all", "is_all", is_flag=True, help="Also settings that have no value.")
@json_option
@store_option
@click.pass_context
def config(context: click.Context, is_all: bool, store: str | None, as_json: bool) -> None:
    """Show every setting that has a value, and where that comes from.

    Sources are, the later the more they count: defaults, the nearest limpet.toml or pyproject.toml with
    [tool.limpet], variables LIMPET_*, and options. Keys for encryption are never shown.
    """
    if context.invoked_subcommand is not None:
        return
    loaded = load_config(store=store)
    if as_json:
        say_json(_for_programs(loaded))
        return
    keys = [key for key in SETTINGS if is_all or loaded.value(key) is not None]
    say_table([HEADING, *((key, shown(loaded.value(key)), loaded.origin(key)) for key in keys)])


def _for_programs(loaded: Configuration) -> dict[str, object]:
    return {
        "file": None if loaded.file is None else str(loaded.file),
        "store": without_secrets(loaded.store),
        "settings": {key: {"value": _plain(loaded.value(key)), "origin": loaded.origin(key)} for key in SETTINGS},
    }


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        return duration_text(value)
    return without_secrets(value) if type(value) is str else value


@config.command("check", short_help="Say all that is wrong.")
@json_option
def check(as_json: bool) -> int:
    """Say all that is wrong in the file and the environment, and end with 2 if anything is."""
    try:
        load_config()
    except ConfigurationError as error:
        if as_json:
            say_json({"problems": [problem._asdict() for problem in error.problems]})
        for problem in error.problems:
            tell(str(problem))
        return ExitCode.USAGE
    if as_json:
        say_json({"problems": []})
    else:
        say("The configuration is right.")
    return ExitCode.DONE


@config.command("path", short_help="Say which file is in use.")
@json_option
def path(as_json: bool) -> None:
    """Print the path of the configuration file in use; nothing where there is none."""
    file = load_config().file
    if as_json:
        say_json({"file": None if file is None else str(file)})
    elif file is not None:
        say(str(file))
    else:
        tell("No file: neither limpet.toml nor a pyproject.toml with [tool.limpet] is here or in a folder above.")
