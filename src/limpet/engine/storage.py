"""A state's storage: named values that belong to it. Each change is a record of the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from limpet.artifacts.adapters import adapter_named
from limpet.artifacts.stored_values import Encoded, Pending, has_secret
from limpet.codec.secret_search import secrets_in
from limpet.engine.drift import tell_kept
from limpet.engine.live import LiveState
from limpet.engine.opening import take_lease
from limpet.engine.scope import Scope, current_scope
from limpet.engine.stopping import Stopped
from limpet.engine.storage_view import is_free, position_to_read, scope_inside, view_of
from limpet.errors import UsageError
from limpet.journal.executions import Step
from limpet.model import StorageRecord


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
        data = self._find(key, is_artifact=False)
        return default if data is None else self._live.stored.decode(data)

    def has(self, key: str) -> bool:
        return self._find(key, is_artifact=False) is not None

    def delete(self, key: str) -> bool:
        """Delete a value; False if there is none."""
        return self.has(key) and self._delete(key, is_artifact=False)

    def keys(self) -> list[str]:
        return self._keys(is_artifact=False)

    def set_artifact(self, key: str, value: object, adapter: str | None = None) -> str:
        """Store a value as an artifact and give its id; it is durable when this returns.

        ``adapter`` names another form than that of its type, one of your own for instance. Raises ValueNotStorable.
        """
        stored, place = self._live.stored, f"storage[{key!r}]"
        if adapter is None:
            encoded = stored.encode_artifact(value, place)
        else:
            encoded = stored.encode(value, place, adapter_named(adapter))
        kept = self._set(key, value, encoded, is_artifact=True)
        return encoded[1][-1].artifact_id if kept is None else kept.artifacts[-1]

    def get_artifact(self, key: str, default: Any = None) -> Any:
        """The value of an artifact, read and verified. Raises ArtifactMissing, ArtifactCorrupted."""
        data = self._find(key, is_artifact=True)
        return default if data is None else self._live.stored.decode(data)

    def has_artifact(self, key: str) -> bool:
        return self._find(key, is_artifact=True) is not None

    def delete_artifact(self, key: str) -> bool:
        """Let go of an artifact; False if there is none. The collector deletes it when nothing names it any more."""
        return self.has_artifact(key) and self._delete(key, is_artifact=True)

    def artifact_keys(self) -> list[str]:
        return self._keys(is_artifact=True)

    def _find(self, key: str, *, is_artifact: bool) -> bytes | None:
        live, scope = self._live, scope_inside(self._live)
        position = position_to_read(scope, is_artifact, key) if scope is not None and key else None
        if scope is None or position is None:
            return (live.history.artifacts if is_artifact else live.history.storage).get(key)
        return view_of(scope).value_at(scope, is_artifact, key, position)

    def _keys(self, *, is_artifact: bool) -> list[str]:
        live, scope = self._live, scope_inside(self._live)
        position = None if scope is None else position_to_read(scope, is_artifact, "")
        if scope is None or position is None:
            return list(live.history.artifacts if is_artifact else live.history.storage)
        return view_of(scope).keys_at(scope, is_artifact, position)

    def _delete(self, key: str, *, is_artifact: bool) -> bool:
        self._write(key, None, (None, ()), is_artifact=is_artifact)
        return True

    def _set(self, key: str, value: object, encoded: Encoded, *, is_artifact: bool) -> StorageRecord | None:
        if has_secret(*encoded):
            self._live.secrets |= secrets_in(value)
        return self._write(key, value, encoded, is_artifact=is_artifact)

    def _write(
        self, key: str, value: object, encoded: Encoded | tuple[None, tuple[()]], *, is_artifact: bool
    ) -> StorageRecord | None:
        """Record a change, unless code that is replayed has made it before: then its record is given."""
        live = self._live
        data, pending = encoded
        _require_text(key)
        _require_wanted(live)
        scope = scope_inside(live)
        if scope is None:
            self._append(("", is_artifact, key, 0), None, data, pending)
            return None
        view = view_of(scope)
        step = view.next_step(scope, is_artifact, key, is_write=True)
        recorded = None if view.execution is None else view.execution.writes.get(step)
        if recorded is not None:
            scope.seen = max(scope.seen, recorded.seq)
            view.forget(step)
            if _is_kept(scope, recorded, data, value):
                return recorded
        is_replaying = view.is_replaying(scope)
        seq = self._append(step, scope, data, pending)
        if is_replaying:
            view.keep(step, data)
        else:
            scope.seen = max(scope.seen, seq)
        return None

    def _append(self, step: Step, scope: Scope | None, data: bytes | None, pending: Sequence[Pending]) -> int:
        live = self._live
        if live.lease is None and not live.reads_only:
            take_lease(live)
        ids: tuple[str, ...] = ()
        if pending and live.reads_only:
            live.stored.put(pending, None)  # Into memory, as nothing is recorded.
        elif pending:
            ids = live.put_artifacts_now(pending)
        return live.write_storage(step, scope, data, ids)


def _is_kept(scope: Scope, recorded: StorageRecord, data: bytes | None, value: object) -> bool:
    """Whether a recorded write stands for one that is made now; where the two differ, that is drift.

    What may differ without drift is written anew where it would have been the newest, and else seen here alone.
    """
    live, kept, key = scope.live, recorded.value, recorded.key
    if kept == data or (kept is not None and data is not None and live.stored.is_same(kept, data, value)):
        return True
    if not is_free(scope, recorded):
        if scope.event.call is not None:
            tell_kept(live, scope.event.call, f"storage[{key!r}] is set to another value now")
        return True
    if live.history.changes.newest_of(recorded.is_artifact, key) == recorded.seq:
        return False
    view_of(scope).keep((recorded.place, recorded.is_artifact, key, recorded.number), data)
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
