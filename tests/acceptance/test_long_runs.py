"""A run whose journal is read in pages goes on as any other. The pages are small here, so that short runs have many."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from limpet import Limpet, SQLiteStateBackend, StateCorrupted, StateStatus, agent, tool
from limpet.journal import pages
from limpet.journal.pages import PagedJournal

executed: Counter[str] = Counter()
dies_at: list[int] = []


class Died(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"SIZE": 4, "PAGED_FROM": 8, "KEPT": 4, "MOST_OPEN": 2}.items():
        monkeypatch.setattr(pages, name, size)
    executed.clear()
    dies_at.clear()


@tool
async def step(number: int) -> int:
    executed[f"step {number}"] += 1
    if number in dies_at:
        dies_at.remove(number)
        raise Died
    if number % 7 == 3:
        raise ValueError(number)
    return number


@agent
async def chapter(first: int) -> int:
    return sum([await step(number) for number in (first, first + 1)])


@agent
async def book(count: int) -> list[int]:
    """Calls one after the other, side by side and nested, of which some fail."""
    found: list[int] = []
    for number in range(0, count, 10):
        found += [await step(number * 7)]
        given = await asyncio.gather(*(step(number + each) for each in range(1, 5)), return_exceptions=True)
        found += [each if isinstance(each, int) else -1 for each in given]
        found.append(await chapter((number + 5) * 70))
    return found


async def until_it_ends(client: Limpet, count: int) -> list[int]:
    for _ in range(20):
        try:
            return await client.run(book, count, state_id="long")
        except Died:
            pass
    raise AssertionError("it did not end")


@pytest.mark.parametrize("kept", [0, 1_000_000])
def test_a_long_run_is_resumed_as_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(pages, "MOST_KEPT", kept)
    expected = asyncio.run(Limpet("memory://").run(book, 60, state_id="whole"))
    whole = Counter(executed)
    executed.clear()
    dies_at.extend([140, 1750, 280, 3850])
    client = Limpet(f"sqlite:////{tmp_path}/runs.db")
    assert expected == asyncio.run(until_it_ends(client, 60))
    assert Counter(["step 140", "step 1750", "step 280", "step 3850"]) == executed - whole


def test_the_journal_of_a_long_run_is_paged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @agent
    async def looking(count: int) -> int:
        for number in range(count):
            await step(number * 7)
        return count

    client = Limpet(SQLiteStateBackend(tmp_path / "runs.db"))
    dies_at.append(280)
    with pytest.raises(Died):
        client.run_sync(looking, 60, state_id="long")
    ends: list[int] = []
    next_page = pages.PagedJournal.next_page

    def noted(journal: PagedJournal, last: int, kept: bytes | None = None) -> pages.Page:
        ends.append(last)
        return next_page(journal, last, kept)

    monkeypatch.setattr(pages.PagedJournal, "next_page", noted)
    assert 60 == client.run_sync(looking, 60, state_id="long")
    assert [4, 8, 12] == ends[:3]
    assert len(ends) > 12


def test_a_page_that_cannot_be_read_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code must not go another way because what it had done cannot be read."""
    monkeypatch.setattr(pages, "MOST_KEPT", 0)
    client = Limpet(f"sqlite:////{tmp_path}/runs.db")
    dies_at.append(280)

    @agent
    async def catching(count: int) -> int:
        done = 0
        for number in range(count):
            try:
                await step(number * 7)
            except Exception:
                done -= 1
            done += 1
        return done

    with pytest.raises(Died):
        client.run_sync(catching, 60, state_id="long")
    read = client.backend.read

    def without_some(state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        found = read(state_id, after, limit)
        return found if limit == pages.SIZE else [each for each in found if each[0] != 22]

    monkeypatch.setattr(client.backend, "read", without_some)
    before = sum(executed.values())
    with pytest.raises(StateCorrupted, match="22"):
        client.run_sync(catching, 60, state_id="long")
    assert before == sum(executed.values())
    monkeypatch.setattr(client.backend, "read", read)
    assert 60 == client.run_sync(catching, 60, state_id="long")
    header = client.backend.find_state("long")
    assert header is not None
    assert StateStatus.COMPLETED == header.status
