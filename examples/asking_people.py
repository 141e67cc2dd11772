"""A newsletter that an editor approves, a message from the printers, and a supervisor that goes on by itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from limpet import AwaitingAnswer, Limpet, Served, agent, ask, sleep, tool, wait_for_message


@dataclass
class Review:
    ok: bool
    note: str = ""


@tool
async def draft(topic: str) -> str:
    print(f"writing about {topic}")
    return f"All about {topic}."


@agent
async def newsletter(topic: str) -> str:
    text = await draft(topic)
    review = await ask("May this be printed?", Review, context=text, to="editor")
    if not review.ok:
        return f"kept back: {review.note}"
    copies = await wait_for_message("printed", int, deadline=timedelta(days=7))
    await sleep(timedelta(seconds=0.2))
    return f"{copies} copies: {text}"


def main() -> None:
    with Limpet("sqlite:///runs.db") as client:
        try:
            print(client.run_sync(newsletter, "kelp", state_id="kelp"))
            return
        except AwaitingAnswer as awaiting:
            # From here on nothing of the run is in memory. The process could end, and another one go on.
            for question in awaiting.questions:
                print(f"{question.to} is asked: {question.prompt} ({question.context})")
        asyncio.run(go_on(client))


async def go_on(client: Limpet) -> None:
    stop = asyncio.Event()

    def on_served(served: Served) -> None:
        if served.error is None:
            print(served.result)
            stop.set()

    serving = asyncio.create_task(client.serve(stop=stop, on_served=on_served))
    client.answer("kelp", Review(ok=True), by="ada")
    client.send("kelp", "printed", 200, key="order-17")
    await serving


if __name__ == "__main__":
    main()
