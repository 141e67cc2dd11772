"""Finding an agent again: among those that this process has declared, else by where it can be imported from.

What stored data names is imported only where it is allowed (``allowed_code.py``), and what a person types always. Only
an actor comes back: it is looked up among the plain entries of its module, and nothing else is called or asked.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from limpet.codec.names import Space, entries_of_class, entries_of_module, main_module_name
from limpet.engine.actors import Actor, FunctionActor, declared_once
from limpet.engine.named_agent import parts_of, shown
from limpet.errors import AgentNotFound
from limpet.model import EventType

if TYPE_CHECKING:
    from limpet.engine.allowed_code import AllowedCode

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


def find_actor(reference: str | None, name: str, allowed: Callable[[], AllowedCode]) -> Actor[..., Any]:
    """The actor of a stored run. Raises AgentNotFound, or AgentNotAllowed where its code may not be imported."""
    # Loaded here and not above: programs that declare their agents never ask.
    from limpet.engine.allowed_code import require_allowed

    found = find_declared(reference, name)
    if found is not None:
        return found
    if reference is None:
        raise AgentNotFound(name, "it was declared inside a function, and no agent of that name is declared here")
    require_allowed(reference, allowed())
    return import_actor(reference)


def find_declared(reference: str | None, name: str) -> Actor[..., Any] | None:
    """The actor of a stored run, where this process has it already; None where it has not. Nothing is imported."""
    found = _without_reference.get(name) if reference is None else _by_reference.get(reference)
    if found is None and reference is not None:
        found = _in_imported(reference)
    return _by_name.get(name) if found is None else found


def _in_imported(reference: str) -> Actor[..., Any] | None:
    try:
        place, qualified = parts_of(reference)
        module = _imported(place)
        return None if module is None else _actor_in(module, qualified, reference)
    except AgentNotFound:
        return None


def import_actor(reference: str) -> Actor[..., Any]:
    """The actor at 'module:name' or 'file.py:name', which a person has typed or which is allowed.

    Raises AgentNotFound that says what is missing.
    """
    place, qualified = parts_of(reference)
    return _actor_in(import_code(place, reference), qualified, reference)


def import_code(place: str, reference: str) -> ModuleType:
    """A module by its name, or by its file. Raises AgentNotFound."""
    try:
        return _import_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (ImportError, OSError, ValueError) as error:
        raise AgentNotFound(reference, f"{shown(place)} cannot be imported ({error})") from error


def _actor_in(module: ModuleType, qualified: str, reference: str) -> Actor[..., Any]:
    found = _entry(module, qualified)
    if _is_class(found) and issubclass(found, Actor):
        found = _made(found, reference)
    if not _is_actor(found):
        known = sorted(name for name, value in entries_of_module(module).items() if _is_actor(value))
        place = reference.rpartition(":")[0]
        raise AgentNotFound(
            reference, f"{shown(place)} has no agent {qualified!r} (it has: {', '.join(known) or 'none'})"
        )
    return cast("Actor[..., Any]", found)


def _entry(module: ModuleType, qualified: str) -> Any:
    """What a module has under a name. Attributes are not asked for: that could run code that data chose."""
    *owners, name = qualified.split(".")
    space: Space = entries_of_module(module)
    owner: Any = None
    for part in owners:
        owner = space.get(part)
        if owner is None:
            return None
        # The methods of an object are those of its class: what the object says of itself is not asked for.
        space = entries_of_class(owner if _is_class(owner) else cast("type[object]", type(owner)))
    return _unwrapped(space.get(name), owner)


def _unwrapped(found: Any, owner: Any) -> Any:
    """What a class gives for an actor that was declared as one of its static or class methods."""
    kind = cast("type[object]", type(found))
    if kind not in (staticmethod, classmethod):
        is_method = owner is not None and not _is_class(owner) and issubclass(kind, FunctionActor)
        return found.__get__(owner) if is_method else found
    wrapped = found.__func__
    is_bound = kind is classmethod and issubclass(type(wrapped), FunctionActor)
    return wrapped.__get__(owner) if is_bound else wrapped


def _is_class(value: object) -> bool:
    # Not isinstance: that would ask the object for its class, which a stand-in for another object computes.
    return issubclass(type(value), type)


def _is_actor(value: object) -> bool:
    return issubclass(type(value), Actor)


def _made(cls: Any, reference: str) -> Any:
    try:
        return cls()
    except TypeError as error:
        raise AgentNotFound(reference, f"it cannot be made without arguments ({error})") from error


def _imported(place: str) -> ModuleType | None:
    """The module of that name or file, if this process has it. What runs as ``__main__`` has the name of its file."""
    if place.endswith(".py"):
        return _imported_file(Path(place))
    if place == main_module_name() and place not in sys.modules:
        place = "__main__"
    return sys.modules.get(place)


def _imported_file(file: Path) -> ModuleType | None:
    try:
        whole = str(file.resolve())
    except (OSError, ValueError):
        return None
    return next((module for module in list(sys.modules.values()) if _file_of(module) == whole), None)


def _file_of(module: object) -> str | None:
    file = entries_of_module(module).get("__file__")
    if not isinstance(file, str):
        return None
    # The running script is named as it was typed.
    is_main = module is sys.modules.get("__main__")
    return str(Path(file).resolve()) if is_main else file


def _import_file(file: Path) -> ModuleType:
    file = file.resolve()
    known = _imported_file(file)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.exists():
        raise FileNotFoundError(f"no such file: {str(file)!r}")
    if file.stem in sys.modules:
        raise ImportError(f"another module called {file.stem!r} is imported already")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        with _found_beside(file):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[file.stem]
        raise
    return module


@contextmanager
def _found_beside(file: Path) -> Generator[None]:
    """Let a script import what lies beside it, as Python does where it runs one. Later it comes behind all else."""
    folder = str(file.parent)
    if folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.path.append(folder)
