"""What an exception ends: a call, a coroutine, or the program."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from limpet.engine.exits import ending_of_loop, ends_program, is_closing, is_raised_by_signal

closed: list[bool] = []


async def waits() -> None:
    try:
        await asyncio.Event().wait()
    except GeneratorExit as error:
        closed.append(is_closing(error))
        raise


async def raises() -> None:
    raise GeneratorExit


async def awaits(inner: Coroutine[Any, Any, None]) -> None:
    try:
        await inner
    except GeneratorExit as error:
        closed.append(is_closing(error))
        raise


@pytest.fixture(autouse=True)
def fresh() -> None:
    closed.clear()


def test_a_coroutine_that_is_closed_is_told_from_code_that_raises_the_same() -> None:
    closing = awaits(waits())
    asyncio.run(begin(closing))
    closing.close()
    assert [True, True] == closed
    raising = awaits(raises())
    with pytest.raises(GeneratorExit):
        raising.send(None)
    assert [True, True, False] == closed


async def begin(coro: Coroutine[Any, Any, None]) -> None:
    coro.send(None)


def test_only_exceptions_of_the_program_end_it() -> None:
    assert [True, True, False, False] == [
        ends_program(each) for each in (SystemExit(), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError())
    ]


def test_what_a_signal_handler_raises_is_told_from_what_code_raises() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
    try:
        with pytest.raises(SystemExit) as raised:
            signal.raise_signal(signal.SIGUSR1)
        assert is_raised_by_signal(raised.value)
        with pytest.raises(SystemExit) as raised:
            sys.exit(3)
        assert not is_raised_by_signal(raised.value)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt(), LookupError(), None])
def test_what_ends_a_loop_is_known_while_its_tasks_are_cancelled(error: BaseException | None) -> None:
    found: list[BaseException | None] = []

    async def looks() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            found.append(await ending_of_loop())

    async def main() -> None:
        task = asyncio.create_task(looks())
        await asyncio.sleep(0)
        assert not task.done()
        if error is not None:
            raise error

    if error is None:
        asyncio.run(main())
    else:
        with pytest.raises(type(error)):
            asyncio.run(main())
    assert [error if error is not None and ends_program(error) else None] == found
    gc.collect()
