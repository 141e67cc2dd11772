"""States in a folder: what a crash or a bad disk leaves of a journal, and what is told of it."""

from __future__ import annotations

import logging

import msgspec
import pytest
from backends.bounds import as_ordinary_user
from backends.file_states_case import FileStatesCase, flipped, folder_of_ordinary_user, frames

from limpet.backends.contract import Append, Claim, StateBackend, StateUpdate
from limpet.model import End, StateHeader, StateMetadata, StateStatus
from limpet.testing.conformance.case import OURS, THEIRS, granted, new_header

FRAMES = frames("kelp", 6)
NUMBERED = list(enumerate(FRAMES, 1))


def _mending(header: StateHeader, at: float) -> StateUpdate:
    return StateUpdate(at=at, header=msgspec.structs.replace(header, status=StateStatus.PAUSED, damage=None))


class _Damage(FileStatesCase):
    def written(self) -> None:
        """A state with commits of one, two and three records, a change of its header and a second lease."""
        lease = self.lease("kelp", FRAMES[0])
        assert self.append(lease, 2, *FRAMES[1:3]) is None
        assert self.update(lease, status=StateStatus.AWAITING, metadata=StateMetadata(tags=["x"])) is None
        lease = self.taken_over(lease)
        update = StateUpdate(at=self.clock.now, releases=True, end=End(6, 77))
        assert self.append(lease, 4, *FRAMES[3:], update=update) is None

    def anew(self, *, header_file: bool = False) -> StateBackend:
        """The store opened again, as if nobody had noted what the journal says."""
        if not header_file:
            (self.folder() / "header.json").unlink(missing_ok=True)
        self.clock.turn(1000.0)
        return self.opened_again()

    def lines(self) -> list[bytes]:
        return self.journal().read_bytes().splitlines(keepends=True)


