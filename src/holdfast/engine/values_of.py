"""From a store and its settings to the way in which its values are stored."""

from __future__ import annotations

from holdfast.artifacts.stored_values import ARTIFACT_THRESHOLD, StoredValues
from holdfast.backends.artifact_contract import ArtifactBackend
from holdfast.backends.contract import StateBackend
from holdfast.keys import Encryption, configured_encryption
from holdfast.stores import artifacts_of


def values_of(
    backend: StateBackend,
    artifacts: ArtifactBackend | None = None,
    encryption: Encryption | None = None,
    threshold: int = ARTIFACT_THRESHOLD,
) -> StoredValues:
    """How values are stored in a store: what is given counts, then what the store brings along and the environment."""
    return StoredValues(
        artifacts or artifacts_of(backend),
        store_id=backend.store_id,
        store_name=backend.name,
        threshold=threshold,
        cipher=encryption or configured_encryption(),
    )
