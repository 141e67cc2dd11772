"""The store failed, or refused."""

from __future__ import annotations

from limpet.errors.root import LimpetError


class BackendError(LimpetError):
    """The store failed, or refused."""


class BackendUnavailable(BackendError):
    """The store does not answer now. Nothing was half-written; trying again may help."""

    def __init__(self, store: str, why: str) -> None:
        super().__init__(store, why)
        self.store = store
        self.why = why

    def __str__(self) -> str:
        return f"The store {self.store} does not answer: {self.why}. What was acknowledged is safe; run again to go on."


class StoreFull(BackendUnavailable):
    """There is no room left. Nothing was half-written; make room and run again."""

    def __str__(self) -> str:
        return (
            f"There is no room left for the store {self.store}: {self.why}. What was acknowledged is safe; make room "
            "and run again to go on."
        )


class LeaseHeld(BackendError):
    """Another process, or another run in this one, is running the state. It was left alone."""

    def __init__(self, state_id: str, holder: str, expires_in_s: float) -> None:
        super().__init__(state_id, holder, expires_in_s)
        self.state_id = state_id
        self.holder = holder
        self.expires_in_s = expires_in_s

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} is being run by {self.holder}, whose lease lasts {self.expires_in_s:.0f} s more "
            "unless it is renewed. Wait for it with `wait_s=…` (--wait on the command line), or stop that process: its "
            "state can then be taken up at once."
        )


class LeaseLost(BackendError):
    """The right to write the state has passed on: to another process, or to another object in this one. Nothing was
    written or begun here since."""

    def __init__(self, state_id: str, fence: int) -> None:
        super().__init__(state_id, fence)
        self.state_id = state_id
        self.fence = fence

    def __str__(self) -> str:
        return (
            f"This process may no longer write state {self.state_id!r}: its lease (fence {self.fence}) ran out or was "
            "handed over while it was paused, cut off or idle, and another process took the state up, or another "
            "object in this one. Nothing more was written or begun here. "
            f"`limpet show {self.state_id}` shows how the other one goes on; load the state again to go on here."
        )


class StateDeleted(LeaseLost):
    """The state was deleted while an object of this process held it and nothing went on in it."""

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} was deleted while this object held it (fence {self.fence}), so nothing more is "
            "written or begun here. Make a new ExecutionState to begin anew."
        )


class LeaseOfParent(LeaseLost):
    """This process was forked from the one that runs the state, which has the right to write it; this one has not."""

    def __init__(self, state_id: str, fence: int, parent: int) -> None:
        # The fence alone would build another error when it is pickled.
        LimpetError.__init__(self, state_id, fence, parent)
        self.state_id = state_id
        self.fence = fence
        self.parent = parent

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} is being run by process {self.parent}, from which this process was forked "
            "meanwhile: nothing is executed or recorded for it here. End the child with `os._exit` when its work is "
            "done, or give it a state of its own; load or resume this state here only after process "
            f"{self.parent} has ended or has given it back."
        )


class PositionTaken(BackendError):
    """A record does not fit its position: another one stands there, or the one before it is missing."""

    def __init__(self, state_id: str, seq: int) -> None:
        super().__init__(state_id, seq)
        self.state_id = state_id
        self.seq = seq

    def __str__(self) -> str:
        return (
            f"Record {self.seq} of state {self.state_id!r} cannot be written: another one stands there, or the one "
            "before it is missing. Nothing was written. Load the state anew and go on from what it holds."
        )


class StoreNotWritable(BackendError):
    """The file or its folder may not be written."""

    def __init__(self, store: str, why: str) -> None:
        super().__init__(store, why)
        self.store = store
        self.why = why

    def __str__(self) -> str:
        return (
            f"The store {self.store} cannot be written: {self.why}. Give this user the right to write the file and its "
            "folder, or name another store."
        )


class NotAStore(BackendError):
    """The file exists and is something else. It was left as it is."""

    def __init__(self, store: str, why: str) -> None:
        super().__init__(store, why)
        self.store = store
        self.why = why

    def __str__(self) -> str:
        return f"{self.store} is not a Limpet store: {self.why}. It was left as it is; name another file."


