"""Deleting the artifacts that nothing names any more.

An artifact goes only when it is proved that no record names it and none will:

1. Whoever is about to write a record that names an artifact puts it first, under a pin that names its lease. So a
   record can come only from the holder of a lease that is pinned here, or after a put that is yet to come.
2. Of an artifact that no record names, every pin is looked at. If the holder of its lease may still write, the artifact
   stays. A lease that has run out, or whose holder is dead, is fenced: from then on its holder writes nothing.
3. Only then the journals of those states are read again, for what was written in the meantime.
4. What is still not named is deleted, each in one step with the check that it was not put since it was listed.

So it is safe while other processes write, and whatever clocks say. The grace period is for what is put without a pin:
by hand, and the input of a run whose state is only just being made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import Claim, StateBackend
from limpet.engine.lease import is_dead, new_holder, takeover
from limpet.engine.reading import JournalReader
from limpet.errors import ArtifactsShared, LeaseHeld, StateCorrupted
from limpet.journal.compaction import dropped_by
from limpet.journal.reachable import named_by, pins_on, unnamed
from limpet.model import ArtifactInfo, DamagedRecord, Part, Pin, Record, StateHeader, StateStatus

_PAGE = 500


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection has deleted or, in a dry run, would delete."""

    deleted: list[ArtifactInfo]
    named: int
    """How many artifacts stay because a record names them."""
    held: int
    """How many stay because a run that is under way may yet name them."""
    young: int
    """How many stay because they were put within the grace period."""
    is_dry_run: bool

    @property
    def freed(self) -> int:
        """How many bytes the deleted artifacts have."""
        return sum(info.size for info in self.deleted)


class Collector:
    """Collects the artifacts of one place, which the records of these stores name."""

    def __init__(
        self,
        artifacts: ArtifactBackend,
        stores: Sequence[tuple[StateBackend, StoredValues]],
        without: Collection[str] = (),
        reduced: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        """In a dry run, of the states of the first store: ``without``, those that are thought to be deleted;
        ``reduced``, those that are thought to be compacted (True) or pruned (False)."""
        self._artifacts = artifacts
        self._without = {(stores[0][0].store_id, state_id) for state_id in without}
        self._reduced = {(stores[0][0].store_id, state_id): compacts for state_id, compacts in reduced.items()}
        self._stores: Mapping[str, tuple[StateBackend, StoredValues]] = {
            backend.store_id: (backend, stored) for backend, stored in stores
        }

    def collect(self, *, put_before: float, is_dry_run: bool) -> Collected:
        """Delete what is unreachable and was not put since. Raises ArtifactsShared, or what a store says.

        A state that cannot be read stops it: what it names cannot be known.
        """
        listed = list(_pages(self._artifacts))
        pins = self._artifacts.pins()
        self._require_all_stores(pins)
        named = self._named_by_all()
        found = unnamed(listed, named, put_before)
        pinning = pins_on(found, pins)
        alive = {pin for pin in pinning if self._may_write(pin, is_dry_run)}
        held = {artifact_id for pin in alive for artifact_id in pins[pin]}
        for store_id, state_id in {(pin.store_id, pin.state_id) for pin in pinning}:
            named |= self._named_by(store_id, state_id)
        found = [info for info in found if info.artifact_id not in named]
        wanted = [info for info in found if info.artifact_id not in held]
        if not is_dry_run:
            wanted = [info for info in wanted if self._artifacts.delete(info.artifact_id, info.put_at)]
            self._artifacts.unpin([pin for pin in pins if pin not in alive and self._is_over(pin)])
        count = sum(info.artifact_id in named for info in listed)
        young = len(listed) - count - len(found)
        return Collected(deleted=wanted, named=count, held=len(found) - len(wanted), young=young, is_dry_run=is_dry_run)

    def _require_all_stores(self, pins: Collection[Pin]) -> None:
        """Whoever names artifacts here is enlisted before the first one is put, so none can be missing after that."""
        users = {pin.store_id: f"the store {pin.store_id}" for pin in pins} | dict(self._artifacts.stores())
        others = sorted(name for store_id, name in users.items() if store_id not in self._stores)
        if others:
            raise ArtifactsShared(self._artifacts.name, tuple(others))

    def _named_by_all(self) -> set[str]:
        named: set[str] = set()
        for store_id, (backend, _) in self._stores.items():
            last: StateHeader | None = None
            while page := backend.list_states(before=last, limit=_PAGE):
                for header in page:
                    named |= self._named_by(store_id, header.state_id)
                last = page[-1]
        return named

    def _named_by(self, store_id: str, state_id: str) -> set[str]:
        backend, stored = self._stores[store_id]
        header = self._header_of(store_id, state_id)
        if header is None:
            return set()
        if header.damage is not None:
            raise StateCorrupted(state_id, 0, header.damage)
        records = _needed(JournalReader(backend, stored, header))
        compacts = self._reduced.get((store_id, state_id))
        if compacts is None:
            return named_by(records)
        journal = list(records)
        goes = dropped_by(journal, is_completed=header.status is StateStatus.COMPLETED, compacts=compacts)
        return named_by(record for record in journal if record.seq not in goes)

    def _header_of(self, store_id: str, state_id: str) -> StateHeader | None:
        if (store_id, state_id) in self._without:
            return None
        return self._stores[store_id][0].find_state(state_id)

    def _header(self, pin: Pin) -> StateHeader | None:
        return self._header_of(pin.store_id, pin.state_id)

    def _is_over(self, pin: Pin) -> bool:
        """Whether a pin can be forgotten. Nobody is fenced for that alone who may just have been away for long."""
        header = self._header(pin)
        if header is None:
            return True
        is_at_rest = header.holder is None and header.status is not StateStatus.RUNNING
        return is_at_rest and not self._may_write(pin, is_dry_run=False)

    def _may_write(self, pin: Pin, is_dry_run: bool) -> bool:
        """Whether the holder of a pin's lease may yet write. If not, it is seen to that it stays so."""
        header = self._header(pin)
        if header is None:
            return False
        if is_dry_run and (header.holder is None or is_dead(header.holder)):
            return False
        backend, _ = self._stores[pin.store_id]
        # A lease that lasts no time: it takes the right to write from whoever had it, and keeps it from nobody.
        claim = Claim(header=header, holder=new_holder(), ttl_s=0.0, create=False, reopen=True)
        while True:
            (grant,) = backend.acquire((claim,))
            if grant is None or grant.held_by is None or grant.held_fence != pin.fence:
                return False
            try:
                claim = takeover(claim, grant)
            except LeaseHeld:
                return True


def _needed(reader: JournalReader) -> Iterator[Record]:
    """The records of a journal. What is damaged counts only where the current timeline needs it."""
    parts: tuple[Part, ...] | None = None
    for record in reader.stream():
        if not isinstance(record, DamagedRecord):
            yield record
            continue
        parts = reader.current_parts()[1] if parts is None else parts
        if any(part.first <= record.seq <= part.last for part in parts):
            raise record.error


def _pages(artifacts: ArtifactBackend) -> Iterator[ArtifactInfo]:
    after = ""
    while page := artifacts.list_artifacts(after):
        yield from page
        after = page[-1].artifact_id
