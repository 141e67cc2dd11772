"""Runs that are saved by a policy, and say how far they are."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from limpet import (
    CheckpointPolicy,
    EventRecord,
    EventTimedOut,
    ExecutionEvent,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    ReplayMode,
    RetryConfig,
    SQLiteStateBackend,
    StateMetadata,
    StateStatus,
    UsageError,
    agent,
    ask,
    llm,
    load_config,
    progress,
    save_checkpoint,
    tool,
)
from limpet.cli.main import commands


@tool
async def step(number: int) -> int:
    return number


@tool
async def large(number: int) -> str:
    return "x" * number


@tool(gate=True)
async def gate(number: int) -> int:
    return number


@llm
async def think(number: int) -> int:
    return number


def saved(backend: MemoryStateBackend | SQLiteStateBackend, state_id: str = "s") -> list[str]:
    """The outcomes that are in the store."""
    found = Limpet(backend).history(state_id)
    return [
        record.address.split("::")[-2]
        for record in found
        if isinstance(record, EventRecord) and record.status is ExecutionStatus.COMPLETED
    ]


def test_a_gate_saves_what_came_before_it() -> None:
    backend, seen = MemoryStateBackend(), list[list[str]]()

    @agent
    async def gated() -> None:
        await step(1)
        seen.append(saved(backend))
        await gate(2)
        seen.append(saved(backend))
        await step.options(gate=True)(3)
        seen.append(saved(backend))

    Limpet(backend).run_sync(gated, state_id="s", checkpoint_policy="on_gates")
    assert [[], ["step", "gate"], ["step", "gate", "step#2"]] == seen


def test_a_question_and_an_answer_are_saved_under_every_policy() -> None:
    backend, seen = MemoryStateBackend(), list[list[str]]()
    client = Limpet(backend)

    def answer(_: object) -> bool:
        seen.append(client.history("s").addresses())
        return True

    @agent
    async def asking() -> bool:
        await step(1)
        return await ask("Go on?", bool)

    assert client.run_sync(asking, state_id="s", checkpoint_policy="manual", on_question=answer)
    assert [["asking::agent_call", "asking::step::tool_call", "asking::ask::question"]] == seen


def test_a_run_that_waits_or_is_stopped_has_all_that_it_has_done_saved() -> None:
    client = Limpet("memory://")

    @agent
    async def asking() -> bool:
        await step(1)
        return await ask("Go on?", bool)

    with pytest.raises(BaseException, match="Go on"):
        client.run_sync(asking, state_id="s", checkpoint_policy="manual")
    assert StateStatus.AWAITING is client.show("s").header.status
    assert "stopped" == client.checkpoints("s")[-1].trigger
    assert client.history("s").has_completed_event("asking::step::tool_call")


def test_a_failure_of_the_run_is_saved_with_all_before_it() -> None:
    client = Limpet("memory://")

    @agent
    async def failing() -> None:
        await step(1)
        raise LookupError("no")

    with pytest.raises(LookupError):
        client.run_sync(failing, state_id="s", checkpoint_policy="manual")
    assert StateStatus.FAILED is client.show("s").header.status
    assert client.history("s").has_completed_event("failing::step::tool_call")


def test_checkpoints_say_why_where_and_after_how_much_they_were_made() -> None:
    client = Limpet("memory://")

    @agent
    async def mixed() -> None:
        for number in range(4):
            await step(number)
        progress(1, 4)
        await think(1)
        await large(300_000)
        save_checkpoint(StateMetadata(tags=["by hand"]))

    policy = CheckpointPolicy("every_n_steps", steps=3, triggers=["llm_call", "large_artifact"], large_artifact=200_000)
    client.run_sync(mixed, state_id="s", checkpoint_policy=policy, metadata=StateMetadata(description="kept"))
    found = [(each.trigger, each.address, each.events, each.progress) for each in client.checkpoints("s")]
    assert [
        ("every_n_steps", "mixed::step#3::tool_call", 3, None),
        ("llm_call", "mixed::think::llm_call", 5),
        ("large_artifact", "mixed::large::tool_call", 6),
        ("manual", "mixed::large::tool_call", 6),
    ] == [found[0], *(each[:3] for each in found[1:])]
    assert [0.25] * 3 == [each[3].fraction for each in found[1:] if each[3] is not None]
    assert [[], [], [], ["by hand"]] == [each.metadata.tags for each in client.checkpoints("s")]


def test_a_checkpoint_of_a_policy_can_be_gone_on_from() -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend)

    @agent
    async def counting() -> list[int]:
        return [await step(number) for number in range(6)]

    client.run_sync(counting, state_id="s", checkpoint_policy=CheckpointPolicy("every_n_steps", steps=2))
    positions = [each.position for each in client.checkpoints("s")]
    assert 3 == len(positions)
    state = ExecutionState.load_from_state_id("s", backend, checkpoint=positions[0])
    assert state.history.has_completed_event("counting::step#2::tool_call")
    assert not state.history.has_completed_event("counting::step#3::tool_call")


def test_explicit_states_have_policies_too() -> None:
    asyncio.run(_explicit_states())


async def _explicit_states() -> None:
    backend = MemoryStateBackend()
    state = ExecutionState(state_backend=backend, state_id="s", checkpoint_policy="manual")
    await ExecutionEvent(step)(1, None, state)
    state.storage.set("key", "value")
    assert [] == saved(backend)
    assert "value" == state.storage.get("key")
    state.save_checkpoint()
    assert ["step"] == saved(backend)
    loaded = ExecutionState.load_from_state_id("s", backend, replay_mode=ReplayMode.REHEARSAL)
    assert "value" == loaded.storage.get("key")
    await ExecutionEvent(step)(2, None, state)
    assert ["step"] == saved(backend)
    # A stricter policy saves what the one before has held back.
    state.checkpoint_policy = "every_step"
    assert ["step", "step#2"] == saved(backend)
    await ExecutionEvent(step)(3, None, state)
    assert ["step", "step#2", "step#3"] == saved(backend)
    assert CheckpointPolicy() == state.checkpoint_policy


def test_a_loaded_state_begins_with_the_policy_it_is_given(tmp_path: Path) -> None:
    asyncio.run(_loaded_state(tmp_path))


async def _loaded_state(tmp_path: Path) -> None:
    backend = SQLiteStateBackend(tmp_path / "runs.db")
    state = ExecutionState(state_backend=backend, state_id="s")
    await ExecutionEvent(step)(1, None, state)
    state.save_checkpoint(StateStatus.PAUSED)
    loaded = ExecutionState.load_from_state_id(
        "s", backend, checkpoint_policy=CheckpointPolicy("every_n_steps", steps=2)
    )
    await ExecutionEvent(step)(1, None, loaded)
    await ExecutionEvent(step)(2, None, loaded)
    assert ["step"] == saved(backend)
    await ExecutionEvent(step)(3, None, loaded)
    assert ["step", "step#2", "step#3"] == saved(backend)
    assert Limpet(backend).verify("s").is_sound


def test_the_policy_comes_from_the_configuration_and_a_running_state_follows_it(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text('[checkpoint]\nfrequency = "manual"\n')
    backend, seen = MemoryStateBackend(), list[list[str]]()

    @agent
    async def followed() -> None:
        await step(1)
        seen.append(saved(backend))
        file.write_text('[checkpoint]\nfrequency = "every_step"\n')
        # Whoever keeps the lease looks at the file; nothing is recorded meanwhile.
        while not saved(backend):
            await asyncio.sleep(0.01)
        await step(2)
        seen.append(saved(backend))

    client = Limpet(backend, config=load_config(folder=tmp_path, environment={}))
    client.run_sync(followed, state_id="s")
    assert [[], ["step", "step#2"]] == seen
    assert ["policy_changed"] == [each.trigger for each in client.checkpoints("s")]


def test_what_is_said_of_a_run_counts_over_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text('[checkpoint]\nfrequency = "manual"\non_save_error = "continue"\n')
    backend, seen = MemoryStateBackend(), list[list[str]]()
    config = load_config(folder=tmp_path, environment={"LIMPET_CHECKPOINT__STEPS": "1"})

    @agent
    async def single(state_id: str) -> None:
        await step(1)
        seen.append(saved(backend, state_id))

    Limpet(backend, config=config).run_sync(single, "s", state_id="s", checkpoint_policy="every_step")
    Limpet(backend, config=config, checkpoint_policy="every_step").run_sync(single, "t", state_id="t")
    Limpet(backend, config=config).run_sync(single, "u", state_id="u")
    assert [["step"], ["step"], []] == seen


def test_wrong_policies_are_refused_before_anything_is_stored() -> None:
    client = Limpet("memory://")

    @agent
    async def nothing() -> None: ...

    for options in ({"checkpoint_policy": "hourly"}, {"on_save_error": "shrug"}):
        with pytest.raises(UsageError, match="Give one of"):
            client.run_sync(nothing, state_id="s", **options)
    assert [] == client.list_states()


def test_progress_is_seen_by_others_while_a_run_goes_on() -> None:
    backend, seen = MemoryStateBackend(), list[str]()

    @agent
    async def telling() -> None:
        await step(1)
        progress(3, 12)
        seen.append(str(Limpet(backend).progress("s")))
        for done in range(4, 13):
            progress(done, 12)

    client = Limpet(backend)
    client.run_sync(telling, state_id="s")
    assert ["25%, 3 of 12"] == seen
    # Not every call is recorded, but the last one is.
    assert [3, 12] == [each.progress.done for each in client.checkpoints("s") if each.progress is not None]
    assert ("ended", 1.0) == (client.progress("s").source, client.progress("s").fraction)


def test_progress_is_known_from_what_is_declared_or_from_an_earlier_run() -> None:
    client = Limpet("memory://")

    @agent(total_events=4)
    async def declared() -> None:
        await step(1)
        await ask("?", bool)

    @agent
    async def repeated(asks: bool) -> None:
        await step(1)
        if asks:
            await ask("?", bool)
        await step(2)
        await step(3)

    for state_id, actor, args in (("d", declared, ()), ("first", repeated, (True,))):
        with pytest.raises(BaseException, match=r"\?"):
            client.run_sync(actor, *args, state_id=state_id)
    assert ("declared", 0.25) == (client.progress("d").source, client.progress("d").fraction)
    assert ("unknown", None) == (client.progress("first").source, client.progress("first").fraction)
    client.run_sync(repeated, False, state_id="earlier")
    found = client.progress("first")
    assert ("earlier_run", 0.25, "earlier") == (found.source, found.fraction, found.earlier_state_id)


@pytest.mark.parametrize(("done", "total"), [(2, 1), (-1, 2), (0, 0), (float("nan"), 1), ("1", 2), (True, 2)])
def test_what_is_no_progress_is_refused(done: float, total: float) -> None:
    with pytest.raises(UsageError, match="is no progress"):
        progress(done, total)


def test_saying_something_outside_a_run_does_nothing() -> None:
    progress(1, 2)
    assert save_checkpoint() is None


def test_what_is_replayed_is_not_saved_again() -> None:
    client = Limpet("memory://")
    fails = [True]

    @agent
    async def saving() -> None:
        await step(1)
        save_checkpoint()
        if fails:
            raise LookupError(fails.pop())

    with pytest.raises(LookupError):
        client.run_sync(saving, state_id="s")
    client.run_sync(saving, state_id="s")
    assert 1 == len(client.checkpoints("s"))


def test_declared_totals_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="total_events 0"):
        agent(total_events=0)(step.function)


def test_show_tells_progress_and_checkpoints(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"

    @agent
    async def telling() -> None:
        await step(1)
        progress(1, 4)
        await ask("?", bool)

    with Limpet(store) as client, pytest.raises(BaseException, match=r"\?"):
        client.run_sync(telling, state_id="s", checkpoint_policy=CheckpointPolicy("every_n_steps", steps=1))
    shown = CliRunner().invoke(commands, ["show", "s", "--store", store]).output
    assert "progress  25%, 1 of 4" in shown
    assert "every_n_steps, 1 event" in shown
    found = json.loads(CliRunner().invoke(commands, ["show", "s", "--store", store, "--json"]).output)
    assert {"done": 1.0, "total": 4.0, "source": "said", "earlier_state_id": None, "fraction": 0.25} == found[
        "progress"
    ]
    assert ["every_n_steps", "wait", "stopped"] == [each["trigger"] for each in found["checkpoints"]]


def test_a_handler_that_was_given_up_saves_nothing() -> None:
    client = Limpet("memory://")
    went_on, may_go_on = threading.Event(), threading.Event()

    @tool(timeout_s=0.05, retry_config=RetryConfig(max_attempts=1))
    def stubborn() -> None:
        may_go_on.wait(20)
        progress(1, 2)
        try:
            save_checkpoint()
        finally:
            went_on.set()

    @agent
    async def patient() -> None:
        await step(1)
        try:
            await stubborn()
        except EventTimedOut:
            may_go_on.set()
            await asyncio.to_thread(went_on.wait, 20)

    client.run_sync(patient, state_id="s")
    assert went_on.is_set()
    assert [] == client.checkpoints("s")
