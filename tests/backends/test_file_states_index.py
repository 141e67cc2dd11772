"""States in a folder: the index by which they are listed never hides a state, whatever becomes of it."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import apsw
import pytest
from backends.file_states_case import FileStatesCase

from limpet.backends.contract import StateBackend
from limpet.backends.files.states.index import Index
from limpet.backends.files.states.journal import Journal
from limpet.model import Lease, StateMetadata, StateStatus
from limpet.testing.conformance.case import granted, new_header


class Died(BaseException):
    """The process is to be thought dead."""


class TestIndex(FileStatesCase):
    def three(self) -> None:
        for name, status in (("a", StateStatus.FAILED), ("b", StateStatus.RUNNING), ("c", StateStatus.FAILED)):
            metadata = StateMetadata(tags=[name, "x"], pipeline_name="p", parent_state_id="kelp")
            self.lease(name, b"one", header=new_header(name, status=status, metadata=metadata))

    def is_listed_rightly(self, backend: StateBackend) -> None:
        expected = [backend.find_state(name) for name in "cba"]
        assert expected == backend.list_states()
        assert [expected[0], expected[2]] == backend.list_states(status=StateStatus.FAILED)
        assert expected == backend.list_states(pipeline_name="p", tags=["x"], parent_state_id="kelp")
        assert [expected[1]] == backend.list_states(tags=["b"])

    def rows(self) -> list[tuple[str, str, int]]:
        connection = apsw.Connection(str(self.path / "index.db"))
        try:
            return list(connection.execute("SELECT state_id, status, is_sure FROM states ORDER BY state_id"))
        finally:
            connection.close()

    def test_rows_become_sure_with_the_next_listing(self) -> None:
        self.three()
        assert {0} == {is_sure for _, _, is_sure in self.rows()}
        self.is_listed_rightly(self.backend)
        assert {1} == {is_sure for _, _, is_sure in self.rows()}

    def test_rows_become_sure_when_the_store_is_closed_or_there_are_many(self) -> None:
        for number in range(70):
            self.lease(f"kelp-{number}")
        assert 64 == sum(is_sure for _, _, is_sure in self.rows())
        self.backend.close()
        assert 70 == sum(is_sure for _, _, is_sure in self.rows())

    def test_an_index_that_is_deleted_is_made_anew(self) -> None:
        self.three()
        self.is_listed_rightly(self.backend)
        for file in self.path.glob("index.db*"):
            file.unlink()
        self.is_listed_rightly(self.backend)
        self.is_listed_rightly(self.opened_again())

    def test_an_index_that_is_deleted_while_states_are_written_misses_nothing(self) -> None:
        self.three()
        self.listed()
        (self.path / "index.db").unlink()
        self.lease("d")
        lease = self.lease("e")
        self.listed()
        (self.path / "index.db").unlink()
        self.update(lease, status=StateStatus.PAUSED)
        assert ["e"] == self.listed(status=StateStatus.PAUSED)
        assert ["e", "d", "c", "b", "a"] == self.listed()

    @pytest.mark.parametrize("text", [b"", b"something else", b"SQLite format 3\0" + bytes(5000)])
    def test_an_index_that_is_something_else_is_made_anew(self, text: bytes) -> None:
        self.three()
        self.backend.close()
        for file in self.path.glob("index.db*"):
            file.unlink()
        (self.path / "index.db").write_bytes(text)
        again = self.opened_again()
        self.is_listed_rightly(again)
        assert 3 == len(self.rows())

    def test_every_damaged_page_of_the_index_is_survived(self) -> None:
        self.three()
        self.listed()
        self.backend.close()
        text = (self.path / "index.db").read_bytes()
        for page in range(0, len(text), 4096):
            for file in self.path.glob("index.db-*"):
                file.unlink()
            (self.path / "index.db").write_bytes(text[:page] + b"\xff" * 4096 + text[page + 4096 :])
            with self.make_backend(self.clock) as again:
                assert {"a", "b", "c"} == {header.state_id for header in again.list_states()}

    def test_an_index_of_an_older_or_newer_version_is_made_anew(self) -> None:
        self.three()
        self.backend.close()
        connection = apsw.Connection(str(self.path / "index.db"))
        connection.execute("PRAGMA user_version = 99; DELETE FROM states")
        connection.close()
        self.is_listed_rightly(self.opened_again())

    def test_an_index_that_was_not_waited_for_is_not_believed_after_the_machine_was_started_anew(self) -> None:
        self.three()
        self.backend.close()
        connection = apsw.Connection(str(self.path / "index.db"))
        connection.execute("UPDATE identity SET boot = 'another'; DELETE FROM states")
        connection.close()
        self.is_listed_rightly(self.opened_again())

    def test_a_change_is_listed_also_if_the_process_died_right_before_it_was_made_sure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.three()
        self.listed()
        monkeypatch.setattr(Index, "confirm", self._die)
        with pytest.raises(Died):
            self.update(self.lease_of("b"), status=StateStatus.FAILED)
        monkeypatch.undo()
        assert ["c", "b", "a"] == [
            header.state_id for header in self.opened_again().list_states(status=StateStatus.FAILED)
        ]

    def test_a_change_that_never_came_is_not_listed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.three()
        self.listed()
        lease = self.lease_of("b")
        monkeypatch.setattr(Journal, "write", self._die)
        with pytest.raises(Died):
            self.update(lease, status=StateStatus.FAILED, metadata=StateMetadata(tags=["new"]))
        monkeypatch.undo()
        assert ("b", "failed", 0) == self.rows()[1]
        again = self.opened_again()
        self.is_listed_rightly(again)
        assert [] == again.list_states(tags=["new"])
        assert ("b", "running", 1) == self.rows()[1]

    def test_a_state_that_never_came_to_be_is_not_listed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.three()
        monkeypatch.setattr("limpet.backends.files.states.claiming.Claims._made", self._die)
        with pytest.raises(Died):
            self.lease("d")
        monkeypatch.undo()
        assert 4 == len(self.rows())
        self.is_listed_rightly(self.opened_again())
        assert 3 == len(self.rows())

    def test_a_row_without_a_folder_is_dropped(self) -> None:
        self.three()
        self.listed()
        shutil.rmtree(self.folder("b"))
        assert ["c", "a"] == self.listed()
        assert ["a", "c"] == [state_id for state_id, _, _ in self.rows()]

    def test_a_state_that_is_being_written_is_looked_at_whatever_is_asked_for(self) -> None:
        self.three()
        self.listed()
        lease = self.lease_of("b")
        self.update(lease, status=StateStatus.FAILED)
        with (self.folder("b") / "lock").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            connection = apsw.Connection(str(self.path / "index.db"))
            connection.execute("UPDATE states SET is_sure = 0, status = 'paused', stamp = 1 WHERE state_id = 'b'")
            connection.close()
            assert ["c", "b", "a"] == self.listed(status=StateStatus.FAILED)
            assert ["c"] == self.listed(status=StateStatus.FAILED, limit=1)
            assert [] == self.listed(status=StateStatus.PAUSED)
            assert ("b", "paused", 0) == self.rows()[1]
        assert [] == self.listed(status=StateStatus.PAUSED)
        assert ("b", "failed", 1) == self.rows()[1]

    def lease_of(self, state_id: str) -> Lease:
        return granted(self.acquire(state_id, supersede=self.acquire(state_id).held_fence))

    @staticmethod
    def _die(*_: object, **__: object) -> None:
        raise Died


class TestRepair(FileStatesCase):
    def flaws(self, *, repair: bool = False) -> list[str]:
        flaws = self.backend.examine_store(repair=repair)
        assert all(flaw.is_harmless for flaw in flaws)
        return [flaw.what for flaw in flaws if flaw.is_mended == repair]

    def test_a_whole_store_has_no_flaw(self) -> None:
        self.lease("kelp", b"one", b"two")
        self.fork("fork", "kelp", 1)
        self.listed()
        self.clock.turn(60.0)
        assert self.backend.delete_state("kelp")
        assert ([], []) == (self.flaws(), self.flaws(repair=True))

    def test_leftovers_and_damaged_files_are_named_and_mended(self) -> None:
        self.lease("kelp", b"one")
        self.listed()
        (self.path / "tmp" / "0123").write_bytes(b"x")
        (self.path / "tmp" / "4567").mkdir()
        (self.path / "last.json").write_bytes(b"{}")
        (self.path / "deleted").mkdir()
        (self.path / "deleted" / "77").mkdir()
        (self.folder() / "forks").mkdir()
        (self.folder() / "forks" / "99").write_bytes(b"damaged")
        found = self.flaws()
        assert 5 == len(found)
        assert found == self.flaws(repair=True)
        assert [] == self.flaws()
        assert [b"one"] == self.bodies()

    def test_rows_that_do_not_fit_the_folders_are_made_anew(self, tmp_path: Path) -> None:
        self.lease("kelp", b"one")
        self.listed()
        self.backend.close()
        shutil.copytree(self.path, tmp_path / "copy")
        self._opened.clear()
        self.lease("wrack", b"one")
        self.listed()
        shutil.rmtree(tmp_path / "copy" / "states")
        shutil.copytree(self.path / "states", tmp_path / "copy" / "states")
        self.backend.close()
        self._opened.clear()
        self.path = tmp_path / "copy"
        assert ["kelp"] == self.listed()
        assert 1 == len(self.flaws())
        assert 1 == len(self.flaws(repair=True))
        assert ["wrack", "kelp"] == self.listed()

    def test_what_is_not_ours_is_named_and_left_alone(self) -> None:
        self.lease("kelp", b"one")
        self.listed()
        strangers = (self.path / "notes.txt", self.path / "states" / ".DS_Store", self.path / "states" / "file")
        for stranger in strangers:
            stranger.write_text("mine")
        flaws = self.backend.examine_store(repair=True)
        assert [(True, False)] * 3 == [(flaw.is_harmless, flaw.is_mended) for flaw in flaws]
        assert ["mine"] * 3 == [stranger.read_text() for stranger in strangers]
        assert ["kelp"] == self.listed()
