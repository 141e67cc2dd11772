"""Execution that holds: a service that fails for a moment, a payment that must not repeat, a run that is undone."""

from __future__ import annotations

import asyncio

from limpet import Budget, BudgetExceeded, Limpet, RetryConfig, agent, current_event, tool


@tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0.01))
async def find_room(hotel: str) -> str:
    attempt = current_event().attempt
    print(f"looking for a room at {hotel}, attempt {attempt}")
    if attempt == 1:
        raise ConnectionError("no answer")
    return f"room 12 at {hotel}"


@tool
async def refund(amount: int, result: str) -> None:
    print(f"refunding {amount} ({result})")


@tool(once=True, undo=refund)
async def charge(amount: int) -> str:
    print(f"charging {amount}")
    return f"receipt {current_event().idempotency_key[:8]}"


@tool
async def book_flight(day: str) -> str:
    raise LookupError(f"no seat on {day}")


@agent
async def journey(hotel: str) -> list[str]:
    return [await find_room(hotel), await charge(120), await book_flight("Monday")]


async def main() -> None:
    with Limpet("memory://") as client:
        try:
            await client.run(journey, "the Kelp", state_id="j", budget=Budget(events=2))
        except BudgetExceeded as stopped:
            print(f"-- stopped: {stopped.message}")

        try:
            await client.run(journey, "the Kelp", state_id="j")
        except LookupError as error:
            print(f"-- failed: {error}")

        print("-- rolled back:", await client.roll_back("j"))
        print(client.history("j").retry_statistics())


if __name__ == "__main__":
    asyncio.run(main())
