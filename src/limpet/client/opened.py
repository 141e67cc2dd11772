"""An open store, and what every verb needs of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import StateBackend
from limpet.engine.actors import Actor
from limpet.engine.declared import find_actor
from limpet.engine.named_agent import NamedAgent, named_agent
from limpet.engine.reading import JournalReader
from limpet.engine.retry_levels import RetryLevels
from limpet.engine.values_of import values_of
from limpet.engine.writer import writer_of
from limpet.errors import StateCorrupted, UnknownState
from limpet.journal.address import nearest
from limpet.keys import Encryption
from limpet.model import (
    CheckpointPolicy,
    EventType,
    OnDrift,
    OnSaveError,
    Record,
    RetryConfig,
    StateHeader,
    checked_state_id,
)
from limpet.model.checkpoints import on_save_error_of, policy_of
from limpet.stores import open_store, parse_store_url

if TYPE_CHECKING:
    from limpet.config import Configuration, Settings
    from limpet.engine.allowed_code import AllowedCode


class OpenedStore:
    """A store that is open. What can be done with it stands in the modules beside this one."""

    def __init__(
        self,
        store: str | StateBackend | None = None,
        *,
        artifact_backend: ArtifactBackend | None = None,
        artifact_threshold: int | None = None,
        encryption: Encryption | None = None,
        lease_ttl_s: float | None = None,
        on_drift: OnDrift | str | None = None,
        checkpoint_policy: CheckpointPolicy | str | None = None,
        on_save_error: OnSaveError | str | None = None,
        default_retry_config: RetryConfig | None = None,
        retry_config_by_actor_type: Mapping[EventType, RetryConfig] | None = None,
        create: bool = True,
        modules: str | Iterable[str] = (),
        config: Configuration | None = None,
    ) -> None:
        self._given: dict[str, Any] = {
            "artifact_threshold": artifact_threshold,
            "lease_ttl_s": lease_ttl_s,
            "on_drift": None if on_drift is None else OnDrift(on_drift),
        }
        """What was said here; what is None follows the configuration."""
        self._given_policy = None if checkpoint_policy is None else policy_of(checkpoint_policy)
        self._given_on_save_error = None if on_save_error is None else on_save_error_of(on_save_error)
        is_retry_given = default_retry_config is not None or bool(retry_config_by_actor_type)
        self._given_retry = RetryLevels(default_retry_config, retry_config_by_actor_type) if is_retry_given else None
        self.config = _loaded(store, self._given) if config is None else config
        self.modules = (modules,) if isinstance(modules, str) else tuple(modules)
        values = self.config.values
        if isinstance(store, StateBackend):
            self.backend = store
            self._is_owner = False
        else:
            self.backend = open_store(
                self.config.store if store is None else store,
                create=create,
                synchronous=values.durability,
                compression=None if values.compression == "none" else values.compression,
            )
            self._is_owner = True
        threshold: int = self._said("artifact_threshold", values)
        self._stored = values_of(self.backend, artifact_backend, encryption, threshold, self.config)
        self._threshold: int = threshold
        self._writer = writer_of(self.backend)
        self._writer.keeper.ttl_s = self._said("lease_ttl_s", values)
        self._writer.places.size = values.run.threads

    def _said(self, key: str, values: Settings) -> Any:
        """What was said of a setting here, else what is configured."""
        given = self._given[key]
        return getattr(values, key) if given is None else given

    def _followed(self) -> Settings:
        """The settings for a run that begins now, which the store follows from here on as far as it can."""
        values = self.config.current()
        threshold: int = self._said("artifact_threshold", values)
        if threshold != self._threshold:
            # Runs that are under way keep the values that they were begun with.
            self._stored, self._threshold = self._stored.with_threshold(threshold), threshold
        self._writer.keeper.ttl_s = self._said("lease_ttl_s", values)
        self._writer.places.size = values.run.threads
        return values

    def _saving(self) -> tuple[CheckpointPolicy, OnSaveError]:
        """When records are saved, and what is done where that fails, for runs of which nothing is said."""
        configured = self.config.current().checkpoint.on_save_error
        return (self._given_policy or self.config.checkpoint_policy, self._given_on_save_error or configured)

    def _retry_levels(self) -> RetryLevels:
        """How calls are retried that say nothing of it. Raises ConfigurationError."""
        if self._given_retry is not None:
            return self._given_retry
        return RetryLevels(*self.config.retry_configs())

    def allowed_code(self) -> AllowedCode:
        """Which code may be imported because a state names it: of the project, or given or configured as modules."""
        # Loaded here and not above: programs that declare their agents never ask.
        from limpet.engine.allowed_code import allowed_code

        return allowed_code((*self.modules, *self.config.current().run.modules))

    def named_agent(self, header: StateHeader) -> NamedAgent | None:
        """The agent that a stored run names in its journal; None for a state of the explicit form.

        Raises StateCorrupted where the header names another agent than the journal.
        """
        return named_agent(header, self._first_record(header))

    def agent_of(self, header: StateHeader) -> Actor[..., Any] | None:
        """The agent of a stored run, as ``resume`` finds it. Raises AgentNotFound, AgentNotAllowed, StateCorrupted."""
        named = self.named_agent(header)
        return None if named is None else find_actor(named.reference, named.name, self.allowed_code)

    def _first_record(self, header: StateHeader) -> Record | None:
        (first,) = JournalReader(self.backend, self._stored, header).window(0, 1) or (None,)
        return first

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


def _loaded(store: str | StateBackend | None, given: Mapping[str, Any]) -> Configuration:
    if isinstance(store, str):
        # A store that is named is refused as such, whatever else is configured.
        parse_store_url(store)
    # Loaded here and not above: reading files and tables of settings is no part of importing Limpet.
    from limpet.config import load_config

    return load_config(store=store if isinstance(store, str) else None, **given)
