"""Finding an agent again: among those that this process has declared, else by where it can be imported from.

Only a reference that a run stored for itself, or that a person typed, is imported, and only an actor comes back.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from weakref import WeakValueDictionary

from limpet.engine.actors import Actor, declared_once
from limpet.errors import AgentNotFound
from limpet.model import EventType
from limpet.model.notebooks import is_of_notebook

_by_reference: WeakValueDictionary[str, Actor[..., Any]] = WeakValueDictionary()
_by_name: WeakValueDictionary[str, Actor[..., Any]] = WeakValueDictionary()
_without_reference: WeakValueDictionary[str, Actor[..., Any]] = WeakValueDictionary()
"""Those that have only a name to be found by."""


def declare(actor: Actor[..., Any]) -> None:
    """Remember an actor of this process, as long as it lives. A later one of the same name takes its place."""
    reference = actor.reference
    if reference is None:
        _without_reference[actor.name] = actor
    else:
        _by_reference[reference] = actor
    _by_name[actor.name] = actor


def names_declared_once() -> set[tuple[str, EventType]]:
    """The names and kinds of the actors of this process that are declared ``once``."""
    return {(actor.name, actor.event_type) for actor in declared_once}


def find_actor(reference: str | None, name: str) -> Actor[..., Any]:
    """The actor of a stored run. Raises AgentNotFound."""
    found = _without_reference.get(name) if reference is None else _by_reference.get(reference)
    if found is None and reference is not None and _is_imported(reference):
        found = import_actor(reference)
    if found is None:
        found = _by_name.get(name)
    if found is not None:
        return found
    if reference is None:
        raise AgentNotFound(name, "it was declared inside a function, and no agent of that name is declared here")
    return import_actor(reference)


def _is_imported(reference: str) -> bool:
    return reference.rpartition(":")[0] in sys.modules


def import_actor(reference: str) -> Actor[..., Any]:
    """The actor at 'module:name' or 'file.py:name'. Raises AgentNotFound that says what is missing."""
    place, _, qualified = reference.rpartition(":")
    if is_of_notebook(reference):
        raise AgentNotFound(reference, "it was declared in a notebook, and can be imported from nowhere; run its cells")
    if not place or not qualified.replace(".", "_").isidentifier():
        raise AgentNotFound(reference, "it is not of the form module:agent")
    found: Any = _import(place, reference)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Actor):
        found = _made(found, reference)
    actor = cast("Actor[..., Any] | None", found if isinstance(found, Actor) else None)
    if actor is None:
        known = sorted(name for name, value in vars(_import(place, reference)).items() if isinstance(value, Actor))
        raise AgentNotFound(reference, f"{place} has no agent {qualified!r} (it has: {', '.join(known) or 'none'})")
    return actor


def _made(cls: Any, reference: str) -> Any:
    try:
        return cls()
    except TypeError as error:
        raise AgentNotFound(reference, f"it cannot be made without arguments ({error})") from error


def _import(place: str, reference: str) -> ModuleType:
    try:
        return _import_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (ImportError, FileNotFoundError) as error:
        raise AgentNotFound(reference, f"{place} cannot be imported ({error})") from error


def _import_file(file: Path) -> ModuleType:
    file = file.resolve()
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(file) and module.__name__ != "__main__":
            return module
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.exists():
        raise FileNotFoundError(f"no such file: {file}")
    if file.stem in sys.modules:
        raise ImportError(f"another module called {file.stem!r} is imported already")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[file.stem]
        raise
    return module
