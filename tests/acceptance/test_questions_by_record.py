"""Questions are shown and answered by what is recorded: without the program, and whatever is wrong with others."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from limpet import (
    AlreadyAnswered,
    AwaitingAnswer,
    Encryption,
    Limpet,
    MemoryStateBackend,
    agent,
    ask,
    new_key,
    tool,
)
from limpet.cli.main import commands

SHOP = """
from dataclasses import dataclass, field
from enum import Enum

import pydantic

from limpet import agent, ask

print("the program is imported")


@dataclass
class Draft:
    title: str
    pages: list[int] = field(default_factory=list)


class Review(pydantic.BaseModel):
    ok: bool
    note: str = ""

    @pydantic.field_validator("note")
    @classmethod
    def is_polite(cls, note):
        if "rubbish" in note:
            raise ValueError("say it politely")
        return note


class Place(Enum):
    WEB = "web"
    PRINT = "print"


@agent
async def publish() -> list:
    review = await ask("Is this right?", Review, context=Draft("Kelp", [1, 2]))
    place = await ask("Where?", Place, choices=[Place.WEB, Place.PRINT], default=Place.WEB)
    return [review.ok, review.note, place.name]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that asks, in a store, of a program that this process does not import."""
    monkeypatch.chdir(tmp_path)
    name = f"shop_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(SHOP)
    assert 6 == go_on(["run", f"{name}.py:publish", "--id", "q"]).returncode
    return name


def go_on(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "limpet.cli.main", *arguments, "--store", "sqlite:///runs.db"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def call(*arguments: str) -> Result:
    result = CliRunner().invoke(commands, [*arguments, "--store", "sqlite:///runs.db"])
    assert "the program is imported" not in result.output
    return result


def test_a_context_is_shown_as_the_name_and_the_fields_of_its_class(shop: str) -> None:
    output = call("questions").output
    assert "context   Draft(title='Kelp', pages=[1, 2])" in output
    assert f"takes     a value of type {shop}:Review" in output
    (told,) = json.loads(call("questions", "--json").stdout)["questions"]
    assert {"title": "Kelp", "pages": [1, 2]} == told["context"]
    assert (f"{shop}:Draft", f"{shop}:Review", "", "") == (
        *(told["context_class"], told["type"], told["problem"], told["refused"]),
    )
    with Limpet("sqlite:///runs.db") as client:
        (question,) = client.questions()
    assert "Draft(title='Kelp', pages=[1, 2])" == repr(question.context)
    assert shop not in sys.modules


def test_an_answer_is_held_to_what_is_recorded_of_its_type(shop: str) -> None:
    for wrong, why in (('{"ok": "perhaps"}', "Expected `bool`, got `str`"), ("{}", "`ok`"), ("yes", "`object`")):
        refused = call("answer", "q", wrong)
        assert (2, True) == (refused.exit_code, why in refused.output), refused.output
    assert 0 == call("answer", "q", '{"ok": true, "note": "good"}', "--by", "ada").exit_code
    assert 0 == call("answer", "q", '{"note": "good", "ok": true}').exit_code, "the same again is no mistake"
    assert 2 == call("answer", "q", '{"ok": false}').exit_code
    assert 6 == go_on(["resume", "q"]).returncode
    assert "default   Place.WEB" in call("questions").output
    assert 2 == call("answer", "q", "radio").exit_code
    assert 0 == call("answer", "q", "print").exit_code
    done = go_on(["resume", "q", "--json"])
    assert [True, "good", "PRINT"] == json.loads(done.stdout[done.stdout.index("{") :])["result"]
    assert shop not in sys.modules


def test_an_answer_that_the_run_cannot_take_is_told_and_the_question_stays_open(shop: str) -> None:
    assert 0 == call("answer", "q", '{"ok": true, "note": "rubbish"}', "--by", "ada").exit_code
    again = go_on(["resume", "q"])
    assert 6 == again.returncode, again.stderr
    assert "say it politely" in again.stderr
    shown = call("questions").output
    assert "refused   ada: " in shown
    assert "say it politely" in shown
    (told,) = json.loads(call("questions", "--json").stdout)["questions"]
    assert "say it politely" in told["refused"]
    assert 0 == call("answer", "q", '{"ok": true, "note": "a little long"}').exit_code
    assert 6 == go_on(["resume", "q"]).returncode
    assert "Where?" in call("questions").output


Even = Annotated[int, msgspec.Meta(multiple_of=2)]


@agent
async def wants_even() -> int:
    return await ask("An even number?", Even)


def test_a_refused_answer_keeps_the_deadline_and_another_one_is_taken_while_the_run_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Limpet(MemoryStateBackend())

    @agent
    async def busy() -> int:
        answered = asyncio.Event()

        @tool
        async def speak() -> None:
            while not client.questions():
                await asyncio.sleep(0)
            client.answer("q", 3, by="ada")
            while not (asked := client.questions()):
                await asyncio.sleep(0)
            assert "ada: " in asked[0].refused
            client.answer("q", 4, by="bob")
            await answered.wait()

        speaking = asyncio.ensure_future(speak())
        said = await ask("An even number?", Even)
        answered.set()
        await speaking
        return said

    with caplog.at_level(logging.WARNING, "limpet.questions"):
        assert 4 == client.run_sync(busy, state_id="q")
    assert ["limpet.questions"] == [record.name for record in caplog.records]
    assert [4] == [client.run_sync(busy, state_id="q")]


def test_each_refused_answer_is_told_once_however_often_the_run_is_taken_up() -> None:
    client = Limpet(MemoryStateBackend())
    for wrong in (None, 3, 5):
        if wrong is not None:
            client.answer("q", wrong)
        positions: list[int] = []
        for _ in range(2):
            with pytest.raises(AwaitingAnswer) as awaiting:
                client.run_sync(wants_even, state_id="q")
            assert (wrong is not None) is bool(awaiting.value.questions[0].refused)
            positions.append(client.show("q").header.position)
        assert positions[0] == positions[1]
    client.answer("q", 6)
    assert 6 == client.run_sync(wants_even, state_id="q")
    with pytest.raises(AlreadyAnswered):
        client.answer("q", 8)


@agent
async def asks(what: str) -> bool:
    return await ask(what, bool)


def ask_three(url: str, state_ids: Sequence[str] = ("a", "b", "c"), encryption: Encryption | None = None) -> None:
    with Limpet(url, encryption=encryption) as client:
        for state_id in state_ids:
            with pytest.raises(AwaitingAnswer):
                client.run_sync(asks, state_id, state_id=state_id)


def record_that_asks(path: Path) -> int:
    """The number of the record that asks in state b."""
    with Limpet(f"sqlite:///{path}") as client:
        (seq,) = client.show("b").header.metadata.waiting["records"]
    return int(seq)


def change_body(path: Path, seq: int, change: Callable[[bytes, bytes], bytes]) -> None:
    """Write other bytes in the place of a record, given those before it and its own."""
    where = "state = (SELECT key FROM states WHERE state_id = 'b') AND seq = ?"
    with closing(sqlite3.connect(path)) as database, database:
        before, body = (
            database.execute(f"SELECT body FROM records WHERE {where}", (number,)).fetchone()[0]
            for number in (seq - 1, seq)
        )
        database.execute(f"UPDATE records SET body = ? WHERE {where}", (change(before, body), seq))


def damaged(_: bytes, body: bytes) -> bytes:
    return body[:-3] + bytes([body[-3] ^ 1]) + body[-2:]


def of_newer_version(before: bytes, _: bytes) -> bytes:
    newer = b"\x09a record as nobody can read it yet"
    return zlib.crc32(newer, int.from_bytes(before[:4], "big")).to_bytes(4, "big") + newer


def listed_with(path: Path, why: str, *, encryption: Encryption | None = None) -> None:
    """All that a and c ask is listed, and what is wrong with the question of b."""
    with Limpet(f"sqlite:///{path}", encryption=encryption) as client:
        questions = {question.state_id: question for question in client.questions()}
        assert ["a", "b", "c"] == sorted(questions)
        assert ("a", "c", "", "") == (*(questions[each].prompt for each in "ac"), *(questions[e].problem for e in "ac"))
        assert why in questions["b"].problem
        assert ("", why in str(questions["b"])) == (questions["b"].prompt, True)
        assert {"a", "b", "c"} >= {question.state_id for question in client.questions(to="ada")}
        client.answer("a", True)
        assert ["b", "c"] == sorted(question.state_id for question in client.questions())


@pytest.mark.parametrize(("change", "why"), [(damaged, "damaged"), (of_newer_version, "format version 9")])
def test_a_question_that_cannot_be_read_is_listed_and_hides_no_other(
    change: Callable[[bytes, bytes], bytes], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs.db"
    ask_three(f"sqlite:///{path}")
    change_body(path, record_that_asks(path), change)
    listed_with(path, why)
    shown = call("questions")
    assert (0, True, True) == (shown.exit_code, why in shown.output, "limpet verify b" in shown.output)
    assert "limpet answer c" in shown.output
    told = {each["state_id"]: each for each in json.loads(call("questions", "--json").stdout)["questions"]}
    assert (True, "") == (why in told["b"]["problem"], told["c"]["problem"])
    refused = call("answer", "b", "yes")
    assert (True, why in refused.output) == (refused.exit_code != 0, True)


def test_a_question_that_is_sealed_with_another_key_is_listed_and_hides_no_other(tmp_path: Path) -> None:
    path, key = tmp_path / "runs.db", new_key()
    ask_three(f"sqlite:///{path}", ("a", "c"), Encryption(key))
    ask_three(f"sqlite:///{path}", ("b",), Encryption(new_key()))
    listed_with(path, "key", encryption=Encryption(key))


def test_a_question_of_a_state_that_is_deleted_meanwhile_is_listed_and_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    ask_three(f"sqlite:///{path}")
    with Limpet(f"sqlite:///{path}") as client, pytest.MonkeyPatch.context() as patch:
        read = client.backend.read

        def deleting(state_id: str, *rest: Any) -> Any:
            if state_id == "b":
                client.backend.delete_state("b")
            return read(state_id, *rest)

        patch.setattr(client.backend, "read", deleting)
        problems = {question.state_id: question.problem for question in client.questions()}
        assert (["a", "b", "c"], ["", ""]) == (sorted(problems), [problems["a"], problems["c"]])
        assert "No state 'b'" in problems["b"]
        patch.undo()
        assert ["a", "c"] == sorted(question.state_id for question in client.questions())


def test_an_artifact_that_is_missing_takes_only_the_context(tmp_path: Path) -> None:
    @agent
    async def large() -> bool:
        return await ask("Is this right?", bool, context="x" * 2_000_000)

    with Limpet(f"sqlite:///{tmp_path}/runs.db", artifact_threshold=1000) as client:
        with pytest.raises(AwaitingAnswer):
            client.run_sync(large, state_id="q")
        assert client.artifacts is not None
        for info in list(client.artifacts.list_artifacts()):
            assert client.artifacts.delete(info.artifact_id, info.put_at)
        (question,) = client.questions()
        assert ("Is this right?", "bool") == (question.prompt, question.type_name)
        assert question.problem
        client.answer("q", True)
