"""The order inside one call: on a real loop, with recorded entries that each test makes up."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from limpet import Limpet, UsageError, agent, tool
from limpet.engine import stalls
from limpet.engine.branches import OrderedTask
from limpet.engine.loops import Hooks
from limpet.engine.order import Order
from limpet.engine.scope import Scope, current_scope
from limpet.engine.turns import IN_ORDER, Given, Ready, Timer, Turn
from limpet.journal.order import Entry
from limpet.model import EventRecord, ExecutionStatus

T = TypeVar("T")
OURS = {"call_soon", "call_later", "call_at", "run_in_executor", "time"}
LONGEST_S = 5.0


def outcome(seq: int, name: str, status: ExecutionStatus = ExecutionStatus.COMPLETED) -> EventRecord:
    return EventRecord(seq, f"shop::ask[{name}]::tool_call", status, 0.0)


NORTH, SOUTH = outcome(3, "north"), outcome(4, "south")
CUT_NORTH = outcome(3, "north", ExecutionStatus.CANCELLED)


class Inside:
    """The inside of a call on the running loop: tasks made here belong to it."""

    def __init__(self, *entries: Entry) -> None:
        self.log: list[str] = []
        self.tasks: dict[Any, Scope] = {}
        self.hooks = Hooks(asyncio.get_running_loop())
        live: Any = SimpleNamespace(
            hooks=self.hooks,
            root=None,
            is_left=False,
            writer=SimpleNamespace(crowd=0),
            stopper=SimpleNamespace(is_cancelling=False, tasks=self.tasks),
            recorded_order=SimpleNamespace(entries=lambda _path: list(entries)),
            history=SimpleNamespace(next_order=4),
        )
        self.scope = Scope(live, "shop::", Scope(live, "", None))
        self.context = contextvars.copy_context()
        self.context.run(current_scope.set, self.scope)
        order = self.hooks.order_of(self.scope)
        assert order is not None
        self.order: Order = order

    def __enter__(self) -> Inside:
        self.hooks.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.order.close()
        self.hooks.uninstall()

    def task(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self.hooks.loop, context=self.context.copy())
        self.order.begin_task(task, self.scope, self.hooks.context)
        return task

    def listen(self) -> asyncio.Future[None]:
        """Let code inside await something of which nothing is known."""
        answer: asyncio.Future[None] = self.hooks.loop.create_future()

        async def listens() -> None:
            await answer

        self.task(listens())
        return answer

    def run_inside(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function as code inside the call does."""
        return self.context.copy().run(function, *args)

    def confirm(self, turn: Turn) -> None:
        """Say, as the writer does between two callbacks of the loop, that an outcome is durable."""
        self.hooks.call_soon(turn.set_result, None, context=self.hooks.context)

    async def ask(self, record: EventRecord, name: str = "") -> Given:
        """Make a call that has a recorded outcome."""
        is_next = record is not CUT_NORTH and self.order.is_open_for(record)
        given = IN_ORDER if is_next else await self.order.recorded(self.scope, record)
        self.log.append(name or record.address.partition("[")[2].partition("]")[0])
        return given

    async def begin(self, name: str) -> Given:
        """Make a call that has none."""
        given = await self.order.begin(self.scope) if self.order.is_replaying else IN_ORDER
        self.log.append(name)
        return given


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(main(), LONGEST_S)

    return asyncio.run(bounded())


# What is recorded


def test_recorded_outcomes_are_given_in_their_order() -> None:
    async def main() -> None:
        with Inside(SOUTH, NORTH) as inside:
            await asyncio.wait([inside.task(inside.ask(NORTH)), inside.task(inside.ask(SOUTH))])
            assert ["south", "north"] == inside.log

    run(main)


def test_all_that_can_run_runs_before_the_next_outcome_is_given() -> None:
    async def main() -> None:
        with Inside(SOUTH, NORTH) as inside:
            is_told = asyncio.Event()

            async def sells() -> None:
                await inside.ask(SOUTH)
                for step in range(3):
                    await asyncio.sleep(0)
                    inside.log.append(f"step {step}")
                is_told.set()

            async def listens() -> None:
                await is_told.wait()
                inside.log.append("heard")

            await asyncio.wait([inside.task(inside.ask(NORTH)), inside.task(sells()), inside.task(listens())])
            assert ["south", "step 0", "step 1", "step 2", "heard", "north"] == inside.log

    run(main)


