"""Which artifacts the records of journals name, and so which of those that are stored may go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from limpet.model import ArtifactInfo, EventRecord, Pin, Record, StorageRecord


def named_by(records: Iterable[Record]) -> set[str]:
    """The ids of all artifacts that records name. A deleted key of the storage is still named by its earlier record."""
    named: set[str] = set()
    for record in records:
        if isinstance(record, EventRecord | StorageRecord) and record.artifacts:
            named.update(record.artifacts)
    return named


def unnamed(stored: Iterable[ArtifactInfo], named: Collection[str], put_before: float) -> list[ArtifactInfo]:
    """The artifacts that no record names and that were not put since."""
    return [info for info in stored if info.artifact_id not in named and info.put_at <= put_before]


def pins_on(wanted: Iterable[ArtifactInfo], pins: Mapping[Pin, Collection[str]]) -> list[Pin]:
    """The pins that hold any of these artifacts."""
    ids = {info.artifact_id for info in wanted}
    return [pin for pin, pinned in pins.items() if not ids.isdisjoint(pinned)]
