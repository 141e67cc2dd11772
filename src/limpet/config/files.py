"""The configuration file: finding it, reading it, and telling whether it is still the same.

It is ``limpet.toml``, or ``pyproject.toml`` where that has a table ``[tool.limpet]``: the nearest one from a folder
upwards. Both in the same folder are an error, as nobody could tell which one counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from limpet.config.lines import Place, line_numbers, line_of
from limpet.config.merging import Found, Source, in_tables
from limpet.config.project import is_shared
from limpet.config.versions import UnknownVersion, migrated
from limpet.errors import ConfigurationProblem
from limpet.stores import parse_store_url

OWN_FILE: Final = "limpet.toml"
PROJECT_FILE: Final = "pyproject.toml"
_TABLE: Final[Place] = ("tool", "limpet")
_OUR_HEADER: Final = re.compile(r"^[ \t]*\[[ \t]*tool[ \t]*\.[ \t]*[\"']?limpet\b", re.M)
_PLACE_OF_ERROR: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")

Identity = tuple[tuple[str, int, int, int], ...]
"""Of every file that may be the configuration: its path, when it was changed, its size, and its number on the disk."""


class Unreadable(Exception):
    """A file cannot be read; what is wrong is its only argument."""

    def __init__(self, problem: ConfigurationProblem) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True)
class ConfigurationFile:
    """A file that has been read."""

    path: Path
    shown: str
    """How people are told of it: by its name alone where it is in the working folder."""
    text: str
    data: dict[str, Any]
    """Our tables in it."""

    def where(self, place: Place) -> str:
        """``limpet.toml:12``."""
        inside = _TABLE if self.path.name == PROJECT_FILE else ()
        return f"{self.shown}:{line_of((*inside, *place), _lines(self.text))}"

    def found(self) -> Found:
        """What the file says, or what is wrong with its version."""
        try:
            content = migrated(self.data)
        except UnknownVersion as error:
            yield ConfigurationProblem(self.where(("version",)), "version", str(error))
            return
        yield from in_tables(content, Source.FILE, self.where)

    def anchored(self, url: str, folder: Path) -> str:
        """The URL of a store in this file, whose path is relative to the file, as it is from the working folder."""
        return url if self.path.parent == folder else anchored_url(url, self.path.parent)


def anchored_url(url: str, folder: Path) -> str:
    """The URL of a store with an absolute path: a relative one is meant from that folder."""
    parts = parse_store_url(url)
    if not parts.path or os.path.isabs(parts.path):
        return url
    whole = quote(str(folder / parts.path))
    _, mark, query = url.partition("?")
    return f"{parts.scheme}://{'/' if parts.scheme == 'sqlite' else ''}{whole}{mark}{query}"


def find_file(folder: Path) -> ConfigurationFile | None:
    """The nearest configuration from a folder upwards, but for folders that all users share. Raises Unreadable."""
    for place in (folder, *folder.parents):
        if is_shared(place):
            continue
        own, project = place / OWN_FILE, place / PROJECT_FILE
        in_project = _read(project, folder) if project.is_file() else None
        if not own.is_file():
            if in_project is not None:
                return in_project
            continue
        if in_project is not None:
            both = f"{_shown(own, folder)} and {_shown(project, folder)}"
            what = (
                "both have settings, so nobody can tell which count. "
                f"Leave [tool.limpet] out of {PROJECT_FILE}, or delete {OWN_FILE}."
            )
            raise Unreadable(ConfigurationProblem(both, "", what))
        return _read(own, folder)
    return None


def read_file(path: Path, folder: Path) -> ConfigurationFile:
    """A file that was named. Raises Unreadable."""
    found = _read(path, folder)
    return ConfigurationFile(path, _shown(path, folder), "", {}) if found is None else found


def identity(folder: Path, file: Path | None) -> Identity:
    """What tells whether any file that may be the configuration has changed, without reading it."""
    return tuple(_identities(folder, file))


def _identities(folder: Path, file: Path | None) -> Iterator[tuple[str, int, int, int]]:
    places = (folder, *folder.parents)
    candidates = [place / name for place in places for name in (OWN_FILE, PROJECT_FILE)] if file is None else [file]
    for path in candidates:
        try:
            found = os.stat(path)
        except OSError:
            continue
        yield str(path), found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path, folder: Path) -> ConfigurationFile | None:
    """The file, or None where it is a project's and has no table of ours."""
    is_project, shown = path.name == PROJECT_FILE, _shown(path, folder)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Unreadable(ConfigurationProblem(shown, "", f"the file cannot be read ({error.strerror}).")) from error
    except UnicodeDecodeError as error:
        raise Unreadable(ConfigurationProblem(shown, "", "the file is not TOML: it is not UTF-8.")) from error
    if is_project and "limpet" not in text:
        return None
    try:
        data = _parsed(text)
    except ValueError as error:
        if is_project and not _OUR_HEADER.search(text):
            return None
        raise Unreadable(_no_toml(shown, str(error))) from error
    if not is_project:
        return ConfigurationFile(path, shown, text, data)
    tool = data.get("tool")
    ours: object = cast("dict[str, Any]", tool).get("limpet") if isinstance(tool, dict) else None
    return ConfigurationFile(path, shown, text, cast("dict[str, Any]", ours)) if isinstance(ours, dict) else None


@lru_cache(maxsize=8)
def _parsed(text: str) -> dict[str, Any]:
    """What a text says, found once: every run may ask for it. Nobody changes what is given."""
    # Loaded here and not above: most programs have no such file.
    import tomllib

    return tomllib.loads(text)


@lru_cache(maxsize=8)
def _lines(text: str) -> dict[Place, int]:
    return line_numbers(text)


def _no_toml(shown: str, said: str) -> ConfigurationProblem:
    place = _PLACE_OF_ERROR.search(said)
    where = f"{shown}:{place[1]}:{place[2]}" if place else shown
    return ConfigurationProblem(where, "", f"the file is not TOML: {_PLACE_OF_ERROR.sub('', said)}.")


def _shown(path: Path, folder: Path) -> str:
    return path.name if path.parent == folder else str(path)
