"""Types that the program has registered: under names of their own, with ways of their own, and with versions.

Which types are registered is a fact about the process. A registered name in data is looked up here and nowhere else.
pickle is used for a type only where the program has asked for it by name, and reads nothing but that type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast, overload

from limpet.codec.kinds import Kind, NotStorable
from limpet.codec.names import let_stand_for, name_of
from limpet.codec.python_types.standard import STANDARD_KINDS
from limpet.codec.secret_annotations import hidden_fields
from limpet.codec.user_types.classes import FAMILIES, family_of
from limpet.codec.user_types.families import READ_AS_OLD, REGISTERED_KINDS, Family, RegisteredKind
from limpet.codec.user_types.registered_forms import PICKLE, TAG, Registered, lowering, read
from limpet.errors import UsageError, ValueNotReadable
from limpet.processes import new_reentrant_lock

T = TypeVar("T")

_PLAIN: Final = (type(None), bool, int, float, str, bytes, list)


_entries: Final[dict[str, Registered]] = {}
_learnt: Final[list[dict[type, Kind]]] = []

registering: Final = new_reentrant_lock()
"""Held while a type is registered, and by whoever notes the kind of a type for later."""


def keep_current(kinds: dict[type, Kind]) -> None:
    """Have the noted kind of a type forgotten when it is registered."""
    _learnt.append(kinds)


@overload
def register_type(
    cls: type[T],
    /,
    *,
    name: str | None = None,
    encode: Callable[[T], object] | None = None,
    decode: Callable[[Any], T] | None = None,
    version: int = 1,
    upgrade: Callable[[Any, int], object] | None = None,
    aliases: Iterable[str] = (),
    adapter: str | None = None,
) -> type[T]: ...
@overload
def register_type(
    *,
    name: str | None = None,
    encode: Callable[[Any], object] | None = None,
    decode: Callable[[Any], Any] | None = None,
    version: int = 1,
    upgrade: Callable[[Any, int], object] | None = None,
    aliases: Iterable[str] = (),
    adapter: str | None = None,
) -> Callable[[type[T]], type[T]]: ...
def register_type(
    cls: type[Any] | None = None,
    /,
    *,
    name: str | None = None,
    encode: Callable[[Any], object] | None = None,
    decode: Callable[[Any], Any] | None = None,
    version: int = 1,
    upgrade: Callable[[Any, int], object] | None = None,
    aliases: Iterable[str] = (),
    adapter: str | None = None,
) -> Any:
    """Tell how instances of a class are stored, and under which name and version. Also a decorator for classes.

    ``encode`` turns an instance into something that can be stored, and ``decode`` turns that back. Without them the
    class must be of a kind that can be stored by its fields, such as a dataclass or a pydantic model.

    ``name`` stays the same when the class is moved or renamed; ``aliases`` are the names (``"module:Class"``) under
    which it was recorded before. ``upgrade`` is given what was recorded with a lower version (what ``encode`` gave, or
    the dict of fields) and that version, and gives the same for the current version. What was recorded before the
    class was registered has version 1.

    ``adapter="pickle"`` stores instances with pickle, which runs code that it finds in what is stored: only for types
    that have no other way, in stores that nobody else can write.

    It counts for exactly that class, not for its subclasses. Raises UsageError where the parts do not fit together.
    """

    def register(cls: type[Any]) -> type[Any]:
        given = (aliases,) if isinstance(aliases, str) else tuple(aliases)
        _check_class(cls)
        own_name = name_of(cls) if name is None else name
        entry = Registered(
            cls, own_name, given, version, encode, decode, upgrade, adapter, _family(cls, encode, adapter)
        )
        _check(entry)
        with registering:
            _enter(entry)
        return cls

    return register if cls is None else register(cls)


def _check_class(cls: object) -> None:
    if not isinstance(cls, type):
        raise UsageError(f"register_type was given {cls!r}, which is not a class.", "Give it the class itself.")
    if cls in STANDARD_KINDS or cls in _PLAIN:
        raise UsageError(
            f"{cls.__qualname__} cannot be registered: it is stored in a way of its own already.",
            "Register a class of your own that holds it.",
        )


def _family(cls: type, encode: object, adapter: object) -> Family | None:
    """The family that a class without a way of its own is written by. Raises UsageError where there is none."""
    if encode is not None or adapter is not None:
        return None
    family = family_of(cls)
    if family is None:
        raise UsageError(
            f"{cls.__qualname__} cannot be registered: it is not a dataclass, a pydantic model or another class that "
            "can be stored by its fields.",
            "Give `encode=` and `decode=`; where @register_type stands below another decorator, put it above.",
        )
    try:
        FAMILIES[family].plan(cls)
    except NotStorable as error:
        raise UsageError(
            f"{cls.__qualname__} cannot be registered: it {error.why}.", "Give `encode=` and `decode=`."
        ) from error
    return FAMILIES[family]


def _check(entry: Registered) -> None:
    what = f"{entry.cls.__qualname__} cannot be registered:"
    if (entry.encode is None) != (entry.decode is None):
        raise UsageError(f"{what} only one of `encode` and `decode` is given.", "Give both, or none of them.")
    if entry.adapter not in (None, PICKLE):
        raise UsageError(f"{what} there is no adapter {entry.adapter!r}.", "The one adapter is 'pickle'.")
    if entry.adapter is not None and entry.encode is not None:
        raise UsageError(f"{what} both an adapter and `encode` are given.", "Give one of them.")
    if entry.family is None and (secret := _secret_of(entry.cls)):
        raise UsageError(
            f"{what} {secret} is secret, and it cannot be told where in what is stored of it that would be.",
            "Register it without `encode` and `adapter`, as a class that is stored by its fields, such as a dataclass.",
        )
    if type(entry.version) is not int or entry.version < 1:
        raise UsageError(f"{what} its version is {entry.version!r}.", "Versions are whole numbers from 1 on.")
    for name in (entry.name, *entry.aliases):
        if not isinstance(cast(object, name), str) or not name or not name.isprintable():
            raise UsageError(
                f"{what} {name!r} cannot be its name or an alias.", "Use text that is not empty and can be printed."
            )


def _secret_of(cls: type) -> str:
    """What is secret of a class; empty where nothing is."""
    try:
        return ", ".join(repr(name) for name in sorted(hidden_fields(cls)))
    except NotStorable as error:
        raise UsageError(f"{cls.__qualname__} cannot be registered: it {error.why}.", "Import it there.") from error


def _enter(entry: Registered) -> None:
    names = (entry.name, *entry.aliases)
    replaced = {id(old): old for old in _entries.values() if old.cls is entry.cls}
    for name in names:
        taken = _entries.get(name)
        if taken is not None and not _is_same(taken.cls, entry.cls):
            raise UsageError(
                f"{entry.cls.__qualname__} cannot be registered as {name!r}: {name_of(taken.cls)} is registered under "
                "that name.",
                "Use another name, or take it off the other class.",
            )
        if taken is not None:
            replaced[id(taken)] = taken
    # What is read meanwhile finds the old entry or the new one, and never none.
    for name in names:
        _entries[name] = entry
        let_stand_for(name, entry.cls)
    REGISTERED_KINDS[entry.cls] = RegisteredKind(TAG, lowering(entry), _build, entry.family)
    if entry.version > 1:
        READ_AS_OLD[entry.cls] = lambda tag, parts: read(entry, 1, tag, parts)
    else:
        READ_AS_OLD.pop(entry.cls, None)
    for old in replaced.values():
        _leave(old)
    _forget(entry.cls)


def _is_same(one: type, other: type) -> bool:
    """Whether two classes are the same, or the same one from before and after its module was loaded again."""
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _leave(entry: Registered) -> None:
    """Take back what is still there of an entry."""
    for name in (entry.name, *entry.aliases):
        if _entries.get(name) is entry:
            del _entries[name]
            let_stand_for(name, None)
    if all(other.cls is not entry.cls for other in _entries.values()):
        REGISTERED_KINDS.pop(entry.cls, None)
        READ_AS_OLD.pop(entry.cls, None)
    _forget(entry.cls)


def _forget(cls: type) -> None:
    for kinds in _learnt:
        kinds.pop(cls, None)


def _build(parts: Any) -> Any:
    name, version, form, stored = parts
    entry = _entries.get(name)
    if entry is None:
        raise ValueNotReadable(str(name), "no type is registered under that name in this program")
    return read(entry, version, form, stored)


REGISTERED: Final = Kind(TAG, lambda value, lower: REGISTERED_KINDS[type(value)].lower(value, lower), _build)
"""The kind of all registered types. That of each one stands in ``REGISTERED_KINDS``."""
