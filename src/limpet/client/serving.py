"""``serve``: a supervisor for one machine, which takes up every state that can go on.

A state can go on when what it waits for has come (an answer, a time, a message), or when the process that ran it has
died or has handed it back. All others are left alone: who has interrupted or paused a state, or seen
it fail, takes it up again themselves.

While it serves, it cleans up the store when the configured schedule says so (``scheduled_cleanup.py``).

It is told of letters by its own process at once, and by the store as soon as it asks, which is one cheap question for
all states. It keeps nothing of a state that waits but its time, if it has one.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, cast

import msgspec

from limpet.client.answering import Answering
from limpet.client.deciding import Deciding
from limpet.client.keeping import Keeping
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.errors import Awaiting, BackendUnavailable, ExecutionInterrupted, LeaseHeld, LimpetError, UsageError
from limpet.journal.waits import noted_waiting
from limpet.logs import logger
from limpet.model import CleanupRun, StateHeader, StateStatus
from limpet.model.interrupts import SHUT_DOWN

log = logger("limpet.serving")

LISTEN_S = 0.05
"""How often the store is asked for letters that other processes have delivered."""
LOOK_S = 5.0
"""How often the states that are being run are looked at: the process of one may have died."""
LOOK_AT_ALL_S = 60.0
"""How often all states that wait are looked at: other processes may have left some that wait for a time."""
CLEAN_UP_S = 1.0
"""How often it is asked whether a cleanup is due, which costs nothing while none is."""
PATIENCE_S = 1.0
"""How near a time must be for a run to keep its place."""


class Served(msgspec.Struct, frozen=True):
    """What came of a state that was taken up."""

    state_id: str
    result: Any = None
    error: BaseException | None = None
    """Why it did not end: Awaiting where it waits again, else what the run failed of."""


class Serving(Deciding, Answering, Keeping):
    """``serve``."""

    async def serve(
        self,
        *,
        concurrency: int = 10,
        stop: asyncio.Event | None = None,
        on_served: Callable[[Served], object] | None = None,
        on_cleanup: Callable[[CleanupRun], object] | None = None,
    ) -> None:
        """Take up every state of the store that can go on, so many at a time, until ``stop`` is set or it is cancelled.

        A state can go on when what it waits for has come, and when the process that ran it has died or has handed it
        back. Its agent is one that this process has declared, else the one that the state names to
        import. States that somebody has interrupted or paused, and those that failed, are left alone. ``on_served`` is
        told what came of each. At the end what is being executed is finished first. Raises UsageError.

        Where ``[retention]`` of the configuration has a schedule, the store is cleaned up whenever that is due, by one
        supervisor at a time; ``on_cleanup`` is told what came of it. One that fails is logged, and hinders nothing.
        """
        if not isinstance(cast(object, concurrency), int) or concurrency < 1:
            raise UsageError(f"A supervisor cannot run {concurrency!r} states at a time.", "Give a number from 1 on.")
        await _Supervisor(self, concurrency, on_served, on_cleanup).serve(asyncio.Event() if stop is None else stop)


class _Supervisor:
    """Takes up the states of one store, a bounded number at a time, until it is told to stop."""

    def __init__(
        self,
        client: Serving,
        concurrency: int,
        on_served: Callable[[Served], object] | None,
        on_cleanup: Callable[[CleanupRun], object] | None,
    ) -> None:
        from limpet.client.scheduled_cleanup import ScheduledCleanup

        self._client = client
        self._backend = client.backend
        self._keeper = client._writer.keeper  # pyright: ignore[reportPrivateUsage]  # the same module
        self._inbox = client._inbox()  # pyright: ignore[reportPrivateUsage]
        self._most = concurrency
        self._on_served = on_served
        self._on_cleanup = on_cleanup
        clean = client._clean  # pyright: ignore[reportPrivateUsage]
        self._cleanups = ScheduledCleanup(
            self._backend,
            client.config,
            lambda retention, compact, told: clean(retention, compact=compact, on_progress=told),
        )
        self._cleaning: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wanted: dict[str, None] = {}
        """The states that may be able to go on, in the order of their coming."""
        self._due: list[tuple[float, str]] = []
        self._given_up: set[str] = set()
        """The states that cannot be taken up here: their agent is not found, or they were made in the explicit form."""
        self._heard = 0
        self._woken = asyncio.Event()

    async def serve(self, stop: asyncio.Event) -> None:
        """Take up states until told to stop; what is being executed then is finished first."""
        loop = asyncio.get_running_loop()

        def told(state_id: str) -> None:
            loop.call_soon_threadsafe(self._want, state_id)

        self._keeper.told_of_letters.add(told)
        try:
            await self._until(stop)
        finally:
            self._keeper.told_of_letters.discard(told)
            await self._shut_down()

    async def _until(self, stop: asyncio.Event) -> None:
        look_at_all = look = clean_up = 0.0
        while not stop.is_set():
            now = SYSTEM_CLOCK.elapsed()
            try:
                if now >= look_at_all:
                    await asyncio.to_thread(self._look_at_waiting)
                    look_at_all = now + LOOK_AT_ALL_S
                if now >= look:
                    await asyncio.to_thread(self._look_at_running)
                    look = now + LOOK_S
                await asyncio.to_thread(self._hear)
            except BackendUnavailable as error:
                log.warning("The store does not answer, and is asked again: %s", error)
            if now >= clean_up and self._cleaning is None:
                self._cleaning = asyncio.create_task(self._clean_up())
                clean_up = now + CLEAN_UP_S
            self._take_due()
            self._take_up()
            waits = asyncio.ensure_future(self._woken.wait())
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait((waits, stopping), timeout=LISTEN_S, return_when=asyncio.FIRST_COMPLETED)
            waits.cancel()
            stopping.cancel()
            self._woken.clear()

    def _headers(self, status: StateStatus) -> Iterator[StateHeader]:
        from limpet.engine.cleaning import pages

        return chain.from_iterable(pages(self._backend, status))

    def _look_at_waiting(self) -> None:
        """Note when the states that wait for a time are due. A supervisor that ended may have left others."""
        self._due = [
            (due_at, header.state_id)
            for header in self._headers(StateStatus.AWAITING)
            if (due_at := noted_waiting(header).due_at)
        ]
        heapq.heapify(self._due)

    def _look_at_running(self) -> None:
        for header in self._headers(StateStatus.RUNNING):
            if header.state_id not in self._running and not self._keeper.may_write(header.holder):
                self._wanted[header.state_id] = None

    def _hear(self) -> None:
        while letters := self._backend.arrivals(self._heard):
            self._heard = letters[-1][0]
            self._wanted.update(dict.fromkeys(state_id for _, state_id in letters))

    def _want(self, state_id: str) -> None:
        self._wanted[state_id] = None
        self._woken.set()

    def _take_due(self) -> None:
        now = SYSTEM_CLOCK.now()
        while self._due and self._due[0][0] <= now:
            self._wanted[heapq.heappop(self._due)[1]] = None

    def _take_up(self) -> None:
        for state_id in list(self._wanted):
            if len(self._running) >= self._most:
                return
            # One that is being run is looked at again when it has ended: the letter may have come too late for it.
            if state_id not in self._running:
                del self._wanted[state_id]
                if state_id not in self._given_up:
                    self._running[state_id] = asyncio.create_task(self._go_on(state_id))

    async def _go_on(self, state_id: str) -> None:
        try:
            if await asyncio.to_thread(self._can_go_on, state_id):
                self._tell(Served(state_id, await self._client.resume(state_id, patience_s=PATIENCE_S)))
        except LeaseHeld:
            pass  # Somebody else has taken it up.
        except (Awaiting, ExecutionInterrupted) as error:
            self._tell(Served(state_id, error=error))
        except UsageError as error:
            self._given_up.add(state_id)
            log.warning("State %s cannot be taken up here: %s", state_id, error)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            log.error("State %s failed: %s: %s", state_id, type(error).__name__, error)
            self._tell(Served(state_id, error=error))
        finally:
            self._note_due(state_id)
            del self._running[state_id]
            self._woken.set()

    def _can_go_on(self, state_id: str) -> bool:
        header = self._backend.find_state(state_id)
        if header is None or header.damage is not None or self._keeper.may_write(header.holder):
            return False
        match header.status:
            case StateStatus.RUNNING:
                return True
            case StateStatus.AWAITING:
                return self._inbox.has_come(header, SYSTEM_CLOCK.now())
            case _:
                return False

    def _note_due(self, state_id: str) -> None:
        try:
            header = self._backend.find_state(state_id)
        except LimpetError:
            return  # It is found when all are looked at.
        if header is not None and header.status is StateStatus.AWAITING and (due_at := noted_waiting(header).due_at):
            heapq.heappush(self._due, (due_at, state_id))

    def _tell(self, served: Served) -> None:
        if self._on_served is None:
            return
        try:
            self._on_served(served)
        except Exception:
            log.exception("What was to be told of state %s raised.", served.state_id)

    async def _clean_up(self) -> None:
        try:
            run = await asyncio.to_thread(self._cleanups.look)
            if run is not None and self._on_cleanup is not None:
                self._on_cleanup(run)
        except LimpetError as error:
            log.warning("Whether a cleanup is due cannot be told, and is asked again: %s", error)
        except Exception:
            log.exception("What was to be done or told of a cleanup raised.")
        finally:
            self._cleaning = None

    async def _shut_down(self) -> None:
        """Let what is being executed come to its end; a supervisor that begins later goes on from there."""
        self._cleanups.end()
        tasks = [*self._running.values(), *(() if self._cleaning is None else (self._cleaning,))]
        for state_id in list(self._running):
            try:
                self._client.interrupt(state_id, "The supervisor ended.", reason=SHUT_DOWN, finish=True)
            except LimpetError as error:
                log.warning("State %s could not be told to stop: %s", state_id, error)
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
