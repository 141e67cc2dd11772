"""Versions of the configuration file, and the steps from an older one to the next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

VERSION: Final = 1
"""What is written into a file as ``version``; one that does not say it is of the first."""

Step = Callable[[dict[str, Any]], dict[str, Any]]
"""What makes a file of one version one of the next. It gives a new dict, and leaves the one it is given alone."""

STEPS: Final[Mapping[int, Step]] = {}
"""By the version that a step begins with."""


class UnknownVersion(ValueError):
    """A file is of a version that cannot be read; the text says why."""


def migrated(data: dict[str, Any], steps: Mapping[int, Step] = STEPS, newest: int = VERSION) -> dict[str, Any]:
    """The content of a file as the newest version has it, without its version. Raises UnknownVersion."""
    version = data.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UnknownVersion(f"version is a whole number from 1 to {newest}, not {version!r}.")
    if version > newest:
        raise UnknownVersion(
            f"the file is of version {version}, and this Limpet knows versions up to {newest}: it was written for a "
            "newer one. Nothing of it is used."
        )
    content = {key: value for key, value in data.items() if key != "version"}
    for each in range(version, newest):
        content = steps[each](content)
    return content