def test_an_outcome_that_is_the_next_one_is_given_without_a_turn_of_the_loop() -> None:
    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:
            assert inside.order.is_open_for(NORTH)
            assert not inside.order.is_open_for(NORTH)
            assert inside.order.is_open_for(SOUTH)
            assert not inside.order.is_replaying

    run(main)


def test_nothing_is_given_past_what_can_still_run() -> None:
    async def main() -> None:
        with Inside(NORTH) as inside:
            handle = inside.run_inside(inside.hooks.loop.call_soon, inside.log.append, "ran")
            assert not inside.order.is_open_for(NORTH)
            handle.cancel()
            assert inside.order.is_open_for(NORTH)

    run(main)


def test_a_call_without_an_outcome_begins_when_all_that_is_recorded_was_given() -> None:
    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:
            tasks = [inside.task(inside.begin("new")), *(inside.task(inside.ask(each)) for each in (SOUTH, NORTH))]
            await asyncio.wait(tasks)
            assert ["north", "south", "new"] == inside.log
            assert [IN_ORDER] * 3 == [task.result() for task in tasks]

    run(main)


def test_agents_beside_each_other_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        with Inside(NORTH, SOUTH) as waiting, Inside(SOUTH) as other:
            answer, parked = waiting.listen(), waiting.task(waiting.ask(SOUTH))
            await asyncio.wait([other.task(other.ask(SOUTH))])
            assert (["south"], []) == (other.log, waiting.log)
            answer.set_result(None)
            await asyncio.wait([waiting.task(waiting.ask(NORTH)), parked])
            assert ["north", "south"] == waiting.log

    run(main)


# Timers


def test_a_recorded_timer_fires_in_its_place_and_at_once() -> None:
    async def main() -> None:
        with Inside(SOUTH, 1, NORTH) as inside:

            async def naps() -> None:
                await asyncio.sleep(1000)
                inside.log.append("awake")

            await asyncio.wait([inside.task(naps()), inside.task(inside.ask(NORTH)), inside.task(inside.ask(SOUTH))])
            assert ["south", "awake", "north"] == inside.log

    run(main)


def test_the_clock_of_the_code_goes_on_with_the_timers_that_fired_at_once() -> None:
    async def main() -> None:
        with Inside(1, NORTH) as inside:
            loop = inside.hooks.loop

            async def naps() -> float:
                began = loop.time()
                await asyncio.sleep(1000)
                return loop.time() - began

            outside = loop.time()
            nap = inside.task(naps())
            await asyncio.wait([nap, inside.task(inside.ask(NORTH))])
            assert nap.result() >= 1000
            assert loop.time() - outside < LONGEST_S

    run(main)


def test_a_timer_that_is_not_recorded_fires_behind_what_is() -> None:
    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:

            async def naps() -> None:
                await asyncio.sleep(0)
                await asyncio.sleep(0.000001)
                inside.log.append("awake")

            await asyncio.wait([inside.task(naps()), inside.task(inside.ask(SOUTH)), inside.task(inside.ask(NORTH))])
            assert ["north", "south", "awake"] == inside.log

    run(main)


def test_a_timer_that_was_withdrawn_neither_fires_nor_is_recorded() -> None:
    async def main() -> None:
        with Inside() as inside:
            timer = inside.run_inside(inside.hooks.loop.call_later, 0.0, inside.log.append, "fired")
            assert isinstance(timer, Timer)
            timer.cancel()
            assert timer.cancelled()
            await inside.task(asyncio.sleep(0.001))
            assert ([], {}) == (inside.log, inside.order.timers)
            assert [(2, 3)] == inside.order.fired

    run(main)


def test_timers_are_numbered_in_the_order_in_which_they_are_set() -> None:
    async def main() -> None:
        with Inside() as inside:
            loop = inside.hooks.loop
            late = inside.run_inside(loop.call_at, loop.time() + 100, inside.log.append, "late")
            soon = inside.run_inside(loop.call_later, 0.001, inside.log.append, "soon")
            await asyncio.sleep(0.02)
            assert [1, 2] == [each.number for each in (late, soon) if isinstance(each, Timer)]
            assert (["soon"], [(2, 3)]) == (inside.log, inside.order.fired)

    run(main)


