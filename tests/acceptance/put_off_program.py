"""A run that a server puts off by an hour: ``python put_off_program.py STORE PATIENCE``. It says ``put off`` then."""

from __future__ import annotations

import sys

from limpet import Awaiting, Limpet, agent, tool


class Busy(Exception):
    http_status = 429
    retry_after = 3600


@tool
async def fetch() -> str:
    print("put off", flush=True)
    raise Busy


@agent
async def research() -> str:
    return await fetch()


if __name__ == "__main__":
    with Limpet(sys.argv[1]) as client:
        try:
            client.run_sync(research, state_id="s", patience_s=float(sys.argv[2]))
        except Awaiting as waits:
            print(waits, flush=True)
