"""States and artifacts in the memory of the process."""

from limpet.backends.memory.artifacts import MemoryArtifactBackend
from limpet.backends.memory.states import MemoryStateBackend

__all__ = ["MemoryArtifactBackend", "MemoryStateBackend"]
