"""A ``TaskGroup`` in which one child fails and the others are cancelled; who failed first is looked at by a person."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, tool


class Rejected(Exception):
    pass


@tool
async def check(what: str, is_wrong: bool) -> str:
    await work(what)
    if is_wrong:
        raise Rejected(what)
    return what


@tool
async def look_at(case: str) -> str:
    await work(case)
    return case


async def check_part(part: str, is_wrong: bool, diary: Diary) -> None:
    for place in ("top", "end"):
        diary.decide(f"got {await check(f'{place} of {part}', is_wrong and place == 'end')}")


@agent
async def program() -> list[str]:
    diary = Diary("program")
    for form in ("claim", "invoice"):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(check_part(f"{form} address", True, diary))
                group.create_task(check_part(f"{form} date", False, diary))
                group.create_task(check_part(f"{form} amount", True, diary))
        except* Rejected as rejected:
            diary.decide(f"rejected because of {[str(each) for each in rejected.exceptions]}")
        diary.decide(f"got {await look_at(f'{form}: {diary.decisions[-1]}')}")
    return diary.decisions
