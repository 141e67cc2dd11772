"""Everything that is printed or logged passes the one place that makes it harmless. Read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "limpet"
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

ALLOWED = {
    "click.echo": {"cli/output.py", "cli/main.py", "demo/driver.py"},
    "click.style": {"cli/output.py", "demo/driver.py"},
    "click.secho": set[str](),
    "click.confirm": {"cli/output.py"},
    "click.prompt": set[str](),
    "print": set[str](),
    "logging.getLogger": {"logs.py", "cli/main.py"},
    # The code that a forked child ends with, a question, and what Python itself would print; both escaped before.
    "sys.stderr.write": {"engine/threads.py", "engine/answer_text.py", "cli/main.py"},
    "sys.stdout.write": set[str](),
}


def calls_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_printed_or_logged_past_the_one_place(module: str) -> None:
    found = set(calls_in(MODULES[module]))
    assert [] == [call for call, modules in ALLOWED.items() if call in found and module not in modules]
