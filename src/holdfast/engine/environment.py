"""What is captured of the place where a state began, by itself and without secrets."""

from __future__ import annotations

import platform
import socket
from functools import lru_cache
from importlib import metadata as packages

import msgspec

from holdfast.model import StateMetadata


def with_environment(metadata: StateMetadata, before: StateMetadata | None = None) -> StateMetadata:
    """The metadata with the environment of this process, or the one that was captured before."""
    environment = before.environment if before is not None and before.environment else _environment()
    return msgspec.structs.replace(metadata, environment={**environment, **metadata.environment})


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    try:
        version = packages.version("holdfast")
    except packages.PackageNotFoundError:
        version = "unknown"
    return {"python": platform.python_version(), "host": socket.gethostname(), "holdfast": version}
