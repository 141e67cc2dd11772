"""The verbs that move states: from one store to another, into a backup, into a file and out of it.

What they are made of is loaded when it is first asked for, so that programs which only run agents start sooner.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from os import PathLike
from pathlib import Path

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateBackend
from limpet.client.opened import OpenedStore
from limpet.engine.progress import Told
from limpet.model import checked_state_id
from limpet.model.moving import Copied

Place = str | StateBackend | OpenedStore
"""A store: its URL, its backend, or an opened Limpet."""


class Moving(OpenedStore):
    """``copy``, ``backup``, ``export`` and ``import_``."""

    @staticmethod
    def copy(
        source: Place,
        target: Place,
        *,
        states: str | Iterable[str] | None = None,
        on_progress: Told | None = None,
    ) -> Copied:
        """Copy states from one store to another, of any kind: all of them, or those that are named.

        A state appears in the target whole or not at all, with its header, its timelines and its artifacts, and can be
        resumed there at once. What forks share stays shared. A state that is being run is copied as it stood at one
        moment. One that is in the target already is brought up to date, so a copy that is repeated, or was stopped,
        costs only what is new.

        What cannot be copied is in ``refused`` of the report, with the reason: a damaged state, or one whose id is
        another state's in the target. Of one state alone, given by its id, the reason is raised. Records are copied as
        they are stored, so encrypted ones stay encrypted; the key of the source is needed to find their artifacts.
        """
        from limpet.engine.copying import Copying

        with ExitStack() as opened:
            copying = Copying(Moving._opened(source, opened, create=False), Moving._opened(target, opened, create=True))
            if isinstance(states, str):
                return copying.copy_one(checked_state_id(states))
            return copying.copy(states, on_progress)

    def backup(self, target: Place, *, on_progress: Told | None = None) -> Copied:
        """Copy all states into a target, which is made where it is missing, and read each back that was written.

        Safe while others write to this store: each state is copied as it stood at one moment. Repeated into the same
        target it costs only what is new. The target is a store like any other: list it, run it, copy it back.
        """
        from limpet.engine.copying import Copying

        with ExitStack() as opened:
            copying = Copying((self.backend, self._stored), self._opened(target, opened, create=True), verifies=True)
            return copying.copy(None, on_progress)

    def export(
        self,
        state_id: str,
        path: str | PathLike[str],
        *,
        as_folder: bool = False,
        overwrite: bool = False,
        on_progress: Told | None = None,
    ) -> Path:
        """Write one state to a file that can be carried anywhere, and give its path. ``import_`` reads it.

        Everything is in it: the header, all timelines, the artifacts, and the records that it shares with others. It is
        a zip of readable JSON, or with ``as_folder`` a folder of the same. It appears only when it is whole, and only
        its owner may read it. What is encrypted stays encrypted; the key is needed to find the artifacts. Raises
        UnknownState, StateCorrupted, WrongKey, or UsageError where something stands there; with ``overwrite`` a file is
        replaced, and a folder if it holds an export and nothing else.
        """
        from limpet.engine.copying import original_in
        from limpet.engine.portable.writing import write_export

        original = original_in(self.backend, self._stored, self._header(state_id).state_id)
        target = Path(path)
        write_export(original, target, as_folder=as_folder, overwrite=overwrite, on_progress=on_progress)
        return target

    def import_(
        self, path: str | PathLike[str], *, max_bytes: int | None = None, on_progress: Told | None = None
    ) -> str:
        """Take in the state that ``export`` has written to a file or a folder, and give its id.

        It is checked in full before anything is stored, appears whole or not at all, and can be resumed at once. Where
        the id is there with the same records nothing is done; with others it is refused with UsageError.

        A folder ``.state_store`` as the seeds of Limpet wrote it, or one ``states/….json`` of it, is taken in as
        history that is over, to be looked at and compared; of several states the id of the newest is given
        (``import_all`` gives them all).

        The file may come from anybody: nothing in it is run, and no more is read than ``max_bytes`` in all, unpacked
        (1 GB where it is not given); a part of that for what is held in memory. Raises ImportTooLarge, NotImported,
        UnsupportedVersion, WrongKey; then nothing was changed.
        """
        return self.import_all(path, max_bytes=max_bytes, on_progress=on_progress)[-1]

    def import_all(
        self, path: str | PathLike[str], *, max_bytes: int | None = None, on_progress: Told | None = None
    ) -> list[str]:
        """As ``import_``, and give the ids of all states that were in it, the oldest first."""
        from limpet.engine.importing import import_states

        return import_states(Path(path), self.backend, self._stored, max_bytes, on_progress)

    @staticmethod
    def _opened(place: Place, opened: ExitStack, *, create: bool) -> tuple[StateBackend, StoredValues]:
        store = place if isinstance(place, OpenedStore) else opened.enter_context(OpenedStore(place, create=create))
        return store.backend, store._stored
