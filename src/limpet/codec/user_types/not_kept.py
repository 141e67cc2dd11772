"""What stands for a part of a recorded exception that could not be kept, such as an open connection.

It says so when it is used. Nothing of the object that it stands for is there but the name of its type.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast

from limpet.codec.kinds import Kind, Opaque
from limpet.errors import AttributeNotKept


class NotKept:
    """Stands for an attribute that could not be kept. Using it in any way raises AttributeNotKept, but for ``repr``."""

    __slots__ = ("_name", "_of", "_type_name")

    def __init__(self, name: str, of: str, type_name: str) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_of", of)
        object.__setattr__(self, "_type_name", type_name)

    def __repr__(self) -> str:
        name, of, type_name = _parts_of(self)
        return f"<{name!r} of {of}, not recorded: a {type_name}>"

    def __eq__(self, other: object) -> bool:
        return type(other) is NotKept and _parts_of(self) == _parts_of(other)

    def __hash__(self) -> int:
        return hash((NotKept, *_parts_of(self)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # Asked for by copying and introspection, which use nothing of it.
        self._refuse()

    def __setattr__(self, name: str, value: object) -> None:
        self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        name, of, type_name = _parts_of(self)
        raise AttributeNotKept(name, of, f"it was a {type_name}, which cannot be stored")

    __bytes__ = __bool__ = __len__ = __iter__ = __int__ = __float__ = __index__ = __format__ = _refuse
    __getitem__ = __contains__ = __call__ = __add__ = __radd__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __copy__(self) -> NotKept:
        return self

    def __deepcopy__(self, memo: object) -> NotKept:
        return self

    def __reduce__(self) -> tuple[type[NotKept], tuple[str, str, str]]:
        return NotKept, _parts_of(self)


def _parts_of(stand_in: NotKept) -> tuple[str, str, str]:
    """The name of the attribute, the exception that it is of, and the type of what it held."""
    read = object.__getattribute__
    return read(stand_in, "_name"), read(stand_in, "_of"), read(stand_in, "_type_name")


NOT_KEPT: Final = Kind(30, lambda value, _lower: _parts_of(value)[2], Opaque)
"""The kind of these stand-ins: written as what stands for anything that cannot be stored."""


def with_stand_ins(attributes: dict[str, Any], of: str) -> dict[str, Any]:
    """The attributes of an exception, with a stand-in for everything in them that could not be kept."""
    return {name: stand_in(item, name, of) for name, item in attributes.items()}


def stand_in(item: Any, name: str, of: str) -> Any:
    """What an attribute holds, with a stand-in for each part of it that could not be kept."""
    cls = cast("type[object]", type(item))
    if cls is Opaque:
        return NotKept(name, of, item.type_name)
    if cls is list:
        return [stand_in(each, name, of) for each in item]
    if cls is tuple:
        return tuple(stand_in(each, name, of) for each in item)
    if cls is dict:
        return {key: stand_in(each, name, of) for key, each in item.items()}
    return item
