"""Marks in annotations: what a program says of a field or a parameter with ``Annotated[…, Mark]``, or ``Mark`` alone.

A mark is found wherever a type can stand: in unions, containers and generic classes, behind aliases, new types and type
variables, and in text.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, ForwardRef, Literal, NamedTuple, cast

from limpet.codec.annotations import Hint, Space, hints_of_class

_CONTAINERS: Final = frozenset({"builtins", "collections", "collections.abc", "typing", "types", "typing_extensions"})
"""The modules whose generic classes hold what their parameters say, and nothing else."""


class Part(NamedTuple):
    """Something that an annotation is made of: a class, or what ``Annotated`` says beside one."""

    what: object
    is_inside: bool
    """Whether it is a parameter of a generic class that is no plain container."""


def parts_of(hint: Hint) -> Iterator[Part]:
    """Everything that an annotation is made of. Raises NotUnderstood."""
    return _walk(hint.what, hint.space, False, [])


def is_marked(hints: Iterable[Hint], mark: type) -> bool:
    """Whether a mark stands anywhere in an annotation. Raises NotUnderstood."""
    return any(is_mark(part.what, mark) for hint in hints for part in parts_of(hint))


def is_mark(what: object, mark: type) -> bool:
    """Whether something in an annotation is that mark: the class, an instance, or those of a subclass."""
    try:
        return isinstance(what, mark) or (isinstance(what, type) and issubclass(what, mark))
    except Exception:
        return False  # Libraries put objects into annotations that do not like to be asked.


def marked_fields(cls: type, mark: type) -> frozenset[str]:
    """The names of the fields of a class that are marked. Raises NotUnderstood."""
    return frozenset(name for name, hints in hints_of_class(cls).items() if is_marked(hints, mark))


def _walk(hint: Any, space: Space, inside: bool, seen: list[object]) -> Iterator[Part]:
    if any(hint is each or (type(hint) is str and hint == each) for each in seen):
        return
    seen.append(hint)
    if isinstance(hint, (str, ForwardRef)):
        text, there = (hint, space) if isinstance(hint, str) else (hint.__forward_arg__, _space_of(hint, space))
        for each in there.read(text):
            yield from _walk(each, there, inside, seen)
    elif isinstance(hint, (list, tuple)):
        for each in cast("Iterable[object]", hint):
            yield from _walk(each, space, inside, seen)
    elif (origin := typing.get_origin(hint)) is Annotated:
        yield from _walk(typing.get_args(hint)[0], space, inside, seen)
        yield from (Part(each, inside) for each in _flat(_metadata(hint)))
    elif origin is not None:
        yield from _generic(hint, origin, space, inside, seen)
    elif isinstance(hint, type):
        cls = cast("type[Any]", hint)
        yield Part(cls, inside)
        # A generic model of pydantic is a class of its own, and may be given an instance of the one without parameters.
        generic: dict[str, Any] = cast("dict[str, Any]", vars(cls)).get("__pydantic_generic_metadata__") or {}
        for each in generic.get("args", ()):
            yield from _walk(each, space, True, seen)
    else:
        yield Part(hint, inside)
        for each in _behind(hint, space):
            yield from _walk(each, space, inside, seen)


def _generic(hint: object, origin: Any, space: Space, inside: bool, seen: list[object]) -> Iterator[Part]:
    if origin is Literal:
        return
    is_plain = not isinstance(origin, type) or origin.__module__ in _CONTAINERS
    yield from _walk(origin, space, inside, seen)
    for each in typing.get_args(hint):
        yield from _walk(each, space, inside or not is_plain, seen)


def _behind(hint: Any, space: Space) -> Iterator[object]:
    """The types that stand behind one that is none itself: an alias, a new type, a type variable."""
    if type(hint) is dataclasses.InitVar:
        yield cast("Any", hint).type
    hint = cast("Any", hint)
    try:
        if hint in space.bound:
            yield space.bound[hint]
    except TypeError:
        return  # It cannot be a key, so it is no type.
    kind = type(cast(object, hint)).__name__
    if kind == "TypeAliasType":
        yield from _behind_alias(hint)
    elif kind == "NewType" or kind in ("TypeVar", "TypeVarTuple", "ParamSpec"):
        for name in ("__supertype__", "__bound__", "__constraints__", "__default__"):
            try:
                yield getattr(hint, name, None)
            except NameError:
                continue  # From Python 3.12 on they are evaluated when they are asked for.


def _behind_alias(alias: Any) -> Iterator[object]:
    try:
        yield alias.__value__
    except Exception:
        # It names what does not exist. Its source says what else it names.
        module = str(alias.__module__)
        yield from Space((module,)).read(alias.__name__)


def _space_of(reference: ForwardRef, space: Space) -> Space:
    module: Any = reference.__forward_module__
    if module is None:
        return space
    name = module if isinstance(module, str) else module.__name__
    names = vars(sys.modules[name]) if name in sys.modules else {}
    return Space((name, *space.modules), names, space.names, bound=space.bound)


def _metadata(hint: object) -> tuple[object, ...]:
    """What ``Annotated`` says beside the type. Libraries put objects into annotations that answer to every name."""
    try:
        found: Any = getattr(hint, "__metadata__", ())
    except Exception:
        return ()
    return cast("tuple[object, ...]", found) if type(found) is tuple else ()


def _flat(metadata: Iterable[object]) -> Iterator[object]:
    """Marks may stand together in a list or a tuple."""
    for each in metadata:
        if type(each) in (list, tuple, set, frozenset):
            yield from _flat(cast("Iterable[object]", each))
        else:
            yield each
