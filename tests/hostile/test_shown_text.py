"""No text that anybody wrote reaches a terminal as it is: whatever the command, the place it stands in, and the form.

The commands are those that the command line has: one that is new fails here until it is tried as well.
``HOSTILE_KINDS=each`` builds a store for each kind of hostile text instead of one with all of them.
"""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result
from hostile.shown_text import KINDS, UNENCODABLE, built, forged_lines, raw_in

from limpet.cli.main import commands
from limpet.journal.address import escape

FORMS = (
    *("tag", "description", "pipeline name", "custom data", "environment", "storage key", "storage value", "artifact"),
    *("actor name", "key", "input", "result", "version", "model name", "error message", "exception type"),
    *("question", "choices", "context", "default", "for whom", "checkpoint tag", "interrupt reason"),
    *("interrupt message", "interrupted by", "answer", "answered by"),
)
"""The places that ``shown_text.built`` and the arguments below put hostile text into."""

TEXT = "{text}"
STATES = ("good", "talking", "failing", "asking", "asking_freely", "waiting", "stopped", "explicit", "unknown")
SHOWN = [["show", state] for state in STATES]

LINES: dict[str, list[list[str]]] = {
    "run": [
        ["run", "{program}:good", "--id", "good"],
        ["run", "{program}:talking", "--id", "talking"],
        ["run", "{program}:failing", "--id", "new", "--tag", TEXT, "-v"],
        ["run", "{program}:asking", "--id", "new-2"],
        ["run", "{program}:good", f"text={TEXT}", "--id", "new-3", "-v"],
        ["run", "{program}:good", f"text=other {TEXT}", "--id", "good"],
        ["run", "{program}:failing", "--id", "good"],
    ],
    "resume": [["resume", state, "-v"] for state in STATES],
    "questions": [["questions"], ["questions", "asking"], ["questions", "--to", TEXT]],
    "answer": [
        ["answer", "asking", f"none of them {TEXT}"],
        ["answer", "asking", TEXT, "--by", TEXT],
        ["answer", "asking_freely", "--withdraw", "--by", TEXT],
        ["resume", "asking"],
        ["resume", "asking_freely"],
        *SHOWN,
    ],
    "send": [
        ["send", "waiting", TEXT, '"x"'],
        ["send", "waiting", "news", '"x"', "--key", TEXT, "--by", TEXT],
        ["resume", "waiting"],
        *SHOWN,
    ],
    "interrupt": [["interrupt", "stopped", "--message", TEXT, "--by", TEXT]],
    "settle": [["settle", "unknown"], ["settle", "unknown", "--failed", TEXT, "--by", TEXT], ["resume", "unknown"]],
    "roll-back": [["roll-back", "failing", "--yes", "-v"], ["show", "failing"], ["rerun", "failing", "--plan"]],
    "rerun": [
        ["rerun", "good", "--plan"],
        ["rerun", "good", "--at", "{model}"],
        ["rerun", "good", "--at", "{model}#2", "-v"],
        ["lineage", "good"],
        ["diff", "good"],
        ["show", "good", "--timeline", "1"],
    ],
    "fork": [["fork", "good", "--as", "forked"], ["fork", "failing", "--as", "forked-2", "--run"], ["lineage", "good"]],
    "list": [["list"], ["list", "--tag", TEXT], ["list", "--pipeline", TEXT], ["list", "--tag", f"no {TEXT}"]],
    "show": SHOWN,
    "usage": [["usage", state] for state in STATES],
    "lineage": [["lineage", "good"]],
    "diff": [["diff", "good", "failing"], ["diff", "explicit", "good"], ["diff", "good"]],
    "validate": [["validate", "--all", "-v"], ["validate", "good", "failing"]],
    "rehearse": [["rehearse", "--all", "-v"], ["rehearse", "good", "failing"]],
    "verify": [["verify", state] for state in STATES],
    "doctor": [["doctor"], ["doctor", "--repair"]],
    "recover": [["recover", state] for state in STATES],
    "migrate": [["migrate", "--no-backup"], ["migrate", "--backup", "sqlite:///{folder}/older.db"]],
    "export": [["export", "good", "{folder}/good.limpet"], ["export", "failing", "{folder}/{tame}"]],
    "import": [
        ["export", "good", "{folder}/good.limpet", "--overwrite"],
        ["import", "{folder}/good.limpet", "--store", "sqlite:///{folder}/imported.db"],
        ["import", "{folder}/good.limpet"],
        ["import", "{program}"],
    ],
    "copy": [["copy", "sqlite:///{folder}/runs.db", "sqlite:///{folder}/{tame}.db"], ["copy", TEXT, "memory://"]],
    "backup": [["backup", "sqlite:///{folder}/{tame}-2.db"]],
    "delete": [["delete", "asking"], ["delete", "good", "--yes"]],
    "cleanup": [
        ["cleanup", "--older-than", "0s", "--status", "failed", "--dry-run"],
        ["cleanup", "--max-per-pipeline", "0", "--keep-tag", TEXT, "--dry-run"],
        ["cleanup", "--max-per-pipeline", "0", "--yes"],
        ["cleanup", "--last"],
    ],
    "artifact": [["artifact", "0000"], ["artifact", TEXT]],
    "collect": [["collect", "--dry-run", "--grace", "0"]],
    "config": [["config"], ["config", "check"], ["config", "path"]],
    "key": [["key"]],
}
"""What is typed to try a command, one after the other on a store of its own."""

TRIED_ELSEWHERE = {
    "serve": "test_a_terminal_is_given_nothing_raw_by_a_process",
    "demo": "it shows a pipeline of ours, and nothing that anybody else wrote",
}


