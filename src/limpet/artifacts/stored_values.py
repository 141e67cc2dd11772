"""Values to what a journal holds of them, and back: small ones as bytes, large parts as references to artifacts.

Encoding decides and touches nothing; ``put`` then stores what is pending, before the record that names it is written.
What is encoded again, to be compared with a record, costs no write.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from limpet.artifacts.adapters import ArtifactAdapter, Source, adapter_of, adapter_recorded, register_adapter
from limpet.artifacts.arrow import ARROW
from limpet.artifacts.file import FILE, ArtifactFile
from limpet.artifacts.npy import NPY
from limpet.artifacts.text import BYTES, TEXT, VALUE
from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.memory import MemoryArtifactBackend
from limpet.backends.tiered_artifacts import TieredArtifactBackend
from limpet.codec import values
from limpet.codec.canonical import canonical
from limpet.codec.encryption import Cipher, RecordCipher
from limpet.codec.references import loading
from limpet.codec.sealed_chunks import open_chunks, seal_chunks
from limpet.codec.secrets import MARK as SECRET_MARK
from limpet.errors import ArtifactMissing, LimpetError, ValueNotReadable, ValueNotStorable
from limpet.model.artifacts import ArtifactReference, Content, Pin, content_of, id_of_chunks
from limpet.model.defaults import ARTIFACT_THRESHOLD

QUICK: Final = 256 * 1024
"""A part of at most so many bytes is hashed in a moment in which no event loop is missed."""

for _adapter in (TEXT, BYTES, VALUE, FILE, NPY, ARROW):
    register_adapter(_adapter)


class _TakesLong(Exception):
    """Something in a value is large, and should not be looked at on an event loop."""


class Pending(msgspec.Struct, frozen=True):
    """An artifact that a value names and that is yet to be stored."""

    reference: ArtifactReference
    content: Content
    """As it is to be stored: encrypted, where that is asked for."""
    file: ArtifactFile | None = None
    has_secret: bool = False
    """Whether a note stands in it for a secret."""

    @property
    def artifact_id(self) -> str:
        return self.reference.artifact_id


Encoded = tuple[bytes, Sequence[Pending]]
"""A value as a record holds it, and what has to be stored before that record."""


def has_secret(encoded: bytes, pending: Sequence[Pending]) -> bool:
    """Whether a note stands for a secret in a value that was encoded, or in an artifact that it names."""
    return SECRET_MARK in encoded or any(each.has_secret for each in pending)


class StoredValues:
    """How the values of one store become bytes. ``artifacts`` None: large values stay in the journal, too."""

    def __init__(
        self,
        artifacts: ArtifactBackend | None,
        *,
        store_id: str = "",
        store_name: str = "",
        threshold: int = ARTIFACT_THRESHOLD,
        cipher: Cipher | None = None,
    ) -> None:
        self.artifacts = artifacts
        self.threshold = sys.maxsize if artifacts is None else threshold
        """More bytes than this make an artifact. Whoever has encoded a value by the short way looks here."""
        self.cipher = cipher
        self.store_id = store_id
        self._store_name = store_name
        self._is_enlisted = False

    def kept_apart(self) -> StoredValues:
        """The same values, with all that is put from now on in the memory of the process."""
        if self.artifacts is None:
            return self
        apart = TieredArtifactBackend(MemoryArtifactBackend(), self.artifacts, sys.maxsize)
        return StoredValues(
            apart, store_id=self.store_id, store_name=self._store_name, threshold=self.threshold, cipher=self.cipher
        )

    def with_threshold(self, threshold: int) -> StoredValues:
        """The same values, of which others become artifacts from now on."""
        return StoredValues(
            self.artifacts,
            store_id=self.store_id,
            store_name=self._store_name,
            threshold=threshold,
            cipher=self.cipher,
        )

    def encode(self, value: object, place: str, adapter: ArtifactAdapter | None = None) -> Encoded:
        """A value that must come back equal. With an adapter, the whole of it is an artifact, whatever its size.

        Raises ValueNotStorable that names the place.
        """
        if adapter is not None:
            return self._as_one_artifact(value, place, adapter)
        data = self.encode_small(value)
        return self._in_parts(value, place, is_lenient=False) if data is None else (data, ())

    def encode_small(self, value: object) -> bytes | None:
        """The bytes of a value in which nothing is an artifact; None where something may be, or cannot be stored."""
        data = values.try_encode(value)
        return data if data is not None and len(data) <= self.threshold else None

    async def encode_result(self, value: object, is_artifact: bool) -> Encoded:
        """As ``encode`` or ``encode_artifact``, off the event loop where that takes long."""
        if is_artifact:
            return await asyncio.to_thread(self.encode_artifact, value, "result")
        return await self._in_parts_aside(value, "result", is_lenient=False)

    async def encode_input(self, value: object, *, is_lenient: bool) -> Encoded:
        """Arguments, in which (leniently) a part that cannot be stored is noted by its type; likewise."""
        return await self._in_parts_aside(value, "input", is_lenient=is_lenient)

    def encode_inline(self, value: object) -> bytes:
        """The bytes of a value without any artifact."""
        return values.encode_offering(value, "value", _reference_to_file, is_lenient=True)

    def canonical(self, value: object) -> bytes:
        """What tells a value from others, whatever the settings are, and wherever it was made. It cannot be decoded."""
        return canonical(value, _reference_to_file)

    def is_same(self, recorded: bytes, now: bytes, value: object) -> bool:
        """Whether a recorded value is this one, although other settings or an older version made other bytes of it,
        its dicts were filled in another order, or an exception in it was raised elsewhere."""
        if recorded == now:
            return True
        try:
            return self.canonical(self.decode(recorded)) == self.canonical(value)
        except (ValueNotReadable, RecursionError):
            return False

    def encode_artifact(self, value: object, place: str) -> Encoded:
        """A value that is an artifact as a whole, with the adapter of its type."""
        return self._as_one_artifact(value, place, adapter_of(value) or VALUE)

    def decode(self, data: bytes) -> Any:
        """A fresh value, with what it names loaded. Raises ValueNotReadable, ArtifactMissing, ArtifactCorrupted."""
        if self.artifacts is None:
            return values.decode(data)
        with loading(self._load):
            return values.decode(data)

    async def decode_record(self, data: bytes, artifacts: Collection[str]) -> Any:
        """As ``decode``, off the event loop where what a record names has to be waited for."""
        if artifacts and self.artifacts is not None and self.artifacts.waits:
            return await asyncio.to_thread(self.decode, data)
        return self.decode(data) if artifacts else values.decode(data)

    def record_cipher(self, state_id: str) -> RecordCipher | None:
        """What encrypts the records of a state; None where they are in clear."""
        return None if self.cipher is None else RecordCipher(self.cipher, state_id)

    def put(self, pending: Sequence[Pending], pin: Pin | None, known: Collection[str] = ()) -> None:
        """Store what is pending; it is durable when this returns. ``known``: ids that this pin holds already."""
        assert self.artifacts is not None, "without a place for artifacts nothing is pending"
        if not self._is_enlisted:
            self.artifacts.enlist(self.store_id, self._store_name)
            self._is_enlisted = True
        for each in pending:
            if each.artifact_id not in known:
                self.artifacts.put(each.artifact_id, each.content, pin)
            if each.file is not None:
                each.file.read_from(self._source(each.reference))

    def put_contents(self, contents: Mapping[str, bytes], pin: Pin | None) -> None:
        """Store artifacts of which the contents are given, as they are stored."""
        if self.artifacts is None:
            raise ArtifactMissing(self._store_name, next(iter(contents)))
        self.artifacts.enlist(self.store_id, self._store_name)
        for artifact_id, content in contents.items():
            self.artifacts.put(artifact_id, content_of(content), pin)

    def stored_content(self, artifact_id: str) -> Iterator[bytes]:
        """An artifact as it is stored, so encrypted where the store is. Raises ArtifactMissing, ArtifactCorrupted."""
        if self.artifacts is None:
            raise ArtifactMissing(self._store_name, artifact_id)
        return self.artifacts.read(artifact_id)

    async def _in_parts_aside(self, value: object, place: str, *, is_lenient: bool) -> Encoded:
        """As ``_in_parts``. Finding the hash of a file or a large part takes long, and is left to a thread."""
        try:
            return self._in_parts(value, place, is_lenient=is_lenient, is_quick=True)
        except _TakesLong:
            return await asyncio.to_thread(self._in_parts, value, place, is_lenient=is_lenient)

    def _in_parts(self, value: object, place: str, *, is_lenient: bool, is_quick: bool = False) -> Encoded:
        """Each part that is large by itself becomes an artifact; and if it is still large, so does the rest.

        Raises ValueNotStorable or, where it has to be quick, _TakesLong.
        """
        pending: list[Pending] = []

        def offer(part: object) -> ArtifactReference | None:
            adapter = adapter_of(part)
            if adapter is None or self.artifacts is None:
                return None
            if adapter is not FILE and (adapter.size(part) <= self.threshold or not adapter.accepts(part)):
                return None
            if is_quick and adapter.size(part) > QUICK:
                raise _TakesLong
            pending.append(self._pending(adapter, part))
            return pending[-1].reference

        data = values.encode_offering(value, place, offer, is_lenient=is_lenient)
        if len(data) > self.threshold:
            pending.append(self._pending(VALUE, data, preview=VALUE.preview(value)))
            data = values.encode(pending[-1].reference)
        return data, pending

    def _as_one_artifact(self, value: object, place: str, adapter: ArtifactAdapter) -> Encoded:
        if self.artifacts is None:
            raise ValueNotStorable(
                place, type(value).__name__, "is to be an artifact, and no artifact backend is given"
            )
        if adapter is not VALUE and adapter.accepts(value):
            pending = [self._pending(adapter, value)]
        else:
            files: list[Pending] = []
            data = values.try_encode(value) or self._with_files_aside(value, place, files)
            pending = [*files, self._pending(VALUE, data, preview=VALUE.preview(value))]
        return values.encode(pending[-1].reference), pending

    def _with_files_aside(self, value: object, place: str, files: list[Pending]) -> bytes:
        def offer(part: object) -> ArtifactReference | None:
            if not isinstance(part, ArtifactFile):
                return None
            files.append(self._pending(FILE, part))
            return files[-1].reference

        return values.encode_offering(value, place, offer, is_lenient=False)

    def _pending(self, adapter: ArtifactAdapter, value: Any, preview: str | None = None) -> Pending:
        plain = adapter.content(value)
        content, artifact_id = self._sealed(plain)
        reference = ArtifactReference(
            artifact_id,
            adapter.name,
            plain.size,
            adapter.preview(value) if preview is None else preview,
            adapter.details(value),
        )
        is_file = isinstance(value, ArtifactFile)
        return Pending(reference, content, value if is_file else None, adapter is VALUE and SECRET_MARK in value)

    def _sealed(self, plain: Content) -> tuple[Content, str]:
        if self.cipher is None:
            return plain, id_of_chunks(plain.chunks())
        # One key for both readings: another one would make other content.
        key = self.cipher.sealing_key()
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for chunk in seal_chunks(key, plain.chunks()):
                size += len(chunk)
                yield chunk

        artifact_id = id_of_chunks(counted())
        return Content(size, lambda: seal_chunks(key, plain.chunks()), plain.what), artifact_id

    def open_artifact(self, artifact_id: str) -> Iterator[bytes]:
        """The content of an artifact in pieces, verified and decrypted. Raises ArtifactMissing, ArtifactCorrupted."""
        stored = self.stored_content(artifact_id)
        return stored if self.cipher is None else open_chunks(self.cipher, stored, f"The artifact {artifact_id}")

    def _source(self, reference: ArtifactReference) -> Source:
        return Source(reference, lambda: self.open_artifact(reference.artifact_id))

    def _load(self, reference: ArtifactReference) -> Any:
        adapter = adapter_recorded(reference.adapter)
        try:
            return adapter.read(self._source(reference))
        except LimpetError:
            raise
        except Exception as error:
            why = f"the content of {reference.artifact_id} is none of the adapter {reference.adapter!r} ({error})"
            raise ValueNotReadable("artifact", why) from error


def _reference_to_file(part: object) -> ArtifactReference | None:
    if not isinstance(part, ArtifactFile):
        return None
    return ArtifactReference(part.content_id, FILE.name, part.size, "", FILE.details(part))


def compute_artifact_id(value: object) -> str:
    """The id under which a value is stored where it is an artifact as a whole: the same in every process and run.

    It is the SHA-256 of the content that the adapter of its type gives, or of the codec's own form. Raises
    ValueNotStorable. Where artifacts are encrypted, their ids are those of the encrypted content instead.
    """
    adapter = adapter_of(value)
    if adapter is not None and adapter.accepts(value):
        return id_of_chunks(adapter.content(value).chunks())
    return id_of_chunks(content_of(values.encode(value)).chunks())
