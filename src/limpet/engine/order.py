"""The order in which the code inside one call is given its results, live and on replay.

One result is given, everything in the code that can run runs, and then the next is given. Live, that is the order of
the journal; on replay it is read off the journal, so code that depends on what comes first goes the same way again.
Timers that fire and calls that the code cancels have their place in that order, too.

"Everything that can run has run" is exact: all callbacks of the loop that belong to the call go through ``ready``
(``loops.py`` sends them there), and a result is given when that is empty. What asyncio does outside of it, and what
other calls do, is not held up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from types import BuiltinFunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from limpet.engine.deliveries import Deliveries, goes_on
from limpet.engine.scope import Scope, current_scope
from limpet.engine.stalls import Stalls
from limpet.engine.task_count import TaskCount
from limpet.engine.turns import IN_ORDER, LATE, Given, Ready, Timer, Turn, cancel_again, too_late
from limpet.model import EventRecord, ExecutionStatus

if TYPE_CHECKING:
    from limpet.engine.loops import Hooks
    from limpet.journal.order import Entry

STEPS = 200
"""After so many callbacks in a row the event loop gets a turn."""

MANY_STEPS = 1000
MOST_STEPS = 100_000
"""After so many callbacks without a pause, and some more for each task, the code counts as a busy loop.

