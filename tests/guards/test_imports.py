"""What is seldom used is not loaded with the rest: importing Holdfast is part of starting every program."""

from __future__ import annotations

import subprocess
import sys

SELDOM = (
    *("holdfast.codec.differences", "holdfast.codec.shapes", "holdfast.codec.comparison", "holdfast.cli", "click"),
    *("holdfast.backends.files.states", "holdfast.lines", "holdfast.engine.portable", "holdfast.engine.copying"),
    *("holdfast.engine.verifying", "holdfast.engine.recovering", "holdfast.engine.migrating", "gzip"),
    *("importlib.metadata", "holdfast.config", "tomllib"),
)


def test_what_is_seldom_used_is_not_loaded_with_the_rest() -> None:
    program = f"import sys, holdfast; print([name for name in {SELDOM!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout
