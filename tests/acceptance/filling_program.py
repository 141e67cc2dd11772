"""A run on a disk that gets full and has room again later: ``python filling_program.py STORE``.

The limit on the size of files stands for the disk. It prints the type of the error, how many results were recorded by
then, and, after there is room again, the result and how often each step was executed.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections import Counter

from limpet import ExecutionStatus, Limpet, StoreFull, agent, tool

executions: Counter[int] = Counter()


@tool
async def step(number: int) -> str:
    executions[number] += 1
    return f"{number}" * 2000


@agent
async def fills(count: int) -> int:
    return sum([len(await step(number)) for number in range(count)])


def limit(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Limpet(sys.argv[1]) as limpet:
        limit(100_000)
        failed = "nothing"
        try:
            limpet.run_sync(fills, 100, state_id="fills")
        except StoreFull as error:
            failed = f"{type(error).__name__}: {error}"
        recorded = [r for r in limpet.history("fills").get_event_list() if r.status is ExecutionStatus.COMPLETED]
        limit(resource.RLIM_INFINITY)
        executed = executions.copy()
        result = limpet.run_sync(fills, 100, state_id="fills")
        again = [number for number, count in executions.items() if count > executed[number] > 0]
        print(json.dumps({"failed": failed, "recorded": len(recorded), "result": result, "again": again}))
