"""Who this process is to others, whether another one is dead, and keeping leases alive.

"Kill it and run the line again" must never wait: on the same machine a dead holder's lease is taken over at once. A
lease whose holder lives, or may live elsewhere, is left alone until it runs out.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec

from limpet import processes
from limpet.backends.contract import Claim, Grant, StateBackend
from limpet.backends.holders import know_holders
from limpet.errors import LeaseHeld, LeaseLost, LimpetError, StateDeleted
from limpet.logs import logger
from limpet.model import Holder, InterruptSignal
from limpet.model.defaults import LEASE_TTL_S

if TYPE_CHECKING:
    from limpet.engine.live import LiveState
    from limpet.engine.saver import Saver

log = logger("limpet.leases")

LISTEN_S = 0.2
"""How often a process asks whether anybody wants one of its runs to stop."""

IDLE_S = 1.0
"""After so long without a state the thread that listens ends. The next state starts another one."""

_life = secrets.token_hex(8)
_numbers = itertools.count(1)

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
since_boot: Callable[[], float] = time.monotonic if _CLOCK is None else partial(time.clock_gettime, _CLOCK)
"""Seconds that also go by while the process is paused, and while the machine sleeps: as those of a lease do."""

# The tokens of the runs that this process is in the middle of. Any other token with this process's identity belongs
# to a run that has ended without being able to say so, when the disk was full for instance.
_running_here: set[str] = set()

# The states that this process holds, by their tokens, through whatever backends. Weak, as those of a keeper are.
_held_here: WeakValueDictionary[str, LiveState] = WeakValueDictionary()


def new_holder() -> Holder:
    """This process, with a token of its own for one run."""
    return msgspec.structs.replace(_this_process(os.getpid()), token=f"{_life}-{next(_numbers)}")


@lru_cache(maxsize=1)
def _this_process(pid: int) -> Holder:
    return Holder(
        host=socket.gethostname(),
        boot=_boot(),
        process_space=_process_space(pid),
        pid=pid,
        started=_started(pid) or "",
        token="",
    )


@processes.in_forked_child
def _after_fork() -> None:
    """A child is another process, and in the middle of no run, whatever its parent is."""
    global _life
    _life = secrets.token_hex(8)
    _running_here.clear()
    _this_process.cache_clear()


def mark_running(holder: Holder) -> None:
    _running_here.add(holder.token)


def mark_ended(holder: Holder) -> None:
    _running_here.discard(holder.token)


@contextmanager
def in_use(live: LiveState) -> Generator[None]:
    """While this lasts, an event of an explicit state is under way: nobody in this process takes the state over.

    Between its events such a state is idle, and another object of the same state may go on with it.
    """
    if not live.users and live.holder.token in _running_here:
        yield  # It belongs to a run, which says so itself.
        return
    live.users += 1
    mark_running(live.holder)
    try:
        yield
    finally:
        live.users -= 1
        if not live.users:
            mark_ended(live.holder)


def tell_superseded(holder: Holder, fence: int) -> None:
    """The lease of that holder was taken over: where it is an idle one of this process, it learns that at once."""
    live = _held_here.pop(holder.token, None)
    if live is not None and live.lease is not None and live.lease.fence == fence:
        live.refuse_writes(LeaseLost(live.state_id, fence))


def tell_deleted(state_id: str, holder: Holder) -> None:
    """The state that holder held was deleted: where it is an idle object of this process, it learns that at once."""
    live = _held_here.pop(holder.token, None)
    if live is not None and live.lease is not None and live.state_id == state_id:
        live.refuse_writes(StateDeleted(live.state_id, live.lease.fence))


def is_dead(holder: Holder) -> bool:
    """Whether that holder certainly writes no more. False where it lives or cannot be known."""
    me = _this_process(os.getpid())
    if not me.boot or (holder.host, holder.process_space) != (me.host, me.process_space):
        return False
    if holder.boot != me.boot:
        return True  # The machine has been started anew since.
    if (holder.pid, holder.started) == (me.pid, me.started):
        return holder.token not in _running_here
    started = _started(holder.pid)
    return started is None or (holder.started != "" and started != holder.started)


know_holders(is_dead, tell_deleted)


def takeover(claim: Claim, grant: Grant) -> Claim:
    """The claim to make next where the holder of the lease is dead. Raises LeaseHeld where that is not known."""
    holder = grant.held_by
    assert holder is not None
    if not is_dead(holder):
        is_here = msgspec.structs.replace(holder, token="") == _this_process(os.getpid())
        whom = "another run in this process" if is_here else str(holder)
        raise LeaseHeld(claim.header.state_id, whom, max(0.0, grant.held_for_s))
    return msgspec.structs.replace(claim, supersede=grant.held_fence)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _process_space(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process started, as the system counts it; None if it is not alive, empty if that cannot be told."""
    try:
        # The name, in parentheses, may itself contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None if _boot() else ""
    except OSError:
        return ""
    return None if fields[0] in ("Z", "X") else fields[19]


def _signal_in(wish: str) -> InterruptSignal:
    """The signal in a wish that was left in the store. Whatever cannot be read is a wish to stop all the same."""
    try:
        return msgspec.json.decode(wish, type=InterruptSignal)
    except msgspec.MsgspecError:
        return InterruptSignal()


