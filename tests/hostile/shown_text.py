"""Hostile texts, a store in which every text that a person could meet is one, and what counts as raw in an output."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any

from limpet import ExecutionState, Limpet, SQLiteStateBackend, StateMetadata, StateStatus

PROGRAM = Path(__file__).with_name("shown_program.py")
FORGED = "FORGED"
"""Stands behind every end of a line in hostile text: no line may begin with it."""

KINDS: dict[str, str] = {
    "colours": "\x1b[31mred\x1b[0m",
    "cursor": "\x1b[2J\x1b[1A\x1b[2K\r",
    "title": "\x1b]0;title\x07\x1b]2;title\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "link": "\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\",
    "device": "\x1bP$q\x1b\\\x1b[6n\x1bc\x1b(0",
    "C0": "".join(map(chr, range(1, 32))).replace("\n", "").replace("\t", ""),
    "DEL": "\x7f\x08\x08",
    "C1": "".join(map(chr, range(0x80, 0xA0))) + "\x9b31m\x9d0;title\x9c",
    "bidi": "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "separators": f"\u2028{FORGED}\u2029{FORGED}\x0b{FORGED}\x0c{FORGED}\x85{FORGED}",
    "unseen": "a\u200bb\u200cc\u200dd\u2060e\ufefff\xadg\u3164h\u180ei\ufe0fj\u034fk",
    "tags": "".join(map(chr, range(0xE0000, 0xE0080))) + "\U000e01f0",
    "lines": f"\n{FORGED} line\r\n{FORGED} line\ttab",
    "marks": "\ue0000123456789abcdef;[31m",
}
"""Each kind of what must not be printed as it is. None of it is refused where text is stored."""

UNENCODABLE = "\udc9b\udc1b"
"""What an argument has that is not UTF-8."""

_SEEN_FORMATS = set(map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)))
_UNSEEN = set("\u034f\u115f\u1160\u3164\uffa0\u17b4\u17b5")


def is_raw(character: str) -> bool:
    """Whether a character must not be in what is printed, wherever it stands; ends of lines and tabs are layout."""
    if character in "\n\t" or character in _SEEN_FORMATS:
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs") or character in _UNSEEN


def raw_in(output: bytes) -> list[str]:
    """What is raw in an output, as its code points."""
    return sorted({f"{ord(each):04x}" for each in output.decode() if is_raw(each) or 0xFE00 <= ord(each) <= 0xFE0F})


def forged_lines(output: bytes) -> list[str]:
    """The lines that begin as hostile text would have one begin."""
    return [line for line in output.decode().split("\n") if line.lstrip().startswith(FORGED)]


def built(folder: Path, text: str) -> Path:
    """A store of states whose texts are all that text, in a folder with the program that made them."""
    folder.mkdir(parents=True)
    program = folder / f"shown_{os.urandom(6).hex()}.py"
    shutil.copy(PROGRAM, program)
    os.environ["HOSTILE_TEXT"] = json.dumps(text)
    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[program.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    with Limpet(f"sqlite:///{folder / 'runs.db'}") as client:
        asyncio.run(_run_all(client, made, text))
    _cut_off(folder, program)
    return program


async def _run_all(client: Limpet, program: Any, text: str) -> None:
    metadata = StateMetadata(
        tags=[text, "second"],
        description=text,
        pipeline_name=text,
        custom_data={text: {text: [text]}},
        environment={text: text, "command": [text]},
    )
    for state_id in ("good", "talking", "failing", "asking", "asking_freely", "waiting", "stopped"):
        agent = getattr(program, "good" if state_id == "stopped" else state_id)
        options: dict[str, Any] = {"interrupt_checker": program.stop} if state_id == "stopped" else {}
        # What it fails of, waits for or is stopped by is what is looked at.
        with suppress(Exception):
            await client.run(agent, state_id=state_id, metadata=metadata, **options)
    backend = client.backend
    assert isinstance(backend, SQLiteStateBackend)
    state = ExecutionState(state_backend=backend, state_id="explicit", metadata=metadata)
    state.storage.set(text, {text: text})
    state.storage.set_artifact(f"artifact {text}", text * 10)
    state.save_checkpoint(StateStatus.PAUSED, metadata)


def _cut_off(folder: Path, program: Path) -> None:
    """Leave a call behind of which nobody knows what became."""
    dies = folder / "dies"
    dies.touch()
    line = [sys.executable, "-m", "limpet.cli.main", "--store", "sqlite:///runs.db", "run"]
    subprocess.run([*line, f"{program.name}:ordering", "--id", "unknown"], cwd=folder, capture_output=True, check=False)
    dies.unlink()
