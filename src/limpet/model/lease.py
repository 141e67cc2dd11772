"""The timed, fenced right of one process to write a state."""

from __future__ import annotations

import msgspec


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lease: enough to find out, on the same machine, whether that process still lives."""

    host: str
    boot: str
    """Changes with every start of the machine; empty where it cannot be known."""
    process_space: str
    """Tells containers apart that share a host name; empty where it cannot be known."""
    pid: int
    started: str
    """When the process started, as the system counts it, so that a reused pid is seen; may be empty."""
    token: str
    """Tells apart the runs of one process."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lease(msgspec.Struct, frozen=True):
    """The right to append to one state. Only the lease with the newest fence of a state is good."""

    state_id: str
    key: int
    """The backend's own number for the state."""
    fence: int
