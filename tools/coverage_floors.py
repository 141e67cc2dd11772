"""Hold the coverage to its floors: `python tools/coverage_floors.py coverage.json`.

Counts statements and branches together, as coverage does when it measures branches. A folder without a measured file is
below its floor: otherwise renaming it would lift the floor unseen.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path, PurePath
from typing import Any

FLOORS = {
    "limpet/journal": 95.0,
    "limpet/codec": 95.0,
    "limpet/backends": 95.0,
    "limpet": 90.0,
}


def is_inside(file: str, folder: str) -> bool:
    """Whether the folder's parts stand next to each other somewhere in the folders of the file."""
    parents, wanted = PurePath(file.replace("\\", "/")).parent.parts, PurePath(folder).parts
    return any(parents[i : i + len(wanted)] == wanted for i in range(len(parents)))


def percent_covered(files: dict[str, Any], folder: str) -> float | None:
    """The share of statements and branches in the folder that ran; None if there are none."""
    summaries = [entry["summary"] for file, entry in files.items() if is_inside(file, folder)]
    total = sum(each["num_statements"] + each["num_branches"] for each in summaries)
    covered = sum(each["covered_lines"] + each["covered_branches"] for each in summaries)
    return 100 * covered / total if total else None


def main(path: str) -> int:
    if not Path(path).exists():
        print(f"{path} is not there; `make test` measures the coverage and writes it.")
        return 1
    report = json.loads(Path(path).read_text())
    if not report["meta"]["branch_coverage"]:
        print(f"{path} counts no branches; set `branch = true` in [tool.coverage.run].")
        return 1
    is_short = False
    print(f"{'coverage of':<20} {'floor':>7}  {'found':>7}")
    for folder, floor in FLOORS.items():
        found = percent_covered(report["files"], folder)
        is_enough = found is not None and found >= floor
        is_short = is_short or not is_enough
        shown = "nothing measured" if found is None else f"{found:5.1f} %"
        print(f"{folder:<20} {floor:5.1f} %  {shown}{'' if is_enough else '  TOO LOW'}")
    if is_short:
        print("`.venv/bin/coverage report --show-missing` lists the lines and branches that no test reaches.")
    return int(is_short)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
