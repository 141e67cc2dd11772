"""The short text of any value: cut before it is long, never with a secret in it, whatever its own repr does.

Text is made piece by piece and no further than it is needed, so that a large value costs no more than a small one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import ModuleType
from typing import Any, Final, cast

from limpet.codec.comparison.parts import declared_parts, has_parts, is_enum, is_secret, marked_names, type_of
from limpet.codec.left_out import LeftOut
from limpet.codec.python_types.standard import STANDARD_KINDS
from limpet.codec.secret_search import secrets_in
from limpet.codec.secrets import MASK, MissingSecret, scrubbed
from limpet.codec.user_types.families import SCALARS

MOST_CHARACTERS: Final = 80
_MAX_DEPTH: Final = 12
_MORE: Final = "…"
_PLAIN: Final = frozenset({*STANDARD_KINDS, *SCALARS, ModuleType, type})
_LIBRARIES: Final = frozenset({"numpy", "pandas", "polars"})
_Chunks = Iterator[str]


def shown(value: object, most: int = MOST_CHARACTERS) -> str:
    """A short text of a value. Never raises, and never shows a secret."""
    text = ""
    try:
        for chunk in _chunks(value, 0):
            text += chunk
            if len(text) > most:
                break
    except Exception as error:
        text = f"<{type_name(type_of(value))}, whose text cannot be made ({type(error).__name__})>"
    return cut(text, most)


def shown_with_type(value: object) -> str:
    """As ``shown``, beginning with the type where the text alone would not tell ``1`` from ``True``."""
    name = type_name(type_of(value))
    text = shown(value)
    return text if value is None or text.startswith((name, "<")) else f"{name} {text}"


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """Text of one line and of no more than that length."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else repr(each)[1:-1] for each in " ".join(text.split())[: most + 1])
    return text if len(text) <= most else text[: most - 1] + _MORE


def type_name(cls: type) -> str:
    """The name of a type as people know it."""
    return cls.__qualname__.rpartition("<locals>.")[2]


def _chunks(value: object, depth: int) -> _Chunks:
    cls = type_of(value)
    if is_secret(value):
        yield repr(value) if cls is MissingSecret else f"{type_name(cls)}('{MASK}')"
    elif depth > _MAX_DEPTH:
        yield _MORE
    elif cls in _CONTAINERS:
        yield from _CONTAINERS[cls](value, depth)
    elif cls in (str, bytes, bytearray):
        # As much as may be shown; of a long one the rest would be made into text for nothing.
        yield repr(cast("Any", value)[: MOST_CHARACTERS + 1])
    elif cls is int:
        yield _integer(cast(int, value))
    else:
        yield from _instance(value, cls, depth)


def _instance(value: Any, cls: type, depth: int) -> _Chunks:
    if cls is LeftOut:
        yield "<not stored>"
    elif is_enum(cls):
        name = value._name_
        yield f"{type_name(cls)}.{name}" if name else f"{type_name(cls)}({value._value_!r})"
    elif isinstance(value, BaseException):
        args = declared_parts(value)["args"]
        yield from _enclosed(
            f"{type_name(cls)}(", cast("list[object]", args) if type(args) is list else [args], ")", depth
        )
    elif has_parts(cls):
        yield from _fields(value, cls, depth)
    elif marked_names(cls):
        yield f"<{type_name(cls)}, which has secrets>"
    else:
        yield _table(value, cls) or _own_text(value, cls)


def _own_text(value: object, cls: type) -> str:
    text = repr(value)
    # What a class of somebody else shows of its content may be a secret that is marked inside of it.
    is_plain = cls in _PLAIN or cls.__module__.partition(".")[0] in _LIBRARIES
    return text if is_plain else scrubbed(text, secrets_in(value))


def _integer(value: int) -> str:
    # Python refuses to write out what is much longer.
    return repr(value) if value.bit_length() < 4096 else f"<int of {value.bit_length()} bits>"


def _table(value: Any, cls: type) -> str | None:
    """What an array or a frame is; its own text would be a picture of many lines."""
    library = cls.__module__.partition(".")[0]
    if library == "numpy" and cls.__name__ == "ndarray":
        return f"array of {value.dtype}, shape {value.shape}"
    if library not in _LIBRARIES:
        return None
    if cls.__name__ == "DataFrame":
        return f"DataFrame of {value.shape[0]} rows and {value.shape[1]} columns"
    return f"Series of {value.dtype}, {len(value)} rows" if cls.__name__ == "Series" else None


def _fields(value: object, cls: type, depth: int) -> _Chunks:
    yield f"{type_name(cls)}("
    for number, (name, item) in enumerate(declared_parts(value).items()):
        yield f"{', ' if number else ''}{name}="
        yield from _chunks(item, depth + 1)
    yield ")"


def _enclosed(opening: str, items: Iterable[object], closing: str, depth: int) -> _Chunks:
    yield opening
    for number, item in enumerate(items):
        if number:
            yield ", "
        yield from _chunks(item, depth + 1)
    yield closing


def _between(opening: str, closing: str) -> Callable[[Any, int], _Chunks]:
    return lambda value, depth: _enclosed(opening, value, closing, depth)


def _tuple(value: tuple[object, ...], depth: int) -> _Chunks:
    return _enclosed("(", value, ",)" if len(value) == 1 else ")", depth)


def _set(value: frozenset[object], depth: int) -> _Chunks:
    name = type_name(type_of(value))
    opening, closing = (
        ("{", "}") if name == "set" and value else (f"{name}(" + "{" * bool(value), "}" * bool(value) + ")")
    )
    # Sets have no order. Sorted by their texts the few that can be shown are mostly the same ones each time.
    texts = sorted(shown(item) for item in islice(value, MOST_CHARACTERS))
    yield opening + ", ".join(texts) + (f", {_MORE}" if len(value) > len(texts) else "") + closing


def _dict(value: dict[object, object], depth: int) -> _Chunks:
    name = type_name(type_of(value))
    yield "{" if name == "dict" else name + "({"
    for number, (key, item) in enumerate(value.items()):
        if number:
            yield ", "
        yield from _chunks(key, depth + 1)
        yield ": "
        yield from _chunks(item, depth + 1)
    yield "}" if name == "dict" else "})"


_CONTAINERS: Final[dict[type, Callable[[Any, int], _Chunks]]] = {
    list: _between("[", "]"),
    deque: _between("deque([", "])"),
    tuple: _tuple,
    **dict.fromkeys((set, frozenset), _set),
    **dict.fromkeys((dict, OrderedDict, defaultdict, Counter), _dict),
}
