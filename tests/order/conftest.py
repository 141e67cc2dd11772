"""What every sweep stands on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def little_to_collect() -> Iterator[None]:
    """Sweeps collect garbage after every stop; what was there before is left out of that."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are started by the hundred, and each would ask git about its folder."""
    monkeypatch.setenv("LIMPET_CAPTURE", "off")
