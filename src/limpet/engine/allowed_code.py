"""Which code may be imported because stored data names it: what the user has allowed, and the current project.

Data can be forged, so what it names is found here without executing anything, decided on by a pure function, and only
then imported. What a person types, and what the program has imported itself, is not asked about.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from pkgutil import get_importer
from typing import Any, Final

import msgspec

from limpet.codec.names import entries_of_module
from limpet.config.project import anchored_code, is_path, is_shared, project_folder, working_folder
from limpet.engine.named_agent import parts_of, shown
from limpet.errors import AgentNotAllowed, AgentNotFound

_ALWAYS: Final = frozenset({"limpet.demo"})
_INSTALLED: Final = ("site-packages", "dist-packages")
_ENVIRONMENT: Final = "pyvenv.cfg"


class AllowedCode(msgspec.Struct, frozen=True):
    """What may be imported because stored data names it."""

    modules: frozenset[str] = frozenset()
    """Modules and packages by their names; a package stands for all that is in it."""
    paths: tuple[Path, ...] = ()
    """Files and folders, without links in them."""
    project: Path | None = None
    """The folder of the current project, without links in it; None where there is none."""


class CodePlace(msgspec.Struct, frozen=True):
    """A file that an import would execute."""

    module: str
    """Its dotted name; empty for a file that is named by its path."""
    file: Path | None
    """Without links in it; None for what is built in."""
    is_installed: bool = False
    """Whether it is part of Python, or lies in a folder of installed packages or in a virtual environment."""


def is_allowed(places: Sequence[CodePlace], allowed: AllowedCode) -> bool:
    """Whether all of these may be executed. The last is what is named, the others are the packages around it."""
    # Whoever allows a module allows what importing it takes.
    is_named = bool(places) and _is_named(places[-1].module, allowed.modules)
    return is_named or all(_is_allowed(place, allowed) for place in places)


def _is_named(module: str, modules: frozenset[str]) -> bool:
    parts = module.split(".")
    return any(".".join(parts[:length]) in modules for length in range(1, len(parts) + 1))


def _is_allowed(place: CodePlace, allowed: AllowedCode) -> bool:
    file, project = place.file, allowed.project
    if _is_named(place.module, allowed.modules):
        return True
    if file is None:
        return False
    if any(file.is_relative_to(path) for path in allowed.paths):
        return True
    if project is None or place.is_installed or not file.is_relative_to(project):
        return False
    # What tools keep in a project (.git, .limpet, .venv) is data, or the code of others.
    return not any(part.startswith(".") for part in file.relative_to(project).parts)


def allowed_code(named: Iterable[str]) -> AllowedCode:
    """What is allowed here: the project, and the modules, files and folders that are named."""
    here, project = working_folder(), project_folder()
    entries = [anchored_code(entry, here) for entry in named]
    # All files of the machine are no project, and neither is a folder that everybody writes to.
    is_project = project != Path(project.anchor) and not is_shared(project)
    return AllowedCode(
        modules=_ALWAYS.union(entry.removesuffix(".*") for entry in entries if not is_path(entry)),
        paths=tuple(Path(entry).resolve() for entry in entries if is_path(entry)),
        project=project.resolve() if is_project else None,
    )


def require_allowed(reference: str, allowed: AllowedCode) -> None:
    """Raises AgentNotAllowed where the code at 'module:name' or 'file.py:name' may not be imported, or AgentNotFound
    where there is no such code. Nothing of it is executed."""
    place, _ = parts_of(reference)
    try:
        places = _of_file(place, allowed) if place.endswith(".py") else _of_module(place, allowed)
    except (ImportError, OSError, ValueError) as error:
        raise AgentNotFound(reference, f"{shown(place)} cannot be imported ({error})") from error
    if not is_allowed(places, allowed):
        raise AgentNotAllowed(reference, str(places[-1].file or place))


def _of_file(path: str, allowed: AllowedCode) -> list[CodePlace]:
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {str(file)!r}")
    return [CodePlace("", file, _is_installed(file, allowed.project))]


def _of_module(module: str, allowed: AllowedCode) -> list[CodePlace]:
    """What importing a module would execute, from the outermost package on."""
    found: list[CodePlace] = []
    folders: Any = None
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        loaded = sys.modules.get(name)
        if loaded is not None:
            folders = entries_of_module(loaded).get("__path__")
        else:
            spec = _spec(name, folders)
            folders = spec.submodule_search_locations
            is_folder_alone = folders is not None and spec.origin is None
            if not is_folder_alone:
                file = Path(spec.origin).resolve() if spec.has_location and spec.origin else None
                found.append(CodePlace(name, file, file is None or _is_installed(file, allowed.project)))
        if folders is None and name != module:
            raise ModuleNotFoundError(f"{name!r} is no package")
    return found


def _spec(name: str, folders: Iterable[str] | None) -> ModuleSpec:
    # Not `importlib.util.find_spec`: that imports the packages around what it looks for.
    found = _at_the_top(name) if folders is None else _inside(name, folders)
    if found is None:
        raise ModuleNotFoundError(f"No module named {name!r}")
    return found


def _at_the_top(name: str) -> ModuleSpec | None:
    finders: list[Any] = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return next((spec for finder in finders if (spec := finder.find_spec(name, None)) is not None), None)


def _inside(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """What stands in the folders of a package, which need not be imported."""
    found = ModuleSpec(name, None, is_package=True)
    for folder in folders:
        importer: Any = get_importer(str(folder))
        spec: ModuleSpec | None = importer.find_spec(name) if hasattr(importer, "find_spec") else None
        if spec is not None and spec.loader is not None:
            return spec
        if spec is not None:
            # A folder without code of its own; there may be others of that name.
            found.submodule_search_locations = [
                *(found.submodule_search_locations or ()),
                *(spec.submodule_search_locations or ()),
            ]
    return found if found.submodule_search_locations else None


def _is_installed(file: Path, project: Path | None) -> bool:
    """Whether a file is code of others, although it may lie inside the project."""
    between = [folder for folder in file.parents if project is None or folder.is_relative_to(project)]
    if any(folder.name in _INSTALLED or (folder / _ENVIRONMENT).exists() for folder in between if folder != project):
        return True
    return any(file.is_relative_to(place) and not _is_inside(project, place) for place in _places_of_python())


def _is_inside(folder: Path | None, place: Path) -> bool:
    return folder is not None and folder.is_relative_to(place)


@lru_cache(maxsize=1)
def _places_of_python() -> frozenset[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return frozenset(Path(sysconfig.get_path(name)).resolve() for name in names)
