"""Telling somebody how far a long piece of work has come."""

from __future__ import annotations

from collections.abc import Callable

Told = Callable[[int, int, str], object]
"""Told of progress: how many states are done, of how many, and which one was the last."""
