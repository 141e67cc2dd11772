"""Modules and functions stay of a size that can be read, say what they are, and tests neither skip nor sleep."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "limpet"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
TESTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py"))

MOST_LINES_OF_A_MODULE = 500
MOST_LINES_OF_A_FUNCTION = 70
NAMES_THAT_SAY_NOTHING = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
NOT_IN_TESTS = {
    "pytest.importorskip",
    "pytest.mark.skip",
    "pytest.mark.skipif",
    "pytest.mark.xfail",
    "pytest.skip",
    "pytest.xfail",
    "time.sleep",
}


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (each for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_not_too_long(module: str) -> None:
    assert MOST_LINES_OF_A_MODULE >= len((PACKAGE / module).read_text().splitlines())


@pytest.mark.parametrize("module", MODULES)
def test_a_function_is_not_too_long(module: str) -> None:
    lengths = {each.name: (each.end_lineno or 0) - each.lineno + 1 for each in functions(tree(PACKAGE / module))}
    assert {} == {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_FUNCTION}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_opens_with_what_it_owns(module: str) -> None:
    assert ast.get_docstring(tree(PACKAGE / module))


@pytest.mark.parametrize("module", MODULES)
def test_a_name_says_what_is_inside(module: str) -> None:
    assert set() == NAMES_THAT_SAY_NOTHING & {part.strip("_") for part in Path(module).with_suffix("").parts}


@pytest.mark.parametrize("test", TESTS)
def test_no_test_skips_or_sleeps(test: str) -> None:
    nodes = ast.walk(tree(ROOT / test))
    used = {ast.unparse(each): each.lineno for each in nodes if isinstance(each, ast.Attribute)}
    assert {} == {name: line for name, line in used.items() if name in NOT_IN_TESTS}
