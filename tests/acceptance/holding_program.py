"""A state in the explicit form, told line by line what to do: ``python holding_program.py STORE FILE TTL``.

``do NAME`` makes a call, ``set NUMBER`` and ``get`` use the storage. Each is answered with what it gave, or with the
type of the error. What is executed is noted in the file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from limpet import ExecutionEvent, ExecutionState, LimpetError, tool
from limpet.engine.writer import writer_of
from limpet.stores import open_store


@tool
def work(name: str) -> str:
    with Path(sys.argv[2]).open("a") as notes:
        notes.write(f"{name}\n")
    return name


async def performed(state: ExecutionState, name: str) -> str:
    return (await ExecutionEvent(work)(name, None, state)).result


def main() -> None:
    with open_store(sys.argv[1]) as backend:
        writer_of(backend).keeper.ttl_s = float(sys.argv[3])
        state = ExecutionState.load_from_state_id("s", backend)
        print("loaded", flush=True)
        for line in sys.stdin:
            command, _, argument = line.strip().partition(" ")
            try:
                if command == "do":
                    said: object = asyncio.run(performed(state, argument))
                elif command == "set":
                    said = state.storage.set("number", int(argument))
                else:
                    said = state.storage.get("number")
            except LimpetError as error:
                said = type(error).__name__
            print(said, flush=True)


if __name__ == "__main__":
    main()
