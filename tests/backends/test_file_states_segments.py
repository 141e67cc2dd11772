"""States in a folder: how a journal is kept in segments, how these are packed, and how a long one is read."""

from __future__ import annotations

import gzip
import sys
from collections import Counter

import pytest
from backends.file_states_case import FileStatesCase, frames

from limpet.backends.contract import Append, Claim, StateBackend
from limpet.backends.files.states import FileSystemStateBackend, reading
from limpet.backends.files.states.layout import Segment
from limpet.backends.files.states.segments import read_segment
from limpet.model import Lease, StateStatus
from limpet.testing.conformance.case import OURS, new_header

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAMES = frames("kelp", 40)
NUMBERED = list(enumerate(FRAMES, 1))


class _Segments(FileStatesCase):
    segment_size = 2000

    def written(self, backend: StateBackend | None = None) -> Lease:
        lease = self.lease("kelp", FRAMES[0])
        for seq, frame in NUMBERED[1:]:
            assert [None] == (backend or self.backend).append([Append(lease, seq, (frame,))])
        return lease


class TestSegments(_Segments):
    def test_a_segment_that_is_long_enough_is_followed_by_another(self) -> None:
        self.written()
        sizes = [file.stat().st_size for file in self.segments()]
        assert len(sizes) > 3
        assert all(2000 < size < 3000 for size in sizes[:-1])
        assert NUMBERED == self.backend.read("kelp")
        assert NUMBERED == self.opened_again().read("kelp")

    def test_a_segment_is_named_after_its_first_record_and_begins_with_the_header(self) -> None:
        lease = self.written()
        self.update(lease, status=StateStatus.AWAITING)
        for file in self.segments()[:-1]:
            first, second, *_ = file.read_text().splitlines()
            assert '"header":{"state_id":"kelp"' in first
            assert f'"seq":{int(file.name[8:17])},' in second

    def test_everything_is_known_from_the_newest_segment_alone(self) -> None:
        lease = self.written()
        self.update(lease, status=StateStatus.AWAITING)
        expected = self.header()
        (self.folder() / "header.json").unlink()
        for file in self.segments()[:-1]:
            file.write_bytes(b"")
        assert expected == self.opened_again().find_state("kelp")

    def test_a_commit_lies_in_one_segment(self) -> None:
        lease = self.lease("kelp")
        for first in range(1, 40, 8):
            assert self.append(lease, first, *FRAMES[first - 1 : first + 7]) is None
        for file in self.segments():
            assert '"left"' not in file.read_text().splitlines()[-1]
        assert NUMBERED == self.backend.read("kelp")

    def test_a_segment_without_a_record_is_not_followed_by_one_of_the_same_name(self) -> None:
        lease = self.lease("kelp")
        for _ in range(30):
            lease = self.taken_over(lease)
        assert 1 == len(self.segments())
        assert self.append(lease, 1, b"one") is None
        assert self.append(lease, 2, b"two") is None
        assert ["journal-000000001.jsonl", "journal-000000002.jsonl"] == [file.name for file in self.segments()]

    def test_a_segment_that_was_begun_elsewhere_is_seen(self) -> None:
        lease = self.lease("kelp", FRAMES[0])
        again = self.opened_again()
        for seq, frame in NUMBERED[1:]:
            writer = (self.backend, again)[seq % 2]
            assert [None] == writer.append([Append(lease, seq, (frame,))])
        assert NUMBERED == self.backend.read("kelp")
        assert [] == again.examine("kelp")

    def test_any_window_of_a_long_journal_is_read(self) -> None:
        self.written()
        for after in range(0, 42, 3):
            for limit in (1, 2, 7, 30, None):
                stop = None if limit is None else after + limit
                assert NUMBERED[after:stop] == self.backend.read("kelp", after, limit)

    def test_a_window_reads_only_the_segments_that_it_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written()
        read = Counter[str]()
        original = read_segment

        def counted(folder: int, segment: Segment, offset: int = 0) -> bytes | None:
            read[segment.name] += 1
            return original(folder, segment, offset)

        monkeypatch.setattr(reading, "read_segment", counted)
        middle = int(self.segments()[2].name[8:17])
        assert NUMBERED[middle : middle + 2] == self.backend.read("kelp", middle, 2)
        assert {self.segments()[2].name: 1} == dict(read)

    def test_windows_one_behind_the_other_do_not_begin_at_the_start_each_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.segment_size = 4 << 20
        self.written()
        sizes: list[int] = []
        original = read_segment

        def measured(folder: int, segment: Segment, offset: int = 0) -> bytes | None:
            text = original(folder, segment, offset)
            sizes.append(len(text or b""))
            return text

        monkeypatch.setattr(reading, "read_segment", measured)
        found: list[tuple[int, bytes]] = []
        while window := self.backend.read("kelp", len(found), 5):
            found += window
        assert NUMBERED == found
        assert sorted(sizes, reverse=True) == sizes
        assert sizes[-1] < sizes[0] // 8


