"""Exceptions that stand for recorded ones whose class is not there, or cannot show what they said.

A stand-in derives from the nearest classes of the recorded one that the program has imported, so ``except`` clauses
take it as they took that. Making its class runs no code of theirs: classes that would notice it are passed over.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Collection, Sequence
from types import FunctionType
from typing import Any, Final, cast

from limpet.codec.names import entries_of_class, find_class
from limpet.codec.user_types.exceptions import initialised
from limpet.codec.user_types.families import entry_of, flags_of, is_derived, layout_of
from limpet.errors import AttributeNotKept, ValueNotReadable

RECORDED_AS: Final = "_limpet_recorded_as"
"""The attribute under which a stand-in has the names of the classes of what it stands for, and what that said."""

_MOST_CLASSES: Final = 256
_LONGEST_NAME: Final = 200
_NOTICES_NOTHING: Final = entries_of_class(object)["__init_subclass__"]
_classes: Final[dict[tuple[Any, ...], type[BaseException]]] = {}

_IS_BASE: Final = 1 << 10
_put_args = cast("Callable[[BaseException, tuple[Any, ...]], None]", vars(BaseException)["args"].__set__)


def make_stand_in(
    names: Sequence[str], message: str, args: Sequence[Any], known: Collection[type] | None = None
) -> BaseException:
    """An exception that stands for one of a class of the first name, which derives from those of the other names."""
    found = [cls for cls in map(_find, names) if cls is not None] if known is None else list(known)
    error = _instance(_nearest(found), names[0] if names else "", args)
    error.__dict__[RECORDED_AS] = (tuple(names), message)
    return error


def names_from(type_name: str) -> list[str]:
    """The names that a class may have of which ``module.qualified.name`` is known, and no more."""
    parts = type_name.split(".")[:20]
    return [f"{'.'.join(parts[:cut]) or 'builtins'}:{'.'.join(parts[cut:])}" for cut in range(len(parts))]


def put_args(error: BaseException, args: Sequence[Any]) -> None:
    """Set the arguments, whatever the class of the exception makes of that."""
    _put_args(error, tuple(args))


def make_as(cls: type[BaseException], args: Sequence[Any]) -> BaseException | None:
    """An exception of a class, by the built-in class that it is laid out as; None where it cannot be made so.

    The built-in one fills its fields from the arguments where these fit.
    """
    layout: Any = layout_of(cls)
    try:
        return initialised(cls, layout, list(args))
    except Exception:
        try:
            error: BaseException = layout.__new__(cls)
        except Exception:
            return None
        put_args(error, args)
        return error


def may_stand_for(name: str) -> bool:
    """Whether a stand-in may derive from the class of that name, or there is no such class."""
    cls = _find(name)
    return cls is None or _is_open(cls)


def recorded_as(error: BaseException) -> tuple[tuple[str, ...], str] | None:
    """What a stand-in stands for: the names of the classes, and the message; None for any other exception."""
    return error.__dict__.get(RECORDED_AS)


def readable_name(name: str) -> str:
    """A class as people write it."""
    return name.removeprefix("builtins:").replace(":", ".")


def _find(name: str) -> type | None:
    try:
        cls = find_class(name)
    except ValueNotReadable:
        return None
    return cls if is_derived(cls, BaseException) else None


def _nearest(found: Sequence[type]) -> tuple[type, ...]:
    """Those of the classes that may be derived from, without the ones that others of them derive from already."""
    nearest: list[type] = []
    for cls in found:
        if _is_open(cls) and not any(is_derived(each, cls) for each in nearest):
            nearest.append(cls)
    return tuple(nearest) or (Exception,)


def _is_open(cls: type) -> bool:
    """Whether a class can be derived from without any code of it running."""
    made_by = cast("type[object]", type(cls))
    is_plain = made_by is type or (made_by is ABCMeta and _is_plainly_abstract(cls))
    notices_nothing = entry_of(cls, "__init_subclass__") is _NOTICES_NOTHING
    return is_plain and notices_nothing and bool(flags_of(cls) & _IS_BASE)


def _is_plainly_abstract(cls: type) -> bool:
    """Whether what is abstract in a class, which is asked for it when another derives from it, runs no code then."""
    names: frozenset[str] = entry_of(cls, "__abstractmethods__") or frozenset()
    return all(type(entry_of(cls, name)) in (FunctionType, property) for name in names)


def _instance(bases: tuple[type, ...], name: str, args: Sequence[Any]) -> BaseException:
    for some in (bases, bases[:1], (Exception,)):
        try:
            cls = _class_of(some, name)
        except (TypeError, ValueError):
            continue  # They lay out their instances in ways that do not go together.
        error = make_as(cls, args)
        if error is not None:
            return error
    raise AssertionError("a plain exception can be made")


def _class_of(bases: tuple[type, ...], name: str) -> type[BaseException]:
    known = _classes.get((bases, name))
    if known is None:
        module, _, qualified = name[:_LONGEST_NAME].partition(":")
        entries = {**_ENTRIES, "__module__": module, "__qualname__": qualified or "Exception"}
        last = qualified.rpartition(".")[2]
        made: Any = type(last if last.isidentifier() else "RecordedException", bases, entries)
        known = cast("type[BaseException]", made)
        if len(_classes) < _MOST_CLASSES:
            _classes[bases, name] = known
    return known


def _str(self: BaseException) -> str:
    named = recorded_as(self)
    return named[1] if named is not None else BaseException.__str__(self)


def _repr(self: BaseException) -> str:
    named = recorded_as(self)
    what = readable_name(named[0][0]) if named is not None and named[0] else "an exception"
    return f"<recorded {what}: {_str(self)}>"


def _getattr(self: BaseException, name: str) -> Any:
    named = recorded_as(self)
    if named is None or (name.startswith("__") and name.endswith("__")):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    what = readable_name(named[0][0]) if named[0] else "the exception"
    raise AttributeNotKept(name, what, "its arguments and what could be stored of its attributes is kept, and no more")


def _reduce(self: BaseException) -> Any:
    names, message = recorded_as(self) or ((), "")
    bases = tuple(each for each in type(self).__bases__ if each is not Exception)
    return _again, (names, message, self.args, bases), dict(self.__dict__)


def _again(names: Sequence[str], message: str, args: Sequence[Any], bases: tuple[type, ...]) -> BaseException:
    return make_stand_in(names, message, args, bases)


_ENTRIES: Final = {"__str__": _str, "__repr__": _repr, "__getattr__": _getattr, "__reduce__": _reduce}
