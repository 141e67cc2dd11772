"""A damaged state is named, hides no other, and is gone on with from before the damage."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from limpet import (
    Encryption,
    Limpet,
    OnceAgain,
    OutcomeUnknown,
    SQLiteStateBackend,
    StateCorrupted,
    StateStatus,
    UnknownState,
    UsageError,
    agent,
    tool,
)
from limpet.backends.sqlite.driver import connect
from limpet.keys import new_key

executions: Counter[str] = Counter()


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return f"{name}/{executions[name]}"


@tool
async def step_beside(name: str) -> str:
    executions[name] += 1
    await asyncio.sleep(0)
    return f"{name}/{executions[name]}"


@tool(once=True)
async def charge(name: str) -> str:
    executions[name] += 1
    return f"charged {name}"


@tool
async def page(size: int) -> str:
    return "kelp " * (size // 5)


@agent
async def stepping(count: int) -> list[str]:
    return [await step(f"s{number}") for number in range(1, count + 1)]


@agent
async def stepping_side_by_side(count: int) -> list[str]:
    return await asyncio.gather(*(step_beside(f"s{number}") for number in range(1, count + 1)))


@agent
async def charging(name: str) -> list[str]:
    return [await step("before"), await charge(name), await step("after")]


@agent
async def writing(size: int) -> int:
    return len(await page(size))


@pytest.fixture(autouse=True)
def _counted_anew() -> None:
    executions.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def client(path: Path) -> Iterator[Limpet]:
    with SQLiteStateBackend(path, "normal") as backend:
        yield Limpet(backend)


Damage = Callable[[str, int], None]


@pytest.fixture
def damage(path: Path) -> Damage:
    """Changes the last byte of a record."""

    def change(state_id: str, seq: int) -> None:
        connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
        where = "state = (SELECT key FROM states WHERE state_id = ?) AND seq = ?"
        ((body,),) = connection.execute(f"SELECT body FROM records WHERE {where}", (state_id, seq)).fetchall()
        other = body[:-1] + bytes([body[-1] ^ 1])
        connection.execute(f"UPDATE records SET body = ? WHERE {where}", (other, state_id, seq))
        connection.close()

    return change


def test_a_sound_state_is_sound(client: Limpet) -> None:
    client.run_sync(stepping, 3, state_id="kelp")
    found = client.verify("kelp")
    assert (True, 5, 5, False) == (found.is_sound, found.records, found.usable, found.needs_recovery)
    assert "State 'kelp' is sound: 5 records." == str(found)
    assert client.doctor().is_sound
    recovered = client.recover("kelp")
    assert (False, 5) == (recovered.was_needed, recovered.kept)
    assert 5 == client.show("kelp").header.position, "nothing was written"


def test_damage_is_named_and_the_state_can_be_resumed_from_before_it(client: Limpet, damage: Damage) -> None:
    assert ["s1/1", "s2/1", "s3/1"] == client.run_sync(stepping, 3, state_id="kelp")
    damage("kelp", 3)
    for use in (
        lambda: client.history("kelp"),
        lambda: client.timelines("kelp"),
        lambda: asyncio.run(client.rerun("kelp", "step#3")),
        lambda: client.diff("kelp", "kelp"),
    ):
        with pytest.raises(StateCorrupted, match="State 'kelp' is damaged at record 3: its checksum does not fit"):
            use()
    found = client.verify("kelp")
    assert ([3], 2, True) == ([damaged.seq for damaged in found.damaged], found.usable, found.needs_recovery)
    recovered = client.recover("kelp")
    assert (2, 3) == (recovered.kept, recovered.first_damaged)
    assert ("stepping::step#3::tool_call", "stepping::agent_call") == recovered.given_up
    assert StateStatus.INTERRUPTED is client.show("kelp").header.status
    assert ["s1/1", "s2/2", "s3/2"] == asyncio.run(client.resume("kelp"))
    assert Counter(s1=1, s2=2, s3=2) == executions
    found = client.verify("kelp")
    assert ([3], False) == ([damaged.seq for damaged in found.damaged], found.needs_recovery), "it stays in the journal"
    assert not client.recover("kelp").was_needed
    assert ["s1/1", "s2/2", "s3/2"] == client.run_sync(stepping, 3, state_id="kelp")


def test_what_is_intact_behind_the_damage_stays_on_the_old_timeline(client: Limpet, damage: Damage) -> None:
    client.run_sync(stepping, 3, state_id="kelp")
    damage("kelp", 3)
    client.recover("kelp")
    asyncio.run(client.resume("kelp"))
    assert [1, 2] == [timeline.number for timeline in client.timelines("kelp")]
    assert "s1/1" == client.history("kelp").get_event_result("stepping::step::tool_call")
    with pytest.raises(StateCorrupted, match="record 3"):
        client.history("kelp", timeline=1)
    fork = client.fork("kelp", "step#2")
    assert 3 == len(asyncio.run(client.resume(fork)))


def test_a_recovered_state_is_forked_at_a_call_beside_which_the_damaged_one_was_made(
    client: Limpet, damage: Damage
) -> None:
    client.run_sync(stepping_side_by_side, 3, state_id="kelp")
    damage("kelp", 4)
    client.recover("kelp")
    assert ["s1/1", "s2/1", "s3/2"] == asyncio.run(client.resume("kelp"))
    fork = client.fork("kelp", "stepping_side_by_side::step_beside#2::tool_call", again=True)
    assert ["s1/1", "s2/2", "s3/3"] == asyncio.run(client.resume(fork))


def test_a_damaged_state_hides_no_other(client: Limpet, damage: Damage, path: Path) -> None:
    for state_id in ("kelp", "wrack", "dulse"):
        client.run_sync(stepping, 2, state_id=state_id)
    damage("kelp", 2)
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    connection.execute("UPDATE states SET metadata = '{' WHERE state_id = 'wrack'")
    connection.close()
    assert ["dulse", "wrack", "kelp"] == [header.state_id for header in client.list_states()]
    assert [None, True, None] == [header.damage and bool(header.damage) for header in client.list_states()]
    found = client.doctor()
    assert (3, ["wrack", "kelp"]) == (found.states, [each.state_id for each in found.unsound])
    with pytest.raises(StateCorrupted, match="State 'wrack' is damaged: its header cannot be read"):
        client.run_sync(stepping, 2, state_id="wrack")
    assert 2 == len(client.run_sync(stepping, 2, state_id="dulse"))
    assert client.recover("wrack").mended_header
    assert 2 == len(asyncio.run(client.resume("wrack", agent=stepping)))


def test_a_state_whose_first_record_is_damaged_is_not_recovered(client: Limpet, damage: Damage) -> None:
    client.run_sync(stepping, 2, state_id="kelp")
    damage("kelp", 1)
    assert 0 == client.verify("kelp").usable
    with pytest.raises(UsageError, match="nothing stands before it"):
        client.recover("kelp")
    client.delete("kelp")
    assert 2 == len(client.run_sync(stepping, 2, state_id="kelp"))


def test_what_is_declared_once_and_stands_behind_the_damage_is_not_given_up_unasked(
    client: Limpet, damage: Damage
) -> None:
    client.run_sync(charging, "kelp", state_id="kelp")
    damage("kelp", 2)
    with pytest.raises(OnceAgain, match="charge"):
        client.recover("kelp")
    assert client.verify("kelp").needs_recovery, "nothing was changed"
    client.recover("kelp", again=True)
    asyncio.run(client.resume("kelp"))
    assert 2 == executions["kelp"]


def test_what_is_declared_once_and_whose_outcome_is_damaged_is_not_executed_again(
    client: Limpet, damage: Damage
) -> None:
    client.run_sync(charging, "kelp", state_id="kelp")
    seqs = [
        record.seq for record in client.history("kelp") if getattr(record, "address", "").startswith("charging::charge")
    ]
    damage("kelp", seqs[-1])
    client.recover("kelp")
    with pytest.raises(OutcomeUnknown, match="charge"):
        asyncio.run(client.resume("kelp"))
    assert 1 == executions["kelp"]


def test_a_fork_of_a_damaged_state_is_recovered_by_itself(client: Limpet, damage: Damage) -> None:
    client.run_sync(stepping, 4, state_id="kelp")
    fork = client.fork("kelp", "step#4", new_state_id="fork")
    assert ["s1/1", "s2/1", "s3/1", "s4/2"] == asyncio.run(client.resume(fork))
    damage("kelp", 3)
    assert [3] == [damaged.seq for damaged in client.verify("fork").damaged]
    client.recover("fork")
    assert ["s1/1", "s2/2", "s3/2", "s4/3"] == asyncio.run(client.resume("fork"))
    assert client.verify("kelp").needs_recovery, "the parent is not touched"


def test_damage_of_an_encrypted_state_is_found_without_its_key(path: Path, damage: Damage) -> None:
    encryption = Encryption(new_key())
    with SQLiteStateBackend(path, "normal") as backend:
        sealed = Limpet(backend, encryption=encryption)
        sealed.run_sync(stepping, 3, state_id="kelp")
        damage("kelp", 4)
        found = Limpet(backend).verify("kelp")
        assert ([4], 3, False) == ([damaged.seq for damaged in found.damaged], found.usable, found.artifacts_checked)
        sealed.recover("kelp")
        assert ["s1/1", "s2/1", "s3/2"] == asyncio.run(sealed.resume("kelp"))


def test_missing_and_damaged_artifacts_are_named(client: Limpet, path: Path) -> None:
    client.run_sync(writing, 100_000, state_id="small")
    client.run_sync(writing, 400_000, state_id="large")
    assert client.doctor().is_sound
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    connection.execute("DELETE FROM artifact_bodies")
    connection.execute("DELETE FROM artifacts")
    connection.close()
    (stored,) = (file for file in path.with_name("runs.db-artifacts").glob("??/*"))
    stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    assert (1, 0) == (len(client.verify("small").missing_artifacts), len(client.verify("small").damaged_artifacts))
    assert (0, 1) == (len(client.verify("large").missing_artifacts), len(client.verify("large").damaged_artifacts))
    assert ["large", "small"] == [each.state_id for each in client.doctor().unsound]


def test_a_collection_does_not_delete_what_a_damaged_state_may_name(client: Limpet, damage: Damage) -> None:
    client.run_sync(stepping, 3, state_id="kelp")
    damage("kelp", 3)
    with pytest.raises(StateCorrupted):
        client.collect()
    client.recover("kelp")
    assert [] == client.collect().deleted


def test_verifying_what_is_not_there_names_the_nearest(client: Limpet) -> None:
    client.run_sync(stepping, 1, state_id="kelp-42")
    for use in (client.verify, client.recover):
        with pytest.raises(UnknownState, match="kelp-42"):
            use("kelp-43")


def test_progress_of_a_diagnosis_is_told(client: Limpet) -> None:
    for number in range(3):
        client.run_sync(stepping, 1, state_id=f"kelp-{number}")
    told: list[tuple[int, int]] = []
    client.doctor(on_progress=lambda done, total, _: told.append((done, total)))
    assert [(1, 3), (2, 3), (3, 3)] == told


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_recovered_state_is_copied_exported_and_migrated_with_what_was_given_up(
    client: Limpet, damage: Damage, path: Path, tmp_path: Path, is_missing: bool
) -> None:
    client.run_sync(stepping, 3, state_id="kelp")
    damage("kelp", 3)
    if is_missing:
        connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
        connection.execute("DELETE FROM records WHERE seq = 3")
        connection.close()
    assert ["kelp"] == list(client.backup(f"sqlite:///{tmp_path}/first.db").refused)
    client.recover("kelp")
    asyncio.run(client.resume("kelp"))
    expected = list(client.history("kelp"))
    executions.clear()
    for target in (f"sqlite:///{tmp_path}/copy.db", f"file://{tmp_path}/copy"):
        assert ["kelp"] == client.backup(target).copied
        with Limpet(target) as copy:
            assert expected == list(copy.history("kelp"))
            assert [3] == [damaged.seq for damaged in copy.verify("kelp").damaged]
            assert not copy.verify("kelp").needs_recovery
            assert 3 == len(asyncio.run(copy.rerun("kelp", "step#3")))
    client.export("kelp", tmp_path / "kelp.zip")
    with Limpet(f"sqlite:///{tmp_path}/imported.db") as imported:
        assert "kelp" == imported.import_(tmp_path / "kelp.zip")
        assert expected == list(imported.history("kelp"))
    assert Counter(s3=2) == executions
