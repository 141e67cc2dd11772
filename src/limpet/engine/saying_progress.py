"""``progress``: a program says how far it is."""

from __future__ import annotations

import math
from typing import cast

from limpet.engine.scope import current_scope
from limpet.errors import UsageError


def progress(done: float, total: float) -> None:
    """Say how far the run is: so much of so much is done, in whatever unit.

    It is kept with the next checkpoint; where every step is saved, in one of its own, at most one a second. Whoever
    looks at the state sees it: ``Limpet.progress``, ``limpet show``. Outside a run nothing happens.

    Raises UsageError for what is no progress.
    """
    if not _is_amount(done) or not _is_amount(total) or not total or done > total:
        raise UsageError(f"{done!r} of {total!r} is no progress.", "Give two numbers, the first from 0 to the second.")
    scope = current_scope.get()
    # A handler that was given up, although it goes on, writes nothing any more.
    if scope is not None and not (scope.live.has_cut_off and scope.is_given_up):
        scope.live.say_progress(float(done), float(total))


def _is_amount(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= cast(float, value) < math.inf
