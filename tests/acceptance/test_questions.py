"""A run asks people, leaves memory, and goes on with what they say."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import msgspec
import pydantic
import pytest
from acceptance.turned_clock import Turned, turned_clock
from crash.stores import opener

from limpet import (
    AlreadyAnswered,
    AmbiguousAddress,
    AwaitingAnswer,
    DeadlinePassed,
    Drift,
    Encryption,
    EventRecord,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    Question,
    QuestionWithdrawn,
    StateBackend,
    StateStatus,
    UnknownAddress,
    UnknownState,
    UsageError,
    WrongAnswer,
    agent,
    ask,
    new_key,
    tool,
)

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return name


@agent
async def publish(topic: str) -> str:
    text = await step(f"draft {topic}")
    if not await ask("Publish this?", bool, context=text, to="editor"):
        return "kept back"
    return await step("published")


def asked(client: Limpet, run: Any, *args: Any, **options: Any) -> tuple[Question, ...]:
    with pytest.raises(AwaitingAnswer) as awaiting:
        client.run_sync(run, *args, state_id="q", **options)
    assert "q" == awaiting.value.state_id
    return awaiting.value.questions


def test_a_run_that_asks_leaves_memory_and_goes_on_inside_the_handler(reopen: Callable[[], StateBackend]) -> None:
    (question,) = asked(Limpet(reopen()), publish, "kelp")
    assert ("Publish this?", "bool", "draft kelp", "editor") == (
        *(question.prompt, question.type_name, question.context, question.to),
    )
    assert "publish::ask::question" == question.address
    assert {"type": "boolean"} == question.schema
    elsewhere = Limpet(reopen())
    assert [question] == elsewhere.questions()
    assert StateStatus.AWAITING is elsewhere.show("q").header.status
    elsewhere.answer("q", True, by="ada")
    assert [] == elsewhere.questions()
    assert "published" == Limpet(reopen()).run_sync(publish, "kelp", state_id="q")
    assert {"draft kelp": 1, "published": 1} == executions
    assert {} == elsewhere.show("q").header.metadata.waiting


def test_who_said_what_and_when_is_recorded(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    asked(client, publish, "kelp")
    client.answer("q", False, by="ada")
    assert "kept back" == client.run_sync(publish, "kelp", state_id="q")
    (record,) = [
        record
        for record in client.history("q")
        if isinstance(record, EventRecord) and record.address == "publish::ask::question" and record.result is not None
    ]
    assert record.details is not None
    assert ("answered", "ada") == (record.details.settled, record.details.by)


def test_a_run_that_was_not_answered_asks_the_same_and_writes_nothing_more(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    first = asked(client, publish, "kelp")
    position = client.show("q").header.position
    assert first == asked(Limpet(reopen()), publish, "kelp")
    assert position == client.show("q").header.position


@dataclasses.dataclass
class Review:
    ok: bool
    notes: list[str]


class Verdict(pydantic.BaseModel):
    score: int


class Place(Enum):
    WEB = "web"
    PRINT = "print"


class Point(msgspec.Struct):
    x: int


@agent
async def anything() -> Any:
    return await ask("What?", switch["type"], **switch.get("options", {}))


TYPES: list[tuple[Any, Any, Any, Any]] = [
    (bool, True, True, 1),
    (str, "text", "text", 3),
    (int, 3, 3, "3"),
    (int, 3, 3, True),
    (float, 1.5, 1.5, "x"),
    (float, 1, 1.0, None),
    (Review, {"ok": True, "notes": ["a"]}, Review(True, ["a"]), {"ok": "yes", "notes": []}),
    (Review, Review(False, []), Review(False, []), 5),
    (Verdict, {"score": 3}, Verdict(score=3), {"score": "high"}),
    (Verdict, Verdict(score=3), Verdict(score=3), {}),
    (Point, {"x": 1}, Point(1), {"x": "1"}),
    (Place, "web", Place.WEB, "radio"),
    (Place, Place.PRINT, Place.PRINT, 7),
    (list[Verdict], [{"score": 1}, Verdict(score=2)], [Verdict(score=1), Verdict(score=2)], [{"score": None}]),
    (Literal["a", "b"], "b", "b", "c"),
    (int | None, None, None, "none"),
    (tuple[int, ...], [1, 2], (1, 2), ["a"]),
    (dict[str, int], {"a": 1}, {"a": 1}, {"a": "b"}),
    (datetime, "2026-11-18T10:00:00Z", datetime(2026, 11, 18, 10, tzinfo=UTC), "soon"),
]


@pytest.mark.parametrize(("wanted", "given", "expected", "wrong"), TYPES)
def test_an_answer_is_of_the_type_that_was_asked_for_or_refused(
    wanted: Any, given: Any, expected: Any, wrong: Any
) -> None:
    client = Limpet(MemoryStateBackend())
    switch["type"] = wanted
    asked(client, anything)
    with pytest.raises(WrongAnswer) as refused:
        client.answer("q", wrong)
    assert "is still open" in str(refused.value)
    assert 1 == len(client.questions("q"))
    client.answer("q", given)
    found = client.run_sync(anything, state_id="q")
    assert (expected, type(expected)) == (found, type(found))


def test_only_choices_are_accepted() -> None:
    client = Limpet(MemoryStateBackend())
    switch.update(type=str, options={"choices": ["web", "print"]})
    (question,) = asked(client, anything)
    assert ("web", "print") == question.choices
    with pytest.raises(WrongAnswer, match="none of the choices"):
        client.answer("q", "radio")
    client.answer("q", "print")
    assert "print" == client.run_sync(anything, state_id="q")


def test_the_same_answer_twice_is_one_and_another_one_is_refused(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    asked(client, publish, "kelp")
    for _ in range(2):
        assert "publish::ask::question" == client.answer("q", True, by="ada").address
    with pytest.raises(AlreadyAnswered, match="answered by ada with True"):
        client.answer("q", False)
    assert "published" == client.run_sync(publish, "kelp", state_id="q")
    client.answer("q", True)
    with pytest.raises(AlreadyAnswered, match="answered with True"):
        client.answer("q", False)
    assert "published" == client.run_sync(publish, "kelp", state_id="q")


def test_what_cannot_be_answered_says_why() -> None:
    client = Limpet(MemoryStateBackend())
    with pytest.raises(UnknownState):
        client.answer("q", True)
    client.run_sync(step_only, state_id="q")
    with pytest.raises(UsageError, match="asks nothing"):
        client.answer("q", True)
    with pytest.raises(UnknownAddress):
        client.answer("q", True, address="ask")
    with pytest.raises(UsageError, match="no open question"):
        client.withdraw("q")


@agent
async def step_only() -> str:
    return await step("only")


@agent
async def branches() -> list[Any]:
    async def branch(name: str) -> str:
        said = await ask(f"{name}?", str, key=name)
        return await step(f"{name} {said}")

    return await asyncio.gather(*(branch(name) for name in ("left", "right")), step("beside"))


def test_several_questions_are_open_at_once_and_answered_in_any_order(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    questions = asked(client, branches)
    assert ["left?", "right?"] == [question.prompt for question in questions]
    with pytest.raises(UsageError, match="asks 2 things"):
        client.answer("q", "x")
    with pytest.raises(AmbiguousAddress):
        client.answer("q", "x", address="question")
    client.answer("q", "b", address="ask[right]")
    assert ["left?"] == [question.prompt for question in asked(Limpet(reopen()), branches)]
    client.answer("q", "a")
    assert ["left a", "right b", "beside"] == client.run_sync(branches, state_id="q")
    assert {"left a": 1, "right b": 1, "beside": 1} == executions


@agent
async def busy() -> Any:
    async def works() -> str:
        while not switch["answered"].is_set():
            await asyncio.sleep(0.01)
        return await step("worked")

    return await asyncio.gather(ask("Go on?", bool), works_as_tool(works))


@tool
async def works_as_tool(works: Any) -> str:
    return await works()


def test_a_run_that_goes_on_otherwise_shows_its_question_and_gets_the_answer(
    reopen: Callable[[], StateBackend],
) -> None:
    client, elsewhere = Limpet(reopen()), Limpet(reopen())
    switch["answered"] = asyncio.Event()

    async def main() -> Any:
        running = asyncio.create_task(client.run(busy, state_id="q"))
        while not elsewhere.backend.list_states() or not elsewhere.questions():
            await asyncio.sleep(0.01)
        assert StateStatus.RUNNING is elsewhere.show("q").header.status
        elsewhere.answer("q", True)
        while not any(
            isinstance(record, EventRecord)
            and record.address.endswith("::question")
            and record.status is ExecutionStatus.COMPLETED
            for record in elsewhere.history("q")
        ):
            await asyncio.sleep(0.01)
        switch["answered"].set()
        return await running

    assert [True, "worked"] == asyncio.run(main())


def test_a_deadline_with_a_default_is_kept_over_processes(reopen: Callable[[], StateBackend]) -> None:
    switch.update(type=int, options={"default": 7, "deadline": timedelta(hours=8)})
    with turned_clock() as clock:
        (question,) = asked(Limpet(reopen()), anything)
        assert (True, 7) == (question.has_default, question.default)
        clock.turn(4 * 3600)
        (again,) = asked(Limpet(reopen()), anything)
        assert again.deadline == question.deadline
        clock.turn(4 * 3600)
        assert 7 == Limpet(reopen()).run_sync(anything, state_id="q")


def test_a_deadline_without_a_default_is_an_exception_in_the_run(reopen: Callable[[], StateBackend]) -> None:
    switch.update(type=int, options={"deadline": timedelta(hours=8)})
    with turned_clock() as clock:
        asked(Limpet(reopen()), anything)
        clock.turn(9 * 3600)
        with pytest.raises(DeadlinePassed):
            Limpet(reopen()).run_sync(anything, state_id="q")
        assert StateStatus.FAILED is Limpet(reopen()).show("q").header.status
        (question,) = asked(Limpet(reopen()), anything)
        assert question.deadline is not None
        assert question.deadline.timestamp() > clock.now()


def test_an_answer_in_time_counts_although_the_run_is_taken_up_later(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    switch.update(type=int, options={"default": 7, "deadline": timedelta(hours=8)})
    asked(client, anything)
    client.answer("q", 5)
    clock.turn(9 * 3600)
    assert 5 == client.run_sync(anything, state_id="q")


def test_an_answer_that_comes_too_late_is_refused(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    switch.update(type=int, options={"default": 7, "deadline": timedelta(seconds=40)})
    asked(client, anything)
    late = msgspec.structs.replace(client.questions()[0])
    assert late.deadline is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("limpet.client.answering.SYSTEM_CLOCK", clock_at(late.deadline.timestamp() + 1))
        with pytest.raises(AlreadyAnswered, match="was to be answered by"):
            client.answer("q", 5)


def clock_at(moment: float) -> Any:
    from limpet.engine.clock import Clock

    return Clock(now=lambda: moment)


@pytest.fixture
def clock() -> Any:
    with turned_clock() as clock:
        yield clock


def test_a_question_that_is_withdrawn_is_an_exception_where_it_was_asked(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    asked(client, publish, "kelp")
    assert "Publish this?" == client.withdraw("q", by="ada").prompt
    with pytest.raises(AlreadyAnswered, match="withdrawn by ada"):
        client.answer("q", True)
    with pytest.raises(QuestionWithdrawn, match="ada took it back"):
        client.run_sync(publish, "kelp", state_id="q")


def test_on_question_answers_in_the_process() -> None:
    seen: list[str] = []

    async def reviewer(question: Question) -> bool:
        seen.append(question.prompt)
        await asyncio.sleep(0)
        return True

    client = Limpet(MemoryStateBackend())
    assert "published" == client.run_sync(publish, "kelp", state_id="q", on_question=reviewer)
    assert ["Publish this?"] == seen
    assert "published" == client.run_sync(publish, "kelp", state_id="q")


def test_on_question_is_not_asked_what_was_answered_before() -> None:
    client = Limpet(MemoryStateBackend())
    asked(client, publish, "kelp")
    client.answer("q", True)
    assert "published" == client.run_sync(publish, "kelp", state_id="q", on_question=lambda question: False)


def test_on_question_may_have_no_answer() -> None:
    client = Limpet(MemoryStateBackend())
    asked(client, publish, "kelp", on_question=lambda question: None)
    with pytest.raises(UsageError, match="cannot be asked"):
        client.run_sync(publish, "kelp", state_id="q", on_question=3)
    assert "published" == client.run_sync(publish, "kelp", state_id="q", on_question=lambda question: True)


def test_a_wrong_answer_of_on_question_leaves_the_question_open_and_is_no_outcome() -> None:
    def raises(question: Question) -> bool:
        raise ZeroDivisionError(question.prompt)

    client = Limpet(MemoryStateBackend())
    with pytest.raises(WrongAnswer):
        client.run_sync(catches, state_id="q", on_question=lambda question: "perhaps")
    with pytest.raises(UsageError, match="raised ZeroDivisionError") as raised:
        client.run_sync(catches, state_id="q", on_question=raises)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert StateStatus.AWAITING is client.show("q").header.status
    assert 1 == len(client.questions())
    client.answer("q", True)
    assert "True" == client.run_sync(catches, state_id="q")


@agent
async def catches() -> str:
    try:
        return str(await ask("Sure?", bool))
    except Exception:
        return "swallowed"
    finally:
        executions["finally"] += 1


@agent
async def gathers() -> Any:
    return await asyncio.gather(ask("Sure?", bool), return_exceptions=True)


@agent
async def groups() -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ask("Sure?", bool))
    return task.result()


@agent
def plain() -> Any:
    return ask.call("Sure?", bool)


@pytest.mark.parametrize("way", [catches, gathers, groups, plain])
def test_code_does_not_swallow_the_waiting(way: Any) -> None:
    client = Limpet(MemoryStateBackend())
    asked(client, way)
    client.answer("q", True)
    assert client.run_sync(way, state_id="q") in (True, "True", [True])


def test_a_question_is_asked_anew_on_a_new_timeline_and_the_old_answer_is_not_applied(
    reopen: Callable[[], StateBackend],
) -> None:
    client = Limpet(reopen())
    asked(client, publish, "kelp")
    client.answer("q", True)
    with pytest.raises(AwaitingAnswer) as awaiting:
        asyncio.run(client.rerun("q", "step", replace="another draft", agent=publish))
    assert "another draft" == awaiting.value.questions[0].context
    client.answer("q", False)
    assert "kept back" == client.run_sync(publish, "kelp", state_id="q")


def test_a_question_that_changed_is_told_and_asked_anew(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    switch.update(type=str, options={"context": 1})
    asked(client, anything)
    client.answer("q", "old")
    switch["options"] = {"context": 2}
    with pytest.raises(Drift):
        client.run_sync(anything, state_id="q", on_drift="error")
    with pytest.warns(UserWarning, match="its input changed"):
        (question,) = asked(client, anything)
    assert 2 == question.context
    client.answer("q", "new")
    assert "new" == client.run_sync(anything, state_id="q")


def test_a_fork_asks_for_itself(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    asked(client, publish, "kelp")
    client.fork("q", new_state_id="f")
    client.answer("q", True)
    with pytest.raises(AwaitingAnswer):
        asyncio.run(client.resume("f", agent=publish))
    assert ["f"] == [question.state_id for question in client.questions()]
    client.answer("f", False)
    assert "kept back" == asyncio.run(client.resume("f", agent=publish))
    assert "published" == asyncio.run(client.resume("q", agent=publish))


def test_validation_and_rehearsal_ask_nobody() -> None:
    client = Limpet(MemoryStateBackend())
    asked(client, publish, "kelp")
    asyncio.run(client.validate("q", agent=publish))
    assert 1 == len(client.questions())
    client.answer("q", True)
    client.run_sync(publish, "kelp", state_id="q")
    assert [] == asyncio.run(client.validate("q", agent=publish)).mismatches
    assert {"draft kelp": 3, "published": 2} == executions


def test_an_encrypted_store_shows_nothing_of_questions_and_answers(tmp_path: Path) -> None:
    encryption = Encryption(new_key())
    client = Limpet(f"sqlite:///{tmp_path}/s.db", encryption=encryption)
    switch.update(type=str, options={"context": "kelp-forest"})
    asked(client, anything)
    client.answer("q", "sea-urchin")
    assert "sea-urchin" == client.run_sync(anything, state_id="q")
    client.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"kelp-forest" not in stored
    assert b"sea-urchin" not in stored


def test_the_explicit_form_asks(reopen: Callable[[], StateBackend]) -> None:
    async def session() -> Any:
        backend = reopen()
        if backend.find_state("q") is None:
            state = ExecutionState(state_backend=backend, state_id="q")
        else:
            state = ExecutionState.load_from_state_id("q", backend)
        return await state.ask("Sure?", bool)

    with pytest.raises(AwaitingAnswer):
        asyncio.run(session())
    Limpet(reopen()).answer("q", True)
    assert asyncio.run(session()) is True


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        (("",), {}, "cannot be asked"),
        (("Q?", 3), {}, "is no type"),
        (("Q?", int), {"choices": []}, "no choices"),
        (("Q?", int), {"choices": ["a"]}, "not of the type"),
        (("Q?", int), {"default": "a"}, "not of the type"),
        (("Q?", int), {"choices": [1], "default": 2}, "none of the choices"),
        (("Q?", int), {"deadline": 5}, "is no deadline"),
        (("Q?", int), {"deadline": datetime.now()}, "is no deadline"),  # noqa: DTZ005 - that is what is refused
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: tuple[Any, ...], options: dict[str, Any], why: str) -> None:
    @agent
    async def asks() -> Any:
        return await ask(*arguments, **options)

    with pytest.raises(UsageError, match=why):
        Limpet(MemoryStateBackend()).run_sync(asks)


def test_outside_of_a_run_nobody_is_asked() -> None:
    with pytest.raises(UsageError, match="outside of a run"):
        asyncio.run(anything_outside())


async def anything_outside() -> Any:
    return await ask("Sure?", bool)
