"""States and artifacts in the memory of the process."""

from holdfast.backends.memory.artifacts import MemoryArtifactBackend
from holdfast.backends.memory.states import MemoryStateBackend

__all__ = ["MemoryArtifactBackend", "MemoryStateBackend"]
