"""States in a folder: records that are rewritten are all rewritten or none, wherever the process dies."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

import pytest
from backends.file_states_case import FileStatesCase, frames

from limpet.backends.contract import Append, StateUpdate
from limpet.errors import LeaseLost, PositionTaken, StoreDamaged
from limpet.model import Lease, StateStatus
from limpet.testing.conformance.case import raised

OLD = frames("kelp", 20, "old")
NEW = frames("kelp", 20, "and quite new")


class Died(BaseException):
    """The process is to be thought dead."""


class TestRewriting(FileStatesCase):
    segment_size = 1500

    def written(self) -> tuple[Lease, Lease]:
        kelp = self.lease("kelp", *OLD[:2])
        for seq in range(3, 21):
            assert self.append(kelp, seq, OLD[seq - 1]) is None
        return kelp, self.fork("fork", "kelp", 5, *OLD[5:10])

    def changes(self, kelp: Lease, fork: Lease) -> list[Append]:
        update = StateUpdate(at=self.clock.now, status=StateStatus.PAUSED)
        return [Append(kelp, 4, NEW[3:17]), Append(fork, 7, NEW[6:9], update)]

    def changes_back(self, kelp: Lease, fork: Lease) -> list[Append]:
        update = StateUpdate(at=self.clock.now, status=StateStatus.RUNNING)
        return [Append(kelp, 4, OLD[3:17]), Append(fork, 7, OLD[6:9]), Append(fork, 1, (), update)]

    def is_old(self) -> bool:
        """False if everything is new; anything in between fails."""
        again = self.opened_again()
        found = [body for _, body in again.read("kelp")], [body for _, body in again.read("fork")]
        old = OLD, OLD[:10]
        new = [*OLD[:3], *NEW[3:17], *OLD[17:]], [*OLD[:3], *NEW[3:5], OLD[5], *NEW[6:9], OLD[9]]
        assert found in (old, new)
        flaws = [flaw for name in ("kelp", "fork") for flaw in again.examine(name)]
        assert [] == [flaw for flaw in flaws if not flaw.is_harmless]
        assert [None, None] == [header.damage for header in again.list_states()]
        (fork,) = [header for header in again.list_states() if header.state_id == "fork"]
        # What belongs to the rewriting came with it.
        assert (StateStatus.RUNNING if found == old else StateStatus.PAUSED) is fork.status
        return found == old

    @pytest.mark.parametrize("compression", [None, "zstd"])
    def test_records_have_other_bytes_and_everything_else_stays(
        self, compression: Literal["zstd", "gzip"] | None
    ) -> None:
        self.compression = compression
        kelp, fork = self.written()
        before = self.header("kelp"), self.listed()
        assert self.is_old()
        self.backend.rewrite(self.changes(kelp, fork))
        assert not self.is_old()
        assert before == (self.header("kelp"), self.listed())
        assert StateStatus.PAUSED is self.header("fork").status
        assert self.append(kelp, 21, b"more") is None
        assert [None] == self.opened_again().append([Append(kelp, 22, (b"and more",))])
        assert (22, b"and more") == self.backend.read("kelp")[-1]
        assert [] == self.backend.examine_store()

    def test_a_refused_rewriting_changes_nothing(self) -> None:
        kelp, fork = self.written()
        good = Append(kelp, 1, NEW[:3])
        for wrong, kind in (
            (Append(kelp, 20, NEW[:2]), PositionTaken),
            (Append(kelp, 0, NEW[:2]), PositionTaken),
            (Append(fork, 5, NEW[4:6]), PositionTaken),
            (Append(Lease("kelp", kelp.key, kelp.fence + 1), 1, NEW[:1]), LeaseLost),
            (Append(Lease("nowhere", 9, 1), 1, NEW[:1]), LeaseLost),
        ):
            raised(kind, lambda wrong=wrong: self.backend.rewrite([good, wrong]))
            assert self.is_old()
        self.backend.rewrite([])
        assert [] == self.backend.examine_store()

    def test_a_rewriting_is_whole_or_not_there_wherever_the_process_dies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kelp, fork = self.written()
        outcomes: list[bool] = []
        for number in range(1, 200):
            with monkeypatch.context() as context:
                dying = _Dying(context, number)
                try:
                    self.backend.rewrite(self.changes(kelp, fork))
                    is_done = True
                except Died:
                    is_done = False
                dying.is_over = True
            # A process that died has nothing in its memory any more.
            for backend in self._opened:
                backend.close()
            self._opened.clear()
            outcomes.append(self.is_old())
            if is_done:
                break
            if not outcomes[-1]:
                self.backend.rewrite(self.changes_back(kelp, fork))
                assert self.is_old()
            assert [] == list((self.path / "tmp").iterdir())
            assert not (self.path / "rewriting.json").exists()
        assert (True, False, False) == (outcomes[0], outcomes[-2], outcomes[-1])
        assert sum(outcomes) > 5
        assert outcomes.count(False) > 5

    def test_whoever_reads_or_writes_meanwhile_finishes_it_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kelp, fork = self.written()
        other = self.opened_again()
        for use in (lambda: other.read("kelp"), lambda: other.append([Append(kelp, 20, OLD[19:])])):
            with monkeypatch.context() as context:
                context.setattr("limpet.backends.files.states.rewriting.finish_rewriting", _die)
                with pytest.raises(Died):
                    self.backend.rewrite(self.changes(kelp, fork))
            assert (self.path / "rewriting.json").exists()
            use()
            assert not (self.path / "rewriting.json").exists()
            assert not self.is_old()
            self.backend.rewrite(self.changes_back(kelp, fork))

    def test_a_note_that_is_damaged_stops_everything(self) -> None:
        self.written()
        (self.path / "rewriting.json").write_bytes(b"{}")
        with pytest.raises(StoreDamaged, match=r"rewriting\.json"):
            self.opened_again()


def _die(*_: object) -> None:
    raise Died


class _Dying:
    """A process that dies before one of its changes to files."""

    def __init__(self, context: pytest.MonkeyPatch, at: int) -> None:
        self.calls = 0
        self.at = at
        self.is_over = False
        for name in ("write", "rename", "unlink", "fsync", "mkdir", "ftruncate", "rmdir"):
            context.setattr(os, name, self._dying(getattr(os, name)))

    def _dying(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls >= self.at and not self.is_over:
                raise Died
            return real(*arguments, **options)

        return call