Results are given in the midst of it. Of many, those of tasks that have awaited nothing count for twenty."""

_CANCELLED = ExecutionStatus.CANCELLED

# What a run has that replays nothing: every call of an agent makes an order, and what is not made costs nothing.
_NO_PLACES = cast("dict[int, int]", MappingProxyType({}))
_NONE_PASSED = cast("set[int]", frozenset())
_NONE_PARKED = cast("dict[int, Turn]", MappingProxyType({}))
_NO_TURNS = cast("list[Turn]", ())
_NO_TIMERS = cast("list[Timer]", ())
_NONE_UNARMED = cast("dict[int, Timer]", MappingProxyType({}))
_NO_TASKS = TaskCount(None)


class Order(Stalls, Deliveries):
    """The inside of one call: its callbacks that can run, and what its code waits for."""

    __slots__ = (
        "_at",
        "_entries",
        "_is_impatient",
        "_is_pumping",
        "_is_scheduled",
        "_late",
        "_moves",
        "_numbers",
        "_passed",
        "_patience",
        "_places",
        "_scope",
        "_steps",
        "_unarmed",
        "ahead",
        "count",
        "deferred",
        "deliveries",
        "executing",
        "fired",
        "hooks",
        "is_closed",
        "is_foreign",
        "making",
        "next",
        "overdue",
        "parked",
        "queue",
        "ready",
        "tasks",
        "timers",
    )

    def __init__(self, scope: Scope, hooks: Hooks) -> None:
        self._scope = scope
        self.hooks = hooks
        """The loop on which the code runs."""
        self.ready: deque[Ready] = deque()
        self.next = scope.expects
        """The number of the recorded outcome that is given next; -1: that is not looked up yet, or it is a timer;
        0: nothing recorded is left."""
        self._entries: list[Entry] | None = None
        """What is recorded, in order. None: that is not looked up yet, and so nothing waits because of it."""
        self._at = 0
        self._places = _NO_PLACES
        """By its number: where a recorded outcome stands among the entries."""
        self._passed = _NONE_PASSED
        """The outcomes that were passed over, since the code did not ask for them in their place."""
        self.parked = _NONE_PARKED
        """By the number of their records: calls whose recorded outcomes are not next."""
        self.overdue = _NO_TURNS
        """Calls that are recorded as cancelled, and were passed over, since the code did not cancel them by then."""
        self.deferred = _NO_TURNS
        """Calls without a recorded outcome, which begin when all that is recorded is given."""
        self._unarmed = _NONE_UNARMED
        """By number: the timers that are not armed as long as recorded outcomes are still to be given."""
        self._late = _NO_TIMERS
        """Timers that became due while recorded outcomes were still to be given."""
        self.queue: deque[Turn | Timer] = deque()
        """Live outcomes in the order of the journal, and timers that are due among them."""
        self.timers: dict[int, Timer] = {}
        self._numbers = 0
        self.fired: list[tuple[int, int]] = []
        """The timers that fired, and are not recorded yet, each with the newest start in the state by then."""
        self.ahead = 0.0
        """How far the clock of the code runs ahead, since recorded timers fire at once."""
        self.executing = 0
        """How many calls made here are executed."""
        self.making = 0
        """How many tasks are being made at the moment, which may run at once; and the deliveries."""
        self.deliveries = 0
        """How many cancel scopes of anyio are about to cancel their tasks."""
        self._moves = 0
        self.tasks = 0
        """How many tasks were made here."""
        self.count = _NO_TASKS
        """The count of those that have not ended."""
        self.is_closed = False
        self.is_foreign = False
        """Whether calls come from other threads or loops, of which it is not known when they can go no further."""
        self._is_pumping = self._is_scheduled = self._is_impatient = False
        self._patience: Any = None
        self._steps = 0

    # The callbacks of the loop

    def add(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> Ready:
        """Take a callback that is to run soon."""
        ready = Ready(self, callback, args, context)
        self.ready.append(ready)
        if not self._is_scheduled and not self._is_pumping:
            self._is_scheduled = True
            self.hooks.call_soon(self._pump, context=self.hooks.context)
        return ready

    def withdraw(self, ready: Ready) -> None:
        try:
            self.ready.remove(ready)
        except ValueError:
            pass
        else:
            self.wake()

    def begin_task(self, task: asyncio.Future[Any], scope: Scope, context: Context) -> None:
        """Count a task that code in this scope has made."""
        if self.count is _NO_TASKS:
            self.count = TaskCount(self._scope.live)
        self.count.begin(task, scope, context)

    def wake(self) -> None:
        """See to it that what waits here is looked at soon."""
        if not self._is_scheduled and not self._is_pumping:
            self._is_scheduled = True
            self.hooks.call_soon(self._pump, context=self.hooks.context)

    def go_on(self) -> None:
        """Look at what waits here: at once, where the loop is between two callbacks."""
        if asyncio.current_task(self.hooks.loop) is not None:
            self.wake()  # A task writes by itself, and with that what others had handed in.
        elif not self._is_pumping:
            self._pump()

    def go_on_with(self, turn: Turn) -> None:
        """Look at what waits here, as this outcome is durable now: soon, where more wait, which often are as well."""
        if len(self.queue) == 1 and self.queue[0] is turn:
            self.go_on()
        else:
            self.wake()

    def _pump(self) -> None:
        self._is_scheduled = False
        if self._is_pumping:
            return
        ready, live, hooks = self.ready, self._scope.live, self.hooks
        steps, left = self._steps, STEPS
        cancelling = None if live.root is None else live.root.cancelling
        self._is_pumping = hooks.is_in_step = True
        try:
            if cancelling is not None and cancelling() != live.cancelling:
                live.note_cancelling(before=True)
            while True:
                delivers = self.deliveries
                while ready:
                    if not left:
                        return
                    left -= 1
                    steps += 1
                    if steps > MANY_STEPS:
                        if type(ready[0].callback) is not BuiltinFunctionType:  # Those of woken tasks are.
                            steps += 19
                        if steps > MOST_STEPS + 100 * self.tasks and self._is_anything_due():
                            steps = 0
                            self._turn()
                    item = ready.popleft()
                    callback = item.callback
                    if callback is None:
                        continue
                    item.callback = None
                    hooks.frozen = None
                    try:
                        item.context.run(callback, *item.args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        hooks.report(error, item)
                    if cancelling is not None and cancelling() != live.cancelling:
                        live.note_cancelling(before=False)
                    if delivers and not goes_on(callback):
                        steps -= 1
                if self.deliveries and steps:
                    self._wait_for_delivery()
                    return
                steps = 0
                if self.next or self.overdue or self.deferred or self._unarmed or self._late:
                    if not self._turn():
                        return
                elif not self._give_head():
                    return
        finally:
            self._steps = steps
            self._is_pumping = hooks.is_in_step = False
            hooks.frozen = None
            if ready:
                self.wake()

    def move(self, hooks: Hooks) -> bool:
        """Go on on another loop, where nothing waits on this one."""
        if self.ready or self._is_anything_due() or self.timers or self._is_pumping:
            return False
        self.hooks = hooks
        return True

    # What the calls ask

    def is_open_for(self, record: EventRecord) -> bool:
        """Whether a recorded outcome is the next one, and can be given at once. It counts as given then."""
        if self.ready or self.making or self.queue:
            return False
        if self._entries is None and self.next < 0:
            self._look_up()
        if self.next != record.seq:
            return False
        self.advance(record)
        return True

    def advance(self, record: EventRecord) -> None:
        """Count the next recorded outcome as given."""
        if self._entries is None:
            # As long as the records of one call follow upon each other, nobody need look up which are of it.
            self.next = record.seq + 1
        else:
            self._step()
        if self.parked or self.overdue or self.timers or self.deferred or self.queue:
            self.wake()

    @property
    def is_replaying(self) -> bool:
        """Whether anything recorded is left to be given."""
        if self.next == 0:
            return False
        if self._entries is None:
            self._look_up()
        return self.next != 0

    async def recorded(self, scope: Scope, record: EventRecord) -> Given:
        """Wait until a recorded outcome is the next to be given to the code of a scope, and tell how it is given.

        Raises CancelledError where it is that the call was cancelled, and the code cancels it again.
        """
        turn = self.park(record)
        if turn is not None:
            return await self.wait(scope, turn)
        if record.seq in self._passed:
            self._passed.discard(record.seq)
            return LATE
        return IN_ORDER

    def park(self, record: EventRecord) -> Turn | None:
        """The turn of a recorded outcome that is still to come in the order; None where it has none any more."""
        if self._entries is None:
            self._look_up()
        if self._places.get(record.seq, -1) < self._at or record.seq in self._passed:
            return None
        turn = self.parked[record.seq] = Turn(self, record)
        if not self._is_scheduled and not self._is_pumping:
            self.wake()
        return turn

    async def begin(self, scope: Scope) -> Given:
        """Wait until a call without a recorded outcome may begin, which the code of a scope has made."""
        if self._entries is None:
            self._look_up()
        turn = Turn(self, None)
        self.deferred.append(turn)
        self.wake()
        return await self.wait(scope, turn)

    async def wait(self, scope: Scope, turn: Turn) -> Given:
        """Wait until an outcome is given, or a call may begin. It is the code of that scope which goes on then."""
        token = current_scope.set(scope)
        try:
            given = await turn
            if turn.is_wished:
                self.put_off(turn)
            return given
        except asyncio.CancelledError:
            self.drop(turn)
            raise
        finally:
            try:  # noqa: SIM105 - suppress() costs more
                current_scope.reset(token)
            except ValueError:
                pass  # The coroutine is being closed from outside its context.

    def put_off(self, turn: Turn) -> None:
        """Let the code meet its cancellation where it awaits something next: the outcome that is given stands."""
        task = None if turn.is_cut else asyncio.current_task()
        if task is not None and task.cancelling():
            if turn.is_wished_by_itself:
                cancel_again(task, turn.wish)
            else:
                self._run_next(cancel_again, task, turn.wish)

    def _run_next(self, callback: Callable[..., Any], *args: Any) -> None:
        ready = self.add(callback, args, self.hooks.copy_context())
        self.ready.pop()
        self.ready.appendleft(ready)

    def is_own(self, scope: Scope | None) -> bool:
        """Whether whoever is in that scope is code inside this call, rather than somebody outside."""
        live = self._scope.live
        if live.is_left or live.stopper.is_cancelling:
            return False
        return scope is not None and scope.is_inside(self._scope)

    # Giving

    def _look_up(self) -> None:
        entries = self._entries = self._scope.live.recorded_order.entries(self._scope.prefix.removesuffix("::"))
        self._passed, self.parked, self.overdue, self.deferred = set(), {}, [], []
        self._unarmed, self._late = {}, []
        self._places = {each.seq: at for at, each in enumerate(entries) if type(each) is EventRecord}
        known, self._at = self.next, 0
        if known > 0:
            # What was given so far stands before the one that was to come next.
            while self._at < len(entries) and _is_before(entries[self._at], known):
                self._at += 1
        self._tell_next()

    def _step(self) -> None:
        self._at += 1
        self._tell_next()

    def _tell_next(self) -> None:
        entries = self._entries
        assert entries is not None
        if self._at >= len(entries):
            self.next = 0
            if self._unarmed or self.overdue or self.deferred or self._late or self.queue:
                self.wake()
            return
        entry = entries[self._at]
        self.next = -1 if type(entry) is int else cast(EventRecord, entry).seq

    def _is_anything_due(self) -> bool:
        return bool(self.parked or self.overdue or self.deferred or self.queue or self._late)

    def _turn(self) -> bool:
        """Give what comes next; False where nothing can be given now."""
        if self.overdue and (wished := next((turn for turn in self.overdue if turn.is_wished), None)) is not None:
            self.overdue.remove(wished)
            wished.cut_off()
            return self._has_given()
        if self.next and (self._is_anything_due() or self._unarmed or self.timers):
            if self._entries is None:
                self._look_up()
            while self.next and self._entries is not None:
                entry = self._entries[self._at]
                if type(entry) is int:
                    if entry > self._numbers:
                        break
                    timer = self.timers.get(entry)
                    if timer is not None and timer.callback is not None:
                        if not timer.is_due and entry not in self._unarmed:
                            return False  # The job of an executor that is still at work.
                        self._forget_unfired(timer)
                        self._step()
                        self._fire(timer)
                        return self._has_given()
                    self._step()
                    continue
                record = cast(EventRecord, entry)
                turn = self.parked.get(record.seq)
                if turn is None or (record.status is _CANCELLED and not turn.is_wished):
                    break
                del self.parked[record.seq]
                self._step()
                self._let_go(turn, record)
                return self._has_given()
        if self.next:
            return bool(self._is_anything_due() or self._unarmed) and self._stall()
        return self._give_live()

    def _let_go(self, turn: Turn, record: EventRecord, given: Given = IN_ORDER) -> None:
        if record.status is _CANCELLED:
            turn.cut_off()
        else:
            turn.give(given)

    def _has_given(self) -> bool:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._is_impatient = False
        return True

    def _give_live(self) -> bool:
        if self.overdue:
            return self._release_overdue()
        if self.deferred:
            self._begin_deferred(IN_ORDER)
            return True
        if self._unarmed:
            unarmed, self._unarmed = self._unarmed, {}
            for timer in unarmed.values():
                if timer.callback is not None:
                    self._arm(timer)
        if self._late:
            late, self._late = self._late, []
            for timer in late:
                if timer.callback is not None:
                    self._put_into_queue(timer)
        return self._give_head()

    def _begin_deferred(self, given: Given) -> None:
        deferred, self.deferred = self.deferred, []
        for turn in deferred:
            if turn.is_wished:
                turn.cut_off()
            else:
                turn.give(given)

    # The end

    def close(self) -> None:
        """The call has ended: what its code left behind goes no further."""
        if self.is_closed:
            return
        self.is_closed = True
        self.next, self._entries, self._at = 0, [], 0
        if not (self._is_anything_due() or self._unarmed or self._patience):
            return
        left = [
            *self.parked.values(),
            *self.overdue,
            *self.deferred,
            *(turn for turn in self.queue if isinstance(turn, Turn)),
        ]
        self.parked, self.overdue, self.deferred = {}, [], []
        self.queue = deque(timer for timer in self.queue if isinstance(timer, Timer))
        live = self._scope.live
        is_stopped = live.is_left or live.stopper.is_cancelling
        for turn in left:
            if is_stopped:
                turn.cut_off()
            elif not turn.done():
                turn.set_exception(too_late(self._scope))
        if self._patience is not None:
            self._patience.cancel()
        if self._unarmed or self.queue or self._late:
            self.wake()


def _is_before(entry: Entry, seq: int) -> bool:
    return type(entry) is not int and cast(EventRecord, entry).seq < seq
