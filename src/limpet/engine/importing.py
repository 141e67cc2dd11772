"""Taking in states that come as files: what ``export`` wrote, or a store in the layout of the seeds."""

from __future__ import annotations

from pathlib import Path

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateBackend
from limpet.engine.arriving import Arrivals
from limpet.engine.portable.form import MANIFEST
from limpet.engine.portable.reading import opened_export
from limpet.engine.progress import Told
from limpet.engine.seed_layout import is_seed_store, read_seed_state, read_seed_store
from limpet.model.origin import Arrival


def import_states(source: Path, backend: StateBackend, stored: StoredValues, on_progress: Told | None) -> list[str]:
    """Take in all states that are in a file or folder, and give their ids, the oldest first."""
    # What is in an exported folder may be named as well as the folder.
    source = source.parent if source.name == MANIFEST else source
    arrivals = Arrivals(backend, stored.artifacts, Arrival.IMPORT, source.name or source.resolve().name)
    if source.suffix == ".json" or is_seed_store(source):
        return _import_history(source, arrivals, stored, on_progress)
    with opened_export(source, stored, on_progress) as original:
        arrivals.bring(original)
        return [original.header.state_id]


def _import_history(source: Path, arrivals: Arrivals, stored: StoredValues, on_progress: Told | None) -> list[str]:
    """What the seeds wrote, as history that is over. All of it is read before anything is stored."""
    found = read_seed_store(source, stored) if source.is_dir() else [read_seed_state(source, stored)]
    for done, original in enumerate(found, 1):
        arrivals.bring(original)
        if on_progress is not None:
            on_progress(done, len(found), original.header.state_id)
    return [original.header.state_id for original in found]