class Built(NamedTuple):
    """A store of hostile text, and the program that made it."""

    folder: Path
    program: str
    text: str

    def line(self, words: list[str], *, as_json: bool = False, more: str = "") -> list[str]:
        text = self.text + more
        tame = "".join(each for each in text if each not in "/\0?%#")[:20]
        model = escape(f"model {text}")
        given = {"text": text, "program": self.program, "folder": str(self.folder), "tame": tame, "model": model}
        return [word.format(**given) for word in (*words, *(["--json"] if as_json else []))]


def texts() -> dict[str, str]:
    """The hostile texts that stores are built of."""
    return KINDS if os.environ.get("HOSTILE_KINDS") == "each" else {"all": " ".join(KINDS.values())}


@pytest.fixture(scope="module", params=texts())
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("hostile") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTILE_TEXT", "")
        patch.chdir(folder.parent)
        text = texts()[request.param]
        yield Built(folder, str(built(folder, text)), text)


@pytest.fixture
def store(original: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Built:
    """A copy that may be changed, in the current folder."""
    copy = tmp_path / "copy"
    shutil.copytree(original.folder, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("HOSTILE_TEXT", json.dumps(original.text))
    monkeypatch.setenv("LIMPET_STORE", "sqlite:///runs.db")
    # So wide that nothing is cut off before all of it is shown.
    monkeypatch.setenv("COLUMNS", "100000")
    return Built(copy, original.program, original.text)


def typed(line: list[str]) -> Result:
    return CliRunner().invoke(commands, line, prog_name="limpet")


def require_harmless(line: list[str], result: Result) -> None:
    shown = result.stdout_bytes + result.stderr_bytes
    assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exc_info)
    assert [] == raw_in(shown), line
    # A traceback has lines, and a result that is text is shown as it is laid out.
    has_lines = "-v" in line or line[0] == "resume" or any(word.endswith(":talking") for word in line)
    assert has_lines or [] == forged_lines(shown), line
    if "--json" in line and result.stdout_bytes:
        json.loads(result.stdout_bytes)


def every_command(
    group: click.Group = commands, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


def test_every_command_is_tried() -> None:
    assert set(commands.commands) == set(LINES) | set(TRIED_ELSEWHERE)
    assert set(LINES).isdisjoint(TRIED_ELSEWHERE)


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
@pytest.mark.parametrize("command", LINES)
def test_no_command_prints_raw_what_is_stored_or_typed(store: Built, command: str, as_json: bool) -> None:
    for words in LINES[command]:
        line = store.line(words, as_json=as_json)
        require_harmless(line, typed(line))


@pytest.mark.parametrize("command", ["run", "resume", "validate", "rehearse", "roll-back"])
def test_nor_does_one_whose_pipeline_has_changed(store: Built, command: str) -> None:
    (store.folder / "changed").touch()
    (store.folder / "stuck").touch()
    for words in LINES[command]:
        line = store.line(words)
        require_harmless(line, typed(line))


def hostile_values() -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    for path, command in every_command():
        for parameter in command.params:
            if not (isinstance(parameter, click.Option) and parameter.is_flag):
                yield path, parameter


def test_no_parameter_is_repeated_raw_in_what_is_said_of_it(store: Built) -> None:
    for path, parameter in hostile_values():
        command = dict(every_command())[path]
        required = [each for each in command.params if isinstance(each, click.Argument) and each.required]
        given = [TEXT if each is parameter else "good" for each in required]
        if isinstance(parameter, click.Option):
            given += [parameter.opts[-1], TEXT]
        elif parameter not in required:
            given += [TEXT]
        for as_json, more in itertools.product((False, True), ("", UNENCODABLE)):
            line = store.line([*path, *given], as_json=as_json, more=more)
            require_harmless(line, typed(line))


def shown_on_terminal(line: list[str], *, until: bytes | None = None) -> bytes:
    """What a process of the command line shows on a terminal; it is told to end once that is there."""
    ours, its = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "limpet.cli.main", *line], stdin=its, stdout=its, stderr=its)
    os.close(its)
    shown = b""
    try:
        # The end of what is shown is an error on Linux.
        with suppress(OSError):
            while read := os.read(ours, 65536):
                shown += read
                if until is not None and until in shown:
                    process.send_signal(signal.SIGTERM)
                    until = None
        process.wait(60)
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    return shown


def require_harmless_on_terminal(shown: bytes) -> None:
    assert b"\x1b[31mred" not in shown
    without_ours = re.sub(rb"\x1b\[(?:0|1|2|3[1-6])m", b"", shown).replace(b"\r\n", b"\n")
    assert [] == raw_in(without_ours)


def test_a_terminal_is_given_nothing_raw_by_a_process(store: Built) -> None:
    assert 0 == typed(["send", "waiting", "news", "1"]).exit_code
    # It fails of hostile text when it is taken up; that is told, and logged.
    served = shown_on_terminal(["serve"], until=b"waiting failed: Bad")
    assert b"Ended." in served
    assert b"State waiting failed: Bad" in served
    require_harmless_on_terminal(served)
    shown = shown_on_terminal(["show", "failing"])
    assert b"\x1b[31m" in shown
    require_harmless_on_terminal(shown)
    require_harmless_on_terminal(shown_on_terminal(["run", f"{store.program}:failing", "--id", "new", "-v"]))


def test_the_number_of_combinations_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lines = sum(map(len, LINES.values()))
    values = len(list(hostile_values()))
    combinations = (lines * len(FORMS) + values) * len(KINDS) * 2
    with capsys.disabled():
        sys.stdout.write(f"\n{lines} lines x {len(FORMS)} forms, {values} parameters; x {len(KINDS)} kinds x 2: ")
        sys.stdout.write(f"{combinations} combinations\n")
    assert 100_000 < combinations
