"""Questions and messages on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from limpet.cli.main import commands
from limpet.engine.answer_text import asked, read_answer
from limpet.errors import WrongAnswer
from limpet.model.header import utc
from limpet.model.waits import Question

PROGRAM = """
from limpet import agent, ask, wait_for_message

@agent
async def quiz() -> list:
    which = "Which?", int
    return [await ask("Sure?", bool), await ask(*which, choices=[1, 2], key="which"), await wait_for_message("news")]
"""


@pytest.fixture
def quiz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    name = f"{tmp_path.name}.py"
    Path(name).write_text(PROGRAM)
    return f"{name}:quiz"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(commands, [*arguments, "--store", "sqlite:///runs.db"])


def test_questions_are_shown_and_answered(quiz: str) -> None:
    begun = call("run", quiz, "--id", "q")
    assert 6 == begun.exit_code
    assert "q waits for an answer." in begun.output
    assert "takes     yes or no (a bool)" in call("questions").output
    refused = call("answer", "q", "perhaps")
    assert (2, True) == (refused.exit_code, "neither yes nor no" in refused.output)
    assert "Answered quiz::ask::question." in call("answer", "q", "yes", "--by", "ada").output
    assert 0 == call("answer", "q", "true").exit_code
    assert 2 == call("answer", "q", "no").exit_code
    going_on = call("resume", "q", "--json")
    assert 6 == going_on.exit_code
    (question,) = json.loads(going_on.stdout)["error"]["questions"]
    assert ("Which?", [1, 2]) == (question["prompt"], question["choices"])
    assert 2 == call("answer", "q", "3").exit_code
    assert json.loads(call("answer", "q", "2", "--json").stdout) == {
        "state_id": "q",
        "address": "quiz::ask[which]::question",
        "withdrawn": False,
        "is_more_asked": False,
    }
    waiting = call("resume", "q")
    assert (6, True) == (waiting.exit_code, "a message about 'news'" in waiting.output)
    shown = call("show", "q").output
    assert "True  (answered by ada)" in shown
    assert "waits" in shown
    assert 0 == call("send", "q", "news", '{"a": 1}', "--key", "k").exit_code
    done = call("resume", "q", "--json")
    assert [True, 2, {"a": 1}] == json.loads(done.stdout)["result"]
    assert {"questions": []} == json.loads(call("questions", "--json").stdout)


def test_a_question_is_taken_back(quiz: str) -> None:
    call("run", quiz, "--id", "q")
    assert 2 == call("answer", "q", "yes", "--withdraw").exit_code
    assert "Withdrew" in call("answer", "q", "--withdraw", "--by", "ada").output
    failed = call("resume", "q")
    assert (1, True) == (failed.exit_code, "QuestionWithdrawn" in failed.output)


def test_without_a_value_and_a_terminal_there_is_no_answer(quiz: str) -> None:
    call("run", quiz, "--id", "q")
    refused = call("answer", "q")
    assert (2, True) == (refused.exit_code, "No answer to 'Sure?' is given" in refused.output)
    assert 2 == call("answer", "nothing-there", "yes").exit_code


def question(**fields: Any) -> Question:
    return Question(
        **{"state_id": "q", "address": "a::ask::question", "prompt": "?", "type_name": "bool", "seq": 1, **fields},
        asked_at=utc(0.0),
    )


@pytest.mark.parametrize(
    ("fields", "text", "expected"),
    [
        ({}, " Yes ", True),
        ({}, "n", False),
        ({"type_name": "str"}, "3", "3"),
        ({"type_name": "int"}, "3", 3),
        ({"type_name": "shop:Review"}, '{"ok": true}', {"ok": True}),
        ({"type_name": "datetime:date"}, "2026-11-18", "2026-11-18"),
        ({"type_name": "int", "choices": (1, 2)}, "2", 2),
        ({"type_name": "str", "choices": ("1", "2")}, "2", "2"),
        ({"choices": (True,)}, "yes", True),
    ],
)
def test_what_is_typed_is_read_as_the_question_takes_it(fields: dict[str, Any], text: str, expected: Any) -> None:
    found = read_answer(question(**fields), text)
    assert (expected, type(expected)) == (found, type(found))


@pytest.mark.parametrize("fields", [{}, {"choices": (True,)}, {"type_name": "int", "choices": (1, 2)}])
def test_what_means_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(WrongAnswer):
        read_answer(question(**fields), "perhaps")


def test_the_terminal_asks_until_there_is_an_answer() -> None:
    typed, told = iter(["perhaps", "yes"]), list[str]()
    assert asked(question(context="draft", to="ada", deadline=utc(60.0)), lambda _: next(typed), told.append) is True
    assert "?" == told[0]
    assert "'perhaps' is neither yes nor no. It takes yes or no (a bool)." == told[-1]


def test_who_says_nothing_takes_the_default_or_leaves_it_open() -> None:
    def gone(_: str) -> str:
        raise EOFError

    assert asked(question(), lambda _: "", lambda _: None) is None
    assert 7 == asked(question(has_default=True, default=7), lambda _: " ", lambda _: None)
    assert asked(question(has_default=True, default=7), gone, lambda _: None) is None


def test_serve_goes_on_with_what_was_answered_and_ends_with_a_signal(quiz: str) -> None:
    call("run", quiz, "--id", "q")
    call("answer", "q", "yes")
    command = [str(Path(sys.executable).with_name("limpet")), "serve", "--store", "sqlite:///runs.db"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "Serving" in process.stderr.readline()
        assert "q waits for an answer\n" == process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert "Ended.\n" == process.stderr.readline()
    assert 0 == process.returncode
