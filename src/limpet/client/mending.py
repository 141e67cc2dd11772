"""The verbs that look after what is stored: check it, go on with what is damaged, bring it to the newest format.

What they are made of is loaded when it is first asked for, so that programs which only run agents start sooner.
"""

from __future__ import annotations

from limpet.client.moving import Moving
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.progress import Told
from limpet.errors import LimpetError, UsageError
from limpet.model import Diagnosis, Migrated, Recovered, Verification
from limpet.model.header import utc


class Mending(Moving):
    """``verify``, ``doctor``, ``recover`` and ``migrate``."""

    def verify(self, state_id: str) -> Verification:
        """Check every record of a state, its header, and the artifacts that it names. Nothing is changed.

        Needs no key but to know which artifacts are named. Raises UnknownState, UnsupportedVersion.
        """
        from limpet.engine.verifying import Verifier

        return Verifier(self.backend, self._stored).verify(self._header_as_it_is(state_id))

    def doctor(self, *, repair: bool = False, on_progress: Told | None = None) -> Diagnosis:
        """Check the whole store: all states, all artifacts they name, and what the backend knows of itself.

        With ``repair`` what can be derived anew is put right: an index, what a crash left behind. States are never
        changed here: a damaged one is gone on with by ``recover``. Raises UnsupportedVersion.
        """
        from limpet.engine.verifying import Verifier

        return Verifier(self.backend, self._stored).diagnose(repair=repair, on_progress=on_progress)

    def recover(self, state_id: str, *, again: bool = False) -> Recovered:
        """Make what stands before the damage of a state its current timeline, from which it can be resumed.

        Nothing is deleted: what is damaged, and what is intact behind it, stay in the journal outside of that timeline.
        Calls whose results stood there are executed again when the state is resumed; ``again`` says that this may
        happen to those that are declared ``once``. A header that is damaged is made anew from the journal. Of a sound
        state nothing is changed. Raises UnknownState, LeaseHeld, OnceAgain, WrongKey; UsageError where nothing is left.
        """
        from limpet.engine.recovering import recover_state

        return recover_state(self._writer, self._stored, self._header_as_it_is(state_id), again=again)

    def migrate(self, *, backup: str | bool = True, on_progress: Told | None = None) -> Migrated:
        """Rewrite all records that are of an older format in the newest one, after copying the store.

        Older records are read as they are, so this is never urgent. ``backup`` is the URL of the copy; True makes one
        beside the store, and False none. Where nothing is old, nothing is copied or changed. States that are being run,
        or are damaged, are left as they are and reported; those that share records are rewritten together or not at
        all.
        """
        from limpet.engine.migrating import families_of, migrate_family

        families = families_of(self.backend)
        old = [family for family in families if family.old]
        unchanged = sum(len(family.headers) for family in families if not family.old)
        if not old:
            return Migrated(states=0, records=0, unchanged=unchanged, backup=None)
        target = self._back_up(backup, on_progress)
        states = records = 0
        refused: dict[str, str] = {}
        for done, family in enumerate(old, 1):
            try:
                migrate_family(self._writer, self._stored, family)
            except LimpetError as error:
                refused |= {header.state_id: str(error) for header in family.headers}
            else:
                states += len(family.headers)
                records += family.old
            if on_progress is not None:
                on_progress(done, len(old), family.headers[-1].state_id)
        return Migrated(states=states, records=records, unchanged=unchanged, backup=target, refused=refused)

    def _back_up(self, backup: str | bool, on_progress: Told | None) -> str | None:
        if backup is False:
            return None
        target = self._place_of_backup() if backup is True else backup
        copied = self.backup(target, on_progress=on_progress)
        if copied.refused:
            named = ", ".join(sorted(copied.refused))
            raise UsageError(
                f"Not every state could be copied to {target}, so nothing was rewritten: {named}.",
                "`limpet doctor` says what is wrong with them; or migrate with `backup=False`.",
            )
        return target

    def _place_of_backup(self) -> str:
        name = self.backend.name
        if not name.startswith(("sqlite://", "file://")):
            raise UsageError(
                f"There is no place beside the store {name} for a copy of it.",
                "Name one with `backup='sqlite:///copy.db'`, or do without with `backup=False`.",
            )
        return f"{name}.{utc(SYSTEM_CLOCK.now()):%Y-%m-%dT%H-%M-%S}.backup"
