"""States in a folder: where the records are that forks share, and how they go."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from backends.file_states_case import FileStatesCase, frames

from limpet.backends.contract import Append
from limpet.backends.files.states import deleting
from limpet.errors import StateCorrupted
from limpet.model import Base, Lease
from limpet.testing.conformance.case import fork_claim

FRAMES = frames("kelp", 30)
NUMBERED = list(enumerate(FRAMES, 1))


class Died(BaseException):
    """The process is to be thought dead."""


class TestShares(FileStatesCase):
    segment_size = 1500

    def kelp(self) -> Lease:
        lease = self.lease("kelp", FRAMES[0])
        for first in range(2, 30, 2):
            assert self.append(lease, first, *FRAMES[first - 1 : first + 1]) is None
        return lease

    def deleted(self) -> list[Path]:
        return sorted((self.path / "deleted").iterdir())

    def text_of(self, folder: Path) -> bytes:
        return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())

    def test_a_fork_has_no_record_of_another_state_in_its_folder(self) -> None:
        self.kelp()
        self.fork("fork", "kelp", 13, b"own")
        assert ["journal-000000014.jsonl"] == [file.name for file in self.segments("fork")]
        assert [*NUMBERED[:13], (14, b"own")] == self.backend.read("fork")

    @pytest.mark.parametrize("compression", [None, "zstd", "gzip"])
    def test_of_a_deleted_state_exactly_what_is_shared_stays(self, compression: Literal["zstd", "gzip"] | None) -> None:
        """Also where it ends inside a commit, and inside a segment that is packed."""
        self.compression = compression
        kelp = self.kelp()
        leases = [self.fork(f"fork-{last}", "kelp", last) for last in (4, 9, 22)]
        assert self.backend.delete_state("kelp", kelp)
        (folder,) = self.deleted()
        assert str(kelp.key) == folder.name
        for last, lease in zip((22, 9, 4), reversed(leases), strict=True):
            self.compression = None
            assert NUMBERED[:last] == self.opened_again().read(lease.state_id)
            newest = max(folder.glob("journal-*"))
            assert int(newest.name[8:17]) <= last
            if newest.suffix == ".jsonl":
                assert f"what stands there {last + 1}".encode() not in newest.read_bytes()
            assert self.backend.delete_state(lease.state_id, lease)
        assert [] == self.deleted()
        assert [] == self.backend.examine_store()

    def test_a_state_that_nobody_shares_leaves_nothing_behind(self) -> None:
        lease = self.lease("kelp", b"what nobody may find")
        self.listed()
        assert self.backend.delete_state("kelp", lease)
        self.backend.close()
        assert b"what nobody may find" not in self.text_of(self.path)
        assert [] == [*(self.path / "states").iterdir(), *self.deleted(), *(self.path / "tmp").iterdir()]

    def test_a_fork_of_a_fork_of_deleted_states_reads_on(self) -> None:
        kelp = self.kelp()
        fork = self.fork("fork", "kelp", 10, b"own 11", b"own 12")
        last = self.fork("last", "fork", 11, b"last 12")
        for lease in (kelp, fork):
            assert self.backend.delete_state(lease.state_id, lease)
        assert [*NUMBERED[:10], (11, b"own 11"), (12, b"last 12")] == self.opened_again().read("last")
        assert 2 == len(self.deleted())
        assert self.backend.delete_state("last", last)
        assert [] == self.deleted()

    def test_what_a_dead_process_left_of_a_deletion_is_mended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kelp = self.kelp()
        fork = self.fork("fork", "kelp", 5)
        for name in ("trim", "give_up_shares"):
            self._dies_in(monkeypatch, name, kelp if name == "trim" else fork)
            again = self.opened_again()
            if name == "trim":
                assert NUMBERED[:5] == again.read("fork")
            assert [True] == [flaw.is_harmless for flaw in again.examine_store(repair=True)][:1]
            assert [] == again.examine_store(repair=True)
        assert [] == self.deleted()

    def _dies_in(self, monkeypatch: pytest.MonkeyPatch, name: str, lease: Lease) -> None:
        def die(*_: object) -> None:
            raise Died

        with monkeypatch.context() as context:
            context.setattr(deleting, name, die)
            with pytest.raises(Died):
                self.backend.delete_state(lease.state_id, lease)
        assert self.backend.find_state(lease.state_id) is None

    def test_a_note_of_a_fork_that_never_came_is_found_and_removed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kelp()
        note = self.folder() / "forks" / "2"

        def die(*_: object) -> None:
            raise Died

        with monkeypatch.context() as context:
            context.setattr("limpet.backends.files.states.index.Index.expect", die)
            context.setattr("limpet.backends.files.states.claiming.Claims._remove_notes", die)
            with pytest.raises(Died):
                self.fork("fork", "kelp", 5)
        assert note.exists()
        assert any("shares the records of 'kelp'" in flaw.what for flaw in self.backend.examine_store())
        assert note.exists()
        assert self.backend.examine_store(repair=True)
        assert not note.exists()

    def test_shared_records_whose_folder_is_gone_are_told_to_be_missing(self) -> None:
        kelp = self.kelp()
        lease = self.fork("fork", "kelp", 3, b"own")
        self.backend.delete_state("kelp", kelp)
        (folder,) = self.deleted()
        folder.rename(self.path / "elsewhere")
        again = self.opened_again()
        assert [(1, b""), (2, b""), (3, b""), (4, b"own")] == again.read("fork")
        assert [(3, b""), (4, b"own")] == again.read("fork", 2)
        (flaw,) = again.examine("fork")
        assert (1, False, True) == (flaw.seq, flaw.is_harmless, "'kelp'" in flaw.what)
        assert [None] == again.append([Append(lease, 5, (b"more",))])

    def test_a_fork_whose_header_is_lost_keeps_its_own_records_and_their_numbers(self) -> None:
        self.kelp()
        self.fork("fork", "kelp", 3, b"own")
        self.journal("fork").write_bytes(b"x" + self.journal("fork").read_bytes()[1:])
        (self.folder("fork") / "header.json").unlink()
        again = self.opened_again()
        assert [(1, b""), (2, b""), (3, b""), (4, b"own")] == again.read("fork")
        with pytest.raises(StateCorrupted):
            again.acquire([fork_claim("other", Base("fork", 4))])
