"""The tables say what can happen, and whatever is not in them cannot."""

from __future__ import annotations

import pytest

from limpet.journal.lifecycle import EVENT_MOVES, STATE_MOVES, event_may_become, state_may_become
from limpet.model import ExecutionStatus, StateStatus

E = ExecutionStatus
S = StateStatus

RECORDED = [E.STARTED, E.COMPLETED, E.FAILED, E.RETRYING, E.AWAITING, E.INTERRUPTED, E.CANCELLED]


def test_every_status_that_is_recorded_stands_in_the_table() -> None:
    assert {None, *RECORDED} == set(EVENT_MOVES)
    assert set(RECORDED) == set().union(*EVENT_MOVES.values())


def test_recovered_is_told_to_observers_and_never_recorded() -> None:
    assert set(ExecutionStatus) - set(RECORDED) == {E.RECOVERED}
    assert not any(event_may_become(before, E.RECOVERED) for before in EVENT_MOVES)


@pytest.mark.parametrize("after", ExecutionStatus)
def test_completed_is_final(after: ExecutionStatus) -> None:
    assert not event_may_become(E.COMPLETED, after)


@pytest.mark.parametrize("before", [None, *RECORDED])
@pytest.mark.parametrize("after", RECORDED)
def test_an_event_moves_as_the_table_says(before: ExecutionStatus | None, after: ExecutionStatus) -> None:
    assert event_may_become(before, after) is (before is not E.COMPLETED)


@pytest.mark.parametrize("after", RECORDED)
def test_an_outcome_needs_no_start_of_its_own(after: ExecutionStatus) -> None:
    assert event_may_become(None, after)


def test_every_status_of_a_state_stands_in_the_table() -> None:
    assert set(StateStatus) == set(STATE_MOVES)


@pytest.mark.parametrize("status", StateStatus)
def test_a_state_can_be_taken_up_again_and_stay_as_it_is(status: StateStatus) -> None:
    assert state_may_become(status, S.RUNNING)
    assert state_may_become(status, status)


@pytest.mark.parametrize("after", StateStatus)
def test_a_running_state_can_become_anything(after: StateStatus) -> None:
    assert state_may_become(S.RUNNING, after)


@pytest.mark.parametrize("before", [S.INTERRUPTED, S.FAILED, S.COMPLETED])
@pytest.mark.parametrize("after", StateStatus)
def test_a_state_that_has_ended_only_runs_again(before: StateStatus, after: StateStatus) -> None:
    assert state_may_become(before, after) is (after in (before, S.RUNNING))


@pytest.mark.parametrize("after", StateStatus)
def test_a_paused_state_goes_on_or_ends(after: StateStatus) -> None:
    assert state_may_become(S.PAUSED, after) is (after is not S.AWAITING)


@pytest.mark.parametrize("after", StateStatus)
def test_a_state_that_awaits_something_may_go_on_end_or_wait_for_being_taken_up(after: StateStatus) -> None:
    assert state_may_become(S.AWAITING, after)
