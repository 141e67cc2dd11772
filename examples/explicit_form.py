"""The explicit form: the state and the events are made by hand, and a paused state is loaded again."""

from __future__ import annotations

import asyncio

from limpet import ExecutionEvent, ExecutionState, SQLiteStateBackend, StateMetadata, StateStatus, Tool


class AddOne(Tool):
    def __init__(self) -> None:
        super().__init__(name="add_one", description="Adds one")

    async def handler(self, input: int, context: object, state: ExecutionState) -> int:
        print(f"adding one to {input}")
        return input + 1


async def work(state: ExecutionState) -> int:
    first = await ExecutionEvent(actor=AddOne())(5, None, state)
    second = await ExecutionEvent(actor=AddOne(), tag="again")(first, None, state)
    return int(second.result)


def main() -> None:
    with SQLiteStateBackend("sums.db") as backend:
        state = ExecutionState(state_backend=backend)
        print(asyncio.run(work(state)))
        state.save_checkpoint(status=StateStatus.PAUSED, metadata=StateMetadata(tags=["sums"]))

        restored = ExecutionState.load_from_state_id(state.state_id, backend)
        print(asyncio.run(work(restored)), "from the journal:", ", ".join(restored.history.addresses()))


if __name__ == "__main__":
    main()
