"""Checking what is stored: one state, or a whole store. Changes nothing, but for what a store can derive anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import Flaw, StateBackend
from limpet.engine.header_anew import header_anew
from limpet.engine.named_agent import disagreement
from limpet.engine.progress import Told
from limpet.engine.reading import Frames, damaged_records, whole_journal
from limpet.errors import ArtifactCorrupted, ArtifactMissing, NotEncrypted, StateCorrupted, WrongKey
from limpet.journal.reachable import named_by
from limpet.journal.recovery import recovery_of
from limpet.model import DamagedRecord, Diagnosis, Record, StateHeader, Verification

_ALL = 1 << 62


class Verifier:
    """Checks the states of one store. What it has found out of an artifact it remembers."""

    def __init__(self, backend: StateBackend, stored: StoredValues) -> None:
        self._backend = backend
        self._stored = stored
        self._artifacts: dict[str, str] = {}

    def verify(self, header: StateHeader) -> Verification:
        """What is damaged of a state, as it stands now. Raises UnsupportedVersion."""
        read = self._backend.read(header.state_id)
        damage = header.damage
        if damage is not None:
            header = header_anew(header, read, self._stored)
        damaged = tuple(_first_of_each(damaged_records(header, read)))
        found = self._backend.examine(header.state_id)
        damaged = _told_by_backend(damaged, found)
        journal = self._journal(header, read)
        # Without a key the first record, where it is sealed, cannot be asked.
        damage = damage or disagreement(header, journal[0] if journal else None)
        states = {} if journal is None else self._states_of_artifacts(journal)
        first = min((each.seq for each in damaged), default=0)
        if journal is not None:
            recovery = recovery_of(journal, header.timeline)
            first = 0 if recovery is None else recovery.first_damaged
        records = max(header.position, header.end.position if header.end is not None else 0)
        return Verification(
            state_id=header.state_id,
            records=records,
            header_damage=damage,
            damaged=damaged,
            flaws=tuple(flaw.what for flaw in found if flaw.seq is None and not flaw.is_harmless),
            harmless=tuple(flaw.what for flaw in found if flaw.is_harmless),
            missing_artifacts=tuple(name for name, state in states.items() if state == "missing"),
            damaged_artifacts=tuple(name for name, state in states.items() if state == "damaged"),
            artifacts_checked=journal is not None,
            usable=first - 1 if first else records,
            needs_recovery=bool(first) or damage is not None,
        )

    def diagnose(self, *, repair: bool, on_progress: Told | None) -> Diagnosis:
        """What is damaged in the whole store."""
        flaws = self._backend.examine_store(repair=repair)
        headers = self._backend.list_states(limit=_ALL)
        unsound: list[Verification] = []
        harmless: list[str] = []
        for done, header in enumerate(headers, 1):
            found = self.verify(header)
            if not found.is_sound:
                # It may have been deleted since it was listed, and even made anew.
                again = self._backend.find_state(header.state_id)
                found = None if again is None else self.verify(again)
            if found is not None:
                unsound += [] if found.is_sound else [found]
                harmless += found.harmless
            if on_progress is not None:
                on_progress(done, len(headers), header.state_id)
        return Diagnosis(
            store=self._backend.name,
            states=len(headers),
            unsound=tuple(unsound),
            flaws=_texts(flaws, lambda flaw: not flaw.is_harmless and not flaw.is_mended),
            harmless=(*_texts(flaws, lambda flaw: flaw.is_harmless and not flaw.is_mended), *harmless),
            mended=_texts(flaws, lambda flaw: flaw.is_mended),
        )

    def _journal(self, header: StateHeader, read: Frames) -> list[Record | DamagedRecord] | None:
        """All records; None where they are sealed and cannot be opened, or too many are missing to tell."""
        try:
            return list(whole_journal(header, read, self._stored))
        except (WrongKey, NotEncrypted, StateCorrupted):
            return None

    def _states_of_artifacts(self, journal: Iterable[Record | DamagedRecord]) -> dict[str, str]:
        named = named_by(record for record in journal if not isinstance(record, DamagedRecord))
        for artifact_id in named:
            if artifact_id not in self._artifacts:
                self._artifacts[artifact_id] = self._state_of(artifact_id)
        return {artifact_id: self._artifacts[artifact_id] for artifact_id in sorted(named)}

    def _state_of(self, artifact_id: str) -> str:
        try:
            for _ in self._stored.stored_content(artifact_id):
                pass
        except ArtifactMissing:
            return "missing"
        except ArtifactCorrupted:
            return "damaged"
        return "sound"


def _first_of_each(damaged: Iterable[DamagedRecord]) -> Iterable[DamagedRecord]:
    seen: dict[int, DamagedRecord] = {}
    try:
        for each in damaged:
            seen.setdefault(each.seq, each)
    except StateCorrupted as error:
        # So much is missing that it is not told one by one.
        seen.setdefault(error.seq, DamagedRecord(error.state_id, error.seq, error.why))
    return seen.values()


def _told_by_backend(damaged: tuple[DamagedRecord, ...], flaws: Iterable[Flaw]) -> tuple[DamagedRecord, ...]:
    """The damaged records, with the place where each is stored as far as the backend knows it."""
    told = {flaw.seq: flaw.what.removesuffix(".") for flaw in flaws}
    return tuple(msgspec.structs.replace(each, why=told.get(each.seq, each.why)) for each in damaged)


def _texts(flaws: Iterable[Flaw], wanted: Callable[[Flaw], bool]) -> tuple[str, ...]:
    return tuple(flaw.what for flaw in flaws if wanted(flaw))