class TestTornEnds(_Damage):
    def test_a_journal_cut_off_anywhere_is_whole_up_to_a_commit_and_is_written_further(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.written()
        text = self.journal().read_bytes()
        ends = [0]
        for line in self.lines():
            ends.append(ends[-1] + len(line))
        # Behind the lines that end a commit, and how many records there are then.
        positions = {ends[2]: 1, ends[4]: 3, ends[5]: 3, ends[6]: 3, ends[10]: 6}
        (self.folder() / "header.json").unlink()
        caplog.set_level(logging.WARNING, "limpet")
        for length in range(len(text) + 1):
            whole = max((end for end in positions if end <= length), default=None)
            position = 0 if whole is None else positions[whole]
            self.journal().write_bytes(text[:length])
            assert NUMBERED[:position] == self.backend.read("kelp")
            assert (whole is None) == (self.backend.find_state("kelp") is None)
            if length % 11 == 0:
                with self.make_backend(self.clock) as backend:
                    self._is_written_further(backend, position, length - (whole or 0), caplog)
                (self.folder() / "header.json").unlink()

    def _is_written_further(
        self, backend: StateBackend, position: int, torn: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        torn = torn if position else 0
        assert ([True] if torn else []) == [flaw.is_harmless for flaw in backend.examine("kelp")]
        caplog.clear()
        self.clock.turn(1000.0)
        claim = Claim(header=new_header("kelp"), holder=THEIRS, ttl_s=60.0, bodies=(FRAMES[0],))
        (grant,) = backend.acquire([claim])
        assert grant is not None
        assert (not position) == grant.is_new
        position = position or 1
        assert [None] == backend.append([Append(granted(grant), position + 1, (b"more",))])
        assert [*NUMBERED[:position], (position + 1, b"more")] == backend.read("kelp")
        assert [] == backend.examine("kelp")
        assert (1 if torn else 0) == len(caplog.messages)
        assert all(f" {torn} bytes" in message and "'kelp'" in message for message in caplog.messages)

    @pytest.mark.parametrize(
        "tail", [b"\0" * 100, b'{"sum":"12\0\0\0\0', b"\0\n\0\0", b'{"sum":"' + b"\0" * 40 + b'"}\n']
    )
    def test_zeros_that_a_file_system_left_are_a_torn_end(self, tail: bytes) -> None:
        self.written()
        with self.journal().open("ab") as file:
            file.write(tail)
        again = self.anew()
        assert NUMBERED == again.read("kelp")
        assert [True] == [flaw.is_harmless for flaw in again.examine("kelp")]
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert [None] == again.append([Append(granted(grant), 7, (b"seven",))])
        assert [*NUMBERED, (7, b"seven")] == again.read("kelp")

    def test_a_last_line_whose_line_end_alone_is_damaged_is_whole(self) -> None:
        self.written()
        text = self.journal().read_bytes()
        self.journal().write_bytes(text[:-1] + b"x")
        again = self.anew()
        assert NUMBERED == again.read("kelp")
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert text == self.journal().read_bytes()[: len(text)]

    def test_an_empty_segment_that_a_crash_left_is_gone_on_with(self) -> None:
        self.written()
        (self.folder() / "journal-000000007.jsonl").touch()
        again = self.anew()
        assert NUMBERED == again.read("kelp")
        header = again.find_state("kelp")
        assert header is not None
        assert (6, StateStatus.AWAITING, None) == (header.position, header.status, header.damage)
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert [None] == again.append([Append(granted(grant), 7, (b"seven",))])
        assert [*NUMBERED, (7, b"seven")] == self.opened_again().read("kelp")
        assert [] == again.examine("kelp")


class TestDamagedLines(_Damage):
    def damaged(self, number: int) -> StateBackend:
        """The store after one line was damaged in its middle."""
        lines = self.lines()
        lines[number] = flipped(lines[number], len(lines[number]) // 2)
        self.journal().write_bytes(b"".join(lines))
        return self.anew()

    @pytest.mark.parametrize(("line", "seq"), [(1, 1), (2, 2), (3, 3), (6, 4), (7, 5), (8, 6)])
    def test_exactly_the_record_of_a_damaged_line_is_lost(self, line: int, seq: int) -> None:
        self.written()
        again = self.damaged(line)
        assert [(n, b"" if n == seq else frame) for n, frame in NUMBERED] == again.read("kelp")
        header = again.find_state("kelp")
        assert header is not None
        assert (6, None, StateStatus.AWAITING) == (header.position, header.damage, header.status)
        (flaw,) = again.examine("kelp")
        assert (seq, False) == (flaw.seq, flaw.is_harmless)
        assert f"Line {line + 1} of journal-000000001.jsonl of state 'kelp' (record {seq})" in flaw.what
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert [None] == again.append([Append(granted(grant), 7, (b"seven",))])
        assert (7, b"seven") == again.read("kelp")[-1]

    def test_a_damaged_record_at_the_end_keeps_its_number(self) -> None:
        lease = self.lease("kelp", *FRAMES[:2])
        self.append(lease, 3, FRAMES[2])
        again = self.damaged(3)
        assert [*NUMBERED[:2], (3, b"")] == again.read("kelp")
        header = again.find_state("kelp")
        assert header is not None
        assert (3, None) == (header.position, header.damage)
        assert [3] == [flaw.seq for flaw in again.examine("kelp")]

    def test_lines_that_were_removed_are_missing_by_their_numbers(self) -> None:
        self.written()
        lines = self.lines()
        del lines[2:4]
        self.journal().write_bytes(b"".join(lines))
        again = self.anew()
        assert [NUMBERED[0], (2, b""), (3, b""), *NUMBERED[3:]] == again.read("kelp")
        assert [(5, b""), (6, FRAMES[5])] != again.read("kelp", 4)
        assert NUMBERED[4:] == again.read("kelp", 4)
        assert any("records 2 to 3" in flaw.what for flaw in again.examine("kelp"))

    def test_a_line_that_stands_twice_counts_once(self) -> None:
        self.written()
        lines = self.lines()
        for number in (1, 4, 6):
            self.journal().write_bytes(b"".join([*lines[: number + 1], *lines[number:]]))
            again = self.anew()
            assert NUMBERED == again.read("kelp")
            header = again.find_state("kelp")
            assert header is not None
            assert (6, None) == (header.position, header.damage)
            assert 1 == len(again.examine("kelp"))

    def test_a_record_in_the_wrong_place_is_not_there_whatever_window_is_read(self) -> None:
        self.written()
        lines = self.lines()
        lines[7], lines[8] = lines[8], lines[7]
        self.journal().write_bytes(b"".join(lines))
        again = self.anew()
        assert [*NUMBERED[:4], (5, b""), NUMBERED[5]] == again.read("kelp")
        assert [(5, b"")] == again.read("kelp", 4, 1)
        assert 5 in {flaw.seq for flaw in again.examine("kelp")}

    def test_lines_of_another_state_are_damaged_here(self) -> None:
        self.written()
        self.lease("wrack", *frames("wrack", 6))
        lines = self.lines()
        lines[1] = self.journal("wrack").read_bytes().splitlines(keepends=True)[1]
        self.journal().write_bytes(b"".join(lines))
        assert [(1, b""), *NUMBERED[1:]] == self.anew().read("kelp")

    @pytest.mark.parametrize("line", [0, 4])
    def test_a_damaged_line_of_the_header_is_told_and_mended(self, line: int) -> None:
        self.written()
        again = self.damaged(line)
        header = again.find_state("kelp")
        assert header is not None
        assert header.damage is not None
        assert (NUMBERED, 6) == (again.read("kelp"), header.position)
        assert [header] == again.list_states()
        assert any(flaw.what.startswith("Line ") for flaw in again.examine("kelp"))
        claim = Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)
        (refused,) = again.acquire([claim])
        assert refused is not None
        assert (None, None, header.damage) == (refused.lease, refused.held_by, refused.header.damage)
        (grant,) = again.acquire([msgspec.structs.replace(claim, mend=True)])
        assert grant is not None
        update = _mending(header, self.clock.now)
        assert [None] == again.append([Append(granted(grant), 7, (b"seven",), update)])
        mended = self.anew().find_state("kelp")
        assert mended is not None
        assert (None, StateStatus.PAUSED, 7) == (mended.damage, mended.status, mended.position)
        assert [*NUMBERED, (7, b"seven")] == again.read("kelp")

    def test_the_header_file_makes_a_damaged_header_good(self) -> None:
        self.written()
        expected = self.header()
        lines = self.lines()
        lines[0] = flipped(lines[0], 60)
        lines[4] = flipped(lines[4], 60)
        self.journal().write_bytes(b"".join(lines))
        again = self.anew(header_file=True)
        assert expected == again.find_state("kelp")
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert [None] == again.append([Append(granted(grant), 7, (b"seven",))])

    def test_a_fence_is_not_given_twice_where_a_lease_is_damaged(self) -> None:
        self.written()
        lost = self.lines()[5]
        assert b'"lease"' in lost
        fence = self.backend.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        again = self.damaged(5)
        header = again.find_state("kelp")
        assert header is not None
        assert header.damage is None
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert fence[0] is not None
        assert granted(grant).fence > granted(fence[0]).fence

    def test_a_damaged_lease_at_the_end_moves_the_fence_far_ahead(self) -> None:
        first = self.lease("kelp", b"one")
        second = self.taken_over(first)
        again = self.damaged(2)
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert granted(grant).fence > second.fence + 900

    def test_a_state_of_which_nothing_can_be_read_is_listed_and_can_be_mended(self) -> None:
        self.lease("kelp", *FRAMES)
        self.lease("wrack", b"one")
        self.journal().write_bytes(b"nothing of it\n" * 20)
        (self.path / "index.db").unlink()
        again = self.anew()
        kelp, wrack = again.list_states()
        assert ("kelp", StateStatus.INTERRUPTED, True) == (kelp.state_id, kelp.status, kelp.damage is not None)
        assert ("wrack", None) == (wrack.state_id, wrack.damage)
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0, mend=True)])
        assert grant is not None
        assert granted(grant).key > 2
        assert [None] == again.append([Append(granted(grant), 1, (), _mending(kelp, self.clock.now))])
        mended = again.find_state("kelp")
        assert mended is not None
        assert (None, StateStatus.PAUSED) == (mended.damage, mended.status)

    def test_a_state_that_may_not_be_read_does_not_hide_another(self) -> None:
        with folder_of_ordinary_user() as folder, as_ordinary_user():
            self.path = folder / "store"
            self.lease("kelp", b"one")
            self.lease("wrack", b"one")
            self.folder().chmod(0o000)
            (self.path / "index.db").unlink()
            listed = {header.state_id: header.damage for header in self.opened_again().list_states()}
            assert (2, None) == (len(listed), listed["wrack"])
            assert "Permission denied" in str(listed["kelp"])

    def test_a_missing_journal_is_damage(self) -> None:
        self.lease("kelp", b"one")
        self.journal().unlink()
        header = self.anew().find_state("kelp")
        assert header is not None
        assert header.damage is not None

    def test_a_missing_segment_takes_only_its_own_records(self) -> None:
        self.segment_size = 100
        lease = self.lease("kelp", FRAMES[0])
        for seq, frame in NUMBERED[1:]:
            self.append(lease, seq, frame)
        self.segments()[2].unlink()
        again = self.anew()
        assert [(seq, b"" if seq == 3 else frame) for seq, frame in NUMBERED] == again.read("kelp")
        assert any("ecord 3 is missing" in flaw.what for flaw in again.examine("kelp"))
        header = again.find_state("kelp")
        assert header is not None
        assert (6, None) == (header.position, header.damage)

    def test_the_repeated_header_of_a_later_segment_is_not_needed(self) -> None:
        self.segment_size = 100
        lease = self.lease("kelp", FRAMES[0])
        for seq, frame in NUMBERED[1:]:
            self.append(lease, seq, frame)
        expected = self.header()
        text = self.journal().read_bytes()
        self.journal().write_bytes(flipped(text, 100))
        (self.folder() / "header.json").unlink()
        again = self.opened_again()
        assert (expected, NUMBERED) == (again.find_state("kelp"), again.read("kelp"))


