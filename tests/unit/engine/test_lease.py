"""Who is certainly dead, and what becomes of leases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from limpet import ExecutionState, Holder, LeaseHeld, LeaseLost, MemoryStateBackend, StateHeader, StateStatus
from limpet.backends.contract import Claim, Grant
from limpet.engine import lease
from limpet.engine.lease import LeaseKeeper, is_dead, mark_ended, mark_running, new_holder, takeover
from limpet.engine.live import LiveState
from limpet.model.header import utc


def changed(holder: Holder, **changes: object) -> Holder:
    return msgspec.structs.replace(holder, **changes)


def test_a_run_of_this_process_lives_as_long_as_it_is_marked_running() -> None:
    holder = new_holder()
    mark_running(holder)
    assert not is_dead(holder)
    mark_ended(holder)
    assert is_dead(holder)


def test_every_run_has_a_token_of_its_own() -> None:
    assert new_holder().token != new_holder().token
    assert os.getpid() == new_holder().pid


def test_a_process_that_ended_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with process:
        started = lease._started(process.pid)
        assert started
        alive = changed(new_holder(), pid=process.pid, started=started)
        assert not is_dead(alive)
        assert is_dead(changed(alive, started="1")), "another process has its number now"
        process.communicate(b"\n")
    assert is_dead(alive)


def test_a_machine_that_was_started_anew_has_none_of_its_old_processes() -> None:
    assert is_dead(changed(new_holder(), boot="an earlier one"))


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"process_space": "pid:[1]"}])
def test_a_process_that_cannot_be_looked_at_is_not_known_to_be_dead(change: dict[str, str]) -> None:
    assert not is_dead(changed(new_holder(), pid=1, boot="an earlier one", **change))


def test_without_a_boot_number_nobody_is_known_to_be_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = new_holder()
    monkeypatch.setattr(lease, "_this_process", lambda pid: changed(holder, boot=""))
    assert not is_dead(changed(holder, boot="", pid=2**22 + 1))


def test_a_system_without_proc_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(Path, "readlink", refuse)
    assert "" == lease._boot()
    assert "" == lease._process_space(1)
    assert "" == lease._started(1)


def header() -> StateHeader:
    return StateHeader(state_id="s", status=StateStatus.RUNNING, created_at=utc(0), updated_at=utc(0))


def test_the_dead_are_superseded_and_the_living_left_alone() -> None:
    claim = Claim(header=header(), holder=new_holder(), ttl_s=30)
    dead = Grant(header=header(), held_by=new_holder(), held_fence=7, held_for_s=3)
    assert 7 == takeover(claim, dead).supersede
    elsewhere = msgspec.structs.replace(dead, held_by=changed(new_holder(), host="elsewhere"))
    with pytest.raises(LeaseHeld, match="on elsewhere, whose lease lasts 3 s more"):
        takeover(claim, elsewhere)


class _Refusing(MemoryStateBackend):
    def renew(self, leases: object, ttl_s: float) -> list[bool]:
        raise LeaseLost("any", 0)


def live_of(state: ExecutionState) -> LiveState:
    return state._live


def test_a_lost_lease_stops_the_writes_of_its_state() -> None:
    backend = MemoryStateBackend()
    state = ExecutionState(state_backend=backend, state_id="s")
    state.storage.set("a", 1)
    live = live_of(state)
    keeper = LeaseKeeper(backend)
    keeper.renew([live])
    state.storage.set("a", 2)
    assert live.lease is not None
    live.lease = msgspec.structs.replace(live.lease, fence=0)
    keeper.renew([live])
    with pytest.raises(LeaseLost):
        state.storage.set("a", 3)


def test_a_store_that_does_not_answer_is_asked_again_later() -> None:
    state = ExecutionState(state_backend=MemoryStateBackend(), state_id="s")
    state.storage.set("a", 1)
    LeaseKeeper(_Refusing()).renew([live_of(state)])
    state.storage.set("a", 2)
    assert 2 == state.storage.get("a")


def test_a_forked_child_is_a_holder_of_its_own_and_in_the_middle_of_no_run() -> None:
    holder = new_holder()
    mark_running(holder)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        mine = new_holder()
        is_other = (mine.pid, mine.started) == (os.getpid(), lease._started(os.getpid())) and is_dead(mine)
        os.write(writing, b"%d" % (is_other and not is_dead(holder) and mine.token[:16] != holder.token[:16]))
        os._exit(0)
    assert b"1" == os.read(reading, 1)
    os.waitpid(child, 0)
    assert not is_dead(holder)
    mark_ended(holder)
    for handle in (reading, writing):
        os.close(handle)
