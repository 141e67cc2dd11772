"""Secrets: what is marked so that it never reaches the disk, and what stands for it when a value is read again.

Marked are pydantic's ``SecretStr``, ``SecretBytes`` and ``Secret[…]``, and every parameter or field that is annotated
as ``Annotated[str, Secret]``. A mark anywhere inside an annotation hides the whole of what it annotates.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NoReturn, cast

from limpet.codec.kinds import Kind
from limpet.codec.marks import hints_of, hints_of_class, is_marked
from limpet.errors import SecretNeeded

MARK: Final = b"limpet:secret"
"""Stands in the bytes of every value that has a secret in it, so that it is told without a walk through the value."""

MASK: Final = "**********"


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
    return SECRET_VALUE if issubclass(cls, _secret_classes()) else None


def _secret_classes() -> tuple[type, ...]:
    pydantic = sys.modules.get("pydantic")
    return () if pydantic is None else (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)


def secret_fields(cls: type) -> frozenset[str]:
    """The names of the fields of a class that are marked as secret."""
    hints = hints_of_class(cls)
    return frozenset(name for name, hint in hints.items() if is_marked(hint, Secret) or _is_secret_type(hint))


def secret_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of the parameters of a function that are marked as secret."""
    hints = hints_of(function)
    return frozenset(name for name, hint in hints.items() if name != "return" and is_marked(hint, Secret))


def _is_secret_type(hint: object) -> bool:
    """Whether an annotation is one of pydantic's secret types, or that or None."""
    parts = [part for part in typing.get_args(hint) if part is not type(None)] or [hint]
    return all(isinstance(part, type) and issubclass(part, _secret_classes()) for part in parts)


def texts_of(secret: object) -> set[str]:
    """The texts in which a secret could show itself in a message."""
    reveal = getattr(secret, "get_secret_value", None) if isinstance(secret, _secret_classes()) else None
    plain = reveal() if callable(reveal) else secret
    if isinstance(plain, (bytes, bytearray)):
        return {repr(bytes(plain))[2:-1], plain.decode("utf-8", "backslashreplace")} - {""}
    if isinstance(plain, str):
        return {plain, repr(plain)[1:-1]} - {""}
    if isinstance(plain, Mapping):
        return set[str]().union(*map(texts_of, cast("Mapping[object, object]", plain).values()))
    if isinstance(plain, (list, tuple, set, frozenset)):
        return set[str]().union(*map(texts_of, cast("Iterable[object]", plain)))
    return set() if plain is None or isinstance(plain, (bool, MissingSecret)) else {str(plain)}


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Text with a mask in place of every secret."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def masked(part: object, secrets: Collection[str]) -> object:
    """A part of a value as it may be written: text, bytes and the keys of dicts without any secret in them."""
    match part:
        case str() if type(part) is str:
            return scrubbed(part, secrets)
        case bytes() if type(part) is bytes:
            for secret in secrets:
                part = part.replace(secret.encode("utf-8", "surrogatepass"), MASK.encode())
            return part
        case dict() if type(cast(object, part)) is dict:
            return {masked(key, secrets): item for key, item in cast("dict[object, object]", part).items()}
        case _:
            return part
