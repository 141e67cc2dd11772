"""Taking in states that come as files: what ``export`` wrote, or a store in the layout of the seeds."""

from __future__ import annotations

from pathlib import Path

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateBackend
from limpet.engine.arriving import Arrivals
from limpet.engine.portable.form import MANIFEST
from limpet.engine.portable.limits import Limits, limits_of
from limpet.engine.portable.reading import opened_export
from limpet.engine.progress import Told
from limpet.engine.seed_layout import SeedReading, is_seed_store
from limpet.model.origin import Arrival


def import_states(
    source: Path, backend: StateBackend, stored: StoredValues, max_bytes: int | None, on_progress: Told | None
) -> list[str]:
    """Take in all states that are in a file or folder, and give their ids, the oldest first."""
    limits = limits_of(max_bytes)
    # What is in an exported folder may be named as well as the folder.
    source = source.parent if source.name == MANIFEST else source
    arrivals = Arrivals(backend, stored.artifacts, Arrival.IMPORT, source.name or source.resolve().name)
    if source.suffix == ".json" or is_seed_store(source):
        return _import_history(source, arrivals, stored, limits, on_progress)
    with opened_export(source, stored, limits, on_progress) as original:
        arrivals.bring(original)
        return [original.header.state_id]


def _import_history(
    source: Path, arrivals: Arrivals, stored: StoredValues, limits: Limits, on_progress: Told | None
) -> list[str]:
    """What the seeds wrote, as history that is over. All of it is read before anything is stored."""
    reading = SeedReading(stored, limits)
    found = reading.store(source) if source.is_dir() else [reading.state(source)]
    for done, original in enumerate(found, 1):
        arrivals.bring(original)
        if on_progress is not None:
            on_progress(done, len(found), original.header.state_id)
    return [original.header.state_id for original in found]
