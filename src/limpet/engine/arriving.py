"""Putting a state into a store as it stands elsewhere: whole or not at all, and free to be taken up at once.

Frames arrive byte for byte. A state that is new is created in one step, with its header and all its records, after its
artifacts; what a fork shares is shared here too (``engine/stand_ins.py``). Of a state that is there with the beginning
of the same records, those that are missing are appended; what a cleanup has dropped since is dropped. Its letters
follow, and those that are there stay as they are. Anything else that has the id is left alone, and the state is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import Append, Claim, StateBackend, StateUpdate
from limpet.codec import frames
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.lease import mark_ended, mark_running, new_holder
from limpet.engine.reading import MOST_MISSING, Frames, damaged_records, decoded, whole_journal
from limpet.engine.rewriting import rewriting
from limpet.engine.stand_ins import StandIns, leased, release
from limpet.errors import ArtifactMissing, LimpetError, PositionTaken, StateCorrupted, UsageError
from limpet.journal.reachable import named_by
from limpet.journal.recovery import recovery_of
from limpet.model import (
    Content,
    DamagedRecord,
    DroppedRecord,
    End,
    Lease,
    Letter,
    Pin,
    Record,
    StateHeader,
    StateMetadata,
)
from limpet.model.defaults import LEASE_TTL_S
from limpet.model.header import utc
from limpet.model.origin import Arrival, with_origin, without_origin


class Original(msgspec.Struct, frozen=True):
    """A state where it comes from, as it stood at one moment."""

    header: StateHeader
    read: Callable[[int], Frames]
    """The frames behind a number, up to the position that the header tells."""
    content: Callable[[str], Content]
    """The content of an artifact, as it is stored. Raises ArtifactMissing."""
    stored: StoredValues
    """How its records are opened, to see which artifacts they name."""
    letters: Callable[[], Sequence[Letter]] = lambda: ()
    """What lies in its inbox."""

    def named_by(self, read: Frames, before: tuple[int, bytes] | None = None) -> frozenset[str]:
        """The artifacts that frames name, behind the frame before them. Raises StateCorrupted, WrongKey."""
        damaged: list[int] = []
        named = frozenset(named_by(_intact(decoded(self.header, read, self.stored, before), damaged)))
        if damaged:
            require_usable(self.header, self.read(0), self.stored)
        return named


class Way(StrEnum):
    """What became of a state that was brought."""

    COPIED = "copied"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class Brought(msgspec.Struct, frozen=True):
    """What became of a state that was brought, and how much was written for it."""

    way: Way
    records: int = 0
    artifacts: int = 0
    size: int = 0
    """How many bytes the written records and artifacts have."""
    named: frozenset[str] = frozenset()
    """The artifacts that the written records name."""


class Arrivals:
    """A store that states are brought to."""

    def __init__(self, backend: StateBackend, artifacts: ArtifactBackend | None, how: Arrival, source: str) -> None:
        self._backend = backend
        self._artifacts = artifacts
        self._how = how
        self._source = source
        """The name of the file or the store that they come from."""
        self._stand_ins = StandIns(backend)
        self._is_enlisted = False

    def bring(self, original: Original) -> Brought:
        """Make a state stand here as it stands there.

        Raises UsageError where its id, or that of a state it shares records with, is another state's here; LeaseHeld
        where it is being run here; StateCorrupted, ArtifactMissing or WrongKey for what is wrong with it there.
        """
        header = original.header
        if header.damage is not None:
            raise StateCorrupted(header.state_id, 0, f"its header cannot be trusted ({header.damage})")
        self._stand_ins.clear()
        while True:
            standing = self._stand_ins.find_real(header.state_id)
            brought = self._create(original) if standing is None else self._bring_up_to_date(original, standing)
            # None: somebody else was here in between, so that it has to be looked at anew.
            if brought is not None:
                self._deliver(header.state_id, original.letters())
                return brought

    def verify(self, state_id: str, named: Collection[str], stored: StoredValues) -> None:
        """Read a state back. Raises StateCorrupted or ArtifactMissing where it is not whole here."""
        header = self._backend.find_state(state_id)
        if header is None:
            raise StateCorrupted(state_id, 0, f"it is no longer in {self._backend.name}")
        require_usable(header, self._backend.read(state_id, 0, header.position), stored)
        for artifact_id in named:
            artifacts = self._place_for_artifacts()
            if artifacts.find(artifact_id) is None:
                raise ArtifactMissing(artifacts.name, artifact_id)

    def _deliver(self, state_id: str, letters: Sequence[Letter]) -> None:
        there = {letter.name for letter in self._backend.letters(state_id)} if letters else frozenset[str]()
        for letter in letters:
            if letter.name not in there:
                self._backend.deliver(state_id, letter.name, letter.body)

    def _create(self, original: Original) -> Brought | None:
        header, read = original.header, original.read(0)
        require_usable(header, read, original.stored)
        missing = self._stand_ins.missing_owners(header, read)
        contents = {artifact_id: original.content(artifact_id) for artifact_id in original.named_by(read)}
        put = self._put(contents, None)
        shared = header.bases[-1].last if header.bases else 0
        claim = Claim(
            header=msgspec.structs.replace(
                header, metadata=self._marked(header.metadata), end=end_of(read), holder=None, bases=()
            ),
            bodies=tuple(frame for _, frame in read[shared:]),
            base=header.bases[-1] if header.bases else None,
            holder=new_holder(),
            # Without artifacts a lease that lasts no time: whoever takes the state up need not wait for it.
            ttl_s=LEASE_TTL_S if contents else 0.0,
        )
        grant = self._stand_ins.claim_behind(missing, claim, read)
        if grant is None or grant.lease is None:
            return None
        if not grant.is_new:
            release(self._backend, grant.lease, grant.header.position)
            return None
        if contents:
            # A collector may have come by before there were records that name them.
            self._put(contents, grant.lease)
            release(self._backend, grant.lease, header.position)
        written = read[missing[0].before :] if missing else read[shared:]
        return _brought(Way.COPIED, written, put, contents)

    def _bring_up_to_date(self, original: Original, standing: StateHeader) -> Brought | None:
        dropped = None
        try:
            before, missing = self._missing_records(original, standing)
        except UsageError:
            dropped = self._drop_as_there(original, standing)
            if dropped is None:
                raise
            before, missing = self._missing_records(original, standing)
        last = missing[-1] if missing else before
        wanted = msgspec.structs.replace(original.header, end=None if last is None else end_of((last,)))
        if not missing and (_is_told_alike(standing, wanted) or standing.updated_at > wanted.updated_at):
            return dropped or Brought(Way.UNCHANGED)
        named = original.named_by(missing, before)
        contents = {artifact_id: original.content(artifact_id) for artifact_id in named}
        holder = new_holder()
        mark_running(holder)
        try:
            grant = leased(self._backend, standing, holder)
            if grant is None or grant.lease is None or grant.header.position != standing.position:
                return None
            return self._append(grant.lease, wanted, standing.position, missing, contents)
        finally:
            mark_ended(holder)

    def _drop_as_there(self, original: Original, standing: StateHeader) -> Brought | None:
        """Drop the records of a state that a cleanup has dropped there since it was brought; None where there are none.

        Everything else has to be the same, else nothing is done. Raises LeaseHeld, WrongKey.
        """
        anew = _dropped_since(original, standing, self._backend)
        if anew is None:
            return None
        grant = leased(self._backend, standing, new_holder())
        if grant is None or grant.lease is None or grant.header.position != standing.position:
            return None
        bodies = [frame for _, frame in anew]
        try:
            self._backend.rewrite(
                [rewriting(grant.lease, grant.header, anew[0][0], bodies, frames.link_of(bodies[-1]))]
            )
        except PositionTaken:
            # A state here shares them, and goes on from what they were.
            release(self._backend, grant.lease, standing.position)
            return None
        return _brought(Way.UPDATED, anew, (0, 0), {})

    def _append(
        self, lease: Lease, wanted: StateHeader, position: int, missing: Frames, contents: Mapping[str, Content]
    ) -> Brought:
        update = StateUpdate(
            at=wanted.updated_at.timestamp(),
            status=wanted.status,
            metadata=self._marked(wanted.metadata),
            timeline=wanted.timeline,
            end=wanted.end,
            releases=True,
        )
        try:
            put = self._put(contents, lease)
            bodies = [frame for _, frame in missing]
            (refusal,) = self._backend.append((Append(lease, position + 1, bodies, update),))
        except LimpetError:
            release(self._backend, lease, position)
            raise
        if refusal is not None:
            raise refusal
        return _brought(Way.UPDATED, missing, put, contents)

    def _marked(self, metadata: StateMetadata) -> StateMetadata:
        return with_origin(metadata, self._how, self._source, utc(SYSTEM_CLOCK.now()))

    def _missing_records(
        self, original: Original, standing: StateHeader
    ) -> tuple[tuple[int, bytes] | None, list[tuple[int, bytes]]]:
        """The last record that stands here, and those that are missing behind it. Raises UsageError, StateCorrupted.

        The chain runs through all records, so those before the last one are the same if that one is.
        """
        header, position = original.header, standing.position
        if standing.damage is not None:
            raise StateCorrupted(
                header.state_id, 0, f"its header in {self._backend.name} cannot be trusted ({standing.damage})"
            )
        if position > header.position or _identity(standing) != _identity(header):
            raise self._refusal(original, standing)
        read = list(original.read(max(0, position - 1)))
        last = read.pop(0) if position and read else None
        if last is not None and self._backend.read(header.state_id, position - 1, 1) != [last]:
            raise self._refusal(original, standing)
        if (0 if last is None else position) + len(read) != header.position:
            raise StateCorrupted(header.state_id, position + len(read) + 1, "it is missing")
        _require_end(header, read)
        return last, read

    def _refusal(self, original: Original, standing: StateHeader) -> UsageError:
        """Says from which record on the state that stands here is another one."""
        state_id, there = original.header.state_id, list(original.read(0))
        here = self._backend.read(state_id)
        same = 0
        while same < min(len(here), len(there)) and here[same] == there[same]:
            same += 1
        remedy = "Delete it there with `Limpet.delete`, or use another store."
        if standing.version != original.header.version:
            what = f"it has format version {standing.version} there, and {original.header.version} here"
            remedy = "Bring both stores to the newest format with `limpet migrate`."
        elif standing.position > original.header.position == same:
            what = f"it has gone on there, and has {standing.position - same} records more"
        else:
            what = f"they differ from record {same + 1} on"
        return UsageError(
            f"Another state has the id {state_id!r} in {self._backend.name}: {what}. It was left as it is.", remedy
        )

    def _put(self, contents: Mapping[str, Content], lease: Lease | None) -> tuple[int, int]:
        """Put artifacts, under the pin of a lease. Gives how many of them are new here, and their bytes."""
        if not contents:
            return 0, 0
        artifacts = self._place_for_artifacts()
        pin = None if lease is None else Pin(self._backend.store_id, lease.state_id, lease.fence)
        sizes = [each.size for artifact_id, each in contents.items() if artifacts.put(artifact_id, each, pin)]
        return len(sizes), sum(sizes)

    def _place_for_artifacts(self) -> ArtifactBackend:
        if self._artifacts is None:
            raise UsageError(
                f"The store {self._backend.name} has no place for the artifacts of the state.",
                "Open it with `Limpet(…, artifact_backend=…)`, and give that as the target.",
            )
        if not self._is_enlisted:
            self._artifacts.enlist(self._backend.store_id, self._backend.name)
            self._is_enlisted = True
        return self._artifacts


def _dropped_since(original: Original, standing: StateHeader, backend: StateBackend) -> Frames | None:
    """The frames of a state from the first on that is dropped there and not here, up to where it ends here."""
    header, position = original.header, standing.position
    is_same = not header.bases and standing.damage is None and _identity(standing) == _identity(header)
    if not is_same or not 0 < position <= header.position:
        return None
    last = backend.read(header.state_id, position - 1, 1)
    if last == list(original.read(position - 1))[:1]:
        return None
    there, here = list(original.read(0))[:position], backend.read(header.state_id, 0, position)
    records = zip(decoded(header, there, original.stored), decoded(standing, here, original.stored), strict=False)
    first = 0
    for new, old in records:
        if isinstance(new, DroppedRecord) and new != old:
            first = first or new.seq
        elif new != old or isinstance(new, DamagedRecord):
            return None
    return there[first - 1 :] if first and len(there) == len(here) else None


def _intact(records: Iterable[Record | DamagedRecord], damaged: list[int]) -> Iterator[Record]:
    """The records that are not damaged, one by one; the numbers of the others are noted."""
    for record in records:
        if isinstance(record, DamagedRecord):
            damaged.append(record.seq)
        else:
            yield record


def require_usable(header: StateHeader, read: Frames, stored: StoredValues) -> None:
    """Raises StateCorrupted unless these are all records up to the position of the header, and intact.

    What is damaged and was given up, since the current timeline does not need it, is taken along as it is. To tell that
    of sealed records the key is needed: WrongKey is raised without it.
    """
    found = next(damaged_records(header, read), None)
    if found is None and len(read) != header.position:
        raise StateCorrupted(header.state_id, len(read) + 1, "it is missing")
    if found is not None and recovery_of(list(whole_journal(header, read, stored)), header.timeline) is not None:
        raise StateCorrupted(header.state_id, found.seq, found.why)


def without_gaps(read: Frames, after: int) -> Frames:
    """The frames behind a number, with nothing in the place of those that are missing."""
    if not read or read[-1][0] - after == len(read):
        return read
    known = dict(read)
    last = min(read[-1][0], after + len(read) + MOST_MISSING)
    return [(seq, known.get(seq, b"")) for seq in range(after + 1, last + 1)]


def end_of(read: Frames) -> End | None:
    """Where frames end."""
    return End(read[-1][0], frames.link_of(read[-1][1])) if read else None


def _require_end(header: StateHeader, read: Frames) -> None:
    end = header.end
    for seq, frame in read:
        if end is not None and seq == end.position and frames.link_of(frame) != end.link:
            raise StateCorrupted(header.state_id, seq, "another record stood here when the header was written")


def _identity(header: StateHeader) -> tuple[object, ...]:
    """What tells a state from another one that had the same id before, or has it elsewhere."""
    return header.created_at, header.bases


def _is_told_alike(standing: StateHeader, wanted: StateHeader) -> bool:
    told = ("status", "updated_at", "timeline", "end")
    is_same = without_origin(standing.metadata) == without_origin(wanted.metadata)
    return is_same and all(getattr(standing, field) == getattr(wanted, field) for field in told)


def _brought(way: Way, written: Frames, put: tuple[int, int], contents: Mapping[str, Content]) -> Brought:
    count, size = put
    size += sum(len(frame) for _, frame in written)
    return Brought(way, len(written), count, size, frozenset(contents))
