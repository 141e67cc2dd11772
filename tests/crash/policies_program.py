"""A program that is saved by a policy, and kills itself with SIGKILL: ``python policies_program.py STORE POLICY AT``.

It says each outcome that its code has got on standard output before it goes on, and dies after so many of them.
"""

from __future__ import annotations

import os
import signal
import sys

from limpet import CheckpointPolicy, Limpet, agent, llm, save_checkpoint, tool

POLICIES = {
    "every_step": CheckpointPolicy(),
    "every_n_steps": CheckpointPolicy("every_n_steps", steps=5),
    "on_gates": CheckpointPolicy("on_gates"),
    "manual": CheckpointPolicy("manual"),
    "time_based": CheckpointPolicy("time_based", interval_s=3600),
    "after models": CheckpointPolicy("manual", triggers=["llm_call"]),
    "after tools": CheckpointPolicy("on_gates", triggers=["tool_call"]),
    "after large artifacts": CheckpointPolicy("manual", triggers=["large_artifact"], large_artifact=200_000),
}

STEPS = ["tool", "tool", "model", "tool", "gate", "large", "tool", "once", "tool", "save", "model", "tool", "tool"]
"""What the program does, in order."""

LARGE = "x" * 300_000

got = 0
die_after = 0


def say(step: int) -> None:
    """Say that the outcome of a step has come; then die, if it is time to."""
    global got
    print(step, flush=True)
    got += 1
    if got == die_after:
        os.kill(os.getpid(), signal.SIGKILL)


@tool
async def plain(step: int) -> int:
    return step


@tool
async def large(step: int) -> str:
    return LARGE


@llm
async def model(step: int) -> int:
    return step


@tool(gate=True)
async def gate(step: int) -> int:
    return step


@tool(once=True)
async def once(step: int) -> int:
    return step


ACTORS = {"tool": plain, "model": model, "gate": gate, "large": large, "once": once}


@agent
async def stepping(steps: list[str]) -> int:
    for step, kind in enumerate(steps):
        if kind == "save":
            save_checkpoint()
        else:
            await ACTORS[kind](step)
        say(step)
    return len(steps)


if __name__ == "__main__":
    store, policy, at = sys.argv[1:]
    die_after = int(at)
    with Limpet(store) as limpet:
        limpet.run_sync(stepping, STEPS, state_id="stepping", checkpoint_policy=POLICIES[policy])
