"""States in a folder of plain, readable files."""

from limpet.backends.files.states.backend import FileSystemStateBackend

__all__ = ["FileSystemStateBackend"]