def test_the_end_of_a_job_of_an_executor_is_given_in_its_place() -> None:
    async def main() -> None:
        with Inside(SOUTH, 1, NORTH) as inside:

            async def computes() -> None:
                inside.log.append(await asyncio.to_thread(str, 42))

            await asyncio.wait(
                [inside.task(computes()), inside.task(inside.ask(NORTH)), inside.task(inside.ask(SOUTH))]
            )
            assert ["south", "42", "north"] == inside.log

    run(main)


# Cancellations


def test_a_recorded_cancellation_comes_in_its_place_however_early_the_code_wants_it() -> None:
    async def main() -> None:
        with Inside(SOUTH, CUT_NORTH) as inside:

            async def is_cut_off() -> None:
                try:
                    await inside.ask(CUT_NORTH)
                except asyncio.CancelledError:
                    inside.log.append("cut off")
                    raise

            asking = inside.task(is_cut_off())

            async def gives_up() -> None:
                await asyncio.sleep(0)
                asking.cancel()
                await inside.ask(SOUTH)

            await asyncio.wait([asking, inside.task(gives_up())])
            assert ["south", "cut off"] == inside.log
            assert asking.cancelled()

    run(main)


def test_a_recorded_cancellation_is_repeated_with_the_message_of_the_code() -> None:
    async def main() -> None:
        with Inside(CUT_NORTH) as inside:
            asking = inside.task(inside.ask(CUT_NORTH))

            async def gives_up() -> None:
                await asyncio.sleep(0)
                asking.cancel("too slow")

            await inside.task(gives_up())
            with pytest.raises(asyncio.CancelledError, match="too slow"):
                await asking

    run(main)


def test_a_recorded_result_wins_over_a_cancellation_which_the_code_meets_at_what_it_awaits_next() -> None:
    async def main() -> None:
        with Inside(SOUTH, NORTH) as inside:

            async def goes_on() -> None:
                await inside.ask(NORTH)
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    inside.log.append("cancelled")
                    raise

            asking = inside.task(goes_on())

            async def gives_up() -> None:
                await asyncio.sleep(0)
                asking.cancel()
                await inside.ask(SOUTH)

            await asyncio.wait([asking, inside.task(gives_up())])
            assert ["south", "north", "cancelled"] == inside.log

    run(main)


def test_whoever_stands_outside_cancels_at_once() -> None:
    async def main() -> None:
        with Inside(SOUTH, NORTH) as inside:
            answer, asking = inside.listen(), inside.task(inside.ask(NORTH))
            await asyncio.sleep(0.001)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert {} == inside.order.parked
            answer.set_result(None)

    run(main)


def test_a_cancellation_that_the_code_does_not_repeat_lets_the_call_be_executed() -> None:
    async def main() -> None:
        with Inside(CUT_NORTH) as inside:
            assert IN_ORDER is await inside.task(inside.ask(CUT_NORTH))

    run(main)


def test_a_call_that_the_code_has_not_cancelled_yet_goes_on_behind_what_is_recorded() -> None:
    async def main() -> None:
        with Inside(CUT_NORTH, SOUTH) as inside:
            await asyncio.wait([inside.task(inside.ask(CUT_NORTH)), inside.task(inside.ask(SOUTH))])
            assert ["south", "north"] == inside.log
            assert not inside.order.is_replaying

    run(main)


def test_a_cancellation_that_comes_late_is_repeated_all_the_same() -> None:
    async def main() -> None:
        with Inside(CUT_NORTH, SOUTH, outcome(5, "west")) as inside:
            asking = inside.task(inside.ask(CUT_NORTH))

            async def gives_up() -> None:
                await inside.ask(SOUTH)
                asking.cancel("too late")
                await inside.ask(outcome(5, "west"))

            await asyncio.wait([asking, inside.task(gives_up())])
            assert ["south", "west"] == inside.log
            with pytest.raises(asyncio.CancelledError, match="too late"):
                await asking

    run(main)


# Where the order cannot be kept


