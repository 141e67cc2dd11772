"""Letters to states in a folder: the files that they stand in, and what may become of them."""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import os
import shutil
import stat
from pathlib import Path
from unittest import mock

import pytest
from backends.file_states_case import FileStatesCase, flipped

from limpet.backends.contract import Flaw
from limpet.backends.files.states import FileSystemStateBackend
from limpet.errors import BackendUnavailable, StateCorrupted, StoreFull, UsageError
from limpet.lines import from_line, to_line
from limpet.model import Letter


class TestLetterFiles(FileStatesCase):
    def delivered(self, name: str = "question", body: bytes = b"yes", state_id: str = "kelp") -> Letter:
        letter = self.backend.deliver(state_id, name, body)
        assert letter is not None
        return letter

    def file(self, letter: Letter) -> Path:
        digest = hashlib.sha256(letter.name.encode()).hexdigest()[:32]
        return self.folder(letter.state_id) / "letters" / f"{letter.number}.{digest}.json"

    def notices(self) -> list[str]:
        return sorted(str(file.relative_to(self.path)) for file in self.path.glob("letters/*/*"))

    def flaws(self, *, repair: bool = False) -> list[Flaw]:
        return [*self.backend.examine("kelp"), *self.backend.examine_store(repair=repair)]

    def test_a_letter_is_a_line_that_anybody_can_read_for_its_owner_alone(self) -> None:
        before = os.umask(0)
        try:
            self.lease()
            letter = self.delivered("größer?", b"\x00yes")
        finally:
            os.umask(before)
        content = from_line(self.file(letter).read_bytes(), "kelp").content
        body = base64.b64encode(b"\x00yes").decode()
        assert {"number": 1, "name": "größer?", "at": self.clock.now, "body": body} == content
        digest = self.file(letter).name.split(".")[1]
        assert [f"letters/0/1.{digest}.kelp"] == self.notices()
        made = [
            self.folder() / "letters",
            self.path / "letters",
            *(self.path / "letters").rglob("*"),
            self.file(letter),
        ]
        modes = {stat.S_IMODE(file.stat().st_mode) for file in made if file.is_file()}
        assert ({0o600}, {0o700}) == (modes, {stat.S_IMODE(file.stat().st_mode) for file in made if file.is_dir()})
        assert [] == [*self.folder().rglob("*.new"), *self.path.glob("tmp/*")]

    def test_a_letter_touches_no_other_file(self) -> None:
        self.lease("kelp", b"one")
        files = [file for file in self.folder().iterdir() if file.is_file()]
        before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}
        self.delivered()
        assert before == {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}

    def test_where_there_is_no_such_state_nothing_is_made(self) -> None:
        assert self.backend.deliver("kelp", "question", b"") is None
        assert not self.path.exists()
        self.lease("wrack")
        before = sorted(self.path.rglob("*"))
        assert self.backend.deliver("kelp", "question", b"") is None
        assert ([], []) == (self.backend.letters("kelp"), self.backend.arrivals())
        assert before == sorted(self.path.rglob("*"))

    def test_a_damaged_letter_is_named_and_hides_no_other(self) -> None:
        lease = self.lease()
        first, letter, last = self.delivered("1"), self.delivered("2", b"body"), self.delivered("3")
        text = self.file(letter).read_bytes()
        for place in range(len(text)):
            for damaged in (flipped(text, place, place % 8), text[:place]):
                self.file(letter).write_bytes(damaged)
                # Only of the line end nothing depends.
                if self.backend.letters("kelp") != [first, letter, last]:
                    assert [first, last] == self.backend.letters("kelp")
                    assert ["Letter 2 of state 'kelp'"] == [flaw.what[:24] for flaw in self.backend.examine("kelp")]
                    with pytest.raises(StateCorrupted, match=r"its letter '2' in letters/2\.[0-9a-f]*\.json cannot be"):
                        self.backend.deliver("kelp", "2", b"body")
        assert [1, 2, 3] == [number for number, _ in self.backend.arrivals()]
        self.backend.discard_letters(lease, ["2"])
        assert [] == self.flaws()
        assert b"anew" == self.delivered("2", b"anew").body

    @pytest.mark.parametrize(
        "change", [{"name": "other"}, {"number": 2}, {"body": "?"}, {"body": 1}, {"at": "now"}, {"name": None}]
    )
    def test_a_line_that_says_something_else_is_no_letter(self, change: dict[str, object]) -> None:
        self.lease()
        file = self.file(self.delivered())
        content = from_line(file.read_bytes(), "kelp").content
        file.write_bytes(to_line({**content, **change}, "kelp", 0)[0])
        assert ([], 1) == (self.backend.letters("kelp"), len(self.backend.examine("kelp")))
        file.write_bytes(to_line(content, "wrack", 0)[0])
        assert ([], 1) == (self.backend.letters("kelp"), len(self.backend.examine("kelp")))
        file.write_bytes(to_line(content, "kelp", 0)[0])
        assert (1, []) == (len(self.backend.letters("kelp")), self.flaws())

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        self.lease()
        file = self.file(self.delivered())
        file.rename(tmp_path / "elsewhere.json")
        file.symlink_to(tmp_path / "elsewhere.json")
        assert [] == self.backend.letters("kelp")
        shutil.move(file.parent, tmp_path / "elsewhere")
        file.parent.symlink_to(tmp_path / "elsewhere")
        assert [] == self.backend.letters("kelp")

    def test_what_does_not_belong_there_is_left_alone(self) -> None:
        self.lease()
        letter = self.delivered()
        (self.folder() / "letters" / "notes.txt").write_text("mine")
        (self.path / "letters" / "0" / "notes.txt").write_text("mine")
        (self.path / "letters" / "0" / f"7.{'0' * 32}.a b").write_text("mine")
        (self.path / "letters" / "mine").mkdir()
        assert ([letter], [(1, "kelp")]) == (self.backend.letters("kelp"), self.backend.arrivals())
        assert 2 == self.delivered("next").number

    def test_reading_waits_for_no_lock_and_delivering_for_that_of_the_letters_alone(self) -> None:
        self.lease()
        letter = self.delivered()
        locks = [self.folder() / "lock", self.path / "lock", self.path / "letters" / "count"]
        with locks[0].open() as state, locks[1].open() as store, locks[2].open() as count:
            for file in (state, store):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert 2 == self.delivered("meanwhile").number
            fcntl.flock(count, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert (2, 2) == (len(self.backend.letters("kelp")), len(self.backend.arrivals()))
            assert [letter] == self.opened_again().letters("kelp")[:1]
            self.backend.close()
            with pytest.raises(UsageError, match="is closed"):
                self.delivered("late")

    def test_a_lock_that_is_not_to_be_had_in_time_is_said(self) -> None:
        self.lease()
        self.delivered()
        hurried = FileSystemStateBackend(self.path, lock_timeout_s=0.0)
        with (self.path / "letters" / "count").open() as count:
            fcntl.flock(count, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with pytest.raises(BackendUnavailable, match="kept it locked for too long"):
                hurried.deliver("kelp", "late", b"")
        hurried.close()

    def test_what_a_process_left_that_died_while_delivering_counts_for_nothing(self) -> None:
        self.lease()
        letter = self.delivered("1")
        os.truncate(self.path / "letters" / "count", 2)
        died = self.file(Letter(2, "kelp", "2", b"", 0.0))
        (self.path / "letters" / "0" / f"{died.stem}.kelp").touch()
        died.with_name(f"{died.name}.new").write_text("{")
        assert ([letter], [(1, "kelp")]) == (self.backend.letters("kelp"), self.backend.arrivals())
        assert (3, b"again") == (self.delivered("2", b"again").number, self.delivered("2").body)
        assert [] == list(self.folder().rglob("*.new"))
        assert [(1, "kelp"), (3, "kelp")] == self.backend.arrivals()
        (flaw,) = self.flaws(repair=True)
        assert (True, True) == (flaw.is_harmless, flaw.is_mended)
        assert f"The notice {died.stem}.kelp is of a letter that is not there." == flaw.what
        assert ([], 2) == (self.flaws(), len(self.notices()))

    def test_a_number_is_not_used_again_although_the_count_or_the_notices_are_lost(self) -> None:
        self.lease()
        self.delivered("1")
        (self.path / "letters" / "count").unlink()
        again = self.opened_again()
        assert [(1, "kelp")] == again.arrivals()
        assert 2 == self.delivered("2").number
        os.truncate(self.path / "letters" / "count", 0)
        assert 2 == len(self.opened_again().arrivals())
        shutil.rmtree(self.path / "letters")
        assert 3 == self.delivered("3").number
        assert [(3, "kelp")] == self.backend.arrivals()
        lost = self.flaws(repair=True)
        assert [(False, True)] * 2 == [(flaw.is_harmless, flaw.is_mended) for flaw in lost]
        assert "Letter 1 of state 'kelp' has no notice: whoever waits for it is not told." == lost[0].what
        assert ([], 3) == (self.flaws(), len(self.opened_again().arrivals()))

    def test_notices_are_grouped_and_a_group_goes_with_the_last_of_it(self) -> None:
        lease = self.lease()
        self.delivered("1")
        os.truncate(self.path / "letters" / "count", 997)
        names = [f"{number}" for number in range(998, 1003)]
        letters = [self.delivered(name) for name in names]
        assert names == [f"{letter.number}" for letter in letters]
        assert ["0", "1", "count"] == sorted(os.listdir(self.path / "letters"))
        for after in (0, 1, 997, 998, 999, 1000, 1001, 1002):
            expected = [number for number in (1, 998, 999, 1000, 1001, 1002) if number > after]
            assert expected == [number for number, _ in self.backend.arrivals(after)]
            assert expected[:2] == [number for number, _ in self.backend.arrivals(after, 2)]
        self.backend.discard_letters(lease, ["1", "998", "999"])
        assert ["1", "count"] == sorted(os.listdir(self.path / "letters"))
        self.backend.discard_letters(lease, names)
        assert ([], ["count"]) == (self.backend.arrivals(), os.listdir(self.path / "letters"))
        assert 1003 == self.delivered("next").number

    def test_nothing_new_is_seen_without_a_listing(self) -> None:
        self.lease()
        self.delivered()
        self.backend.arrivals()
        with mock.patch.object(os, "listdir", side_effect=AssertionError):
            assert [] == self.backend.arrivals(1)

    @pytest.mark.parametrize("is_shared", [True, False])
    def test_nothing_of_its_letters_is_left_of_a_deleted_state(self, is_shared: bool) -> None:
        lease, _ = self.lease("kelp", b"one"), self.lease("wrack")
        if is_shared:
            self.fork("fork", "kelp", 1)
        self.delivered()
        self.delivered(state_id="wrack")
        self.backend.delete_state("kelp", lease)
        assert [self.folder("wrack") / "letters"] == list((self.path / "states").rglob("letters"))
        assert [] == list((self.path / "deleted").rglob("letters"))
        assert 1 == len(self.notices())
        assert [] == self.flaws()

    def test_notices_that_a_process_left_that_died_while_deleting_count_for_nothing(self) -> None:
        lease = self.lease()
        self.delivered()
        shutil.copytree(self.path / "letters", self.path.parent / "kept")
        self.backend.delete_state("kelp", lease)
        shutil.copytree(self.path.parent / "kept", self.path / "letters", dirs_exist_ok=True)
        self.lease("kelp")
        assert ([], []) == (self.backend.letters("kelp"), self.opened_again().arrivals())
        self.delivered()
        assert [(2, "kelp")] == self.backend.arrivals()

    def test_a_letter_for_which_there_is_no_room_is_not_there_in_part(self) -> None:
        self.lease()
        self.delivered("1")
        with (
            mock.patch.object(os, "write", side_effect=OSError(errno.ENOSPC, "No space left on device")),
            pytest.raises(StoreFull),
        ):
            self.delivered("2")
        assert (1, 1, 1) == (len(self.notices()), len(self.backend.letters("kelp")), len(self.backend.arrivals()))
        assert [] == self.flaws()
        assert 3 == self.delivered("2").number

    def test_a_closed_store_says_that_it_is_closed(self) -> None:
        lease = self.lease()
        self.backend.close()
        for use in (
            lambda: self.delivered(),
            lambda: self.backend.letters("kelp"),
            lambda: self.backend.arrivals(),
            lambda: self.backend.discard_letters(lease, []),
        ):
            with pytest.raises(UsageError, match="is closed"):
                use()


class TestSyncedLetters(FileStatesCase):
    synchronous = "full"

    def test_a_letter_is_durable_before_it_is_acknowledged_and_its_notice_before_it(self) -> None:
        lease = self.lease()
        steps: list[str] = []
        sync, rename = os.fsync, os.rename

        def noted_sync(handle: int) -> None:
            steps.append(os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), self.path))
            sync(handle)

        def noted_rename(source: str, target: str, **folders: int) -> None:
            steps.append("there")
            rename(source, target, **folders)

        with mock.patch.object(os, "fsync", noted_sync), mock.patch.object(os, "rename", noted_rename):
            letter = self.backend.deliver("kelp", "question", b"yes")
            first, steps = steps, []
            assert letter == self.backend.deliver("kelp", "question", b"yes")
            again, steps = steps, []
            self.backend.discard_letters(lease, ["question"])
        inbox = "states/kelp/letters"
        digest = hashlib.sha256(b"question").hexdigest()[:32]
        file = f"{inbox}/1.{digest}.json"
        assert [".", "states/kelp", "letters/count", "letters/0", "letters", f"{file}.new", "there", inbox] == first
        assert [file, inbox] == again[-2:]
        assert [inbox] == steps
