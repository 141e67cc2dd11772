"""What every sweep stands on."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def nothing_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are started by the hundred, and each would ask git about its folder."""
    monkeypatch.setenv("LIMPET_CAPTURE", "off")
