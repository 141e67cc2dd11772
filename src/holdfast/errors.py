"""The whole error tree. The type says whose fault it is and whether trying again helps.

HoldfastError
├─ UsageError              the caller's mistake
│  ├─ UnknownState         no state has that id
│  ├─ UnknownStore         nothing is stored there yet
│  ├─ UnknownAddress       no event stands at that address
│  ├─ InvalidStateId       the id cannot name a state
│  ├─ InvalidAddress       the text is not an address
│  ├─ InvalidStoreUrl      the URL names no backend that we have
│  ├─ InvalidMetadata      the metadata holds something that is not plain JSON
│  ├─ AgentNotFound        nothing runnable is known under that name
│  ├─ StateMismatch        the id belongs to a run of another agent or another input
│  └─ ValueNotStorable     a value cannot be written so that it comes back equal
├─ ReplayError             the journal and the code disagree
│  ├─ NotRecorded          a rehearsal reached a call that has no recorded outcome
│  └─ ValueNotReadable     a recorded value cannot be built again in this program
├─ BackendError            the store
│  ├─ BackendUnavailable   it does not answer now; trying again may help
│  │  └─ StoreFull         there is no room left
│  ├─ LeaseHeld            another process runs this state; trying again later helps
│  ├─ LeaseLost            this process no longer has the right to write the state
│  ├─ PositionTaken        a record does not fit the position it was to be written at
│  ├─ StoreNotWritable     the file or folder may not be written
│  ├─ NotAStore            the file is something else
│  ├─ UnsupportedVersion   written by a newer Holdfast
│  ├─ StoreDamaged         the store as a whole cannot be read
│  └─ StateCorrupted       the stored bytes of one state are damaged
└─ EventFailed             user code failed
   └─ ConditionFailed      a precondition or postcondition did not hold

Arguments go unchanged to ``super().__init__`` and the text is built in ``__str__``, so that errors survive pickling
between processes. Every text says what happened, to which thing, why, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(Exception):
    """The root of every error that Holdfast raises."""


def _nearest(names: Sequence[str]) -> str:
    return f" Nearest: {', '.join(repr(name) for name in names)}." if names else ""


class UsageError(HoldfastError):
    """The caller's mistake: trying the same again does not help. ``UsageError(problem, remedy)``."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}"


class UnknownState(UsageError):
    """No state has that id in that store."""

    def __init__(self, state_id: str, nearest: tuple[str, ...] = ()) -> None:
        HoldfastError.__init__(self, state_id, nearest)
        self.state_id = state_id
        self.nearest = nearest

    def __str__(self) -> str:
        return (
            f"No state {self.state_id!r} is in this store.{_nearest(self.nearest)} "
            "`holdfast list` shows the states; check the id and the store (--store, HOLDFAST_STORE)."
        )


class UnknownStore(UsageError):
    """Nothing is stored there yet, and nothing was to be made."""

    def __init__(self, url: str) -> None:
        HoldfastError.__init__(self, url)
        self.url = url

    def __str__(self) -> str:
        return (
            f"There is no store at {self.url!r} yet. Check the folder and the name (--store, HOLDFAST_STORE); the "
            "first run makes the store."
        )


class UnknownAddress(UsageError):
    """No event stands at that address in that state."""

    def __init__(self, address: str, state_id: str, nearest: tuple[str, ...] = ()) -> None:
        HoldfastError.__init__(self, address, state_id, nearest)
        self.address = address
        self.state_id = state_id
        self.nearest = nearest

    def __str__(self) -> str:
        return (
            f"No event stands at {self.address!r} in state {self.state_id!r}.{_nearest(self.nearest)} "
            f"`holdfast show {self.state_id}` lists them all."
        )


class InvalidStateId(UsageError):
    """The text cannot be the id of a state."""

    def __init__(self, state_id: object, why: str) -> None:
        HoldfastError.__init__(self, state_id, why)
        self.state_id = state_id
        self.why = why

    def __str__(self) -> str:
        shown = repr(self.state_id)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return (
            f"{shown} cannot be a state id: {self.why}. Use 1 to 200 letters, digits and the characters - _ . @ + = , "
            "beginning with a letter or digit."
        )


class InvalidAddress(UsageError):
    """The text is not an address."""

    def __init__(self, address: str, why: str) -> None:
        HoldfastError.__init__(self, address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.address!r} is not an address: {self.why}. An address looks like 'research::fetch#2::tool_call'; "
            "`holdfast show STATE` lists those of a state."
        )


class InvalidStoreUrl(UsageError):
    """The URL names no store that can be opened."""

    def __init__(self, url: str, why: str) -> None:
        HoldfastError.__init__(self, url, why)
        self.url = url
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.url!r} is not a store: {self.why}. Use sqlite:///runs.db (relative), sqlite:////var/runs.db "
            "(absolute) or memory://."
        )


