"""What is special to the notes of each store: where they lie, what damage does, and a store that keeps none."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from limpet.backends.contract import StateBackend
from limpet.backends.files.states import FileSystemStateBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.errors import UsageError
from limpet.testing import CrashingBackend, SimulatedCrash, StateBackendConformance


class _WithoutNotes(MemoryStateBackend):
    note = StateBackend.note
    swap_note = StateBackend.swap_note


class TestABackendThatKeepsNoNotes(StateBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> _WithoutNotes:
        return _WithoutNotes(clock)

    def test_it_says_so_and_what_to_do_instead(self) -> None:
        assert self.backend.note("cleanup") is None
        with pytest.raises(UsageError, match=r"memory:// keeps no notes\. Use another store"):
            self.backend.swap_note("cleanup", None, "x")


def test_a_note_is_a_private_file_with_a_name_of_ours(tmp_path: Path) -> None:
    with FileSystemStateBackend(tmp_path / "store") as backend:
        assert backend.swap_note("../../evil", None, "x")
    (file,) = (tmp_path / "store" / "notes").iterdir()
    assert 37 == len(file.name)
    assert (0o600, 0o700) == (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode))
    assert ["store"] == [each.name for each in tmp_path.iterdir()]


def test_a_damaged_note_counts_as_none_is_reported_and_removed(tmp_path: Path) -> None:
    with FileSystemStateBackend(tmp_path / "store") as backend:
        backend.swap_note("cleanup", None, "first")
        backend.swap_note("other", None, "sound")
        (file,) = [file for file in (tmp_path / "store" / "notes").iterdir() if b"first" in file.read_bytes()]
        whole = file.read_bytes()
        for at in range(len(whole)):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert backend.note("cleanup") is None
        (flaw,) = backend.examine_store()
        assert (False, False) == (flaw.is_harmless, flaw.is_mended)
        assert file.name in flaw.what
        assert [True] == [flaw.is_mended for flaw in backend.examine_store(repair=True)]
        assert [] == backend.examine_store()
        assert (None, "sound") == (backend.note("cleanup"), backend.note("other"))
        assert backend.swap_note("cleanup", None, "again")


def test_a_note_of_another_name_is_not_taken_for_this_one(tmp_path: Path) -> None:
    with FileSystemStateBackend(tmp_path / "store") as backend:
        backend.swap_note("first", None, "1")
        (first,) = (tmp_path / "store" / "notes").iterdir()
        backend.swap_note("second", None, "2")
        (second,) = [file for file in (tmp_path / "store" / "notes").iterdir() if file != first]
        second.write_bytes(first.read_bytes())
        assert (None, "1") == (backend.note("second"), backend.note("first"))


def test_a_link_in_the_place_of_a_note_leads_nowhere(tmp_path: Path) -> None:
    with FileSystemStateBackend(tmp_path / "store") as backend:
        backend.swap_note("cleanup", None, "first")
        (file,) = (tmp_path / "store" / "notes").iterdir()
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        assert backend.note("cleanup") is None
        assert backend.swap_note("cleanup", None, "mine")
        assert b"first" in (tmp_path / "elsewhere").read_bytes()


@pytest.mark.parametrize("make", [SQLiteStateBackend, FileSystemStateBackend])
def test_a_closed_store_has_no_notes(make: Callable[[Path], StateBackend], tmp_path: Path) -> None:
    backend = make(tmp_path / "store")
    backend.close()
    for use in (lambda: backend.note("cleanup"), lambda: backend.swap_note("cleanup", None, "x")):
        with pytest.raises(UsageError, match="is closed"):
            use()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_dies_leaves_a_note_swapped_or_not(when: Literal["before", "after"]) -> None:
    backend = MemoryStateBackend()
    dying = CrashingBackend(backend, stop_at=1, when=when)
    assert dying.note("cleanup") is None
    with pytest.raises(SimulatedCrash):
        dying.swap_note("cleanup", None, "x")
    with pytest.raises(SimulatedCrash):
        dying.note("cleanup")
    assert {"before": None, "after": "x"}[when] == backend.note("cleanup")
