"""States in a folder on a disk that is full or fails: what was refused is not there, and can be done again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from backends.bounds import files_limited_to
from backends.file_states_case import FileStatesCase, frames

from limpet.backends.contract import Append, Claim, Flaw, StateBackend, StateUpdate
from limpet.errors import BackendUnavailable, StoreFull
from limpet.model import Base, End, StateMetadata, StateStatus
from limpet.testing.conformance.case import OURS, THEIRS, granted, new_header

FRAMES = frames("kelp", 12)


class Disk:
    """A disk that fails at one call, or from one call on. A write is half done when it fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.fails_at = 0
        self.stays_broken = False
        for name, code in (("write", errno.ENOSPC), ("fdatasync", errno.EIO), ("fsync", errno.EIO)):
            monkeypatch.setattr(os, name, self._failing(name, getattr(os, name), code))
        monkeypatch.setattr(os, "ftruncate", self._stuck(os.ftruncate))
        self.cannot_cut = False

    def begin(self, fails_at: int, *, stays_broken: bool = False) -> None:
        self.calls, self.fails_at, self.stays_broken = 0, fails_at, stays_broken

    @property
    def has_failed(self) -> bool:
        return 0 < self.fails_at <= self.calls

    def _failing(self, name: str, real: Callable[..., Any], code: int) -> Callable[..., Any]:
        def call(handle: int, *data: Any) -> Any:
            self.calls += 1
            is_the_one = self.calls == self.fails_at or (self.stays_broken and self.has_failed)
            if is_the_one and name == "write":
                real(handle, bytes(data[0])[: len(data[0]) // 2])
            if is_the_one:
                raise OSError(code, os.strerror(code))
            return real(handle, *data)

        return call

    def _stuck(self, real: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def call(handle: int, length: int) -> None:
            if self.cannot_cut:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(handle, length)

        return call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def _seen(backend: StateBackend) -> list[tuple[str, StateStatus, int, StateMetadata, list[tuple[int, bytes]]]]:
    headers = sorted(backend.list_states(), key=lambda header: header.state_id)
    assert [None] * len(headers) == [header.damage for header in headers]
    return [
        (header.state_id, header.status, header.position, header.metadata, backend.read(header.state_id))
        for header in headers
    ]


def _flaws(backend: StateBackend) -> list[Flaw]:
    return [flaw for header in backend.list_states() for flaw in backend.examine(header.state_id)]


class TestFailingDisk(FileStatesCase):
    synchronous = "full"

    def every_call(self, disk: Disk, work: Callable[[], object], undo: Callable[[], object]) -> int:
        """Let each call to the disk fail in turn, and see that nothing of the work is there then, also elsewhere."""
        other = self.opened_again()
        before = _seen(self.backend)
        failed = 0
        for number in range(1, 200):
            disk.begin(number)
            try:
                work()
                is_refused = False
            except BackendUnavailable:
                is_refused = True
            has_failed = disk.has_failed
            disk.begin(0)
            assert not is_refused or has_failed
            if is_refused:
                failed += 1
                for backend in (self.backend, other):
                    assert before == _seen(backend)
                    assert [] == [flaw for flaw in _flaws(backend) if not flaw.is_harmless]
                continue
            undo()
            before = _seen(self.backend)
            if not has_failed:
                return failed
        raise AssertionError("the work never ends")

    def test_an_append_that_fails_anywhere_is_not_there_and_can_be_repeated(self, disk: Disk) -> None:
        self.segment_size = 1000
        leases = [self.lease(name, *FRAMES[:3]) for name in ("kelp", "wrack")]
        position = 3

        def work() -> None:
            update = StateUpdate(
                at=self.clock.now,
                status=StateStatus.AWAITING,
                metadata=StateMetadata(tags=[str(position)]),
                end=End(position + 2, 1),
            )
            appends = [
                Append(lease, position + 1, FRAMES[:2], update if lease is leases[1] else None) for lease in leases
            ]
            assert [None, None] == self.backend.append(appends)

        def undo() -> None:
            nonlocal position
            position += 2

        assert self.every_call(disk, work, undo) >= 4
        assert position == self.header("kelp").position == self.header("wrack").position

    def test_a_claim_that_fails_anywhere_creates_nothing_and_can_be_repeated(self, disk: Disk) -> None:
        self.lease("kelp", *FRAMES[:3])
        number = 0

        def claims() -> list[Claim]:
            return [
                Claim(header=new_header(f"new-{number}"), bodies=tuple(FRAMES[:2]), holder=OURS, ttl_s=60.0),
                Claim(header=new_header(f"fork-{number}"), holder=OURS, ttl_s=60.0, base=Base("kelp", 2)),
            ]

        def work() -> None:
            grants = self.backend.acquire(claims())
            assert [True, True] == [grant is not None and grant.is_new for grant in grants]

        def undo() -> None:
            nonlocal number
            number += 1

        assert self.every_call(disk, work, undo) >= 10
        assert [] == [flaw for flaw in self.backend.examine_store() if "tmp" in flaw.what]
        self.clock.turn(60.0)
        for header in self.backend.list_states():
            assert self.backend.delete_state(header.state_id)
        assert [] == self.backend.examine_store()

    def test_a_lease_that_cannot_be_written_is_not_given(self, disk: Disk) -> None:
        lease = self.lease("kelp", b"one")
        fences = [lease.fence]

        def work() -> None:
            self.clock.turn(60.0)
            fences.append(granted(self.acquire(holder=THEIRS)).fence)

        assert self.every_call(disk, work, lambda: None) >= 2
        assert sorted(set(fences)) == fences

    def test_what_cannot_be_cut_off_is_cut_off_by_the_next_use(self, disk: Disk) -> None:
        for stays_broken in (False, True):
            lease = self.lease(f"kelp-{stays_broken}", *FRAMES[:2])
            disk.begin(1, stays_broken=stays_broken)
            disk.cannot_cut = True
            with pytest.raises(StoreFull):
                self.append(lease, 3, *FRAMES[2:5])
            disk.begin(0)
            disk.cannot_cut = False
            assert FRAMES[:2] == self.bodies(lease.state_id)
            assert self.append(lease, 3, *FRAMES[2:5]) is None
            assert FRAMES[:5] == self.bodies(lease.state_id)
            assert [] == self.backend.examine(lease.state_id)

    def test_a_disk_that_stays_broken_refuses_and_then_goes_on(self, disk: Disk) -> None:
        lease = self.lease("kelp", *FRAMES[:2])
        disk.begin(1, stays_broken=True)
        for _ in range(3):
            with pytest.raises(StoreFull):
                self.append(lease, 3, FRAMES[2])
            with pytest.raises(BackendUnavailable):
                self.lease("wrack")
            with pytest.raises(BackendUnavailable):
                self.backend.renew([lease], 60.0)
        disk.begin(0)
        assert [True] == self.backend.renew([lease], 60.0)
        assert self.append(lease, 3, FRAMES[2]) is None
        assert [] == self.backend.examine("kelp")


class TestSmallFiles(FileStatesCase):
    @pytest.mark.parametrize("size", [0, 50, 400, 1000, 1500])
    def test_where_files_may_not_grow_nothing_is_written_by_halves(self, size: int) -> None:
        lease = self.lease("kelp", *FRAMES[:2])
        length = self.journal().stat().st_size
        position = 2
        with files_limited_to(length + size):
            while True:
                try:
                    answer = self.append(lease, position + 1, FRAMES[position])
                except StoreFull:
                    break
                assert answer is None
                position += 1
        assert list(enumerate(FRAMES[:position], 1)) == self.opened_again().read("kelp")
        assert [] == self.backend.examine("kelp")
        assert self.append(lease, position + 1, FRAMES[position]) is None

    def test_a_new_state_has_room_or_is_not_there(self) -> None:
        self.lease("kelp")
        with files_limited_to(300), pytest.raises(StoreFull):
            self.lease("wrack", b"x" * 1000)
        assert ["kelp"] == self.listed()
        assert [] == list((self.path / "tmp").iterdir())
        self.lease("wrack", b"x" * 1000)
