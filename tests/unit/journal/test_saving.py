"""When a policy saves, decided without a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet import CheckpointFrequency, CheckpointPolicy, ExecutionStatus, OnSaveError, UsageError
from limpet.journal.saving import Recorded, Unsaved, is_due, why_save
from limpet.model.checkpoints import on_save_error_of, policy_of

TOOL, MODEL, AGENT = "run::fetch::tool_call", "run::summarise::llm_call", "run::read::agent_call"
DONE = ExecutionStatus.COMPLETED


def why(policy: CheckpointPolicy, recorded: Recorded, unsaved: Unsaved | None = None, now: float = 0.0) -> str | None:
    return why_save(policy, recorded, unsaved or Unsaved(steps=1, oldest=0.0), now)


@given(st.integers(1, 20), st.integers(1, 100))
def test_every_n_steps_lets_less_than_n_outcomes_wait(steps: int, count: int) -> None:
    policy = CheckpointPolicy("every_n_steps", steps=steps)
    unsaved, saves = Unsaved(), 0
    for _ in range(count):
        unsaved.note(0.0)
        if why(policy, Recorded(TOOL, DONE), unsaved) is not None:
            saves += 1
            unsaved = Unsaved()
        assert unsaved.steps < steps
    assert count // steps == saves


@given(st.lists(st.floats(0.01, 5.0), max_size=50), st.floats(0.1, 10.0))
def test_time_based_lets_no_outcome_wait_longer_than_the_interval(gaps: list[float], interval_s: float) -> None:
    policy = CheckpointPolicy("time_based", interval_s=interval_s)
    unsaved, now = Unsaved(), 0.0
    for gap in gaps:
        now += gap
        # Somebody looks now and then, too: what has become due between two outcomes is saved then.
        if is_due(policy, unsaved, now):
            unsaved = Unsaved()
        unsaved.note(now)
        if why(policy, Recorded(TOOL, DONE), unsaved, now) is not None:
            unsaved = Unsaved()
        assert unsaved.oldest is None or now - unsaved.oldest < interval_s


def test_a_value_of_the_storage_is_no_step_but_does_not_wait_for_ever() -> None:
    unsaved = Unsaved()
    unsaved.begin(3.0)
    assert 0 == unsaved.steps
    assert is_due(CheckpointPolicy("time_based", interval_s=2), unsaved, 5.0)


def test_only_a_policy_by_time_is_ever_due() -> None:
    for frequency in set(CheckpointFrequency) - {CheckpointFrequency.TIME_BASED}:
        assert not is_due(CheckpointPolicy(frequency, interval_s=1), Unsaved(1, 0.0), 1e9)


def test_gates_are_saved_where_the_policy_is_on_gates() -> None:
    gate = Recorded(TOOL, DONE, is_gate=True)
    assert "gate" == why(CheckpointPolicy("on_gates"), gate)
    assert why(CheckpointPolicy("on_gates"), Recorded(TOOL, DONE)) is None
    assert why(CheckpointPolicy("manual"), gate) is None


@pytest.mark.parametrize(("trigger", "address"), [("llm_call", MODEL), ("tool_call", TOOL)])
def test_a_trigger_saves_after_its_kind_of_event_only(trigger: str, address: str) -> None:
    policy = CheckpointPolicy("manual", triggers=[trigger])
    found = {each: why(policy, Recorded(each, DONE)) for each in (TOOL, MODEL, AGENT)}
    assert {each: trigger if each == address else None for each in (TOOL, MODEL, AGENT)} == found


def test_a_large_artifact_saves_from_its_size_on() -> None:
    policy = CheckpointPolicy("manual", triggers=["large_artifact"], large_artifact=1000)
    assert why(policy, Recorded(TOOL, DONE), Unsaved(1, 0.0, largest_artifact=999)) is None
    assert "large_artifact" == why(policy, Recorded(TOOL, DONE), Unsaved(1, 0.0, largest_artifact=1000))
    assert why(CheckpointPolicy("manual"), Recorded(TOOL, DONE), Unsaved(1, 0.0, largest_artifact=1 << 30)) is None
    any_at_all = CheckpointPolicy("manual", triggers=["large_artifact"], large_artifact=0)
    assert why(any_at_all, Recorded(TOOL, DONE)) is None
    assert "large_artifact" == why(any_at_all, Recorded(TOOL, DONE), Unsaved(1, 0.0, largest_artifact=1))


@pytest.mark.parametrize("frequency", set(CheckpointFrequency) - {CheckpointFrequency.EVERY_STEP})
def test_what_others_act_on_is_saved_under_every_policy(frequency: CheckpointFrequency) -> None:
    policy = CheckpointPolicy(frequency, steps=100, interval_s=100)
    assert "once" == why(policy, Recorded(TOOL, DONE, is_once=True))
    for kind in ("question", "timer", "message"):
        assert "wait" == why(policy, Recorded(f"run::ask::{kind}", ExecutionStatus.AWAITING))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("frequency", "sometimes"),
        ("steps", 0),
        ("steps", True),
        ("steps", 2.5),
        ("interval_s", 0),
        ("interval_s", float("inf")),
        ("interval_s", "10"),
        ("triggers", "llm_call"),
        ("triggers", ["agent_call"]),
        ("triggers", ["gate"]),
        ("large_artifact", -1),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"{field}=.*Give"):
        CheckpointPolicy(**{field: value})  # pyright: ignore[reportArgumentType]  # that is the point


def test_a_frequency_alone_is_a_policy() -> None:
    assert CheckpointPolicy("on_gates") == policy_of("on_gates")
    assert OnSaveError.PAUSE is on_save_error_of("pause")
    with pytest.raises(UsageError, match="'fail', 'pause', 'continue'"):
        on_save_error_of("ignore")
