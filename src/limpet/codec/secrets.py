"""Secrets: what is marked so that it never reaches the disk, and what stands for it when a value is read again.

Marked are pydantic's ``SecretStr``, ``SecretBytes`` and ``Secret[…]``, and every parameter or field that is annotated
as ``Annotated[str, Secret]`` (see ``secret_annotations.py``).
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NoReturn, cast
from uuid import UUID

from limpet.codec.kinds import Kind
from limpet.errors import SecretNeeded

MARK: Final = b"limpet:secret"
"""Stands in the bytes of every value that has a secret in it, so that it is told without a walk through the value."""

MASK: Final = "**********"

_CONTAINERS: Final = (Mapping, list, tuple, set, frozenset, deque)
_ESCAPED: Final = re.compile(r"""['"\\\x00-\x1f\x7f-\U0010ffff]+""")
_LONG: Final = 8
"""Keys and pieces of so many characters may be secrets."""

_MOST_PARTS: Final = 10_000
"""So many parts of a secret are looked at: it may be an object from which the whole program can be reached."""


class Secret:
    """Marks a parameter or a field: ``api_key: Annotated[str, Secret]``. What it holds is never stored."""


class MissingSecret:
    """Stands for a secret in a value that was read back. Whoever uses it gets SecretNeeded, which says what to do."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __repr__(self) -> str:
        return f"<secret {secret_name(self)}, not stored>"

    def __eq__(self, other: object) -> bool:
        if type(other) is MissingSecret:
            return secret_name(self) == secret_name(other)
        if isinstance(other, (str, bytes, bytearray)):
            self._refuse()
        return NotImplemented

    def __hash__(self) -> int:
        return hash((MissingSecret, secret_name(self)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # Asked for by copying and introspection, which use nothing of the secret.
        self._refuse()

    def __setattr__(self, name: str, value: object) -> None:
        self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        raise SecretNeeded(secret_name(self))

    __str__ = __bytes__ = __bool__ = __len__ = __iter__ = __int__ = __float__ = __index__ = _refuse
    __format__ = __getitem__ = __contains__ = __call__ = _refuse
    __add__ = __radd__ = __mod__ = __rmod__ = __mul__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __copy__(self) -> MissingSecret:
        return self

    def __deepcopy__(self, memo: object) -> MissingSecret:
        return self

    def __reduce__(self) -> tuple[type[MissingSecret], tuple[str]]:
        return MissingSecret, (secret_name(self),)


def secret_name(missing: MissingSecret) -> str:
    """Which secret it stands for."""
    return cast(str, object.__getattribute__(missing, "_name"))


def _build(parts: Any) -> MissingSecret:
    name, _ = parts
    return MissingSecret(str(name))


MISSING: Final = Kind(38, lambda value, _lower: [secret_name(value), MARK], _build)
"""The kind of what stands for a secret."""

SECRET_VALUE: Final = Kind(38, lambda value, _lower: [f"of type {type(value).__name__}", MARK], _build)
"""The kind of pydantic's secret values: nothing of them is written."""


def kind_of_secret(cls: type) -> Kind | None:
    """The kind of a class whose instances are secrets; None for every other class."""
    return SECRET_VALUE if issubclass(cls, secret_classes()) else None


def secret_classes() -> tuple[type, ...]:
    pydantic = sys.modules.get("pydantic")
    return () if pydantic is None else (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)


def texts_of(secret: object) -> set[str]:
    """The texts in which a secret could show itself in a message."""
    found: set[str] = set()
    seen: dict[int, object] = {}
    to_look_at = [secret]
    while to_look_at and len(seen) < _MOST_PARTS:
        one: Any = to_look_at.pop()
        if isinstance(one, secret_classes()):
            to_look_at.append(one.get_secret_value())
        elif isinstance(one, (bytes, bytearray, memoryview)):
            found |= _texts_of_bytes(bytes(cast("bytes", one)))
        elif isinstance(one, str):
            found |= {str.__str__(one), str.__repr__(one)[1:-1], *_unescaped(one)}
        elif one is not None and not isinstance(one, (bool, type, MissingSecret)) and id(one) not in seen:
            seen[id(one)] = one
            to_look_at += _inside(one)
            # What an object says of itself is what its class makes of its parts.
            found |= set() if isinstance(one, _CONTAINERS) else {_said(one)}
    return found - {""}


def _texts_of_bytes(plain: bytes) -> set[str]:
    """``surrogateescape`` is how bytes that are no text are found among bytes again; see ``masked``."""
    forms = {plain.decode("utf-8", way) for way in ("backslashreplace", "surrogateescape")}
    return {repr(plain)[2:-1], *forms, *_unescaped(plain.decode("latin-1"))}


def _unescaped(text: str) -> list[str]:
    """The long pieces of a text that look the same however often it was escaped: in a repr of a repr, or as JSON."""
    pieces = _ESCAPED.split(text)
    return [piece for piece in pieces if len(piece) >= _LONG] if len(pieces) > 1 else []


def _inside(value: Any) -> list[object]:
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        # Short keys are names, and would be masked wherever they are met.
        return [*entries.values(), *(key for key in entries if isinstance(key, (str, bytes)) and len(key) >= _LONG)]
    if isinstance(value, _CONTAINERS):
        return list(cast("Iterable[object]", value))
    slots = (getattr(base, "__slots__", ()) for base in cast("type[Any]", type(value)).__mro__)
    names = [name for each in slots for name in ((each,) if isinstance(each, str) else each)]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in names)]


def _said(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return ""


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Text with a mask in place of every secret."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def masked(part: object, secrets: Collection[str]) -> object:
    """A part of a value as it may be written: text, bytes, numbers and the keys of dicts without any secret in them."""
    match part:
        case str() if type(part) is str:
            return scrubbed(part, secrets)
        case bytes() | bytearray() if type(part) in (bytes, bytearray):
            for secret in sorted(secrets, key=len, reverse=True):
                for way in ("surrogateescape", "surrogatepass"):
                    with suppress(UnicodeEncodeError):
                        part = part.replace(secret.encode("utf-8", way), MASK.encode())
            return part
        case dict() if type(cast(object, part)) is dict:
            return {masked(key, secrets): item for key, item in cast("dict[object, object]", part).items()}
        case int() | float() | complex() | Decimal() | Fraction() | UUID() if not isinstance(part, bool):
            return MASK if secrets and _said(part) in secrets else part
        case _:
            return part
