"""The type checker knows the public API: typed usage has no errors, and wrong usage has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

WRONG_USAGE = """
from limpet import tool

@tool
async def double(number: int) -> int:
    return 2 * number

async def main() -> str:
    await double("three")
    return await double(3)
"""


def findings(*paths: Path) -> list[dict[str, Any]]:
    """What the checker says of the files, under the settings of the project."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, *map(str, paths)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    report = json.loads(answer.stdout)
    assert report["summary"]["filesAnalyzed"] >= len(paths), answer.stdout + answer.stderr
    return report["generalDiagnostics"]


def test_typed_usage_has_no_findings() -> None:
    found = findings(ROOT / "tests" / "typing")
    assert [] == [f"{Path(each['file']).name}:{each['range']['start']['line'] + 1} {each['message']}" for each in found]


def test_wrong_usage_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong_usage.py"
    wrong.write_text(WRONG_USAGE)
    assert [(8, "reportArgumentType"), (9, "reportReturnType")] == [
        (each["range"]["start"]["line"], each["rule"]) for each in findings(wrong)
    ]
