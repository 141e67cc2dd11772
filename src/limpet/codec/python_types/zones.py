"""Time zones in stored data, by name or by offset. Only what looks like a name of the zone database reaches it."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from limpet.codec.kinds import Lower, NotStorable
from limpet.errors import ValueNotReadable

# Names of the zone database are words between slashes. Nothing with a dot, a leading slash or a drive is a name of it.
_KEY: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,4}")
_MAX_LENGTH: Final = 100


def is_zone_key(text: object) -> bool:
    """Whether this can be the name of a zone in the zone database."""
    return type(text) is str and len(text) <= _MAX_LENGTH and _looks_like_key(text)


@lru_cache(maxsize=1024)
def _looks_like_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _is_in_database(key: str) -> bool:
    try:
        return is_zone_key(key) and bool(ZoneInfo(key).key)
    except (LookupError, OSError, ValueError):
        return False


def lower_zone(zone: tzinfo | None, lower: Lower) -> Any:
    """The parts of the zone of a datetime or a time. Raises NotStorable for one that could not be found again."""
    if zone is None:
        return None
    if zone is UTC:
        return 0
    if type(zone) is timezone:
        return [zone.utcoffset(None) // timedelta(microseconds=1), lower(zone.tzname(None))]
    if type(zone) is ZoneInfo and zone.key and _is_in_database(zone.key):
        return zone.key
    raise NotStorable(type(zone), "is a time zone that cannot be named")


def build_zone(written: Any) -> tzinfo | None:
    """The zone from its parts."""
    if written is None:
        return None
    if written == 0:
        return UTC
    if isinstance(written, str):
        if not is_zone_key(written):
            raise ValueNotReadable("zoneinfo:ZoneInfo", "its name is not one of the zone database")
        return ZoneInfo(written)
    offset, name = written
    shift = timedelta(microseconds=offset)
    unnamed = timezone(shift)
    return unnamed if unnamed.tzname(None) == name else timezone(shift, name)
