"""A pipeline whose every text is hostile. Copied to a folder of its own, and run there by the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from limpet import InterruptSignal, LLMResult, StateMetadata, agent, ask, llm, save_checkpoint, tool, wait_for_message

TEXT: str = json.loads(os.environ["HOSTILE_TEXT"])
UNENCODABLE = f"{TEXT}\ud800\udc9b"
Bad = type(f"Bad{TEXT}", (Exception,), {})


def is_there(name: str) -> bool:
    return Path(name).exists()


def give_back(result: Any) -> None:
    if is_there("stuck"):
        raise Bad(UNENCODABLE)


@tool(name=f"fetch {TEXT}", version=TEXT, undo=give_back)
async def fetch(what: Any, **more: Any) -> dict[str, Any]:
    return {TEXT: [TEXT, {TEXT: what}], "changed": TEXT[::-1] if is_there("changed") else TEXT}


@llm(name=f"model {TEXT}")
async def model(prompt: str) -> LLMResult:
    return LLMResult(TEXT, 10, prompt, 0.5)


@tool(name=f"broken {TEXT}")
async def broken(what: str) -> None:
    raise Bad(f"{TEXT}\nFORGED line {UNENCODABLE}")


@tool(name=f"charge {TEXT}", once=True)
async def charge(what: str) -> str:
    if is_there("dies"):
        os._exit(9)
    return what


@agent(name=f"good {TEXT}")
async def good(text: str = TEXT) -> dict[str, Any]:
    await fetch.options(key=TEXT)(TEXT[::-1] if is_there("changed") else text, more=TEXT)
    await model(f"a {TEXT}")
    await model(f"b {TEXT}")
    save_checkpoint(StateMetadata(tags=[TEXT], description=TEXT))
    return {TEXT: TEXT, "large": TEXT * 400}


@agent(name=f"talking {TEXT}")
async def talking() -> str:
    return TEXT


@agent(name=f"failing {TEXT}")
async def failing() -> None:
    await fetch(TEXT)
    await broken(TEXT)


@agent(name=f"asking {TEXT}")
async def asking() -> Any:
    return await ask(TEXT, str, choices=[TEXT, "b"], context={TEXT: TEXT}, to=TEXT)


@agent(name=f"asking freely {TEXT}")
async def asking_freely() -> Any:
    return await ask(f"{TEXT}?", str, default=TEXT)


@agent(name=f"waiting {TEXT}")
async def waiting() -> None:
    await wait_for_message("news", key=TEXT)
    raise Bad(f"{TEXT} {UNENCODABLE}")


@agent(name=f"ordering {TEXT}")
async def ordering() -> str:
    return await charge(TEXT)


def stop() -> InterruptSignal:
    return InterruptSignal(reason=TEXT, message=f"{TEXT}\nFORGED line", triggered_by=TEXT)
