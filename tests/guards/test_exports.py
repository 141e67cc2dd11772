"""The public names are what `__all__` says, and a package's `__init__.py` only names them."""

from __future__ import annotations

import ast
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import limpet

PACKAGE = Path(__file__).parents[2] / "src" / "limpet"
INITS = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py"))


def is_submodule(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith("limpet.")


def only_names(node: ast.stmt, init: str) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names) | ast.Tuple(elts=names)):
            return all(isinstance(name, ast.Constant) for name in names)
        case ast.If(test=ast.Attribute(attr="TYPE_CHECKING"), orelse=[]):
            return init == "__init__.py" and all(only_names(inner, init) for inner in node.body)
        case ast.AnnAssign(target=ast.Name(id="__version__"), value=None) | ast.FunctionDef(name="__getattr__"):
            return init == "__init__.py"
    return False


@pytest.mark.parametrize("name", limpet.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    assert getattr(limpet, name) is not None


def test_no_name_is_exported_twice() -> None:
    assert len(set(limpet.__all__)) == len(limpet.__all__)


def test_nothing_is_visible_that_is_not_exported() -> None:
    visible = {name for name, value in vars(limpet).items() if not name.startswith("_") and not is_submodule(value)}
    assert set() == visible - set(limpet.__all__)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert version("limpet") == limpet.__version__


@pytest.mark.parametrize("init", INITS)
def test_an_init_file_has_no_logic(init: str) -> None:
    tree = ast.parse((PACKAGE / init).read_text())
    assert [] == [f"{init}:{node.lineno}" for node in tree.body if not only_names(node, init)]
