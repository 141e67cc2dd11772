"""What a name stands for that an annotation uses and that does not exist at run time, by the source of its module.

Such are names that are imported for type checkers only, and aliases that a function has for itself. Nothing is imported
and nothing is called for it: modules that are not loaded are read as text.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import Any, Final

Binding = tuple[str, ast.expr | str]
"""A module, and what it binds a name to: an expression there, or another name of that module (``""``: the module)."""

_FARTHEST: Final = 8
"""So many modules are gone through from where a name is used to where it is made."""


def bindings_of(module: str, name: str, hops: int = _FARTHEST) -> Iterator[object]:
    """Everything that a module binds a name to, in any of its scopes: objects, or expressions with their modules."""
    for place, bound in _bindings(module).get(name, ()):
        if isinstance(bound, ast.expr):
            yield place, bound
        else:
            yield from _imported(place, bound, hops - 1)


def _imported(module: str, name: str, hops: int) -> Iterator[object]:
    """What ``from module import name`` would give, where that can be told."""
    loaded: Any = sys.modules.get(module)
    submodule = sys.modules.get(f"{module}.{name}" if name else module)
    if name and loaded is not None and name in vars(loaded):
        yield vars(loaded)[name]
    elif submodule is not None:
        yield submodule
    elif hops > 0 and name:
        yield from bindings_of(module, name, hops)


@lru_cache(maxsize=256)
def _bindings(module: str) -> dict[str, list[Binding]]:
    found: dict[str, list[Binding]] = {}
    source = _source_of(module)
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in nodes:
        for name, bound in _bound_by(node, module):
            found.setdefault(name, []).append(bound)
    return found


def _bound_by(node: ast.AST, module: str) -> Iterator[tuple[str, Binding]]:
    match node:
        case ast.ImportFrom():
            source = _absolute(node, module)
            yield from ((each.asname or each.name, (source, each.name)) for each in node.names)
        case ast.Import():
            # `import a.b` binds `a`; only `import a.b as c` binds what stands last.
            yield from ((each.asname, (each.name, "")) for each in node.names if each.asname)
            tops = (each.name.partition(".")[0] for each in node.names if not each.asname)
            yield from ((top, (top, "")) for top in tops)
        case ast.Assign():
            yield from ((each.id, (module, node.value)) for each in node.targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
            yield target.id, (module, value)
        case _:
            alias: Any = node  # The statement `type X = …` is there from Python 3.12 on.
            if type(node).__name__ == "TypeAlias":
                yield alias.name.id, (module, alias.value)


def _absolute(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    loaded = sys.modules.get(module)
    is_package = hasattr(loaded, "__path__")
    package = module.split(".")
    package = package[: len(package) - node.level + (1 if is_package else 0)]
    return ".".join([*package, *([node.module] if node.module else [])])


def _source_of(module: str) -> str:
    loaded = sys.modules.get(module)
    try:
        if loaded is not None:
            return inspect.getsource(loaded)
        return _unloaded_source(module)
    except Exception:
        return ""  # There is none: the module was typed in, or is no Python.


def _unloaded_source(module: str) -> str:
    """The source of a module that the program has not imported, found without importing its packages."""
    path, spec, name = None, None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return ""
        path = spec.submodule_search_locations
    loader: Any = None if spec is None else spec.loader
    return "" if loader is None else loader.get_source(name) or ""
