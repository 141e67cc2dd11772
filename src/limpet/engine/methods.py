"""Methods as the agents of runs: the object of a method is stored with the input, so that any process can resume.

An object that cannot be stored is noted by its type. Then the run is resumed with the object that a module has, or that
the program gives.
"""

from __future__ import annotations

import inspect
import sys
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from limpet.codec.kinds import Opaque
from limpet.codec.names import name_of
from limpet.codec.secret_search import secrets_in
from limpet.engine.actors import Actor, FunctionActor
from limpet.engine.call_names import short_name
from limpet.engine.inputs import SELF
from limpet.engine.references import imported_module, reference_of
from limpet.engine.user_lines import warn_at_user
from limpet.errors import NotResumableWarning, UsageError, ValueNotStorable

if TYPE_CHECKING:
    from limpet.artifacts.stored_values import StoredValues

P = ParamSpec("P")
R = TypeVar("R")

_NOT_LOOKED_INTO = sys.stdlib_module_names | {"__main__"}


class Method(FunctionActor[P, R]):
    """A bound method whose recorded input has the object that it is bound to, or a note of its type."""

    recorded_owner: object
    why: ValueNotStorable | None
    """Why the object cannot be stored."""

    def input_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given: Any = super().input_of(args, kwargs)
        parts: dict[str, Any] = {"args": given, "kwargs": {}} if isinstance(given, list) else given
        return {**parts, SELF: self.recorded_owner}

    def secrets_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[str]:
        return super().secrets_in(args, kwargs) | secrets_in(self.owner)

    @property
    def reference(self) -> str | None:
        return (None if self.why is None else self.through_module) or super().reference

    @cached_property
    def through_module(self) -> str | None:
        """Where the object itself can be imported from, and the method with it; None where it cannot."""
        for module in list(sys.modules.values()):
            # What the running script has may be made only where it is run.
            if type(module) is ModuleType and module.__name__ not in _NOT_LOOKED_INTO:
                for name, value in list(vars(module).items()):
                    if value is self.owner:
                        return reference_of(module.__name__, f"{name}.{self.__qualname__.rpartition('.')[2]}")
        return None


def with_owner(actor: Actor[P, R], stored: StoredValues) -> Actor[P, R]:
    """The agent of a run; a bound method with its object in the recorded input."""
    if not isinstance(actor, FunctionActor) or actor.owner is None or isinstance(actor, Method):
        return actor
    method = cast("Method[P, R]", object.__new__(Method))
    vars(method).update(vars(actor))
    method.recorded_owner, method.why = actor.owner, None
    if isinstance(actor.owner, type):
        method.recorded_owner = Opaque(name_of(actor.owner).replace(":", ".", 1))
        return method
    try:
        if stored.encode_small(actor.owner) is None:
            stored.encode(actor.owner, SELF)
    except ValueNotStorable as why:
        method.recorded_owner, method.why = Opaque(name_of(type(actor.owner)).replace(":", ".", 1)), why
    return method


def tell_not_resumable(actor: Actor[..., Any]) -> None:
    """Warns where no other process could resume the run of a method, as its object is stored nowhere."""
    if not isinstance(actor, Method) or actor.why is None:
        return
    if actor.through_module is not None:
        return
    method, cls = short_name(actor.__qualname__), short_name(type(actor.owner).__qualname__)
    why = f"{actor.why.place} cannot be stored: {actor.why.type_name} {actor.why.why}"
    warn_at_user(
        f"Only a program that has this {cls} can resume a run of its method {method}: {why}. Make {cls} storable (a "
        "dataclass, or `register_type`), keep the object at the top level of a module that is imported, make it inside "
        "an agent that is a function, or resume with `agent=`.",
        NotResumableWarning,
    )


def resumed_method(
    actor: Actor[..., Any], recorded: Any, reference: str | None, stored: StoredValues
) -> Actor[..., Any]:
    """The agent of a stored run: a method with the object that is stored, or that a module has. Raises UsageError."""
    if not isinstance(recorded, dict) or SELF not in recorded or not isinstance(actor, FunctionActor):
        return actor
    owner, method = cast("dict[str, object]", recorded)[SELF], actor
    if method.owner is None:
        method = method.__get__(owner) if not isinstance(owner, Opaque) else _found_bound(method, reference, owner)
    return with_owner(method, stored)


def _found_bound(method: FunctionActor[..., Any], reference: str | None, noted: Opaque) -> FunctionActor[..., Any]:
    found = None if reference is None else _at(reference)
    if found is not None and found.owner is not None:
        return found
    raise UsageError(
        f"The run is one of the method {short_name(method.__qualname__)!r}, and its object ({noted.type_name}) is not "
        "stored.",
        f"Give the object: `agent=….{method.__name__}`; or begin such runs with an object that can be stored.",
    )


def _at(reference: str) -> FunctionActor[..., Any] | None:
    """The actor that an imported module has there, bound to what it stands in. A stored reference is no reason to run
    code, so nothing is asked for an attribute but what has the actor."""
    start: Any = imported_module(reference)
    *above, last = reference.rpartition(":")[2].split(".")
    for part in above:
        start = inspect.getattr_static(start, part, None)
    found: Any = inspect.getattr_static(start, last, None)
    cls, instance = (start, None) if isinstance(start, type) else (cast("Any", type(start)), start)
    if isinstance(found, classmethod):
        found, instance = cast("Any", found).__func__, cls
    return found.__get__(instance, cls) if issubclass(type(found), FunctionActor) else None
