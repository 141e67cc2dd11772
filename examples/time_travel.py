"""Time travel: a result is edited, and the run goes on from there, on a new timeline and in a fork."""

from __future__ import annotations

import asyncio

from limpet import Limpet, agent, llm, tool


@tool
async def fetch(topic: str) -> list[str]:
    print("fetching", topic)
    return [f"{topic} is brown", f"{topic} grows"]


@llm
async def summarise(pages: list[str]) -> str:
    print("summarising", len(pages), "pages")
    return " and ".join(pages)


@llm
async def translate(text: str) -> str:
    print("translating", repr(text))
    return f"en français: {text}"


@agent
async def report(topic: str) -> str:
    return await translate(await summarise(await fetch(topic)))


async def main() -> None:
    with Limpet("memory://") as client:
        print(await client.run(report, "kelp", state_id="kelp"))

        print("\n-- the summary is edited")
        print(client.plan_rerun("kelp", "summarise", replace="kelp is a brown alga"))
        print(await client.rerun("kelp", "summarise", replace="kelp is a brown alga"))
        print(client.diff("kelp"))

        print("\n-- another one, in a state of its own")
        fork = client.fork("kelp", at="summarise", replace="kelp is fast", new_state_id="kelp-fast")
        print(await client.resume(fork))
        print(client.lineage("kelp"))

        print("\n-- would the code still go the same way?")
        print(await client.rehearse())


if __name__ == "__main__":
    asyncio.run(main())
