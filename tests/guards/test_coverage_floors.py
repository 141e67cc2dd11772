"""The gate on coverage can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "coverage_floors.py"
FOLDERS = ("journal", "codec", "backends/sqlite", "engine")


def entry(covered: int, of: int = 100) -> dict[str, dict[str, int]]:
    """Half of everything is branches."""
    return {
        "summary": {
            "num_statements": of // 2,
            "num_branches": of - of // 2,
            "covered_lines": covered // 2,
            "covered_branches": covered - covered // 2,
        }
    }


def judged(folder: Path, covered: dict[str, int], *, branch: bool = True) -> tuple[int, str]:
    files = {f"src/limpet/{name}/part.py": entry(count) for name, count in covered.items()}
    report = folder / "coverage.json"
    report.write_text(json.dumps({"meta": {"branch_coverage": branch}, "files": files}))
    answer = subprocess.run([sys.executable, TOOL, report], capture_output=True, text=True, timeout=60)
    assert "" == answer.stderr
    return answer.returncode, answer.stdout


def test_enough_coverage_passes(tmp_path: Path) -> None:
    status, text = judged(tmp_path, dict.fromkeys(FOLDERS, 95))
    assert 0 == status
    assert "TOO LOW" not in text


@pytest.mark.parametrize(
    ("folder", "covered", "line"),
    [("journal", 94, "limpet/journal"), ("backends/sqlite", 94, "limpet/backends"), ("engine", 74, "limpet ")],
)
def test_a_folder_below_its_floor_fails(tmp_path: Path, folder: str, covered: int, line: str) -> None:
    status, text = judged(tmp_path, dict.fromkeys(FOLDERS, 95) | {folder: covered})
    assert 1 == status
    assert [line] == [each[: len(line)] for each in text.splitlines() if each.endswith("TOO LOW")]


def test_a_folder_without_a_measured_file_fails(tmp_path: Path) -> None:
    status, text = judged(tmp_path, {name: 100 for name in FOLDERS if name != "codec"})
    assert 1 == status
    assert "nothing measured" in text


def test_coverage_without_branches_fails(tmp_path: Path) -> None:
    status, text = judged(tmp_path, dict.fromkeys(FOLDERS, 100), branch=False)
    assert 1 == status
    assert "branch = true" in text
