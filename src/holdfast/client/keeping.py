"""The verbs that delete: states, and artifacts that nothing names any more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta

from holdfast.artifacts.stored_values import StoredValues
from holdfast.backends.contract import Claim, StateBackend
from holdfast.client.opened import OpenedStore
from holdfast.engine.clock import SYSTEM_CLOCK
from holdfast.engine.collect import Collected, Collector
from holdfast.engine.lease import new_holder
from holdfast.engine.opening import acquire_now
from holdfast.errors import UsageError
from holdfast.stores import open_store

GRACE = timedelta(hours=1)
"""How long artifacts that nothing names stay, unless another time is asked for."""


class Keeping(OpenedStore):
    """``collect`` and ``delete``."""

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
            cipher = self._stored.cipher
            stores = [(other, StoredValues(None, store_id=other.store_id, cipher=cipher)) for other in others]
            collector = Collector(self.artifacts, [(self.backend, self._stored), *stores])
            return collector.collect(put_before=SYSTEM_CLOCK.now() - grace.total_seconds(), is_dry_run=dry_run)

    def delete(self, state_id: str) -> None:
        """Delete a state for good, also a damaged one. Raises UnknownState, or LeaseHeld while it is being run.

        Its artifacts stay until they are collected, as other states may name them too.
        """
        header = self._header_as_it_is(state_id)
        ttl_s = self._writer.keeper.ttl_s
        claim = Claim(header=header, holder=new_holder(), ttl_s=ttl_s, create=False, reopen=True, mend=True)
        grant = acquire_now(self._writer, claim)
        if grant is not None:
            self.backend.delete_state(state_id, grant.lease)
