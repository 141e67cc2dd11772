"""From a store's URL to its backend."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, unquote

from holdfast.backends.contract import StateBackend
from holdfast.backends.memory import MemoryStateBackend
from holdfast.backends.sqlite import SQLiteStateBackend
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
