"""A long run of cheap steps that is saved after model calls and at gates, says how far it is, and is killed once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from limpet import CheckpointPolicy, Limpet, agent, llm, progress, tool

PAGES = 12
POLICY = CheckpointPolicy("on_gates", triggers=["llm_call"])


@tool
async def measure(page: int) -> int:
    print(f"measuring page {page}")
    if page == 10 and "crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return page * 100


@llm
async def comment(words: int) -> str:
    print("asking the model")
    return f"{words} words so far"


@tool(gate=True)
async def approve(remark: str) -> str:
    return f"approved: {remark}"


@agent
async def survey(pages: int) -> str:
    words, remark = 0, ""
    for page in range(1, pages + 1):
        words += await measure(page)
        progress(page, pages)
        if page % 4 == 0:
            remark = await comment(words)
    return await approve(remark)


def main() -> None:
    with Limpet("sqlite:///runs.db") as client:
        if "crash" in sys.argv:
            client.run_sync(survey, PAGES, state_id="survey", checkpoint_policy=POLICY)
            return
        if not client.list_states():
            # The first process is killed while it measures page 10.
            subprocess.run([sys.executable, __file__, "crash"], check=False)
            print(f"killed; {client.progress('survey')} was saved")
        print(client.run_sync(survey, PAGES, state_id="survey", checkpoint_policy=POLICY))
        for checkpoint in client.checkpoints("survey"):
            print(f"{checkpoint.trigger} at {checkpoint.address}, after {checkpoint.events} events")


if __name__ == "__main__":
    main()
