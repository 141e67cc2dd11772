"""What was found when stored states were checked."""

from __future__ import annotations

import msgspec

from limpet.model.records import DamagedRecord


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What is damaged of one state, and what of it can be used."""

    state_id: str
    records: int
    """How many there are, with those that are damaged or missing."""
    header_damage: str | None = None
    """Why the header cannot be trusted."""
    damaged: tuple[DamagedRecord, ...] = ()
    """The records that are damaged or missing. All others are intact."""
    flaws: tuple[str, ...] = ()
    """What else is wrong with the way in which it is stored."""
    harmless: tuple[str, ...] = ()
    """What is not as it should be, and costs nothing: what a crash left behind, for instance."""
    missing_artifacts: tuple[str, ...] = ()
    damaged_artifacts: tuple[str, ...] = ()
    artifacts_checked: bool = True
    """False where the records are sealed and the key is not given, so that what they name is not known."""
    usable: int = 0
    """How many records stand before the first damage that the state's current timeline meets."""
    needs_recovery: bool = False
    """Whether the state can be gone on with only after `recover`. False, too, where it has been recovered."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        lost = self.damaged or self.flaws or self.missing_artifacts or self.damaged_artifacts
        return not lost and self.header_damage is None

    def __str__(self) -> str:
        if self.is_sound:
            return f"State {self.state_id!r} is sound: {self.records} records."
        found = [] if self.header_damage is None else [f"its header: {self.header_damage}"]
        found += [f"record {damaged.seq}: {damaged.why}" for damaged in self.damaged]
        found += [f"the artifact {artifact_id} is missing" for artifact_id in self.missing_artifacts]
        found += [f"the artifact {artifact_id} is damaged" for artifact_id in self.damaged_artifacts]
        return f"State {self.state_id!r} is damaged: {'; '.join([*found, *self.flaws])}."


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a whole store."""

    store: str
    states: int
    """How many were checked."""
    unsound: tuple[Verification, ...] = ()
    """Those that are damaged."""
    flaws: tuple[str, ...] = ()
    """What is wrong with the store as a whole."""
    harmless: tuple[str, ...] = ()
    """What is not as it should be, and costs nothing."""
    mended: tuple[str, ...] = ()
    """What was put right."""

    @property
    def is_sound(self) -> bool:
        return not self.unsound and not self.flaws


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a damaged state that was recovered."""

    state_id: str
    kept: int
    """How many records stand before the damage, on the new timeline."""
    first_damaged: int | None
    """The number of the first record that was damaged; None where only the header was."""
    given_up: tuple[str, ...] = ()
    """The addresses whose recorded results stood behind the damage: they are executed again."""
    mended_header: bool = False
    was_needed: bool = True
    """False where the state was sound, or had been recovered before: nothing was changed."""


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """What a migration has rewritten."""

    states: int
    """How many states had records of an older format."""
    records: int
    """How many records were rewritten."""
    unchanged: int
    """How many states were in the newest format already."""
    backup: str | None
    """The store that holds everything as it was before; None where nothing was rewritten, or none was wanted."""
    refused: dict[str, str] = {}
    """By state, why it was left as it is."""
