"""An open store, and what every verb needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from holdfast.artifacts.stored_values import ARTIFACT_THRESHOLD
from holdfast.backends.artifact_contract import ArtifactBackend
from holdfast.backends.contract import StateBackend
from holdfast.config import configured_store
from holdfast.engine.lease import LEASE_TTL_S
from holdfast.engine.reading import JournalReader
from holdfast.engine.retry_levels import RetryLevels
from holdfast.engine.values_of import values_of
from holdfast.engine.writer import writer_of
from holdfast.errors import StateCorrupted, UnknownState
from holdfast.journal.address import nearest
from holdfast.keys import Encryption
from holdfast.model import EventType, OnDrift, RetryConfig, StateHeader, checked_state_id
from holdfast.stores import open_store


class OpenedStore:
    """A store that is open. What can be done with it stands in the modules beside this one."""

    def __init__(
        self,
        store: str | StateBackend | None = None,
        *,
        artifact_backend: ArtifactBackend | None = None,
        artifact_threshold: int = ARTIFACT_THRESHOLD,
        encryption: Encryption | None = None,
        lease_ttl_s: float = LEASE_TTL_S,
        on_drift: OnDrift | str = OnDrift.WARN,
        default_retry_config: RetryConfig | None = None,
        retry_config_by_actor_type: Mapping[EventType, RetryConfig] | None = None,
        create: bool = True,
    ) -> None:
        self._retry = RetryLevels(default_retry_config, retry_config_by_actor_type)
        if isinstance(store, StateBackend):
            self.backend = store
            self._is_owner = False
        else:
            self.backend = open_store(configured_store() if store is None else store, create=create)
            self._is_owner = True
        self._stored = values_of(self.backend, artifact_backend, encryption, artifact_threshold)
        self._writer = writer_of(self.backend)
        self._writer.keeper.ttl_s = lease_ttl_s
        self._on_drift = OnDrift(on_drift)

    @property
    def artifacts(self) -> ArtifactBackend | None:
        """Where large values are stored; None where they stay in the journal."""
        return self._stored.artifacts

    def close(self) -> None:
        """Close the store, if it was opened from a URL. Closing twice is harmless."""
        if self._is_owner:
            self.backend.close()

    def _header(self, state_id: str) -> StateHeader:
        header = self._header_as_it_is(state_id)
        if header.damage is not None:
            raise StateCorrupted(state_id, 0, header.damage)
        return header

    def _header_as_it_is(self, state_id: str) -> StateHeader:
        """The header, also where it is damaged."""
        header = self.backend.find_state(checked_state_id(state_id))
        if header is None:
            known = (other.state_id for other in self.backend.list_states(limit=1000))
            raise UnknownState(state_id, nearest(state_id, known))
        return header

    def _reader(self, state_id: str) -> JournalReader:
        return JournalReader(self.backend, self._stored, self._header(state_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
