"""The root of every error, apart so that each branch of the tree can hang on it."""

from __future__ import annotations


class LimpetError(Exception):
    """The root of every error that Limpet raises."""