class _Packed(_Segments):
    def unpacked(self, data: bytes) -> bytes:
        raise NotImplementedError

    def _is_packed(self) -> None:
        with FileSystemStateBackend(self.path / "plain", "normal", self.clock, segment_size=2000) as plain:
            claim = Claim(header=new_header("kelp"), bodies=(FRAMES[0],), holder=OURS, ttl_s=60.0)
            (grant,) = plain.acquire([claim])
            assert grant is not None
            assert grant.lease is not None
            for seq, frame in NUMBERED[1:]:
                assert [None] == plain.append([Append(grant.lease, seq, (frame,))])
        self.path = self.path / "packed"
        self.written()
        expected = sorted((self.path.parent / "plain" / "states" / "kelp").glob("journal-*"))
        *packed, newest = self.segments()
        assert expected[-1].read_bytes() == newest.read_bytes()
        assert [file.name for file in expected[:-1]] == [file.with_suffix("").name for file in packed]
        for plain_file, file in zip(expected, packed, strict=False):
            assert plain_file.read_bytes() == self.unpacked(file.read_bytes())
        assert NUMBERED == self.backend.read("kelp")
        assert NUMBERED[20:23] == self.opened_again().read("kelp", 20, 3)
        assert [] == self.backend.examine("kelp")


class TestZstd(_Packed):
    compression = "zstd"

    def unpacked(self, data: bytes) -> bytes:
        return zstd.decompress(data)

    def test_finished_segments_are_packed_and_hold_the_same_lines(self) -> None:
        self._is_packed()

    def test_a_store_is_written_with_one_setting_and_then_with_another(self) -> None:
        lease = self.lease("kelp", FRAMES[0])
        settings = ("zstd", None, "gzip")
        backends = [
            FileSystemStateBackend(self.path, "normal", self.clock, compression=setting, segment_size=1000)
            for setting in settings
        ]
        self._opened += backends
        for seq, frame in NUMBERED[1:]:
            assert [None] == backends[seq // 4 % 3].append([Append(lease, seq, (frame,))])
        assert {".zst", ".jsonl", ".gz"} == {file.suffix for file in self.segments()}
        for backend in backends:
            assert NUMBERED == backend.read("kelp")

    def test_the_plain_segment_counts_where_a_crash_left_both(self) -> None:
        self.written()
        packed = self.segments()[0]
        plain = packed.with_suffix("")
        plain.write_bytes(zstd.decompress(packed.read_bytes()))
        packed.write_bytes(b"half of i")
        again = self.opened_again()
        assert NUMBERED == again.read("kelp")
        assert [True] == [flaw.is_harmless for flaw in again.examine("kelp")]
        self.clock.turn(60.0)
        assert again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert (False, True) == (packed.exists(), plain.exists())
        assert NUMBERED == again.read("kelp")

    def test_a_newest_segment_that_somebody_packed_is_gone_on_with(self) -> None:
        self.written()
        newest = self.journal()
        newest.with_name(newest.name + ".zst").write_bytes(zstd.compress(newest.read_bytes()))
        newest.unlink()
        again = self.opened_again()
        self.clock.turn(60.0)
        (grant,) = again.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert grant.lease is not None
        assert [None] == again.append([Append(grant.lease, 41, (b"more",))])
        assert [*NUMBERED, (41, b"more")] == again.read("kelp")

    def test_of_a_damaged_packed_segment_only_its_records_are_lost(self) -> None:
        self.written()
        packed = self.segments()[1]
        first, last = int(packed.name[8:17]), int(self.segments()[2].name[8:17])
        packed.write_bytes(packed.read_bytes()[:40])
        again = self.opened_again()
        expected = [(seq, b"" if first <= seq < last else frame) for seq, frame in NUMBERED]
        assert expected == again.read("kelp")
        assert any("cannot be unpacked" in flaw.what for flaw in again.examine("kelp"))


class TestGzip(_Packed):
    compression = "gzip"

    def unpacked(self, data: bytes) -> bytes:
        return gzip.decompress(data)

    def test_finished_segments_are_packed_and_hold_the_same_lines(self) -> None:
        self._is_packed()

    def test_of_a_damaged_packed_segment_only_its_records_are_lost(self) -> None:
        self.written()
        packed = self.segments()[0]
        packed.write_bytes(packed.read_bytes()[:-20])
        again = self.opened_again()
        found = again.read("kelp")
        assert [seq for seq, _ in NUMBERED] == [seq for seq, _ in found]
        assert all(body in (b"", frame) for (_, body), frame in zip(found, FRAMES, strict=True))
        assert any("cannot be unpacked" in flaw.what for flaw in again.examine("kelp"))