class LeaseKeeper:
    """Renews the leases of a backend's live states from a thread of its own, so that a busy loop does not lose them,
    and listens for wishes that other processes have left for them.

    The thread ends when there has been nothing to renew for a while.
    """

    def __init__(self, backend: StateBackend, ttl_s: float = LEASE_TTL_S) -> None:
        self._backend = backend
        self.ttl_s = ttl_s
        # Weak, so that an explicit state which its user has dropped is not held for good.
        self._states: WeakValueDictionary[str, LiveState] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._is_alive = False
        self._heard: int | None = None
        """The number of the newest letter of the store that was heard of."""
        self._saving: set[Saver] = set()
        """Those that have something to save which the store did not take."""
        self.told_of_letters: set[Callable[[str], object]] = set()
        """Who is told at once of letters that are delivered in this process, by the id of the state."""
        processes.tell_of_forks(self)

    def after_fork(self) -> None:
        """A forked child keeps no lease of its parent."""
        self._lock = threading.Lock()
        self._states = WeakValueDictionary()
        self._saving = set()
        self._is_alive = False
        self._heard = None
        self.told_of_letters = set()

    def keep(self, live: LiveState) -> None:
        _held_here[live.holder.token] = live
        with self._lock:
            self._states[live.holder.token] = live
            self._begin()

    def _begin(self) -> None:
        if not self._is_alive:
            self._is_alive = True
            threading.Thread(target=self._run, name="limpet-leases", daemon=True).start()

    def keep_saving(self, saver: Saver) -> None:
        """Let a saver try again until it is done, also where its state is not held any more."""
        with self._lock:
            self._saving.add(saver)
            self._begin()

    def is_keeping(self, holder: Holder) -> bool:
        """Whether a state is held by that holder in this process, in whatever form."""
        with self._lock:
            return holder.token in self._states

    def may_write(self, holder: Holder | None) -> bool:
        """Whether a holder may write its state yet; one that this process has open counts, in whatever form."""
        return holder is not None and (self.is_keeping(holder) or not is_dead(holder))

    def drop(self, holder: Holder) -> None:
        _held_here.pop(holder.token, None)
        with self._lock:
            self._states.pop(holder.token, None)

    def _run(self) -> None:
        idle_s, renewed_at = 0.0, since_boot()
        while True:
            time.sleep(LISTEN_S)
            with self._lock:
                states = list(self._states.values())
                savers = self._saving | {live.saver for live in states if live.saver is not None}
                idle_s = 0.0 if states or savers else idle_s + LISTEN_S
                if idle_s >= IDLE_S:
                    self._is_alive = False
                    return
            # By the clock: a process that was paused asks at once whether its leases are its own yet.
            if states and since_boot() - renewed_at >= self.ttl_s / 3:
                renewed_at = since_boot()
                self.renew(states)
            self.save(savers)
            if states:
                self.follow(states)
                self.listen(states)
                self.hear(states)
            del states, savers

    def save(self, savers: set[Saver]) -> None:
        """Save what is due by now, and try again what the store did not take."""
        for saver in savers:
            try:
                goes_on = saver.tick()
            except Exception:
                # Leases have to be kept whatever happens to one state, which is told by its next record.
                log.exception("A state could not be saved.")
                goes_on = True
            if not goes_on:
                with self._lock:
                    self._saving.discard(saver)

    def follow(self, states: list[LiveState]) -> None:
        """Let states follow settings that have changed."""
        for live in states:
            try:
                if live.follow is not None:
                    live.set_saving(*live.follow())
            except Exception:
                log.exception("State %s could not follow the settings.", live.state_id)

    def listen(self, states: list[LiveState]) -> None:
        """Pass on to these states what others have wished of whoever holds them."""
        held = [(live, live.lease) for live in states if live.lease is not None]
        try:
            wishes = self._backend.wishes([lease for _, lease in held])
        except LimpetError:
            return  # The store does not answer: the next turn asks again.
        for (live, _), wish in zip(held, wishes, strict=True):
            if wish is not None and not live.stopper.is_cancelling:
                live.stopper.request(_signal_in(wish))

    def hear(self, states: list[LiveState]) -> None:
        """Tell those of these states that wait for letters when one may have come."""
        waiting = [live for live in states if live.waits is not None]
        if not waiting:
            return
        is_first, arrived = self._heard is None, set[str]()
        try:
            while letters := self._backend.arrivals(self._heard or 0):
                self._heard = letters[-1][0]
                arrived.update(state_id for _, state_id in letters)
        except LimpetError:
            return  # As above.
        self._heard = self._heard or 0
        for live in waiting:
            # Whatever came before the first listening is looked at once by everybody.
            if live.waits is not None and (is_first or live.state_id in arrived):
                live.waits.look_from_anywhere()

    def tell_of_letter(self, state_id: str) -> None:
        """A letter was delivered in this process: whoever waits for it here need not be told by the store."""
        with self._lock:
            states = [live for live in self._states.values() if live.state_id == state_id]
        for live in states:
            if live.waits is not None:
                live.waits.look_from_anywhere()
        for tell in tuple(self.told_of_letters):
            tell(state_id)

    def renew(self, states: list[LiveState]) -> None:
        """Renew the leases of these states; those that are lost are told so, and stop."""
        try:
            self._renew(states)
        except LimpetError:
            return  # The store does not answer: the next turn tries again, and a write would say so to the run itself.

    def renew_now(self, live: LiveState) -> None:
        """Renew a lease that may have run out, and wait for it. Raises what the store says."""
        with self._renewing:
            if since_boot() >= live.held_until:
                self._renew([live])

    def _renew(self, states: list[LiveState]) -> None:
        held = [(live, live.lease) for live in states if live.lease is not None]
        ttl_s, asked_at = self.ttl_s, since_boot()
        kept = self._backend.renew([lease for _, lease in held], ttl_s)
        for (live, lease), is_kept in zip(held, kept, strict=True):
            if live.lease is not lease:
                continue  # It was given back meanwhile.
            if is_kept:
                live.held_until = max(live.held_until, asked_at + ttl_s)
            else:
                live.refuse_writes(LeaseLost(live.state_id, lease.fence))
                self.drop(live.holder)
