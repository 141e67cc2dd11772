"""A state's storage: named values that belong to it. Each change is a record of the journal."""

from __future__ import annotations

from typing import Any

from holdfast.codec import values
from holdfast.engine.live import LiveState
from holdfast.engine.opening import take_lease


class Storage:
    """Any storable value under a name. A value that is given out is a fresh copy."""

    def __init__(self, live: LiveState) -> None:
        self._live = live

    def set(self, key: str, value: object) -> None:
        """Set a value; it is durable when this returns. Raises ValueNotStorable."""
        self._write(key, values.encode(value, f"storage[{key!r}]"))

    def get(self, key: str, default: Any = None) -> Any:
        data = self._live.history.storage.get(key)
        return default if data is None else values.decode(data)

    def has(self, key: str) -> bool:
        return key in self._live.history.storage

    def delete(self, key: str) -> bool:
        """Delete a value; False if there is none."""
        if not self.has(key):
            return False
        self._write(key, None)
        return True

    def keys(self) -> list[str]:
        return list(self._live.history.storage)

    def _write(self, key: str, value: bytes | None) -> None:
        if self._live.lease is None and not self._live.reads_only:
            take_lease(self._live)
        self._live.write_storage(key, value)
