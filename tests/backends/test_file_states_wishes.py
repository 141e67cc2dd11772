"""Wishes for the holder of a state in a folder: the file that they stand in, and what may become of it."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

import pytest
from backends.file_states_case import FileStatesCase, flipped

from limpet.backends.contract import Append, StateUpdate
from limpet.errors import UsageError
from limpet.lines import from_line, to_line
from limpet.model import Lease
from limpet.testing.conformance.case import OURS


class TestWishFile(FileStatesCase):
    def wish_file(self, state_id: str = "kelp") -> Path:
        return self.folder(state_id) / "wish.json"

    def wished(self, *bodies: bytes) -> Lease:
        """The lease of a new state for which a wish was left."""
        lease = self.lease("kelp", *bodies)
        assert OURS == self.backend.leave_wish("kelp", "stop, für jetzt")
        return lease

    def test_a_wish_is_a_line_that_anybody_can_read_for_its_owner_alone(self) -> None:
        before = os.umask(0)
        try:
            lease = self.wished(b"one")
            self.backend.leave_wish("kelp", "stop")
        finally:
            os.umask(before)
        content = from_line(self.wish_file().read_bytes(), "kelp").content
        assert {"fence": lease.fence, "wish": "stop"} == content
        assert "stop" == json.loads(self.wish_file().read_text())["wish"]
        assert 0o600 == stat.S_IMODE(self.wish_file().stat().st_mode)
        assert [] == list(self.folder().glob("*.new"))

    def test_a_wish_touches_no_other_file(self) -> None:
        self.lease("kelp", b"one")
        before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in self.folder().iterdir()}
        self.backend.leave_wish("kelp", "stop")
        self.opened_again().leave_wish("kelp", "stop")
        self.wish_file().unlink()
        assert before == {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in self.folder().iterdir()}

    def test_a_damaged_wish_is_none_and_is_replaced_by_the_next(self) -> None:
        lease = self.wished(b"one")
        text = self.wish_file().read_bytes()
        for place in range(len(text)):
            self.wish_file().write_bytes(flipped(text, place, place % 8))
            assert [None] == self.backend.wishes([lease])
            self.wish_file().write_bytes(text[:place])
            assert [None] == self.backend.wishes([lease])
        assert [] == [*self.backend.examine("kelp"), *self.backend.examine_store()]
        self.backend.leave_wish("kelp", "again")
        assert ["again"] == self.backend.wishes([lease])

    @pytest.mark.parametrize("content", [{"wish": "stop"}, {"fence": 1}, {"fence": "1", "wish": "stop"}, {}])
    def test_a_line_that_says_something_else_is_no_wish(self, content: dict[str, object]) -> None:
        lease = self.lease()
        self.wish_file().write_bytes(to_line(content, "kelp", 0)[0])
        assert [None] == self.backend.wishes([lease])
        self.wish_file().write_bytes(to_line({"fence": lease.fence, "wish": ["stop"]}, "kelp", 0)[0])
        assert [None] == self.backend.wishes([lease])

    def test_a_wish_for_another_fence_or_of_another_state_is_none(self) -> None:
        lease = self.wished()
        left = self.wish_file().read_bytes()
        newest = self.taken_over(lease)
        # As if the process had died before it came to remove it.
        self.wish_file().write_bytes(left)
        assert [None] == self.backend.wishes([newest])
        wrack = self.lease("wrack")
        self.wish_file("wrack").write_bytes(to_line({"fence": wrack.fence, "wish": "stop"}, "kelp", 0)[0])
        assert [None] == self.backend.wishes([wrack])

    def test_the_file_goes_with_the_lease(self) -> None:
        lease = self.wished(b"one")
        lease = self.taken_over(lease)
        assert not self.wish_file().exists()
        self.backend.leave_wish("kelp", "stop")
        self.update(lease, releases=True)
        assert not self.wish_file().exists()

    def test_a_rewriting_leaves_the_wish_unless_it_gives_the_lease_back(self) -> None:
        lease = self.wished(b"one")
        self.backend.rewrite([Append(lease, 1, (b"anew",))])
        assert ["stop, für jetzt"] == self.backend.wishes([lease])
        self.backend.rewrite([Append(lease, 1, (b"again",), StateUpdate(at=self.clock.now, releases=True))])
        assert [None] == self.backend.wishes([lease])
        assert not self.wish_file().exists()

    def test_nothing_of_it_is_left_of_a_deleted_state(self) -> None:
        lease = self.wished(b"one")
        self.fork("fork", "kelp", 1)
        self.backend.delete_state("kelp", lease)
        assert [] == list(self.path.rglob("wish.json*"))

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        lease = self.wished(b"one")
        target = tmp_path / "elsewhere.json"
        self.wish_file().rename(target)
        before = target.read_bytes()
        self.wish_file().symlink_to(target)
        assert [None] == self.backend.wishes([lease])
        self.backend.leave_wish("kelp", "again")
        assert (["again"], before) == (self.backend.wishes([lease]), target.read_bytes())

    def test_a_link_in_the_place_of_a_folder_is_not_followed(self, tmp_path: Path) -> None:
        lease = self.wished(b"one")
        self.folder().rename(tmp_path / "elsewhere")
        self.folder().symlink_to(tmp_path / "elsewhere")
        assert [None] == self.backend.wishes([lease])

    def test_what_stands_in_the_way_keeps_nobody_from_the_others(self) -> None:
        kelp, wrack = self.wished(), self.lease("wrack")
        self.wish_file("wrack").mkdir()
        outside = Lease("../kelp", kelp.key, kelp.fence)
        assert [None, "stop, für jetzt", None] == self.backend.wishes([wrack, kelp, outside])

    def test_reading_waits_for_no_lock(self) -> None:
        lease = self.wished()
        with (self.folder() / "lock").open() as lock, (self.path / "lock").open() as lock_of_store:
            for file in (lock, lock_of_store):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert ["stop, für jetzt"] == self.backend.wishes([lease])

    def test_where_no_store_was_made_there_is_no_wish(self) -> None:
        assert self.backend.leave_wish("kelp", "stop") is None
        assert [None] == self.backend.wishes([Lease("kelp", 1, 1)])
        assert not self.path.exists()
        self.path.mkdir()
        assert [None] == self.backend.wishes([Lease("kelp", 1, 1)])

    def test_a_closed_store_says_that_it_is_closed(self) -> None:
        lease = self.wished()
        self.backend.close()
        for use in (lambda: self.backend.leave_wish("kelp", "stop"), lambda: self.backend.wishes([lease])):
            with pytest.raises(UsageError, match="is closed"):
                use()
