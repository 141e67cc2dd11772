"""What is seldom used is not loaded with the rest: importing Limpet is part of starting every program."""

from __future__ import annotations

import subprocess
import sys

SELDOM = (
    *("limpet.codec.differences", "limpet.codec.shapes", "limpet.codec.comparison", "limpet.cli", "click"),
    *("limpet.backends.files.states", "limpet.lines", "limpet.engine.portable", "limpet.engine.copying"),
    *("limpet.engine.verifying", "limpet.engine.recovering", "limpet.engine.migrating", "gzip"),
    *("importlib.metadata", "limpet.config", "tomllib"),
)


def test_what_is_seldom_used_is_not_loaded_with_the_rest() -> None:
    program = f"import sys, limpet; print([name for name in {SELDOM!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout
