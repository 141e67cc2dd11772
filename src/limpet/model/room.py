"""How much room states take in a store, and what of it goes with which of them."""

from __future__ import annotations

import msgspec


class SharedRoom(msgspec.Struct, frozen=True):
    """What has to stay of another state for as long as a fork shares its first records."""

    key: str
    """The key of the state that wrote them, whether it still exists or not."""
    last: int
    """Up to which number they are shared."""
    bytes: int
    """The room that they take."""


class Room(msgspec.Struct, frozen=True):
    """The room that one state takes."""

    key: str
    """What the store knows the state by: another state of the same id has another one."""
    bytes: int
    """What goes with the state where nobody shares its records: these and its header, not those that it shares."""
    shared: tuple[SharedRoom, ...] = ()
    """What it keeps of others."""


class DiskUse(msgspec.Struct, frozen=True):
    """The room that a store takes on the disk as a whole."""

    bytes: int
    free: int
    """How many of them are free inside: they are used again, and are given back to the disk by ``compact``."""