class TestFlippedBits(_Damage):
    def test_every_flipped_bit_of_a_journal_is_seen_or_harmless(self) -> None:
        """A record is what it was or not there, a header is what it was or told to be damaged."""
        lease = self.lease("kelp", *FRAMES[:2])
        update = StateUpdate(at=self.clock.now, status=StateStatus.FAILED, releases=True)
        assert self.append(lease, 3, FRAMES[2], update=update) is None
        expected = self.header()
        text = self.journal().read_bytes()
        (self.folder() / "header.json").unlink()
        with self.make_backend(self.clock) as backend:
            for place in range(len(text)):
                self.journal().write_bytes(flipped(text, place, place % 8))
                found = backend.read("kelp")
                assert [1, 2, 3] == [seq for seq, _ in found][:3]
                assert all(body in (b"", FRAMES[seq - 1]) for seq, body in found if seq <= 3)
                assert len(found) == 3 or found[3:] == [(4, b"")]
                header = backend.find_state("kelp")
                assert header is not None
                flaws = backend.examine("kelp")
                lost = sum(not body for _, body in found)
                assert lost <= 1
                if header.damage is None:
                    assert expected == msgspec.structs.replace(header, position=3)
                if lost or header.damage:
                    assert any(not flaw.is_harmless for flaw in flaws)

    def test_every_flipped_bit_of_what_is_derived_is_harmless(self) -> None:
        lease = self.lease("kelp", *FRAMES[:2])
        self.append(lease, 3, FRAMES[2])
        expected = self.header()
        for name in ("header.json", "lease.json"):
            text = (self.folder() / name).read_bytes()
            for place in range(len(text)):
                (self.folder() / name).write_bytes(flipped(text, place, place % 8))
                with self.make_backend(self.clock) as backend:
                    found = backend.find_state("kelp")
                    assert found is not None
                    assert expected == msgspec.structs.replace(found, holder=expected.holder)
                    assert [True] == [flaw.is_harmless for flaw in backend.examine("kelp")]
            (self.folder() / name).write_bytes(text)
