"""States in a folder of readable files. The run breaks in the middle and goes on; any JSON reader reads its journal."""

from __future__ import annotations

import json
from pathlib import Path

from limpet import Limpet, agent, llm, tool


@tool
def fetch(url: str) -> str:
    print(f"fetching {url}")
    return f"what stands at {url}"


@llm
def summarise(page: str) -> str:
    print(f"asking the model about {page}")
    if page.endswith("2") and not Path("model.up").exists():
        raise RuntimeError("the model does not answer")
    return page.upper()


@agent
def research(topic: str) -> list[str]:
    pages = [fetch.call(f"{topic}/{number}") for number in (1, 2)]
    return [summarise.call(page) for page in pages]


def lines_of(state_id: str) -> list[dict[str, object]]:
    """The events in the journal of a state, as anybody can read them."""
    (journal,) = Path(".state_store", "states", state_id).glob("journal-*.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return [line["record"]["event"] for line in lines if "event" in line.get("record", {})]


def main() -> None:
    with Limpet("file://.state_store") as client:
        try:
            client.run_sync(research, "kelp", state_id="kelp-42")
        except RuntimeError as error:
            print(f"failed: {error}")
        Path("model.up").touch()
        print(client.run_sync(research, "kelp", state_id="kelp-42"))

        print("\n-- two lines of its journal")
        for event in lines_of("kelp-42")[1:3]:
            print(event["seq"], event["address"], event["status"], event["input"], "->", event["result"])

        print("\n-- is everything as it was written?")
        print(client.verify("kelp-42"))


if __name__ == "__main__":
    main()
