"""From a store's URL to its backend, and from a backend to where its artifacts go."""

from __future__ import annotations

import os
import threading
from urllib.parse import parse_qsl, unquote
from weakref import WeakKeyDictionary

from holdfast.backends.artifact_contract import ArtifactBackend
from holdfast.backends.contract import StateBackend
from holdfast.backends.files.artifacts import FileSystemArtifactBackend
from holdfast.backends.memory import MemoryStateBackend
from holdfast.backends.sqlite import SQLiteStateBackend
from holdfast.backends.tiered_artifacts import TieredArtifactBackend
from holdfast.errors import InvalidStoreUrl, UnknownStore


def open_store(url: str, *, create: bool = True) -> StateBackend:
    """Open the backend that a URL names: ``sqlite:///runs.db``, ``sqlite:////var/runs.db`` or ``memory://``.

    ``?synchronous=normal`` on SQLite trades power-loss safety of the last moments for speed; a killed process loses
    nothing either way. A file that does not exist is made, unless ``create`` is False.

    Raises InvalidStoreUrl, UnknownStore, or what the backend says of the file.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidStoreUrl(url, "it has no scheme such as sqlite://")
    path, _, query = rest.partition("?")
    match scheme:
        case "memory":
            if path.strip("/") or query:
                raise InvalidStoreUrl(url, "memory:// takes neither a path nor settings")
            return MemoryStateBackend()
        case "sqlite":
            return _open_sqlite(url, path, query, create)
        case _:
            raise InvalidStoreUrl(url, f"there is no backend for {scheme!r}")


def _open_sqlite(url: str, path: str, query: str, create: bool) -> StateBackend:
    host, slash, file = path.partition("/")
    if host or not slash:
        raise InvalidStoreUrl(url, "after sqlite:// comes a third slash and then the path of the file")
    if not file.strip("/"):
        raise InvalidStoreUrl(url, "it names no file")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = settings.pop("synchronous", "full")
    if settings:
        raise InvalidStoreUrl(url, f"{', '.join(sorted(settings))} is no setting of SQLite stores (synchronous is)")
    if synchronous not in ("full", "normal"):
        raise InvalidStoreUrl(url, f"synchronous is 'full' or 'normal', not {synchronous!r}")
    if not create and not os.path.exists(unquote(file)):
        raise UnknownStore(url)
    return SQLiteStateBackend(unquote(file), synchronous="normal" if synchronous == "normal" else "full")


SMALL_ARTIFACT = 256 * 1024
"""Artifacts of up to so many bytes go into the store itself, where it has room for both kinds."""

_artifacts: WeakKeyDictionary[StateBackend, ArtifactBackend] = WeakKeyDictionary()
_artifacts_lock = threading.Lock()


def artifacts_of(backend: StateBackend) -> ArtifactBackend | None:
    """Where the artifacts of a store go by themselves: the same place each time it is asked for. None: nowhere."""
    own, folder = backend.own_artifacts, backend.artifacts_folder
    if folder is None:
        return own
    with _artifacts_lock:
        artifacts = _artifacts.get(backend)
        if artifacts is None:
            files = FileSystemArtifactBackend(folder, "full" if backend.commit_waits else "normal")
            artifacts = files if own is None else TieredArtifactBackend(own, files, SMALL_ARTIFACT)
            _artifacts[backend] = artifacts
        return artifacts
