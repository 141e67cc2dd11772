"""The versions of the packages that this program has imported.

``importlib.metadata`` reads a file or more of every installed distribution, and takes longer to load than everything
here. The name and the version of a distribution already stand in the name of its folder, so listing the folders of the
path is enough; only for modules that are called otherwise than their distribution files are read, within a bound.
"""

from __future__ import annotations

import os
import re
import sys
import time
from functools import lru_cache
from types import ModuleType
from typing import cast

from limpet.engine.environment.command_line import readable

MOST_PACKAGES = 100
SEARCH_S = 0.01
"""How long files are searched for modules that are called otherwise than their distribution."""
_SEARCHED_BYTES = 32 * 1024
_LONGEST = 80

_FOLDER = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)(?:-.*)?\.(?:dist|egg)-info")

_known: tuple[int, dict[str, str]] = (0, {})
"""How many modules were loaded when the packages were last looked for, and what was found."""


class Distribution:
    """One installed distribution, as the name of its folder tells it."""

    __slots__ = ("folder", "name", "version")

    def __init__(self, name: str, version: str, folder: str) -> None:
        self.name = name
        self.version = version
        self.folder = folder


def imported_packages() -> dict[str, str]:
    """The distributions of the modules that are loaded now, with their versions; of very many those loaded first."""
    global _known
    loaded = len(sys.modules)
    if loaded != _known[0]:
        _known = (loaded, _imported_packages())
    return _known[1]


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution."""
    found = _distributions(tuple(sys.path)).get(_normal(distribution))
    return None if found is None else found.version


def _imported_packages() -> dict[str, str]:
    installed = _distributions(tuple(sys.path))
    folders = {os.path.dirname(each.folder) for each in installed.values()}
    found: dict[str, Distribution] = {}
    unknown: list[str] = []
    for module, folder in _loaded_modules().items():
        distribution = installed.get(_normal(module))
        if distribution is not None:
            found[module] = distribution
        elif folder in folders:
            unknown.append(module)
    rest = [each for each in installed.values() if each not in found.values()]
    found |= _searched(unknown, rest)
    first = {each.name: each.version for each in found.values()}
    return dict(sorted(list(first.items())[:MOST_PACKAGES], key=lambda each: each[0].lower()))


def _loaded_modules() -> dict[str, str]:
    """The packages outside the standard library, each with the folder it lies in; of a namespace those inside it."""
    modules: dict[str, str] = {}
    namespaces = {""}
    # What is loaded is listed before what is inside it, whatever else is loaded meanwhile.
    for name, module in list(sys.modules.items()):
        parent, _, _ = name.rpartition(".")
        if parent not in namespaces or name.startswith("_") or name in sys.stdlib_module_names:
            continue
        file = _file_of(module)
        if file is None:
            namespaces.add(name)
        else:
            is_package = os.path.basename(file).startswith("__init__.")
            modules[name] = _above(file, name.count(".") + is_package + 1)
    return modules


def _above(path: str, times: int) -> str:
    for _ in range(times):
        path = os.path.dirname(path)
    return path


def _file_of(module: object) -> str | None:
    if not isinstance(module, ModuleType):
        return None
    # Asked so, a module that loads itself when it is first used is not made to.
    attributes = cast("dict[str, object]", object.__getattribute__(module, "__dict__"))
    file = attributes.get("__file__")
    return file if isinstance(file, str) else None


@lru_cache(maxsize=4)
def _distributions(path: tuple[str, ...]) -> dict[str, Distribution]:
    """What is installed in the folders of the path, by its name in the one spelling that all are compared in."""
    installed: dict[str, Distribution] = {}
    library = os.path.dirname(os.__file__)
    for folder in path:
        if os.path.normpath(folder) == library:
            continue
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue
        for entry in entries:
            if entry.endswith("-info") and (found := _FOLDER.fullmatch(entry)):
                name, version = (readable(found[part][:_LONGEST]) for part in ("name", "version"))
                installed.setdefault(_normal(name), Distribution(name, version, os.path.join(folder, entry)))
    return installed


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _searched(modules: list[str], distributions: list[Distribution]) -> dict[str, Distribution]:
    """Whose files the modules are, as far as there is time to look."""
    found: dict[str, Distribution] = {}
    until = time.monotonic() + SEARCH_S
    for distribution in distributions:
        if len(found) == len(modules) or time.monotonic() > until:
            break
        record = _beginning_of(os.path.join(distribution.folder, "RECORD"))
        for module in modules:
            path = b"\n" + module.replace(".", "/").encode("utf-8", "replace")
            if path + b"/" in record or path + b"." in record:
                found.setdefault(module, distribution)
    return found


def _beginning_of(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return b"\n" + opened.read(_SEARCHED_BYTES)
    except OSError:
        return b""
