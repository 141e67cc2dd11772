"""Puts together what is captured of the environment where a state begins.

It stands in the header in clear text, also where records are encrypted. So it holds no variables of the environment and
no name of a user, and the command line goes through ``command_line.py``. Capturing neither fails a run nor slows it:
what cannot be found out, or not at once, is left out.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from copy import copy
from functools import lru_cache
from typing import Any

import msgspec

from limpet.engine.environment import command_line, packages, repository
from limpet.model import Capture, StateMetadata


def with_environment(
    metadata: StateMetadata,
    before: StateMetadata | None = None,
    *,
    agent: str | None = None,
    capture: Capture | None = None,
) -> StateMetadata:
    """The metadata with the environment of this process, or the one that was captured before, and with what is kept
    beside it: people say tags and descriptions anew, and not that.

    ``agent`` is where the agent of the run was declared, 'module:name' or 'file.py:name'. What its folder says of git
    counts, and only where that is in no repository, what the working folder says. ``capture`` is how much is captured;
    None: as it is configured.
    """
    is_known = before is not None and bool(before.environment)
    environment = before.environment if before is not None and is_known else _environment(agent, capture)
    captured = copy(metadata)
    # Not by `replace`, which would check every version of every package again for each run: what is captured is made of
    # text that JSON can hold, and what was given has been checked.
    msgspec.structs.force_setattr(captured, "environment", {**environment, **metadata.environment})
    if before is not None:
        for place in ("settings", "replayed", "waiting", "origin"):
            msgspec.structs.force_setattr(captured, place, {**getattr(before, place), **getattr(metadata, place)})
    return captured


def _configured() -> Capture:
    # Loaded here and not above: it would slow every import down.
    from limpet.config import load_config

    return load_config().values.capture


def _environment(agent: str | None, capture: Capture | None) -> dict[str, Any]:
    match _configured() if capture is None else capture:
        case Capture.OFF:
            return {}
        case Capture.MINIMAL:
            return dict(_of_the_installation())
        case Capture.FULL:
            found = {
                "packages": _attempted(packages.imported_packages),
                "git": _attempted(lambda: repository.first_repository(_places(agent))),
                "started_in": _attempted(lambda: command_line.without_credentials(command_line.readable(os.getcwd()))),
            }
            given = {name: fact for name, fact in found.items() if fact}
            return {**_of_the_installation(), **_of_the_process(), **given}


@lru_cache(maxsize=1)
def _of_the_installation() -> dict[str, Any]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "limpet": _attempted(lambda: packages.version_of("limpet")) or "unknown",
    }


@lru_cache(maxsize=1)
def _of_the_process() -> dict[str, Any]:
    found: dict[str, Any] = {
        "host": _attempted(lambda: command_line.readable(socket.gethostname())),
        "command": _attempted(command_line.masked_command),
    }
    return {name: fact for name, fact in found.items() if fact}


def _places(agent: str | None) -> Iterator[str | None]:
    yield _folder_of(agent)
    yield os.getcwd()


def _folder_of(agent: str | None) -> str | None:
    """The folder of the file in which an agent was declared, if there is one."""
    place = (agent or "").rpartition(":")[0]
    file = place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None)
    return os.path.dirname(os.path.abspath(file)) if isinstance(file, str) else None


def _attempted(find_out: Callable[[], Any]) -> Any:
    """What is found out, or None. A run is worth more than what is noted beside it, so every failure counts as that."""
    try:
        return find_out()
    except Exception:
        return None
