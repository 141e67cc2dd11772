"""States in a folder of plain, readable files."""

from holdfast.backends.files.states.backend import FileSystemStateBackend

__all__ = ["FileSystemStateBackend"]