def test_what_is_passed_over_is_told_and_what_comes_late() -> None:
    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:
            passing = await inside.task(inside.ask(SOUTH))
            assert "'shop::ask[north]::tool_call' was recorded before it, and is not called" == passing.drift
            late = await inside.task(inside.ask(NORTH))
            assert "it is now called behind what was recorded after it" == late.drift

    run(main)


def test_a_new_call_in_the_place_of_a_recorded_one_is_told() -> None:
    async def main() -> None:
        with Inside(NORTH) as inside:
            given = await inside.task(inside.begin("new"))
            assert "it is not recorded, and 'shop::ask[north]::tool_call' was recorded in its place" == given.drift

    run(main)


def test_a_call_that_is_not_cancelled_any_more_is_not_missing() -> None:
    async def main() -> None:
        with Inside(CUT_NORTH, SOUTH) as inside:
            asked = [inside.task(inside.ask(each)) for each in (CUT_NORTH, SOUTH)]
            given = await inside.task(inside.begin("new"))
            await asyncio.wait(asked)
            assert [None, None, None] == [given.drift, *(each.result().drift for each in asked)]

    run(main)


def test_the_earliest_call_that_is_asked_for_goes_on_where_the_next_one_is_missing() -> None:
    first, second, third = outcome(3, "a"), outcome(4, "b"), outcome(5, "c")

    async def main() -> None:
        with Inside(first, second, third) as inside:
            tasks = [inside.task(inside.ask(each)) for each in (third, second)]
            await asyncio.wait(tasks)
            assert ["b", "c"] == inside.log
            assert [True, False] == [task.result().drift is None for task in tasks]

    run(main)


def test_it_is_waited_for_a_while_where_code_awaits_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "PATIENCE_S", 1000.0)

    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            async def listens() -> None:
                await answer
                await inside.ask(NORTH)

            tasks = [inside.task(listens()), inside.task(inside.ask(SOUTH))]
            await asyncio.sleep(0.01)
            assert [] == inside.log
            answer.set_result(None)
            await asyncio.wait(tasks)
            assert ["north", "south"] == inside.log

    run(main)


def test_it_is_not_waited_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "PATIENCE_S", 0.01)

    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            async def listens() -> Given:
                await answer
                return await inside.ask(NORTH)

            listening, asking = inside.task(listens()), inside.task(inside.ask(SOUTH))
            assert (await asking).drift is not None
            answer.set_result(None)
            assert (await listening).drift is not None
            assert ["south", "north"] == inside.log

    run(main)


# Live results


def test_live_results_are_given_in_the_order_of_the_journal() -> None:
    async def main() -> None:
        with Inside() as inside:
            first, second = inside.order.make_turn(), inside.order.make_turn()

            async def waits(name: str, turn: Turn) -> None:
                await inside.order.wait(inside.scope, turn)
                inside.log.append(name)

            tasks = [inside.task(waits("second", second)), inside.task(waits("first", first))]
            inside.confirm(second)
            await asyncio.sleep(0.001)
            assert [] == inside.log
            inside.confirm(first)
            await asyncio.wait(tasks)
            assert ["first", "second"] == inside.log

    run(main)


def test_a_live_result_waits_for_all_that_can_run() -> None:
    async def main() -> None:
        with Inside() as inside:
            first, second = inside.order.make_turn(), inside.order.make_turn()

            async def waits(name: str, turn: Turn) -> None:
                await inside.order.wait(inside.scope, turn)
                for step in range(3):
                    await asyncio.sleep(0)
                    inside.log.append(f"{name} {step}")

            tasks = [inside.task(waits("b", second)), inside.task(waits("a", first))]
            await asyncio.sleep(0.001)
            inside.confirm(first)
            inside.confirm(second)
            await asyncio.wait(tasks)
            assert ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"] == inside.log

    run(main)


def test_a_live_result_that_is_refused_holds_nothing_up() -> None:
    async def main() -> None:
        with Inside() as inside:
            first, second = inside.order.make_turn(), inside.order.make_turn()
            tasks = [inside.task(inside.order.wait(inside.scope, each)) for each in (first, second)]
            await asyncio.sleep(0.001)
            inside.confirm(second)
            first.set_exception(RuntimeError("refused"))
            await asyncio.wait(tasks)
            assert "refused" == str(tasks[0].exception())
            assert IN_ORDER == tasks[1].result()

    run(main)