class UnsupportedVersion(BackendError):
    """Written by a newer Limpet than this one."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(what, found, known)
        self.what = what
        self.found = found
        self.known = known

    def __str__(self) -> str:
        this = _installed_version()
        return (
            f"{self.what} has format version {self.found}; this Limpet, {this}, knows versions up to {self.known}. "
            f"It was left as it is; install a newer Limpet (`pip install -U 'limpet>{this}'`)."
        )


def _installed_version() -> str:
    # Loaded here and not above: few programs ever need it, and all would pay for it.
    from importlib import metadata

    try:
        return metadata.version("limpet")
    except metadata.PackageNotFoundError:
        return "0"


class StoreReplaced(BackendError):
    """The files of the store were deleted or replaced while this process had them open. It writes nothing more."""

    def __init__(self, store: str, why: str) -> None:
        super().__init__(store, why)
        self.store = store
        self.why = why

    def __str__(self) -> str:
        return (
            f"The store {self.store} was changed from outside while it was open: {self.why}. What this process would "
            "write goes where nobody will find it, so the last record was not acknowledged, and nothing more is "
            "written. Find out who did it, put the right files back if need be, look at them with `limpet doctor` and "
            "`limpet verify`, and start the program again: runs go on from what is stored there."
        )


class StoreDamaged(BackendError):
    """The store as a whole cannot be read: not one state, but what holds them is damaged."""

    def __init__(self, store: str, why: str) -> None:
        super().__init__(store, why)
        self.store = store
        self.why = why

    def __str__(self) -> str:
        return (
            f"The store {self.store} is damaged: {self.why}. Restore it from a backup. `sqlite3 FILE .recover` saves "
            "what is intact of an SQLite file; in a folder, remove the files that are named, and they are made anew."
        )


class StateCorrupted(BackendError):
    """The stored bytes of a state are damaged; the text names the first place. Number 0 is the header."""

    def __init__(self, state_id: str, seq: int, why: str) -> None:
        super().__init__(state_id, seq, why)
        self.state_id = state_id
        self.seq = seq
        self.why = why

    def __str__(self) -> str:
        place = f" at record {self.seq}" if self.seq else ""
        return (
            f"State {self.state_id!r} is damaged{place}: {self.why}. Restore it from a backup; or go on from before "
            f"the damage: `limpet verify {self.state_id}` says what is intact, and `limpet recover "
            f"{self.state_id}` makes that its current timeline."
        )


class ArtifactMissing(BackendError):
    """A recorded artifact is not there."""

    def __init__(self, artifacts: str, artifact_id: str) -> None:
        super().__init__(artifacts, artifact_id)
        self.artifacts = artifacts
        self.artifact_id = artifact_id

    def __str__(self) -> str:
        return (
            f"The artifact {self.artifact_id} is not at {self.artifacts}. If the store was moved or copied, bring its "
            "artifacts along; if the state was written with another `artifact_backend`, give that one."
        )


class ArtifactCorrupted(BackendError):
    """The stored bytes of an artifact are not those that it is named after."""

    def __init__(self, artifacts: str, artifact_id: str, why: str) -> None:
        super().__init__(artifacts, artifact_id, why)
        self.artifacts = artifacts
        self.artifact_id = artifact_id
        self.why = why

    def __str__(self) -> str:
        return (
            f"The artifact {self.artifact_id} at {self.artifacts} is damaged: {self.why}. Restore it from a backup, or "
            "delete the states that name it and run them again."
        )


class WrongKey(BackendError):
    """What is stored was encrypted with a key that is not given, or was changed since."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what = what
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.what} cannot be decrypted: {self.why}. Give the key that it was written with (LIMPET_KEY, or "
            "`encryption=`); after a rotation the old keys stand behind the new one."
        )


class NotEncrypted(BackendError):
    """A record is in clear where a key is given and only encrypted records are accepted."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.what} is not encrypted although a key is given, so it was refused: it may be forged. If it was "
            "written before encryption was switched on, say so with `Encryption(…, accept_plain=True)`."
        )
