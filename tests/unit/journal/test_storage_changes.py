"""What a value of the storage was at any position of a journal."""

from __future__ import annotations

import pytest

from limpet.journal.storage_changes import StorageChanges
from limpet.model import StorageRecord


def changed(*changes: tuple[int, str, bytes | None], is_artifact: bool = False) -> StorageChanges:
    made = StorageChanges()
    for seq, key, value in changes:
        made.add(StorageRecord(seq, key, 0.0, value, is_artifact=is_artifact))
    return made


CHANGES = changed((2, "a", b"1"), (4, "b", b"2"), (5, "a", b"3"), (7, "a", None), (9, "a", b"4"))


@pytest.mark.parametrize(
    ("position", "expected"), [(0, None), (1, None), (2, b"1"), (4, b"1"), (5, b"3"), (7, None), (8, None), (99, b"4")]
)
def test_a_value_is_that_of_the_newest_change_up_to_the_position(position: int, expected: bytes | None) -> None:
    assert expected == CHANGES.value_at(False, "a", position)


@pytest.mark.parametrize(("position", "expected"), [(1, []), (3, ["a"]), (6, ["a", "b"]), (7, ["b"]), (9, ["b", "a"])])
def test_keys_stand_in_the_order_in_which_they_were_set(position: int, expected: list[str]) -> None:
    assert expected == CHANGES.keys_at(False, position)


def test_the_newest_change_of_a_key_or_of_all_is_known() -> None:
    assert (9, 4, 0, 9, 0) == (
        CHANGES.newest_of(False, "a"),
        CHANGES.newest_of(False, "b"),
        CHANGES.newest_of(False, "c"),
        CHANGES.newest_of(False, ""),
        CHANGES.newest_of(True, ""),
    )
    assert (9, 0) == (CHANGES.newest, StorageChanges().newest)


def test_artifacts_are_a_space_of_their_own() -> None:
    made = changed((1, "a", b"reference"), is_artifact=True)
    assert (b"reference", None) == (made.value_at(True, "a", 1), made.value_at(False, "a", 1))
    assert (["a"], []) == (made.keys_at(True, 1), made.keys_at(False, 1))
