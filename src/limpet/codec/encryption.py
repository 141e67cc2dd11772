"""Bytes to sealed bytes and back, with an authenticated cipher. Where keys come from is not known here.

    sealed     = key id, nonce, ciphertext
    key id     = 4 bytes: HMAC-SHA256(master key, "limpet key id")
    nonce      = 12 bytes: HMAC-SHA256(nonce key, length of the place as 8 bytes big-endian, place, plain bytes)
    ciphertext = AES-256-GCM of the plain bytes, with the place as associated data, and its tag of 16 bytes

The encryption key and the nonce key are HMAC-SHA256 of the master key over "limpet encryption key" and "limpet
nonce key". The place says where the bytes belong, and is not stored: sealed bytes that are moved elsewhere do not open.
The same bytes at the same place are sealed to the same bytes, so content is stored once; whoever reads the store sees
that they are equal, and how long they are. A nonce comes again only with its message. As it has 96 bits, one key is
good for 2^32 messages; no count is kept.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from limpet.errors import MissingDependency, WrongKey
from limpet.processes import new_lock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_SIZE = 32
"""How many bytes a master key has."""

OVERHEAD = 32
"""By how many bytes sealed bytes are longer than plain ones: key id, nonce and tag."""

CHANGED = "it was changed since it was written, or belongs elsewhere"

_ID_SIZE = 4
_NONCE_END = 16
_pack_length = struct.Struct(">Q").pack
_pack_seq = struct.Struct(">q").pack


class Key:
    """A key that is ready for use. Shows nothing of itself but its id."""

    def __init__(self, master: bytes) -> None:
        assert len(master) == KEY_SIZE
        self.id = _derived(master, b"limpet key id")[:_ID_SIZE]
        self._encryption_key = _derived(master, b"limpet encryption key")
        # Copying a begun HMAC is twice as quick as beginning one, and records are short.
        self._nonces = hmac.new(_derived(master, b"limpet nonce key"), digestmod="sha256")
        self._aes: AESGCM | None = None

    def seal(self, plain: bytes, place: bytes) -> bytes:
        """The plain bytes, sealed for a place."""
        digest = self._nonces.copy()
        digest.update(_pack_length(len(place)) + place)
        digest.update(plain)
        nonce = digest.digest()[: _NONCE_END - _ID_SIZE]
        return b"".join((self.id, nonce, (self._aes or self._begun()).encrypt(nonce, plain, place)))

    def open(self, sealed: bytes, place: bytes, what: str) -> bytes:
        """The plain bytes of what this key sealed for that place. Raises WrongKey."""
        aes = self._aes or self._begun()
        try:
            return aes.decrypt(sealed[_ID_SIZE:_NONCE_END], sealed[_NONCE_END:], place)
        except _invalid_tag() as error:
            raise WrongKey(what, CHANGED) from error

    def is_same(self, other: Key) -> bool:
        """Whether both are one key; two keys may have one id by chance."""
        return hmac.compare_digest(self._encryption_key, other._encryption_key)

    def _begun(self) -> AESGCM:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingDependency("Encryption", "cryptography", "encryption") from error
        self._aes = AESGCM(self._encryption_key)
        return self._aes

    def __repr__(self) -> str:
        return f"<Key {self.id.hex()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A key is not pickled or copied.")


def _invalid_tag() -> type[Exception]:
    # Asked for only when something was raised, and then the package is there.
    from cryptography.exceptions import InvalidTag

    return InvalidTag


def _derived(master: bytes, label: bytes) -> bytes:
    return hmac.digest(master, label, "sha256")


class Cipher:
    """Seals with the first of its keys, and opens with the one that the sealed bytes name. Any thread may use it.

    ``source`` gives the keys, at least one, when one is first needed, and again when sealed bytes name a key that is
    not among them.
    """

    def __init__(self, source: Callable[[], Sequence[Key]], *, accept_plain: bool = False) -> None:
        self.accept_plain = accept_plain
        """Whether what is not sealed is read as well."""
        self._source = source
        self._keys: Sequence[Key] = ()
        self._lock = new_lock()

    def sealing_key(self) -> Key:
        """The key that seals."""
        return (self._keys or self._asked_again(self._keys))[0]

    def seal(self, plain: bytes, place: bytes) -> bytes:
        """The plain bytes, sealed for a place."""
        return self.sealing_key().seal(plain, place)

    def open(self, sealed: bytes, place: bytes, what: str) -> bytes:
        """The plain bytes of what was sealed for that place; ``what`` names it in an error. Raises WrongKey."""
        if len(sealed) < OVERHEAD:
            raise WrongKey(what, CHANGED)
        wanted, keys = sealed[:_ID_SIZE], self._keys
        key = _with_id(wanted, keys)
        if key is None:
            keys = self._asked_again(keys)
            key = _with_id(wanted, keys)
        if key is None:
            given = ", ".join(each.id.hex() for each in keys)
            raise WrongKey(what, f"it needs the key with the id {wanted.hex()}, and those given have the ids {given}")
        return key.open(sealed, place, what)

    def _asked_again(self, seen: Sequence[Key]) -> Sequence[Key]:
        with self._lock:
            # Another thread may have asked in the meantime.
            if self._keys is seen:
                self._keys = self._source()
            return self._keys

    def __repr__(self) -> str:
        ids = ", ".join(key.id.hex() for key in self._keys)
        return f"<{type(self).__name__} with the keys {ids}>" if ids else f"<{type(self).__name__}, not used yet>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds keys and is not pickled or copied. Make one in each process.")


def _with_id(wanted: bytes, keys: Sequence[Key]) -> Key | None:
    for key in keys:
        if key.id == wanted:
            return key
    return None


class RecordCipher:
    """Seals the records of one state, each for its position: a record that is moved does not open."""

    def __init__(self, cipher: Cipher, state_id: str) -> None:
        self.accept_plain = cipher.accept_plain
        self._cipher = cipher
        self._state_id = state_id
        self._place = b"record" + state_id.encode()

    def seal(self, record: bytes, seq: int) -> bytes:
        """An encoded record, sealed for its position."""
        return self._cipher.seal(record, self._place + _pack_seq(seq))

    def open(self, sealed: bytes, seq: int) -> bytes:
        """The encoded record that was sealed for that position. Raises WrongKey."""
        return self._cipher.open(sealed, self._place + _pack_seq(seq), f"Record {seq} of state {self._state_id!r}")
