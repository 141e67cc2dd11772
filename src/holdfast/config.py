"""Where settings come from when none are given: the environment, then the defaults."""

from __future__ import annotations

import os

STORE_VARIABLE = "HOLDFAST_STORE"
DEFAULT_STORE = "sqlite:///.holdfast/runs.db"


def configured_store() -> str:
    """The URL of the store that is used where none is named."""
    return os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
