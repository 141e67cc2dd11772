"""What counts where nobody says anything else, of what code and configuration both need to know."""

from __future__ import annotations

from typing import Final

ARTIFACT_THRESHOLD: Final = 32 * 1024
"""A value, or a part with an adapter, of more bytes than this is stored as an artifact by itself."""

LEASE_TTL_S: Final = 30.0
"""How long a lease lasts unless it is renewed; it is renewed three times as often."""

THREADS: Final = 64
"""So many plain functions of a store run at once, at each level of nesting."""

IMPORT_MAX_BYTES: Final = 10**9
"""More bytes than this, unpacked, are not imported unless whoever imports allows them."""