class InvalidMetadata(UsageError):
    """The metadata of a state holds something that is not plain JSON."""

    def __init__(self, place: str, why: str) -> None:
        HoldfastError.__init__(self, place, why)
        self.place = place
        self.why = why

    def __str__(self) -> str:
        return (
            f"The metadata cannot be stored: {self.place} {self.why}. Metadata is for searching and is plain JSON "
            "(text, numbers, true/false, None, lists, dicts); put other values into `state.storage`."
        )


class AgentNotFound(UsageError):
    """Nothing runnable is known under that name."""

    def __init__(self, reference: str, why: str) -> None:
        HoldfastError.__init__(self, reference, why)
        self.reference = reference
        self.why = why

    def __str__(self) -> str:
        return (
            f"The agent {self.reference!r} was not found: {self.why}. Import the module that declares it first, "
            "give it with `agent=`, or name it as 'module:agent' on the command line."
        )


class StateMismatch(UsageError):
    """The state id belongs to a run of another agent or of another input; nothing was changed."""

    def __init__(self, state_id: str, what: str) -> None:
        HoldfastError.__init__(self, state_id, what)
        self.state_id = state_id
        self.what = what

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} is another run: {self.what}. Nothing was changed. Give this run an id of its "
            f"own, or go on with the stored one by `resume({self.state_id!r})`."
        )


class ValueNotStorable(UsageError):
    """A value cannot be written so that it comes back equal and of the same type."""

    def __init__(self, place: str, type_name: str, why: str) -> None:
        HoldfastError.__init__(self, place, type_name, why)
        self.place = place
        self.type_name = type_name
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.place} cannot be stored: {self.type_name} {self.why}. Return data instead (a dataclass, a pydantic "
            "model, plain values), or leave this part out."
        )


class ReplayError(HoldfastError):
    """The journal and the code disagree."""


class NotRecorded(ReplayError):
    """A rehearsal executes nothing, and reached a call that has no recorded outcome."""

    def __init__(self, address: str, state_id: str) -> None:
        super().__init__(address, state_id)
        self.address = address
        self.state_id = state_id

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} has no recorded outcome at {self.address!r}, and a rehearsal executes nothing. "
            "Run it in ReplayMode.NORMAL to execute the call, or compare the addresses with `holdfast show`."
        )


class ValueNotReadable(ReplayError):
    """A recorded value cannot be built again in this program: its bytes or its type are not what they were."""

    def __init__(self, type_name: str, why: str) -> None:
        super().__init__(type_name, why)
        self.type_name = type_name
        self.why = why

    def __str__(self) -> str:
        return (
            f"A recorded value of type {self.type_name} cannot be read: {self.why}. Import the module that declares "
            "the type under that name before resuming."
        )


class BackendError(HoldfastError):
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
    """The right to write the state has passed to another process; this one has written nothing since."""

    def __init__(self, state_id: str, fence: int) -> None:
        super().__init__(state_id, fence)
        self.state_id = state_id
        self.fence = fence

    def __str__(self) -> str:
        return (
            f"This process may no longer write state {self.state_id!r}: its lease (fence {self.fence}) ran out or was "
            "handed over while it was paused or cut off, and another process took the state up. Nothing more was "
            f"written here. `holdfast show {self.state_id}` shows how the other one goes on."
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
        return f"{self.store} is not a Holdfast store: {self.why}. It was left as it is; name another file."


class UnsupportedVersion(BackendError):
    """Written by a newer Holdfast than this one."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(what, found, known)
        self.what = what
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"{self.what} has format version {self.found}; this Holdfast knows versions up to {self.known}. It was "
            "left as it is; install a newer Holdfast (`pip install -U holdfast`)."
        )


class StoreDamaged(BackendError):
    """The store as a whole cannot be read: not one state, but what holds them is damaged."""

    def __init__(self, store: str, why: str) -> None:
        super().__init__(store, why)
        self.store = store
        self.why = why

    def __str__(self) -> str:
        return (
            f"The store {self.store} is damaged: {self.why}. Restore it from a backup; `sqlite3 FILE .recover` saves "
            "what is intact of an SQLite file."
        )


class StateCorrupted(BackendError):
    """The stored bytes of a state are damaged; the text names the first place."""

    def __init__(self, state_id: str, seq: int, why: str) -> None:
        super().__init__(state_id, seq, why)
        self.state_id = state_id
        self.seq = seq
        self.why = why

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} is damaged at record {self.seq}: {self.why}. The records before it are intact; "
            "restore the store from a backup, or delete the state and run again."
        )


class EventFailed(HoldfastError):
    """User code failed at an address; the original, where there is one, is ``__cause__``."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return f"The event at {self.address!r} failed: {self.why}. Mend the cause and run again; it goes on from there."


class ConditionFailed(EventFailed):
    """A precondition or postcondition of an actor did not hold."""

    def __str__(self) -> str:
        return (
            f"The event at {self.address!r} was stopped: {self.why}. Mend its input or the condition and run again; it "
            "goes on from there."
        )


class DriftWarning(UserWarning):
    """A recorded result was used although the input or the actor's version is no longer what it was."""
