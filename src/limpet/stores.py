"""From a store's URL to its backend, and from a backend to where its artifacts go."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import parse_qsl, unquote
from weakref import WeakKeyDictionary

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import StateBackend
from limpet.backends.files import FileSystemArtifactBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.backends.tiered_artifacts import TieredArtifactBackend
from limpet.errors import InvalidStoreUrl, UnknownStore
from limpet.processes import new_lock

Synchronous = Literal["full", "normal"]
Compression = Literal["zstd", "gzip"] | None

_OF_SQLITE: Final = {"synchronous": ("full", "normal")}
_OF_FOLDERS: Final = {"synchronous": ("full", "normal"), "compression": ("zstd", "gzip", "none")}


class StoreUrl(NamedTuple):
    """A URL of a store in its parts, which are right as far as can be told without opening it."""

    scheme: str
    path: str
    """Of the file or the folder; empty for the memory of the process."""
    settings: dict[str, str]


def parse_store_url(url: str) -> StoreUrl:
    """The parts of a URL. Nothing is opened or looked for. Raises InvalidStoreUrl."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidStoreUrl(url, "it has no scheme such as sqlite://")
    path, _, query = rest.partition("?")
    match scheme:
        case "memory":
            if path.strip("/") or query:
                raise InvalidStoreUrl(url, "memory:// takes neither a path nor settings")
            return StoreUrl(scheme, "", {})
        case "sqlite":
            host, slash, file = path.partition("/")
            if host or not slash:
                raise InvalidStoreUrl(url, "after sqlite:// comes a third slash and then the path of the file")
            if not file.strip("/"):
                raise InvalidStoreUrl(url, "it names no file")
            return StoreUrl(scheme, unquote(file), _settings(url, query, _OF_SQLITE, "SQLite stores"))
        case "file":
            if not path.strip("/"):
                raise InvalidStoreUrl(url, "it names no folder")
            return StoreUrl(scheme, unquote(path), _settings(url, query, _OF_FOLDERS, "stores in a folder"))
        case _:
            raise InvalidStoreUrl(url, f"there is no backend for {scheme!r}")


def open_store(
    url: str, *, create: bool = True, synchronous: Synchronous = "full", compression: Compression = None
) -> StateBackend:
    """Open the backend that a URL names.

    ``sqlite:///runs.db`` and ``file://.state_store`` are relative to the working folder, ``sqlite:////var/runs.db`` and
    ``file:///var/states`` absolute; ``memory://`` is gone with the process. ``?synchronous=normal`` trades power-loss
    safety of the last moments for speed; a killed process loses nothing either way. ``?compression=zstd`` or ``gzip``
    compresses what a folder no longer writes to. ``synchronous`` and ``compression`` count where the URL does not say
    it. What does not exist is made, unless ``create`` is False.

    Raises InvalidStoreUrl, UnknownStore, or what the backend says of the file.
    """
    scheme, path, settings = parse_store_url(url)
    if scheme == "memory":
        return MemoryStateBackend()
    if not create and not os.path.exists(path):
        raise UnknownStore(url)
    synchronous = cast(Synchronous, settings.get("synchronous", synchronous))
    if scheme == "sqlite":
        return SQLiteStateBackend(path, synchronous=synchronous)
    # Loaded here and not above: it would slow every import down, and most programs use another store.
    from limpet.backends.files.states import FileSystemStateBackend

    said = settings.get("compression", compression)
    return FileSystemStateBackend(
        path, synchronous=synchronous, compression=None if said == "none" else cast(Compression, said)
    )


def _settings(url: str, query: str, allowed: Mapping[str, tuple[str, ...]], what: str) -> dict[str, str]:
    settings = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(settings.keys() - allowed.keys())
    if unknown:
        known = " and ".join(allowed)
        raise InvalidStoreUrl(
            url, f"{', '.join(unknown)} is no setting of {what} ({known} {'is' if len(allowed) == 1 else 'are'})"
        )
    for name, value in settings.items():
        if value not in allowed[name]:
            words = " or ".join(map(repr, allowed[name]))
            raise InvalidStoreUrl(url, f"{name} is {words}, not {value!r}")
    return settings


SMALL_ARTIFACT = 256 * 1024
"""Artifacts of up to so many bytes go into the store itself, where it has room for both kinds."""

_artifacts: WeakKeyDictionary[StateBackend, ArtifactBackend] = WeakKeyDictionary()
_artifacts_lock = new_lock()


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
