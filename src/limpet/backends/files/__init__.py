"""Artifacts in a folder. States in a folder are a package beside them, which is loaded where it is used."""

from limpet.backends.files.artifacts import FileSystemArtifactBackend

__all__ = ["FileSystemArtifactBackend"]
