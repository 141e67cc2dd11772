"""The letters in the inbox of a state come along when it is copied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from acceptance.moving_stores import KINDS, stepping

from limpet import Limpet, MemoryStateBackend, StateBackend
from limpet.engine.portable.form import letters_in
from limpet.engine.portable.limits import Unreadable
from limpet.testing import CrashingBackend
from limpet.testing.crashing import SimulatedCrash

BOTH = [("question", b"yes"), ("message \u2013 1", b"\x00\xff")]


@pytest.fixture(params=[(source, target) for source in KINDS for target in KINDS], ids="-to-".join)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[StateBackend, StateBackend]]:
    with ExitStack() as opened:
        made: list[StateBackend] = []
        for number, kind in enumerate(request.param):
            folder = tmp_path / str(number)
            folder.mkdir()
            made.append(opened.enter_context(KINDS[kind](folder)))
        yield made[0], made[1]


def fill(backend: StateBackend) -> None:
    for state_id in ("kelp", "wrack"):
        Limpet(backend).run_sync(stepping, 1, state_id=state_id)
    for name, body in BOTH:
        backend.deliver("kelp", name, body)


def letters(backend: StateBackend, state_id: str = "kelp") -> list[tuple[str, bytes]]:
    return [(letter.name, letter.body) for letter in backend.letters(state_id)]


def test_letters_come_along_and_are_there_once(stores: tuple[StateBackend, StateBackend]) -> None:
    source, target = stores
    fill(source)
    for expected in ("copied", "unchanged"):
        assert {"kelp", "wrack"} == set(getattr(Limpet.copy(source, target), expected))
        assert (BOTH, []) == (letters(target), letters(target, "wrack"))
    source.deliver("kelp", "later", b"more")
    Limpet.copy(source, target)
    assert [*BOTH, ("later", b"more")] == letters(target)


def test_a_letter_that_is_there_stays_as_it_is(stores: tuple[StateBackend, StateBackend]) -> None:
    source, target = stores
    fill(source)
    Limpet.copy(source, target)
    target.deliver("kelp", "later", b"there")
    source.deliver("kelp", "later", b"here")
    Limpet.copy(source, target)
    assert [*BOTH, ("later", b"there")] == letters(target)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_copy_that_dies_while_it_delivers_is_completed_by_the_next(when: Any) -> None:
    source = MemoryStateBackend()
    fill(source)
    counting = CrashingBackend(MemoryStateBackend())
    Limpet.copy(source, counting)
    assert 4 == counting.writes
    for write in range(1, counting.writes + 1):
        target = MemoryStateBackend()
        with pytest.raises(SimulatedCrash):
            Limpet.copy(source, CrashingBackend(target, stop_at=write, when=when))
        assert {} == Limpet.copy(source, target).refused
        assert BOTH == letters(target)


class _WithoutInboxes(MemoryStateBackend):
    deliver = StateBackend.deliver
    letters = StateBackend.letters


def test_a_store_without_inboxes_is_named_where_there_are_letters() -> None:
    source, target = MemoryStateBackend(), _WithoutInboxes()
    fill(source)
    refused = Limpet.copy(source, target).refused
    assert ["kelp"] == list(refused)
    assert "has no inboxes" in refused["kelp"]


@pytest.mark.parametrize("as_folder", [False, True], ids=["file", "folder"])
def test_an_export_carries_the_letters(as_folder: bool, tmp_path: Path) -> None:
    source, target = MemoryStateBackend(), MemoryStateBackend()
    fill(source)
    for state_id, version in (("kelp", 2), ("wrack", 1)):
        path = tmp_path / state_id
        Limpet(source).export(state_id, path, as_folder=as_folder)
        if as_folder:
            assert version == json.loads((path / "limpet.json").read_text())["version"]
        Limpet(target).import_(path)
    assert (BOTH, []) == (letters(target), letters(target, "wrack"))


@pytest.mark.parametrize("line", ['{"name": "", "body": ""}', '{"name": "a"}', "[]", '{"name": "a", "body": "*"}'])
def test_letters_that_cannot_be_are_refused(line: str) -> None:
    with pytest.raises(Unreadable, match=r"line 2 of letters\.jsonl"):
        letters_in([b'{"name": "a", "body": ""}', line.encode()], "kelp")
