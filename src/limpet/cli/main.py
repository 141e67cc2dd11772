"""The command ``limpet``: its commands, and the one place where errors become lines, JSON and exit codes."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from io import TextIOWrapper
from types import TracebackType
from typing import Any

import click

from limpet.cli.answer import answer, send
from limpet.cli.artifact import artifact
from limpet.cli.backup import backup
from limpet.cli.cleanup import cleanup
from limpet.cli.collect import collect
from limpet.cli.config import config
from limpet.cli.copy import copy
from limpet.cli.delete import delete
from limpet.cli.demo import demo
from limpet.cli.diff import diff
from limpet.cli.exit_codes import LEFT, MEANINGS, ExitCode, exit_code_of
from limpet.cli.export import export
from limpet.cli.fork import fork
from limpet.cli.import_state import import_state
from limpet.cli.interrupt import interrupt
from limpet.cli.key import key
from limpet.cli.lineage import lineage
from limpet.cli.list_states import list_states
from limpet.cli.migrate import migrate
from limpet.cli.options import store_option
from limpet.cli.output import CommandFailed, report
from limpet.cli.questions import questions
from limpet.cli.recover import recover
from limpet.cli.rerun import rerun
from limpet.cli.resume import resume
from limpet.cli.roll_back import roll_back
from limpet.cli.run import run
from limpet.cli.serve import serve
from limpet.cli.settle import settle
from limpet.cli.show import show
from limpet.cli.usage import usage
from limpet.cli.validate import rehearse, validate
from limpet.cli.verify import doctor, verify
from limpet.engine.threads import is_any_at_work, is_anything_given_up
from limpet.errors import ConfigurationError, LimpetError
from limpet.escapes import harmless
from limpet.logs import make_harmless

EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())


class _Commands(click.Group):
    """The group of commands. Every error of any of them ends here, whoever calls it: a shell, or a test."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        code = ExitCode.DONE
        try:
            ended: object = super().main(
                arguments,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
            code = ended if isinstance(ended, int) else code
        except (CommandFailed, LimpetError, click.ClickException, click.Abort) as error:
            code = _reported(_failure(error), arguments)
        except UnicodeEncodeError:
            wrong = [argument for argument in arguments if not _is_utf8(argument)]
            if not wrong:
                raise
            problem = f"{wrong[0]!r} is not UTF-8, and nothing else can be stored. Write it in that encoding."
            code = _reported(_plain_failure(ExitCode.USAGE, "UsageError", problem), arguments)
        sys.exit(code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        # In the order of use, as they were added, rather than of the alphabet.
        return list(self.commands)


def _reported(failure: CommandFailed, arguments: Sequence[str]) -> ExitCode:
    report(failure, as_json="--json" in arguments)
    return failure.code


def _is_utf8(argument: str) -> bool:
    """Whether an argument was UTF-8 as it was typed: Python makes lone surrogates of what is not."""
    return argument == argument.encode("utf-8", "replace").decode()


def _failure(error: Exception) -> CommandFailed:
    match error:
        case CommandFailed():
            return error
        case ConfigurationError():
            first, *rest = str(error).split("\n")
            told = {"type": type(error).__name__, "message": str(error)}
            return CommandFailed(exit_code_of(error), first, error=told, about={}, notes=rest)
        case LimpetError():
            return _plain_failure(exit_code_of(error), type(error).__name__, str(error))
        case click.ClickException():
            return _plain_failure(ExitCode.USAGE, "UsageError", _usage(error))
        case _:
            return _plain_failure(ExitCode.INTERRUPTED, "KeyboardInterrupt", "Interrupted.")


def _plain_failure(code: ExitCode, kind: str, message: str) -> CommandFailed:
    return CommandFailed(code, message, error={"type": kind, "message": message}, about={})


def _usage(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "limpet" if context is None else context.command_path
    return f"{' '.join(error.format_message().split())} `{path} -h` shows what it takes."


def _show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        click.echo(f"limpet {_version()}")
        context.exit()


def _version() -> str:
    try:
        return metadata.version("limpet")
    except metadata.PackageNotFoundError:
        return "(not installed)"


@click.group("limpet", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@store_option
def commands(store: str | None) -> None:
    """Durable runs of agents, tools and model calls.

    Kill a run anywhere and run the same line again: it goes on, and what is finished is not done again.
    """


for command in (
    run,
    resume,
    questions,
    answer,
    send,
    serve,
    interrupt,
    settle,
    roll_back,
    rerun,
    fork,
    list_states,
    show,
    usage,
    lineage,
    diff,
    validate,
    rehearse,
    verify,
    doctor,
    recover,
    migrate,
    export,
    import_state,
    copy,
    backup,
    delete,
    cleanup,
    artifact,
    collect,
    config,
    key,
    demo,
):
    commands.add_command(command)


def main() -> None:
    """The entry point of the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that lacks a character shows its number; that is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    _make_python_harmless()
    try:
        commands.main(prog_name="limpet")
    except SystemExit as ended:
        if ended.code in LEFT or is_anything_given_up():
            _leave_at_once(ended.code)
        raise


def _make_python_harmless() -> None:
    """What Python itself prints in this process has names and messages of the pipeline in it, too."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(harmless("".join(traceback.format_exception(kind, error, trace))))

    formatted: Callable[..., str] = warnings.formatwarning

    def formatted_harmlessly(*args: Any, **kwargs: Any) -> str:
        return harmless(formatted(*args, **kwargs))

    warnings.formatwarning = formatted_harmlessly
    sys.excepthook = show
    logging.getLogger("asyncio").addFilter(make_harmless)


def _leave_at_once(code: str | int | None) -> None:
    """End the process although a plain function of the pipeline still runs on its thread: the state is settled."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    if others or is_any_at_work():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else ExitCode.DONE)


if __name__ == "__main__":
    main()