def test_a_busy_loop_does_not_starve_what_is_given() -> None:
    async def main() -> None:
        with Inside() as inside:
            turn = inside.order.make_turn()
            asking = inside.task(inside.order.wait(inside.scope, turn))

            async def turns() -> int:
                count = 0
                while not asking.done():
                    count += 1
                    await asyncio.sleep(0)
                return count

            turning = inside.task(turns())
            await asyncio.sleep(0.001)
            inside.confirm(turn)
            assert await turning > 0

    run(main)


def test_a_busy_loop_does_not_starve_what_is_recorded_nor_the_event_loop() -> None:
    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:
            tasks = [inside.task(inside.ask(SOUTH)), inside.task(inside.ask(NORTH))]

            async def turns() -> None:
                while not all(task.done() for task in tasks):
                    await asyncio.sleep(0)

            await inside.task(turns())
            assert ["north", "south"] == inside.log

    run(main)


def test_tasks_that_wake_each_other_for_long_are_no_busy_loop() -> None:
    async def main() -> None:
        with Inside(NORTH) as inside:
            queue: asyncio.Queue[str] = asyncio.Queue(1)

            async def put() -> None:
                for _ in range(2000):
                    await queue.put("line")

            async def take() -> None:
                for _ in range(2000):
                    inside.log.append(await queue.get())

            await asyncio.wait([inside.task(inside.ask(NORTH)), inside.task(put()), inside.task(take())])
            assert [*2000 * ["line"], "north"] == inside.log

    run(main)


def test_tasks_that_wake_each_other_for_ever_do_not_starve_what_is_given() -> None:
    async def main() -> None:
        with Inside(NORTH) as inside:
            pings: asyncio.Queue[None] = asyncio.Queue()
            pongs: asyncio.Queue[None] = asyncio.Queue()

            async def hand_on(taken: asyncio.Queue[None], given: asyncio.Queue[None]) -> None:
                while not inside.log:
                    given.put_nowait(None)
                    await taken.get()
                given.put_nowait(None)

            playing = [inside.task(hand_on(pings, pongs)), inside.task(hand_on(pongs, pings))]
            await asyncio.wait([inside.task(inside.ask(NORTH)), *playing])
            assert ["north"] == inside.log

    run(main)


# The end


def test_calls_that_still_wait_when_the_call_around_them_ends_are_refused() -> None:
    async def main() -> None:
        with Inside(NORTH, SOUTH) as inside:
            waiting = [
                inside.task(inside.ask(SOUTH)),
                inside.task(inside.order.wait(inside.scope, inside.order.make_turn())),
            ]
            inside.order.executing = 1  # something else goes on
            await asyncio.sleep(0.001)
            inside.order.close()
            await asyncio.wait(waiting)
            for each in waiting:
                error = each.exception()
                assert isinstance(error, UsageError)
                assert "A call made inside 'shop' had not ended when that call ended" in str(error)

    run(main)


def test_what_a_call_left_behind_still_gets_its_callbacks_and_timers() -> None:
    async def main() -> None:
        with Inside(NORTH) as inside:

            async def cleans_up() -> str:
                await asyncio.sleep(0.001)
                return "clean"

            left = inside.task(cleans_up())
            await asyncio.sleep(0)
            inside.order.close()
            assert "clean" == await left

    run(main)


# Callbacks of the loop


def test_a_callback_that_is_cancelled_is_not_counted_any_more() -> None:
    async def main() -> None:
        with Inside() as inside:
            handles = [inside.run_inside(inside.hooks.loop.call_soon, inside.log.append, each) for each in "abc"]
            assert [Ready] * 3 == [type(each) for each in handles]
            handles[1].cancel()
            handles[1].cancel()
            assert (2, True, False) == (len(inside.order.ready), handles[1].cancelled(), handles[0].cancelled())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (["a", "c"], 0) == (inside.log, len(inside.order.ready))
            handles[0].cancel()
            assert 0 == len(inside.order.ready)

    run(main)


