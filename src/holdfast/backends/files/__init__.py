"""Artifacts in a folder."""

from holdfast.backends.files.artifacts import FileSystemArtifactBackend

__all__ = ["FileSystemArtifactBackend"]
