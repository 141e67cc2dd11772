"""Lines by hand: their sums, and frames and values from their readable form."""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from typing import Any, NamedTuple

import ormsgpack
from format_by_hand.frames import KINDS, make_frame, number
from format_by_hand.page import REQUIRED, tag_names

TAGS = {f"${name}": tag for tag, name in tag_names().items()}
BY_NAME = {kind.name: kind for kind in KINDS.values()}
USUAL_FIELDS = {1: 15, 2: 4, 3: 7, 4: 7, 5: 5, 6: 5, 7: 9}
_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Line(NamedTuple):
    sum: int
    after: int
    left: int
    content: dict[str, Any]


def read_line(raw: bytes, owner: str) -> Line:
    """What a line says. Fails where its sum does not fit."""
    assert raw.endswith(b"}\n")
    line = json.loads(raw)
    behind = raw.index(b",") + 1
    found = zlib.crc32(raw[behind:-1], zlib.crc32(owner.encode()))
    assert f'{{"sum":"{found:08x}",'.encode() == raw[:behind]
    content = {key: value for key, value in line.items() if key not in ("sum", "after", "left")}
    return Line(found, int(line["after"], 16), line.get("left", 0), content)


def write_line(content: dict[str, Any], owner: str, after: int = 0, left: int = 0) -> tuple[bytes, int]:
    """The line with this content, and its sum."""
    whole: dict[str, Any] = {"after": f"{after:08x}"} | ({"left": left} if left else {}) | content
    behind = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))[1:].encode()
    found = zlib.crc32(behind, zlib.crc32(owner.encode()))
    return b'{"sum":"%08x",%b\n' % (found, behind), found


def frame_of(content: dict[str, Any], owner: str) -> bytes:
    """The frame that the line of a record holds."""
    if "bytes" in content:
        return base64.b64decode(content["bytes"])
    body = base64.b64decode(content["sealed"]) if "sealed" in content else body_of(content["record"], content)
    version = content["version"]
    if version < 3:
        return bytes.fromhex(content["chain"]) + bytes([version]) + body
    frame, _ = make_frame(body, owner, 0, version)
    return bytes.fromhex(content["chain"]) + frame[4:]


def body_of(record: dict[str, Any], content: dict[str, Any] | None = None) -> bytes:
    """The msgpack of a record whose fields are given by their names."""
    [(name, shown)] = record.items()
    kind = BY_NAME[name]
    count = (content or {}).get("fields", USUAL_FIELDS[kind.tag])
    # Of the storage, a value that is not there says that its key was deleted.
    fields = [(field.name, None if field.name == "value" else field.default) for field in kind.fields[:count]]
    assert not [each for each, default in fields if default is REQUIRED and each not in shown]
    stored = [_stored(each, shown[each]) if each in shown else default for each, default in fields]
    return ormsgpack.packb([kind.tag, *stored])


def pack(value: Any) -> bytes:
    """The msgpack of a value in its readable form."""
    if isinstance(value, dict) and list(value) == ["$encoded"]:
        return base64.b64decode(value["$encoded"])
    return ormsgpack.packb(_plain(value))


def _stored(name: str, shown: Any) -> Any:
    match name:
        case "input" | "result" | "value":
            return pack(shown)
        case "fingerprint":
            return bytes.fromhex(shown)
        case "metadata" if isinstance(shown, dict):
            return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        case "error":
            value = pack(shown["value"]) if "value" in shown else None
            return [shown["type_name"], shown["message"], shown["traceback"], value]
        case "parts":
            return [[part["first"], part["last"], part["below"]] for part in shown]
        case _:
            return shown


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "")
    if not mark.startswith("$"):
        return {key: _plain(item) for key, item in value.items()}
    [content] = value.values()
    match mark:
        case "$bytes":
            return base64.b64decode(content)
        case "$float":
            return _FLOATS[content]
        case "$map":
            return {key: _plain(item) for key, item in content}
        case "$uuid" if isinstance(content, str):
            return ormsgpack.Ext(TAGS[mark], ormsgpack.packb(uuid.UUID(content).bytes))
        case "$int" if isinstance(content, str):
            size = int(content).bit_length() // 8 + 1
            return ormsgpack.Ext(TAGS[mark], ormsgpack.packb(int(content).to_bytes(size, "little", signed=True)))
        case _:
            tag = int(mark.removeprefix("$tag ")) if mark.startswith("$tag ") else TAGS[mark]
            return ormsgpack.Ext(tag, pack(content))


def chain_of(frame: bytes) -> int:
    return int.from_bytes(frame[:4], "big")


__all__ = ["Line", "body_of", "chain_of", "frame_of", "number", "pack", "read_line", "write_line"]
