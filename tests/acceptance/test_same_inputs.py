"""An input that is the same, although its bytes or its surroundings are not, is no drift."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import asyncio
from pathlib import Path

from limpet import agent, tool


class Client:
    pass


@tool
async def fetch(client: Client, url: str) -> str:
    return url


@agent
async def crawl() -> list[str]:
    client = Client()
    pages = await asyncio.gather(*(fetch(client, url) for url in ("a", "b")))
    if not Path("mended").exists():
        raise RuntimeError("a bug")
    return pages


if __name__ == "__main__":
    asyncio.run(crawl.run(state_id="x"))
"""


def test_a_run_of_a_script_whose_own_client_goes_into_calls_is_resumed_by_the_command_line(tmp_path: Path) -> None:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    (tmp_path / "crawler.py").write_text(SCRIPT)
    assert "RuntimeError: a bug" in python("crawler.py").stderr
    (tmp_path / "mended").touch()
    resumed = python("-m", "limpet.cli.main", "resume", "x")
    assert "['a', 'b']" in resumed.stdout, resumed.stderr
    assert "drifted" not in resumed.stderr
