"""A state's storage: named values that belong to it. Each change is a record of the journal."""

from __future__ import annotations

from typing import Any

from limpet.artifacts.adapters import adapter_named
from limpet.artifacts.stored_values import Encoded
from limpet.codec.secret_search import secrets_in
from limpet.codec.secrets import MARK as SECRET_MARK
from limpet.engine.live import LiveState
from limpet.engine.opening import take_lease
from limpet.engine.scope import current_scope
from limpet.engine.stopping import Stopped
from limpet.errors import UsageError


class Storage:
    """Any storable value under a name; a large one is an artifact by itself. What is given out is a fresh copy.

    ``set_artifact`` stores a value as an artifact whatever its size. Its keys are a space of their own.
    """

    def __init__(self, live: LiveState) -> None:
        self._live = live

    def set(self, key: str, value: object) -> None:
        """Set a value; it is durable when this returns. Raises ValueNotStorable."""
        self._set(key, value, self._live.stored.encode(value, f"storage[{key!r}]"), is_artifact=False)

    def get(self, key: str, default: Any = None) -> Any:
        data = self._live.history.storage.get(key)
        return default if data is None else self._live.stored.decode(data)

    def has(self, key: str) -> bool:
        return key in self._live.history.storage

    def delete(self, key: str) -> bool:
        """Delete a value; False if there is none."""
        return self.has(key) and self._write(key, (None, ()), is_artifact=False)

    def keys(self) -> list[str]:
        return list(self._live.history.storage)

    def set_artifact(self, key: str, value: object, adapter: str | None = None) -> str:
        """Store a value as an artifact and give its id; it is durable when this returns.

        ``adapter`` names another form than that of its type, one of your own for instance. Raises ValueNotStorable.
        """
        stored, place = self._live.stored, f"storage[{key!r}]"
        if adapter is None:
            encoded = stored.encode_artifact(value, place)
        else:
            encoded = stored.encode(value, place, adapter_named(adapter))
        self._set(key, value, encoded, is_artifact=True)
        return encoded[1][-1].artifact_id

    def get_artifact(self, key: str, default: Any = None) -> Any:
        """The value of an artifact, read and verified. Raises ArtifactMissing, ArtifactCorrupted."""
        data = self._live.history.artifacts.get(key)
        return default if data is None else self._live.stored.decode(data)

    def has_artifact(self, key: str) -> bool:
        return key in self._live.history.artifacts

    def delete_artifact(self, key: str) -> bool:
        """Let go of an artifact; False if there is none. The collector deletes it when nothing names it any more."""
        return self.has_artifact(key) and self._write(key, (None, ()), is_artifact=True)

    def artifact_keys(self) -> list[str]:
        return list(self._live.history.artifacts)

    def _set(self, key: str, value: object, encoded: Encoded, *, is_artifact: bool) -> None:
        if SECRET_MARK in encoded[0]:
            self._live.secrets |= secrets_in(value)
        self._write(key, encoded, is_artifact=is_artifact)

    def _write(self, key: str, encoded: Encoded | tuple[None, tuple[()]], *, is_artifact: bool) -> bool:
        live = self._live
        data, pending = encoded
        _require_text(key)
        _require_wanted(live)
        if live.lease is None and not live.reads_only:
            take_lease(live)
        ids: tuple[str, ...] = ()
        if pending and live.reads_only:
            live.stored.put(pending, None)  # Into memory, as nothing is recorded.
        elif pending:
            ids = live.put_artifacts_now(pending)
        live.write_storage(key, data, ids, is_artifact)
        return True


def _require_wanted(live: LiveState) -> None:
    """Raise where nothing is to be written any more: by a handler that was given up, or in a run that was stopped."""
    scope = current_scope.get()
    if live.has_cut_off and scope is not None and scope.live is live and scope.is_given_up:
        raise Stopped
    if live.stopper.is_over:
        assert live.stopper.error is not None
        raise live.stopper.error


def _require_text(key: object) -> None:
    try:
        is_text = isinstance(key, str) and bool(key.encode())
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise UsageError(
            f"{key!r} cannot be a key of the storage.", "Use text that is not empty and has no surrogates."
        )
