"""What the model calls of a state have used, and what replay has saved, by what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from limpet.journal.usage import totals_of
from limpet.model import ModelUsage, Record, StateMetadata, UsageTotals


def usage_totals(records: Iterable[Record], metadata: StateMetadata) -> UsageTotals:
    """The sums over the records of a state, and what its metadata says of replay."""
    try:
        replayed = msgspec.convert(metadata.replayed, ModelUsage)
    except msgspec.ValidationError:
        # Metadata is plain JSON, which anybody may write.
        replayed = ModelUsage()
    return totals_of(records, replayed)
