"""Keys for encryption: making them, and where they come from. What is done with them stands in ``codec/encryption.py``.

No text of a key may reach an error, a log or a ``repr``: errors say where a key was looked for and what is wrong there.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import shlex
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, cast

from limpet.codec.encryption import KEY_SIZE, Cipher, Key
from limpet.errors import InvalidKey

KEY_VARIABLE = "LIMPET_KEY"

Keys = str | bytes | Sequence[str | bytes | Key]
"""A key, or several: the first one writes, all of them read."""

_HEX = re.compile(r"[0-9A-Fa-f]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9_+/-]{43}=")
_LARGEST_FILE = 1 << 16


def new_key() -> str:
    """A new key: 32 random bytes as 44 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(secrets.token_bytes(KEY_SIZE)).decode()


def key_id(key: str | bytes) -> str:
    """What errors call a key; it tells nothing about it. Raises InvalidKey."""
    return _key("The argument", key).id.hex()


class Encryption(Cipher):
    """Encrypts the records and artifacts of a store.

    ``keys`` is a key of ``new_key`` (or the 32 bytes themselves), a list of keys, or a callable that gives either. Of
    several keys the first one writes and all of them read: to rotate, put a new key first and leave the old one behind
    it. A callable is called when a key is first needed, and again when something names a key that it did not give, so
    that a rotation reaches a running process; it may be called on any thread.

    What is not encrypted is refused with NotEncrypted, as anybody who can write the store could have put it there;
    ``accept_plain`` reads it all the same, for a store that was begun without encryption. Needs
    ``pip install 'limpet[encryption]'``. Raises InvalidKey.
    """

    def __init__(self, keys: Keys | Callable[[], Keys], *, accept_plain: bool = False) -> None:
        if callable(keys):
            source = keys
            super().__init__(lambda: _keys_in("The callable", source()), accept_plain=accept_plain)
        else:
            given = _keys_in("The argument", keys)
            super().__init__(lambda: given, accept_plain=accept_plain)

    @classmethod
    def from_environment(cls, variable: str = KEY_VARIABLE, *, accept_plain: bool = False) -> Self:
        """With the keys in an environment variable, separated by commas. Raises InvalidKey."""
        return cls(_keys_in_environment(variable), accept_plain=accept_plain)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, accept_plain: bool = False) -> Self:
        """With the keys in a file, one on each line; what follows a ``#`` is passed over. Raises InvalidKey.

        Nobody but its owner may have a right to the file. It is read now, and again when something names a key that was
        not in it.
        """
        file = Path(path).absolute()
        made = cls(lambda: _keys_in_file(file), accept_plain=accept_plain)
        # What is wrong with the file is said at once, rather than in the middle of a run.
        made.sealing_key()
        return made


def configured_encryption(variable: str = KEY_VARIABLE) -> Encryption | None:
    """With the keys in a variable of the environment; None where it is not set. Raises InvalidKey."""
    # Set and empty is no "not set": a secret that failed to arrive must not make a store in clear.
    return Encryption.from_environment(variable) if variable in os.environ else None


def _keys_in(where: str, given: object) -> tuple[Key, ...]:
    """The keys that were given, each once. What is given comes from people and their code, so it may be anything."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return _distinct(where, [_key(where, each) for each in cast("Sequence[object]", given)])
    return (_key(where, given),)


def _keys_in_environment(variable: str) -> tuple[Key, ...]:
    where = f"The environment variable {variable}"
    given = os.environ.get(variable)
    if given is None:
        raise InvalidKey(where, "it is not set")
    return _keys_in(where, [text for text in given.split(",") if text.strip()])


def _keys_in_file(path: Path) -> tuple[Key, ...]:
    where = f"The key file {path}"
    lines = enumerate(_read_privately(path, where).decode("utf-8-sig", "replace").splitlines(), start=1)
    texts = [(number, text) for number, line in lines if (text := line.partition("#")[0].strip())]
    return _distinct(where, [_key(f"Line {number} of the key file {path}", text) for number, text in texts])


def _read_privately(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidKey(where, f"it cannot be read ({error.strerror})") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidKey(
            where, f"others than its owner may use it; forbid that with `chmod 600 {shlex.quote(str(path))}`"
        )
    if len(content) > _LARGEST_FILE:
        raise InvalidKey(where, "it is too large to be a file of keys")
    return content


def _distinct(where: str, keys: list[Key]) -> tuple[Key, ...]:
    if not keys:
        raise InvalidKey(where, "no key is in it")
    by_id: dict[bytes, Key] = {}
    for key in keys:
        if not key.is_same(by_id.setdefault(key.id, key)):
            raise InvalidKey(where, f"two different keys have the id {key.id.hex()} by chance, so a new one is needed")
    return tuple(by_id.values())


def _key(where: str, given: object) -> Key:
    if isinstance(given, Key):
        return given
    if isinstance(given, bytes) and len(given) == KEY_SIZE:
        return Key(given)
    if not isinstance(given, str | bytes):
        raise InvalidKey(where, f"a key is text, and this is {type(given).__name__}")
    text = (given if isinstance(given, str) else given.decode("ascii", "replace")).strip()
    if _HEX.fullmatch(text):
        return Key(bytes.fromhex(text))
    if _BASE64.fullmatch(text):
        return Key(base64.b64decode(text.translate({ord("-"): "+", ord("_"): "/"})))
    wrong = "has a character that does not belong there" if len(text) in (44, 64) else f"has {len(text)} characters"
    raise InvalidKey(where, f"a key is 44 characters of base64 or 64 hexadecimal digits, and this {wrong}")
