"""The control: one call after the other, an agent inside, and no order to be kept but that of the code."""

from __future__ import annotations

from order.outside import Diary, make_effect, probe_effect, work

from limpet import agent, tool


@tool
async def write(letter: str) -> str:
    await work(letter)
    return f"text of {letter}"


@tool(once=True, probe=probe_effect)
async def post_letter(letter: str) -> str:
    await make_effect(letter)
    return f"receipt for {letter}"


@agent
async def office(name: str) -> list[str]:
    diary = Diary(name)
    diary.decide(f"got {await write('first draft')}")
    diary.decide(f"got {await write('second draft')}")
    return diary.decisions


@agent
async def program() -> list[str]:
    diary = Diary("program")
    diary.decide(f"got {await office('office')}")
    for number in range(3):
        diary.decide(f"got {await write(f'letter-{number}')}")
    diary.decide(f"got {await post_letter('parcel')}")
    return diary.decisions