def test_a_cancelled_callback_lets_what_waited_for_it_go_on() -> None:
    async def main() -> None:
        with Inside(SOUTH, NORTH) as inside:
            loop = inside.hooks.loop

            async def cancels() -> None:
                loop.call_soon(inside.log.append, "never").cancel()
                await inside.ask(SOUTH)

            await asyncio.wait([inside.task(inside.ask(NORTH)), inside.task(cancels())])
            assert ["south", "north"] == inside.log

    run(main)


class Delivering:
    """What anyio does until a cancelled task has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.left = 50

    def _deliver_cancellation(self) -> None:
        self.left -= 1
        if self.left:
            self.loop.call_soon(self._deliver_cancellation)

    def begin(self) -> Any:
        return self.loop.call_soon(self._deliver_cancellation)


def test_nothing_is_given_before_anyio_has_delivered_a_cancellation_and_not_all_deliveries_are_waited_for() -> None:
    async def main() -> None:
        with Inside(NORTH) as inside:
            delivering = Delivering(inside.hooks.loop)
            handle = inside.run_inside(delivering.begin)
            assert isinstance(handle, asyncio.Handle)
            assert not inside.order.is_open_for(NORTH)
            await inside.task(inside.ask(NORTH))
            assert 1 < delivering.left < 50

    run(main)


def test_an_exception_in_a_callback_reaches_the_handler_of_the_loop_and_stops_nothing() -> None:
    def fails() -> None:
        raise ValueError("in a callback")

    async def main() -> None:
        reported: list[dict[str, Any]] = []
        with Inside() as inside:
            loop = inside.hooks.loop
            loop.set_exception_handler(lambda _, context: reported.append(context))
            inside.run_inside(loop.call_soon, fails)
            inside.run_inside(loop.call_soon, inside.log.append, "goes on")
            await asyncio.sleep(0)
            assert ["goes on"] == inside.log
            assert ["in a callback"] == [str(each["exception"]) for each in reported]

    run(main)


def test_callbacks_that_belong_to_no_call_are_left_to_the_loop() -> None:
    async def main() -> None:
        with Inside(NORTH) as inside:
            loop = inside.hooks.loop
            assert isinstance(loop.call_soon(lambda: None), asyncio.Handle)
            assert isinstance(loop.call_later(0, lambda: None), asyncio.TimerHandle)
            assert (0, {}) == (len(inside.order.ready), inside.order.timers)
            assert "thread" == await asyncio.to_thread(lambda: "thread")

    run(main)


# In a run


@tool
async def ask(shop: str) -> str:
    await asyncio.sleep(0)
    return shop


def run_agent(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with Limpet("memory://") as client:
        return cast(T, client.run_sync(agent(name="shop")(work)))


def test_the_hooks_of_a_loop_are_gone_after_the_last_run() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        factory, goes_on = loop.get_task_factory(), asyncio.Event()

        @agent
        async def waits() -> set[str]:
            await goes_on.wait()
            return OURS & set(vars(loop))

        @agent
        async def ends() -> set[str]:
            return OURS & set(vars(loop))

        with Limpet("memory://") as client:
            assert set() == OURS & set(vars(loop))
            waiting = asyncio.create_task(client.run(waits))
            assert OURS == await client.run(ends)
            goes_on.set()
            assert OURS == await waiting
        assert set() == OURS & set(vars(loop))
        assert factory is loop.get_task_factory()

    run(main)


def test_the_hooks_are_gone_after_a_run_that_failed() -> None:
    async def main() -> None:
        @agent
        async def fails() -> None:
            raise ValueError("no")

        with Limpet("memory://") as client, pytest.raises(ValueError, match="no"):
            await client.run(fails)
        assert set() == OURS & set(vars(asyncio.get_running_loop()))

    run(main)


def test_other_loops_are_not_touched() -> None:
    other = asyncio.new_event_loop()
    before = {name: getattr(other, name) for name in OURS}

    async def looks() -> bool:
        return before == {name: getattr(other, name) for name in OURS} and not OURS & set(vars(other))

    assert run_agent(looks)
    other.close()


def test_a_hook_of_somebody_else_that_came_later_stays() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        theirs = loop.time

        @agent
        async def patches() -> None:
            loop.time = theirs

        with Limpet("memory://") as client:
            await client.run(patches)
        assert {"time"} == OURS & set(vars(loop))
        assert theirs is loop.time

    run(main)


def test_the_hash_of_a_task_is_its_number_in_the_call() -> None:
    async def numbers() -> list[object]:
        tasks = [asyncio.create_task(ask(shop)) for shop in ("north", "south", "east")]
        done, _ = await asyncio.wait(tasks)
        return [
            all(type(task) is OrderedTask for task in tasks),
            *map(hash, tasks),
            [tasks.index(each) for each in done],
        ]

    assert [True, 1, 2, 3, [0, 1, 2]] == run_agent(numbers)


def test_tasks_of_different_calls_with_the_same_hash_are_different() -> None:
    made: list[asyncio.Task[str]] = []

    @agent
    async def inner() -> None:
        made.append(asyncio.create_task(ask("north")))
        await made[-1]

    async def both() -> list[int]:
        await inner()
        await inner()
        return [*map(hash, made), len(set(made))]

    assert [1, 1, 2] == run_agent(both)


async def offer(shop: str) -> str:
    return await ask(shop)


@pytest.mark.parametrize("kind", [set, frozenset, iter], ids=["set", "frozenset", "iterator"])
@pytest.mark.parametrize("asked", [offer, ask], ids=["coroutines", "calls"])
def test_as_completed_over_what_has_no_order_is_refused(kind: Callable[[Any], Any], asked: Any) -> None:
    async def compares() -> list[str]:
        waiting = [asked(shop) for shop in ("north", "south")]
        try:
            return [await each for each in asyncio.as_completed(kind(waiting))]
        finally:
            for each in waiting:
                each.close()

    with pytest.raises(UsageError, match=r"was given a .* of coroutines, .* for one.*create_task") as caught:
        run_agent(compares)
    assert "Give it a list, or tasks: `[asyncio.create_task(…) for …]`." == caught.value.remedy
    del caught
    gc.collect()


@pytest.mark.parametrize("kind", [list, tuple])
def test_as_completed_over_coroutines_in_order_gives_them_their_branches(kind: Callable[[Any], Any]) -> None:
    addresses: dict[str, str] = {}

    async def asks(shop: str) -> None:
        scope = current_scope.get()
        assert scope is not None
        addresses[shop] = scope.prefix
        await ask(shop)

    async def compares() -> None:
        shops = [f"shop {number}" for number in range(10)]
        for each in asyncio.as_completed(kind([asks(shop) for shop in shops])):
            await each
        numbers = ["", *(f"#{number}" for number in range(2, 11))]
        assert [f"shop::task[asks]{number}::" for number in numbers] == [addresses[shop] for shop in shops]

    run_agent(compares)


@pytest.mark.parametrize("kind", [list, set, iter])
def test_as_completed_takes_tasks_in_any_form(kind: Callable[[Any], Any]) -> None:
    async def compares() -> list[str]:
        tasks = [asyncio.create_task(offer("north")), asyncio.create_task(ask("south"))]
        return sorted([await each for each in asyncio.as_completed(kind(tasks))])

    assert ["north", "south"] == run_agent(compares)


def test_as_completed_begins_calls_and_coroutines_in_the_order_of_their_list() -> None:
    begun: list[str] = []

    @tool
    async def notes(shop: str) -> None:
        begun.append(shop)

    async def asks(shop: str) -> None:
        begun.append(f"asks {shop}")
        await notes(shop)

    async def compares() -> None:
        shops = [f"shop {number}" for number in range(10)]
        for each in asyncio.as_completed([notes(shop) for shop in shops]):
            await each
        assert shops == begun
        begun.clear()
        for each in asyncio.as_completed([asks(shop) for shop in shops]):
            await each
        assert [f"asks {shop}" for shop in shops] == [each for each in begun if each.startswith("asks")]

    run_agent(compares)


def test_as_completed_outside_a_run_is_as_ever() -> None:
    async def doubles(number: int) -> int:
        return 2 * number

    async def main() -> list[int]:
        return sorted([await each for each in asyncio.as_completed({doubles(number) for number in range(3)})])

    assert [0, 2, 4] == run(main)
