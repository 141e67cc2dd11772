"""When commits are made, and together with which others."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from limpet import BackendError, BackendUnavailable, Lease, LeaseLost, MemoryStateBackend, StateHeader, StateStatus
from limpet.backends.contract import Append, Claim, Grant
from limpet.engine import writer as engine_writer
from limpet.engine.lease import new_holder
from limpet.engine.writer import Writer, writer_of
from limpet.model.header import utc


class Watched(MemoryStateBackend):
    """Notes how many appends and claims each commit has, and can be made to wait or fail."""

    def __init__(self, commit_waits: bool) -> None:
        super().__init__()
        self.commit_waits = commit_waits
        self.inline_when_quick = True
        self.commits: list[int] = []
        self.claims: list[int] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.failure: BaseException | None = None

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        self.threads.add(threading.current_thread().name)
        self.commits.append(len(appends))
        self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return super().append(appends)

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        self.claims.append(len(claims))
        return super().acquire(claims)


def claim(state_id: str) -> Claim:
    header = StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=utc(0), updated_at=utc(0))
    return Claim(header=header, holder=new_holder(), ttl_s=30)


def leased(writer: Writer, state_id: str) -> Lease:
    grant = writer.acquire_now(claim(state_id))
    assert grant is not None
    assert grant.lease is not None
    return grant.lease


async def written(writer: Writer, append: Append) -> None:
    future = writer.write(append, lambda refusal: None)
    if future is not None:
        await future


def test_a_lone_cheap_commit_is_made_inline() -> None:
    backend = Watched(commit_waits=False)
    writer = Writer(backend)
    lease = leased(writer, "s")

    async def main() -> Any:
        return writer.write(Append(lease, 1, [b"a"]), lambda refusal: None)

    assert asyncio.run(main()) is None
    assert {"MainThread"} == backend.threads


def test_what_a_crowd_writes_in_one_turn_is_one_commit() -> None:
    backend = Watched(commit_waits=False)
    writer = Writer(backend)
    leases = [leased(writer, f"s{number}") for number in range(5)]
    writer.crowd = 5

    async def main() -> None:
        await asyncio.gather(*(written(writer, Append(lease, 1, [b"a"])) for lease in leases))

    asyncio.run(main())
    assert [5] == backend.commits


def test_waiting_commits_are_made_on_a_thread_in_groups() -> None:
    backend = Watched(commit_waits=True)
    writer = Writer(backend)
    leases = [leased(writer, f"s{number}") for number in range(20)]
    writer.crowd = 20
    ticks = 0

    async def main() -> None:
        nonlocal ticks
        backend.gate.clear()
        writes = asyncio.gather(*(written(writer, Append(lease, 1, [b"a"])) for lease in leases))
        while ticks < 100:  # The loop runs on while the commit waits.
            await asyncio.sleep(0)
            ticks += 1
        assert not writes.done()
        backend.gate.set()
        await writes

    asyncio.run(main())
    assert {"limpet-writer"} == backend.threads
    assert 20 == sum(backend.commits)
    assert len(backend.commits) <= 3


def test_claims_that_come_together_are_answered_together() -> None:
    backend = Watched(commit_waits=True)
    writer = Writer(backend)
    writer.crowd = 10

    async def main() -> list[Grant | None]:
        first = leased(writer, "first")
        backend.gate.clear()
        held_up = asyncio.ensure_future(written(writer, Append(first, 1, [b"a"])))
        while not backend.commits:
            await asyncio.sleep(0)
        claims = asyncio.gather(*(writer.acquire(claim(f"s{number}")) for number in range(10)))
        await asyncio.sleep(0)
        backend.gate.set()
        await held_up
        return list(await claims)

    assert all(grant is not None and grant.lease is not None for grant in asyncio.run(main()))
    assert [1, 10] == backend.claims


@pytest.mark.parametrize("commit_waits", [True, False])
@pytest.mark.parametrize("crowd", [1, 2])
def test_a_refusal_reaches_the_one_it_concerns(commit_waits: bool, crowd: int) -> None:
    writer = Writer(Watched(commit_waits))
    writer.crowd = crowd
    good = leased(writer, "good")
    bad = Lease("bad", 99, 1)

    async def main() -> list[Any]:
        writes = [written(writer, Append(lease, 1, [b"a"])) for lease in (bad, good)]
        return await asyncio.gather(*writes, return_exceptions=True)

    lost, fine = asyncio.run(main())
    assert isinstance(lost, LeaseLost)
    assert fine is None


def plainly_written(writer: Writer, append: Append) -> None:
    future = writer.write_from_anywhere(append)
    if future is not None:
        future.result()


@pytest.mark.parametrize("commit_waits", [True, False])
def test_a_refusal_reaches_plain_code(commit_waits: bool) -> None:
    with pytest.raises(LeaseLost):
        plainly_written(Writer(Watched(commit_waits)), Append(Lease("bad", 99, 1), 1, [b"a"]))


@pytest.mark.parametrize("commit_waits", [True, False])
def test_a_store_that_fails_fails_everyone_who_waits_for_it(commit_waits: bool) -> None:
    backend = Watched(commit_waits)
    writer = Writer(backend)
    writer.crowd = 2
    leases = [leased(writer, f"s{number}") for number in range(2)]
    backend.failure = BackendUnavailable("the store", "it is away")

    async def main() -> list[Any]:
        writes = [written(writer, Append(lease, 1, [b"a"])) for lease in leases]
        return await asyncio.gather(*writes, return_exceptions=True)

    assert [backend.failure, backend.failure] == asyncio.run(main())


def test_whoever_is_cancelled_while_waiting_has_written_all_the_same() -> None:
    backend = Watched(commit_waits=True)
    writer = Writer(backend)
    writer.crowd = 2
    lease = leased(writer, "s")

    async def main() -> None:
        backend.gate.clear()
        waiting = asyncio.ensure_future(written(writer, Append(lease, 1, [b"a"])))
        while not backend.commits:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        backend.gate.set()
        await written(writer, Append(lease, 2, [b"b"]))

    asyncio.run(main())
    assert [(1, b"a"), (2, b"b")] == backend.read("s")


def test_plain_code_writes_behind_what_its_state_has_waiting() -> None:
    backend = Watched(commit_waits=False)
    writer = Writer(backend)
    writer.crowd = 2
    lease = leased(writer, "s")

    async def main() -> None:
        waiting = asyncio.ensure_future(written(writer, Append(lease, 1, [b"a"])))
        # The write is queued by the next turn of the loop; the thread must come before that turn ends.
        thread = threading.Thread(target=plainly_written, args=(writer, Append(lease, 2, [b"b"])))
        asyncio.get_running_loop().call_soon(thread.start)
        await waiting
        await asyncio.to_thread(thread.join)
        writer.write(Append(lease, 3, [b"c"]), lambda refusal: None)
        assert writer.write_from_anywhere(Append(lease, 4, [b"d"])) is None

    asyncio.run(main())
    assert [b"a", b"b", b"c", b"d"] == [body for _, body in backend.read("s")]


def test_a_lone_run_commits_inline_where_waiting_commits_have_proved_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Watched(commit_waits=True)
    writer = Writer(backend)
    lease = leased(writer, "s")
    now = itertools.count()
    pace_s = 0.0001
    monkeypatch.setattr(engine_writer, "perf_counter", lambda: next(now) * pace_s)

    async def main() -> list[bool]:
        nonlocal pace_s
        inline: list[bool] = []
        for seq in range(1, 12):
            # The seventh commit, and all from then on, come to a disk that has become slow.
            pace_s = 0.0001 if seq < 7 else 1.0
            future = writer.write(Append(lease, seq, [b"a"]), lambda refusal: None)
            inline.append(future is None)
            if future is not None:
                await future
        return inline

    # The claim was quick too, so that two more commits on the thread are the proof.
    assert [False, False, True, True, True, True, True, False, False, False, False] == asyncio.run(main())
    assert 11 == len(backend.read("s"))


def test_a_commit_does_not_overtake_what_the_thread_has_in_hand() -> None:
    backend = Watched(commit_waits=True)
    writer = Writer(backend)
    writer._quick_commits = 100
    lease = leased(writer, "s")

    async def main() -> None:
        backend.gate.clear()
        writer.crowd = 2
        first = writer.write(Append(lease, 1, [b"a"]), lambda refusal: None)
        writer.crowd = 1
        second = writer.write(Append(lease, 2, [b"b"]), lambda refusal: None)
        assert first is not None
        assert second is not None
        backend.gate.set()
        await asyncio.gather(first, second)

    asyncio.run(main())
    assert [b"a", b"b"] == [body for _, body in backend.read("s")]


def test_a_refusal_is_told_even_where_nobody_waits_for_it_any_more() -> None:
    backend = Watched(commit_waits=True)
    writer = Writer(backend)
    writer.crowd = 2
    told: list[object] = []

    async def main() -> None:
        future = writer.write(Append(Lease("bad", 99, 1), 1, [b"a"]), told.append)
        assert future is not None
        future.cancel()
        while not told:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert isinstance(told[0], LeaseLost)


def test_one_backend_has_one_writer() -> None:
    backend = MemoryStateBackend()
    assert writer_of(backend) is writer_of(backend)
    assert writer_of(backend) is not writer_of(MemoryStateBackend())


def test_the_writers_thread_ends_when_there_is_nothing_to_do_and_comes_back() -> None:
    backend = Watched(commit_waits=True)
    others = threading.enumerate()
    writer = Writer(backend)
    writer.idle_s = 0.01
    lease = leased(writer, "s")
    threads = [each for each in threading.enumerate() if each.name == "limpet-writer" and each not in others]
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    future = writer.write_from_anywhere(Append(lease, 1, [b"a"]))
    assert future is not None
    assert future.result() is None


def test_code_does_not_go_on_inside_a_write_that_ends_the_turn() -> None:
    """Whoever writes from anywhere holds the lock of the state, and the code that goes on would take it again."""
    writer = Writer(Watched(commit_waits=False))
    lease = leased(writer, "s")
    writer.crowd = 2

    async def main() -> list[bool]:
        future = writer.write(Append(lease, 1, [b"a"]), lambda refusal: None)
        assert future is not None
        writer.write_from_anywhere(Append(lease, 2, [b"b"]))
        inside = future.done()
        await future
        return [inside, future.done()]

    assert [False, True] == asyncio.run(main())
