"""Short descriptions of recorded values whose library or content is not at hand: arrays, frames, artifacts, secrets.

They are made of the stored parts alone. Nothing is imported, loaded or built here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, cast

_SHOWN_OF_ID: Final = len("sha256:") + 12
_FLOATS: Final = {"f2": "e", "f4": "f", "f8": "d"}
_ORDERS: Final = {">": "big", "<": "little", "|": "little"}


class Instance:
    """An instance of a class that is not looked for: what it is called, and what it is made of.

    A plain class, since one with fields would be compared and shown by these.
    """

    def __init__(self, type_name: str, parts: Any, data: bytes = b"") -> None:
        self.type_name = type_name
        self.parts = parts
        """A dict of fields, a list of arguments, or what stands for a member of an enum."""
        self.data = data
        """What is stored, where the parts are only a summary of it: two arrays of one shape are not the same."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        return (self.type_name, self.parts, self.data) == (other.type_name, other.parts, other.data)

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # its parts may be a dict

    def __repr__(self) -> str:
        name = self.type_name.rpartition(":")[2]
        match self.parts:
            case dict():
                fields = cast("dict[str, object]", self.parts)
                return f"{name}({', '.join(f'{key}={value!r}' for key, value in fields.items())})"
            case list():
                return f"{name}({', '.join(map(repr, cast('list[object]', self.parts)))})"
            case _:
                return f"{name}.{self.parts}"


class Hidden:
    """A secret or a field that was left out, of which only the name is stored."""

    def __init__(self, name: str, what: str = "secret") -> None:
        self.name = name
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"<{self.what} {self.name}>"


def summary(tag: int, parts: Any) -> Any:
    """What is shown for a stored value of that tag. Raises LookupError, TypeError or ValueError where it has none."""
    return _SUMMARIES[tag](parts)


def _dtype(written: Any) -> str:
    if isinstance(written, str):
        return written
    word, first, *_ = written
    if word == "fields":
        return "{" + ", ".join(f"{name}: {_dtype(inner)}" for name, _, _, inner in first) + "}"
    return _dtype(first)


def _array(parts: Any) -> Instance:
    written, shape, _, _ = parts
    return Instance("numpy:ndarray", {"dtype": _dtype(written), "shape": tuple(shape)})


def _scalar(parts: Any) -> Instance:
    written, data = parts
    if written in ("text", "bytes"):
        return Instance("numpy:str_" if written == "text" else "numpy:bytes_", [data])
    dtype = _dtype(written)
    order, code, bits = _ORDERS.get(dtype[0], "little"), dtype[1:], len(data) * 8
    if code in _FLOATS:
        form = f"{'>' if order == 'big' else '<'}{_FLOATS[code]}"
        return Instance(f"numpy:float{bits}", [struct.unpack(form, data)[0]])
    if code[0] in "iu":
        is_signed = code[0] == "i"
        number = int.from_bytes(data, cast(Any, order), signed=is_signed)
        return Instance(f"numpy:{'' if is_signed else 'u'}int{bits}", [number])
    return Instance("numpy:bool", [data != b"\x00"]) if code == "b1" else Instance("numpy:generic", {"dtype": dtype})


def _pandas(parts: Any) -> Instance:
    match parts:
        case ["frame", height, columns, _, contents, *_]:
            shape = (height, len(contents))
            return Instance("pandas:DataFrame", {"shape": shape, "columns": columns})
        case ["series", length, content, _, name, *_]:
            return Instance("pandas:Series", {"name": name, "length": length, "dtype": _column(content)})
        case ["index", length, content, name, _]:
            labels = content[-1] if content[0] in ("objects", "strings") else _column(content)
            return Instance("pandas:Index", {"labels": labels, "length": length, "name": name})
        case ["range", start, stop, step, _]:
            return Instance("pandas:RangeIndex", [start, stop, step])
        case ["levels", length, _, _, names, _]:
            return Instance("pandas:MultiIndex", {"names": names, "length": length})
        case ["array", length, content]:
            return Instance("pandas:array", {"length": length, "dtype": _column(content)})
        case [str(word), *others]:
            return Instance(f"pandas:{_PANDAS_NAMES.get(word, word)}", others)
        case _:
            raise ValueError(parts)


_PANDAS_NAMES: Final = {
    "timestamp": "Timestamp",
    "timedelta": "Timedelta",
    "period": "Period",
    "interval": "Interval",
}


def _column(content: Any) -> str:
    """What a column of pandas holds, in a word."""
    word, *others = content
    if word in ("numpy", "masked") and isinstance(others[0], Instance):
        return str(others[0].parts["dtype"])
    return str(word)


def _polars(parts: Any) -> Instance:
    match parts:
        case ["frame", height, columns]:
            shape = (height, len(columns))
            return Instance("polars:DataFrame", {"shape": shape, "columns": [name for name, _, _ in columns]})
        case ["series", length, name, written, _]:
            dtype = written if isinstance(written, str) else written[0]
            return Instance("polars:Series", {"name": name, "length": length, "dtype": dtype})
        case _:
            raise ValueError(parts)


def _artifact(parts: Any) -> Instance:
    artifact_id, adapter, size, preview, _ = parts
    shown = {"id": str(artifact_id)[:_SHOWN_OF_ID], "adapter": adapter, "size": size, "preview": preview}
    return Instance("artifact", shown)


def _secret(parts: Any) -> Hidden:
    return Hidden(str(parts[0]))


def _left_out(parts: Any) -> Hidden:
    return Hidden(str(parts[1]), "not stored:")


_SUMMARIES: Final[dict[int, Callable[[Any], Any]]] = {
    32: _array,
    33: _scalar,
    34: _pandas,
    35: _polars,
    37: _artifact,
    38: _secret,
    39: _left_out,
}
