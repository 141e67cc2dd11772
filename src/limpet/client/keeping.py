"""The verbs that delete: states, those that a retention lets go, and artifacts that nothing names any more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.contract import Claim, StateBackend
from limpet.client.opened import OpenedStore
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.collect import Collected, Collector
from limpet.engine.lease import is_dead, new_holder
from limpet.engine.opening import acquire_now
from limpet.engine.progress import Told
from limpet.errors import (
    ArtifactsShared,
    LeaseHeld,
    LimpetError,
    NotEncrypted,
    StateCorrupted,
    UnsupportedVersion,
    UsageError,
    WrongKey,
)
from limpet.model import Cleanup, CleanupRun, Compacted, DiskUse, Removed, Retention
from limpet.model.header import utc
from limpet.stores import open_store

if TYPE_CHECKING:
    from limpet.engine.cleaning import Cleaning, Plan

GRACE = timedelta(hours=1)
"""How long artifacts that nothing names stay, unless another time is asked for."""


class Keeping(OpenedStore):
    """``collect``, ``delete``, ``cleanup`` and ``last_cleanup``."""

    def collect(
        self,
        *,
        grace: timedelta = GRACE,
        dry_run: bool = False,
        also: Sequence[str | StateBackend] = (),
    ) -> Collected:
        """Delete the artifacts that no state names any more, and say which. Safe while other processes run states.

        What was put within the last ``grace`` stays. A dry run deletes nothing, and lists just what would go. ``also``
        names the other stores that use the same artifacts. Raises ArtifactsShared where one of them is missing, and
        StateCorrupted or WrongKey where a state cannot be read: then nothing is deleted.
        """
        if self.artifacts is None:
            raise UsageError(
                f"The store {self.backend.name} has no artifacts.", "Give it some with `artifact_backend=…`."
            )
        with ExitStack() as opened:
            others = [
                opened.enter_context(open_store(other, create=False)) if isinstance(other, str) else other
                for other in also
            ]
            return self._collect(self.artifacts, grace=grace, is_dry_run=dry_run, others=others)

    def _collect(
        self,
        artifacts: ArtifactBackend,
        *,
        grace: timedelta,
        is_dry_run: bool,
        others: Sequence[StateBackend] = (),
        without: Collection[str] = (),
        reduced: Mapping[str, bool] = MappingProxyType({}),
    ) -> Collected:
        cipher = self._stored.cipher
        stores = [(other, StoredValues(None, store_id=other.store_id, cipher=cipher)) for other in others]
        collector = Collector(artifacts, [(self.backend, self._stored), *stores], without, reduced)
        return collector.collect(put_before=SYSTEM_CLOCK.now() - grace.total_seconds(), is_dry_run=is_dry_run)

    def delete(self, state_id: str) -> None:
        """Delete a state for good, also a damaged one. Raises UnknownState, or LeaseHeld while it is being run.

        Its artifacts stay until they are collected, as other states may name them too.
        """
        header = self._header_as_it_is(state_id)
        if header.holder is not None and is_dead(header.holder):
            # Whoever held it is told that it was deleted, not that somebody else goes on with it.
            with suppress(LeaseHeld):
                self.backend.delete_state(state_id)
                return
        ttl_s = self._writer.keeper.ttl_s
        claim = Claim(header=header, holder=new_holder(), ttl_s=ttl_s, create=False, reopen=True, mend=True)
        grant = acquire_now(self._writer, claim)
        if grant is not None:
            self.backend.delete_state(state_id, grant.lease)

    def cleanup(
        self,
        retention: Retention | None = None,
        *,
        dry_run: bool = False,
        compact: bool = False,
        grace: timedelta = GRACE,
        confirm: Callable[[Cleanup], bool] | None = None,
        on_progress: Told | None = None,
    ) -> Cleanup:
        """Delete the states that a retention lets go, drop the records of others that it lets go, then delete the
        artifacts that nothing names any more, and say which.

        The retention is the configured one where none is given. The store notes how it ended (``last_cleanup``).

        Safe while other processes run states: it deletes a few at a time, and a state that was taken up since it was
        looked at stays. Killed in the middle, it has deleted or compacted states wholly or not at all; running it again
        goes on. A dry run changes nothing, and reports just what would go. ``confirm`` is given that report before
        anything is deleted; where it says False nothing is, and the report is given.

        Artifacts that were put within the last ``grace`` stay; all do where they cannot be collected, and the report
        says why. ``compact`` gives the room that is free in the file of the store back to the disk, unless a process
        runs a state in it. Raises UsageError where the retention has no limit, or there is none.
        """
        from limpet.engine.cleanup_notes import CleanupNotes, begun, ended, failed

        is_configured = retention is None
        if retention is None:
            retention = self._configured_retention()
        if retention.is_empty:
            raise UsageError(
                "A retention without a limit lets nothing go.",
                "Give one of max_age, max_per_pipeline, max_total_size, compact_after and prune_after.",
            )
        notes, run = CleanupNotes(self.backend), begun(new_holder())
        try:
            report = self._clean(
                retention, dry_run=dry_run, compact=compact, grace=grace, confirm=confirm, on_progress=on_progress
            )
        except LimpetError as error:
            if not dry_run:
                notes.note(failed(run, error), is_configured=is_configured)
            raise
        if not report.is_dry_run:
            notes.note(ended(run, report), is_configured=is_configured)
        return report

    def last_cleanup(self) -> CleanupRun | None:
        """The cleanup of this store that began last, by whomever, also one that is under way; None if there was none.

        The store itself remembers it. A dry run is none.
        """
        from limpet.engine.cleanup_notes import CleanupNotes

        return CleanupNotes(self.backend).newest()

    def _clean(
        self,
        retention: Retention,
        *,
        dry_run: bool = False,
        compact: bool = False,
        grace: timedelta = GRACE,
        confirm: Callable[[Cleanup], bool] | None = None,
        on_progress: Told | None = None,
    ) -> Cleanup:
        from limpet.engine.cleaning import Cleaning
        from limpet.engine.compacting import Compacting

        began = time.monotonic()
        cleaning = Cleaning(self._writer, on_progress)
        compacting = Compacting(self._writer, self._stored, on_progress)
        before = self.backend.disk_use()
        plan = cleaning.plan(retention, utc(SYSTEM_CLOCK.now()))
        if dry_run or confirm is not None:
            going = [Removed(each.candidate.state_id, each.reason, each.bytes) for each in plan.going]
            records = compacting.foresee(plan.reductions)
            planned = self._cleaned(plan, (going, plan.kept()), records, grace, began, before, is_dry_run=True)
            if dry_run or (confirm is not None and not confirm(planned)):
                return planned
        states = cleaning.carry_out(plan)
        records = compacting.carry_out(plan.reductions)
        done = self._cleaned(plan, states, records, grace, began, before, is_dry_run=False)
        not_compacted = _compact(cleaning, self.backend) if compact else None
        return msgspec.structs.replace(
            done,
            disk_after=self.backend.disk_use(),
            not_compacted_because=not_compacted,
            duration_s=time.monotonic() - began,
        )

    def _configured_retention(self) -> Retention:
        self.config.current()
        retention = self.config.retention
        if retention is None:
            raise UsageError(
                "No retention is given, and no limit is configured.",
                "Give `Retention(max_age=…)`, or set a limit in [retention] of limpet.toml.",
            )
        return retention

    def _cleaned(
        self,
        plan: Plan,
        states: tuple[list[Removed], Counter[str]],
        records: tuple[list[Compacted], Counter[str]],
        grace: timedelta,
        began: float,
        before: DiskUse | None,
        *,
        is_dry_run: bool,
    ) -> Cleanup:
        """The report on states and records that went or would go, after the artifacts have."""
        removed, kept = states
        compacted, left_whole = records
        collected: Collected | None = None
        why: str | None = None
        if self.artifacts is not None and (self.artifacts.list_artifacts(limit=1) or self.artifacts.pins()):
            without = [each.state_id for each in removed] if is_dry_run else ()
            lose = {each.state_id for each in compacted} if is_dry_run else ()
            reduced = {
                each.candidate.state_id: each.compacts for each in plan.reductions if each.candidate.state_id in lose
            }
            try:
                collected = self._collect(
                    self.artifacts, grace=grace, is_dry_run=is_dry_run, without=without, reduced=reduced
                )
            except (ArtifactsShared, StateCorrupted, NotEncrypted, WrongKey, UnsupportedVersion) as error:
                why = str(error)
        return Cleanup(
            removed=removed,
            kept=dict(kept),
            compacted=compacted,
            left_whole=dict(plan.left_whole + left_whole),
            artifacts=0 if collected is None else len(collected.deleted),
            artifact_bytes=0 if collected is None else collected.freed,
            artifacts_kept_because=why,
            disk_before=before,
            duration_s=time.monotonic() - began,
            is_dry_run=is_dry_run,
        )


def _compact(cleaning: Cleaning, backend: StateBackend) -> str | None:
    """Give free room back to the disk, or say why not."""
    if cleaning.is_in_use():
        return "a process runs a state in this store, and would be kept from writing"
    backend.compact()
    return None
