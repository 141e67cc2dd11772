"""Imports point downwards only. Read from the source, so that an import inside a function counts as well."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "limpet"

# From the top to the bottom. "" is `limpet` itself: the public names, which only the rows above it may use.
LAYERS = (
    {"cli", "__main__"},
    {"demo", "testing", "integrations", "web"},
    {""},
    {"declare"},
    {"client"},
    {"engine"},
    {"artifacts"},
    {"config"},
    {"keys", "stores"},
    {"journal", "codec"},
    {"backends"},
    {"lines"},
    {"model"},
    {"errors"},
    {"processes"},
    {"logs"},
    {"escapes"},
)
RANK = {name: rank for rank, row in enumerate(reversed(LAYERS)) for name in row}

# What stands lower and is forbidden all the same.
ALLOWED_ONLY = {
    "journal": {"model", "errors"},
    "codec": {"model", "errors", "processes"},
    "lines": {"model", "errors"},
}

# What backends may import besides themselves: the contracts, and what all artifact backends do alike.
SHARED_BY_BACKENDS = {"contract", "artifact_contract", "artifact_rules", "compression", "holders"}

IMPURE = {
    *("asyncio", "concurrent", "fcntl", "io", "logging", "multiprocessing", "os", "pathlib", "platform", "random"),
    *("secrets", "select", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time"),
    *("urllib", "uuid"),
}
CLOCK_READS = {"now", "utcnow", "today"}
OPTIONAL = {
    *("attrs", "cryptography", "numpy", "obstore", "opentelemetry", "pandas", "polars", "psycopg", "pydantic", "rich"),
    "starlette",
}


@dataclass(frozen=True)
class Import:
    importer: str
    """The module that imports, without the leading 'limpet.'."""
    target: str
    """The full name of what is imported; for `from a import b` it is 'a.b' where b is a module of ours."""
    line: int
    runs_on_import: bool

    def __str__(self) -> str:
        return f"limpet.{self.importer}:{self.line} imports {self.target}".replace("limpet.:", "limpet:")

    @property
    def ours(self) -> str | None:
        """What is imported, without the leading 'limpet.'; None if it is not ours."""
        package, _, rest = self.target.partition(".")
        return rest if package == "limpet" else None


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert node.level == 0, f"line {node.lineno}: relative imports are not used here"
    source = node.module or ""
    for alias in node.names:
        submodule = f"{source}.{alias.name}"
        yield submodule if submodule.removeprefix("limpet.") in MODULES else source


def imports_in(node: ast.AST, importer: str, *, runs_on_import: bool = True) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in targets(child):
                yield Import(importer, target, child.lineno, runs_on_import)
        is_deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(child)
        yield from imports_in(child, importer, runs_on_import=runs_on_import and not is_deferred)


def imports_of(importer: str) -> list[Import]:
    return list(imports_in(ast.parse(MODULES[importer].read_text()), importer))


def layer(module: str) -> str:
    return module.partition(".")[0]


def points_up(each: Import) -> bool:
    if each.ours is None:
        return False
    importer, target = layer(each.importer), layer(each.ours)
    if importer == target:
        return False
    return target not in ALLOWED_ONLY.get(importer, RANK) or RANK[target] >= RANK[importer]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_stands_in_a_layer(module: str) -> None:
    assert layer(module) in RANK, f"say in LAYERS where {layer(module)!r} stands"


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_downwards(module: str) -> None:
    assert [] == [str(each) for each in imports_of(module) if points_up(each)]


@pytest.mark.parametrize("module", [name for name in MODULES if layer(name) == "journal"])
def test_the_journal_is_pure(module: str) -> None:
    tops = {each.target.partition(".")[0]: str(each) for each in imports_of(module)}
    foreign = set(tops) - sys.stdlib_module_names - {"limpet", "msgspec"}
    assert [] == [text for top, text in tops.items() if top in IMPURE | foreign]

    calls = (node.func for node in ast.walk(ast.parse(MODULES[module].read_text())) if isinstance(node, ast.Call))
    named = {(func.attr if isinstance(func, ast.Attribute) else ast.unparse(func)): func.lineno for func in calls}
    assert {} == {name: line for name, line in named.items() if name in CLOCK_READS | {"open", "print", "input"}}


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("backends.")])
def test_backends_import_only_the_contract_and_themselves(module: str) -> None:
    backend = module.split(".")[1]
    siblings = {each.ours: str(each) for each in imports_of(module) if each.ours and layer(each.ours) == "backends"}
    allowed = SHARED_BY_BACKENDS | {backend}
    assert [] == [text for name, text in siblings.items() if [*name.split("."), ""][1] not in allowed]


@pytest.mark.parametrize("module", MODULES)
def test_optional_packages_are_imported_only_when_used(module: str) -> None:
    loaded = [each for each in imports_of(module) if each.runs_on_import]
    assert [] == [str(each) for each in loaded if each.target.partition(".")[0] in OPTIONAL]


@pytest.mark.parametrize(
    ("importer", "target"),
    [
        ("model.header", "limpet.backends.contract"),
        ("backends.memory", "limpet.journal.replay"),
        ("codec.values", "limpet.backends.contract"),
        ("journal.replay", "limpet.codec"),
        ("journal.replay", "limpet.backends.contract"),
        ("engine.event", "limpet.client"),
        ("client", "limpet"),
        ("", "limpet.cli.main"),
    ],
)
def test_an_import_that_points_up_is_seen(importer: str, target: str) -> None:
    assert points_up(Import(importer, target, 1, runs_on_import=True))
