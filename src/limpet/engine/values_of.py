"""From a store and its settings to the way in which its values are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import StateBackend
from limpet.keys import Encryption, configured_encryption
from limpet.model.defaults import ARTIFACT_THRESHOLD
from limpet.stores import artifacts_of

if TYPE_CHECKING:
    from limpet.config import Configuration


def values_of(
    backend: StateBackend,
    artifacts: ArtifactBackend | None = None,
    encryption: Encryption | None = None,
    threshold: int = ARTIFACT_THRESHOLD,
    config: Configuration | None = None,
) -> StoredValues:
    """How values are stored in a store: what is given counts, then what the store brings along and what is configured.

    Raises InvalidKey, or ConfigurationError where no configuration is given and the one that is found is not right.
    """
    return StoredValues(
        artifacts or artifacts_of(backend),
        store_id=backend.store_id,
        store_name=backend.name,
        threshold=threshold,
        cipher=encryption or _encryption(config),
    )


def _encryption(config: Configuration | None) -> Encryption | None:
    # Loaded here and not above: it would slow every import down.
    from limpet.config import load_config

    config = config or load_config()
    variable = config.values.secrets.key_variable
    if config.is_given("secrets.key_variable"):
        # Whoever says where the keys are wants encryption: without them nothing is written in clear.
        return Encryption.from_environment(variable)
    return configured_encryption(variable)
