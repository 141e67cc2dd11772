"""Code that stands in the cells of a notebook. It is in no file that could be named, or imported."""

from __future__ import annotations

import re
from typing import Final

NOTEBOOK: Final = "<notebook>"
"""Stands in the reference of an agent in place of its module or file: ``<notebook>:research``."""

_CELL: Final = re.compile(r"<(?:ipython-input|command)-|.*[/\\](?:ipykernel|marimo)_\d+[/\\]|.*\.ipynb\b")


def is_cell(file: str) -> bool:
    """Whether code whose file is called so was compiled from a cell: the file is not there, or is another's soon."""
    return _CELL.match(file) is not None


def is_of_notebook(reference: str | None) -> bool:
    """Whether an agent was declared in a notebook."""
    return reference is not None and reference.startswith(f"{NOTEBOOK}:")
