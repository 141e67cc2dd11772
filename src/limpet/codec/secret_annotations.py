"""What annotations say is secret: which parameters and fields, and which keys of a dict.

A mark anywhere in an annotation hides the whole of what it annotates. The dicts of a TypedDict are known by nothing but
the annotation, so their marked keys are hidden wherever such a dict may be in an annotated value.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from limpet.codec.annotations import Hint, NotUnderstood, Space, hints_of, hints_of_class, is_typed_dict
from limpet.codec.kinds import NotStorable
from limpet.codec.marks import is_mark, parts_of
from limpet.codec.secrets import MissingSecret, Secret, secret_classes, texts_of
from limpet.codec.user_types.families import family_of

_SEQUENCES: Final = (list, tuple, set, frozenset, deque)
_DICTS: Final = (dict, OrderedDict, defaultdict)


class Hiding(msgspec.Struct, frozen=True):
    """What is hidden of a value."""

    is_whole: bool = False
    keys: frozenset[str] = frozenset()
    """The keys under which the dicts in it have secrets."""
    hides_text: bool = False
    """Whether text and bytes in it stand where a secret type of pydantic belongs."""

    def __or__(self, other: Hiding) -> Hiding:
        return Hiding(self.is_whole or other.is_whole, self.keys | other.keys, self.hides_text or other.hides_text)

    def __bool__(self) -> bool:
        return self.is_whole or bool(self.keys) or self.hides_text

    def hide(self, value: Any, name: str) -> Any:
        """The value as it is written: with notes in place of its secrets. ``name`` says what it is the value of."""
        if not self:
            return value
        try:
            return self._hide(value, name)
        except RecursionError:
            return MissingSecret(name)  # It contains itself, so no way through it ends.

    def _hide(self, value: Any, name: str) -> Any:
        cls = cast("type[Any]", type(value))
        if self.is_whole or (self.hides_text and cls in (str, bytes, bytearray)):
            return MissingSecret(name)
        if cls in _DICTS:
            copied = value.copy()
            for key, item in value.items():
                at = f"{name}[{key!r}]" if type(key) is str else name
                copied[key] = MissingSecret(at) if key in self.keys else self._hide(item, name)
            return copied
        if cls in _SEQUENCES:
            return cast("Any", cls)(self._hide(item, name) for item in value)
        # A mapping of another class could be made again of nothing that is known here.
        return MissingSecret(name) if isinstance(value, Mapping) else value

    def texts(self, value: Any) -> set[str]:
        """The texts of what is hidden of a value."""
        if not self:
            return set()
        found: set[str] = set()
        seen: set[int] = set()
        to_look_at = [value]
        while to_look_at:
            one: Any = to_look_at.pop()
            cls = cast("type[Any]", type(one))
            if self.is_whole or (self.hides_text and cls in (str, bytes, bytearray)):
                found |= texts_of(one)
            elif id(one) not in seen:
                seen.add(id(one))
                if isinstance(one, Mapping):
                    entries = cast("Mapping[object, object]", one).items()
                    found |= set[str]().union(*(texts_of(item) for key, item in entries if key in self.keys))
                    to_look_at += [item for key, item in entries if key not in self.keys]
                elif cls in _SEQUENCES:
                    to_look_at += one
        return found


NOTHING: Final = Hiding()
WHOLE: Final = Hiding(is_whole=True)
_TEXT: Final = Hiding(hides_text=True)


class Hidings(msgspec.Struct, frozen=True):
    """What is hidden of the arguments of a function, by parameter, and of its result."""

    parameters: dict[str, Hiding]
    result: Hiding | None
    is_final: bool
    """False where an annotation names what could not be found, and may be there later."""


def hidings_of(function: Callable[..., Any], local: Mapping[str, object] | None = None) -> Hidings:
    """What the annotations of a function hide. Raises NotUnderstood, which names the parameter."""
    found: dict[str, Hiding] = {}
    is_final = True
    for name, hints in hints_of(function, local).items():
        try:
            found[name] = hiding_of(hints, into_classes=True)
        except NotUnderstood as error:
            raise NotUnderstood(error.text, error.name, error.place or name) from None
        is_final &= not any(hint.space.misses for hint in hints)
    found = {name: hiding for name, hiding in found.items() if hiding}
    return Hidings(found, found.pop("return", None), is_final)


def hiding_of_type(wanted: object, space: Space | None = None) -> Hiding:
    """What is hidden of a value of a type. Raises NotUnderstood."""
    return hiding_of([Hint(wanted, space or Space(()))], into_classes=True)


def hiding_of(hints: Iterable[Hint], *, into_classes: bool = False, seen: frozenset[type] = frozenset()) -> Hiding:
    """What annotations hide. ``into_classes``: also of a dict that is given for an instance of a class."""
    hiding = NOTHING
    for hint in hints:
        for part in parts_of(hint):
            if is_mark(part.what, Secret):
                return WHOLE
            if not isinstance(part.what, type):
                continue
            cls = cast("type[Any]", part.what)
            found = _of_class(cls, into_classes, seen)
            if found.keys and part.is_inside and is_typed_dict(cls):
                return WHOLE  # Inside an object of which nothing is known.
            hiding |= found
    return hiding


def _of_class(cls: type, into_classes: bool, seen: frozenset[type]) -> Hiding:
    if cls in seen:
        return NOTHING
    if issubclass(cls, secret_classes()):
        return _TEXT
    if not is_typed_dict(cls) and (not into_classes or family_of(cls) in (None, "an enum")):
        return NOTHING
    found = NOTHING
    for name, hints in hints_of_class(cls).items():
        try:
            hiding = hiding_of(hints, into_classes=into_classes, seen=seen | {cls})
        except NotUnderstood as error:
            raise NotUnderstood(error.text, error.name, error.place or f"{cls.__qualname__}.{name}") from None
        is_hidden = hiding.is_whole or hiding.hides_text
        found |= Hiding(keys=hiding.keys | (_names_in_dicts(cls, name) if is_hidden else frozenset[str]()))
    return found


def _names_in_dicts(cls: Any, name: str) -> frozenset[str]:
    """The keys under which a dict may have a field of a class."""
    field: Any = getattr(cls, "__pydantic_fields__", {}).get(name)
    given: list[Any] = [getattr(field, each, None) for each in ("alias", "validation_alias", "serialization_alias")]
    given += [choice for each in given for choice in getattr(each, "choices", ())]
    given += [encoded for own, encoded in _encoded_names(cls) if own == name]
    return frozenset([name, *(each for each in given if isinstance(each, str))])


def _encoded_names(cls: Any) -> Iterable[tuple[str, str]]:
    own, encoded = (getattr(cls, each, ()) for each in ("__struct_fields__", "__struct_encode_fields__"))
    return zip(own, encoded, strict=True)


_hidden: Final[dict[type, dict[str, Hiding]]] = {}


def hidden_fields(cls: type) -> dict[str, Hiding]:
    """What is hidden of the fields of a class, by their names. Raises NotStorable where that cannot be told."""
    known = _hidden.get(cls)
    if known is not None:
        return known
    found: dict[str, Hiding] = {}
    is_final = True
    for name, hints in hints_of_class(cls).items():
        try:
            hiding = hiding_of(hints)
        except NotUnderstood as error:
            why = f"has the field {name!r}, which is annotated as {error.text!r}, and {error.name!r} cannot be found"
            raise NotStorable(cls, f"{why}; import it where the program runs, not for type checkers only") from error
        if hiding:
            found[name] = WHOLE if _is_secret_type(hints) else hiding
        is_final &= not any(hint.space.misses for hint in hints)
    if is_final:
        _hidden[cls] = found
    return found


def secret_fields(cls: type) -> frozenset[str]:
    """The names of the fields of a class that are secret as a whole."""
    return frozenset(name for name, hiding in hidden_fields(cls).items() if hiding.is_whole)


def secret_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of the parameters of a function that have secrets."""
    return frozenset(hidings_of(function).parameters)


def _is_secret_type(hints: Iterable[Hint]) -> bool:
    """Whether an annotation is nothing but secret types of pydantic, or None."""
    parts = [part.what for hint in hints for part in parts_of(hint) if not part.is_inside]
    types = [each for each in parts if isinstance(each, type) and each.__module__ not in ("types", "typing")]
    classes = [each for each in types if each is not type(None)]
    return bool(classes) and all(issubclass(each, secret_classes()) for each in classes)
