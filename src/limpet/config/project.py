"""The project folder: where a program's own files lie, found from the working folder upwards; and names of its code."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MARKERS: Final = (".limpet", "limpet.toml", "pyproject.toml", ".git")
"""A folder that has any of these is a project's: the first as a folder, the last as a folder or a file."""


def project_folder(folder: Path | None = None) -> Path:
    """The nearest folder from ``folder``, else the working folder, upwards that has a marker; without one, that itself.

    What lies in a folder that all users share, as ``/tmp``, makes no project of it: anybody could have put it there.
    """
    here = working_folder() if folder is None else folder
    return next((place for place in (here, *here.parents) if _is_marked(place)), here)


def working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:
        # It was deleted under the process, which goes on without its files.
        return Path(os.sep)


def _is_marked(folder: Path) -> bool:
    has_marker = any(
        (folder / name).is_dir() if name == ".limpet" else os.path.exists(folder / name) for name in MARKERS
    )
    return has_marker and not is_shared(folder)


def is_shared(folder: Path) -> bool:
    """Whether all users of the machine may put files into a folder, as into ``/tmp``."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return True
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def is_path(entry: str) -> bool:
    """Whether what a person names as code is a file or a folder, and not a module."""
    return entry.endswith(".py") or os.sep in entry or entry in (".", "..")


def without_name(entry: str) -> str:
    """What stands before the name of an agent, where there is one: ``flows`` of ``flows:research``."""
    place, _, name = entry.rpartition(":")
    return place if place and name.isidentifier() else entry


def anchored_code(entry: str, folder: Path) -> str:
    """What a person names as code in a file of that folder: a path is relative to it, a module stays as it is."""
    place = without_name(entry)
    return str(folder / Path(place).expanduser()) if is_path(place) else place
