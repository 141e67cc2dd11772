"""The caller's mistakes, and what is not installed: trying the same again does not help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from limpet.errors.root import LimpetError


def _nearest(names: Sequence[str]) -> str:
    return f" Nearest: {', '.join(repr(name) for name in names)}." if names else ""


class UsageError(LimpetError):
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
        LimpetError.__init__(self, state_id, nearest)
        self.state_id = state_id
        self.nearest = nearest

    def __str__(self) -> str:
        return (
            f"No state {self.state_id!r} is in this store.{_nearest(self.nearest)} "
            "`limpet list` shows the states; check the id and the store (--store, LIMPET_STORE)."
        )


class UnknownStore(UsageError):
    """Nothing is stored there yet, and nothing was to be made."""

    def __init__(self, url: str) -> None:
        LimpetError.__init__(self, url)
        self.url = url

    def __str__(self) -> str:
        return (
            f"There is no store at {self.url!r} yet. Check the folder and the name (--store, LIMPET_STORE); the "
            "first run makes the store."
        )


class UnknownAddress(UsageError):
    """No event stands at that address in that state."""

    def __init__(self, address: str, state_id: str, nearest: tuple[str, ...] = ()) -> None:
        LimpetError.__init__(self, address, state_id, nearest)
        self.address = address
        self.state_id = state_id
        self.nearest = nearest

    def __str__(self) -> str:
        return (
            f"No event stands at {self.address!r} in state {self.state_id!r}.{_nearest(self.nearest)} "
            f"`limpet show {self.state_id}` lists them all."
        )


class AmbiguousAddress(UsageError):
    """The text means several events of that state."""

    def __init__(self, address: str, state_id: str, candidates: tuple[str, ...]) -> None:
        LimpetError.__init__(self, address, state_id, candidates)
        self.address = address
        self.state_id = state_id
        self.candidates = candidates

    def __str__(self) -> str:
        shown = ", ".join(repr(candidate) for candidate in self.candidates[:5])
        more = f" and {len(self.candidates) - 5} more" if len(self.candidates) > 5 else ""
        return (
            f"{self.address!r} may mean any of {len(self.candidates)} events in state {self.state_id!r}: {shown}{more}."
            " Give the whole address of one of them."
        )


class UnknownTimeline(UsageError):
    """A state has no timeline of that number."""

    def __init__(self, number: int, state_id: str, known: int) -> None:
        LimpetError.__init__(self, number, state_id, known)
        self.number = number
        self.state_id = state_id
        self.known = known

    def __str__(self) -> str:
        known = "only the timeline 1" if self.known == 1 else f"the timelines 1 to {self.known}"
        return (
            f"State {self.state_id!r} has no timeline {self.number!r}: it has {known}. "
            f"`limpet lineage {self.state_id}` shows them."
        )


class UnknownCheckpoint(UsageError):
    """No checkpoint of a state stands at that position."""

    def __init__(self, position: int, state_id: str, known: tuple[int, ...]) -> None:
        LimpetError.__init__(self, position, state_id, known)
        self.position = position
        self.state_id = state_id
        self.known = known

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.known[-5:]))
        have = f"its newest checkpoints are at {shown}" if self.known else "no checkpoint was saved in it"
        return (
            f"State {self.state_id!r} has no checkpoint at position {self.position!r}: {have}. Give the position that "
            "`save_checkpoint` returned, or one that `limpet show` lists."
        )


class TimelineDropped(UnknownTimeline):
    """A cleanup has dropped records of that timeline."""

    def __str__(self) -> str:
        return (
            f"Timeline {self.number!r} of state {self.state_id!r} is not whole any more: a cleanup has dropped records "
            f"that only earlier timelines had. Look at its current one, {self.known!r}, or at a backup from before."
        )


class CheckpointDropped(UnknownCheckpoint):
    """A cleanup has dropped that checkpoint, or records that stood before it."""

    def __str__(self) -> str:
        return (
            f"The checkpoint at position {self.position!r} of state {self.state_id!r} cannot be gone back to: a "
            "cleanup has dropped it, or what stood before it. Run on from an event, or look at a backup from before."
        )


class WrongReplacement(UsageError):
    """The value that is to stand in place of a recorded result is of another type than that."""

    def __init__(self, address: str, recorded: str, given: str) -> None:
        LimpetError.__init__(self, address, recorded, given)
        self.address = address
        self.recorded = recorded
        self.given = given

    def __str__(self) -> str:
        return (
            f"The result at {self.address!r} is {self.recorded} and cannot be replaced by {self.given}: the code that "
            f"uses it expects the type that was recorded. Give a value of the type {self.recorded}; or, where the "
            "actor may really return the other one, say `any_type=True` (--any-type)."
        )


class OnceAgain(UsageError):
    """Running on would execute again what is declared ``once`` and is recorded. Nothing was executed."""

    def __init__(self, state_id: str, actors: tuple[str, ...]) -> None:
        LimpetError.__init__(self, state_id, actors)
        self.state_id = state_id
        self.actors = actors

    def __str__(self) -> str:
        return (
            f"Running {self.state_id!r} on from there would execute {', '.join(self.actors)} again, which is declared "
            "once and has been executed. Say `again=True` (--again on the command line) if that is meant, or run on "
            "from behind it."
        )


class RolledBack(UsageError):
    """What a run had done was undone, so it cannot go on from there."""

    def __init__(self, state_id: str) -> None:
        LimpetError.__init__(self, state_id)
        self.state_id = state_id

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} was rolled back: what it had done is undone, or about to be. Run it anew from "
            f"the start, on a new timeline: `rerun({self.state_id!r})`, or `limpet rerun {self.state_id}`."
        )


class InvalidStateId(UsageError):
    """The text cannot be the id of a state."""

    def __init__(self, state_id: object, why: str) -> None:
        LimpetError.__init__(self, state_id, why)
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
        LimpetError.__init__(self, address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.address!r} is not an address: {self.why}. An address looks like 'research::fetch#2::tool_call'; "
            "`limpet show STATE` lists those of a state."
        )


class InvalidStoreUrl(UsageError):
    """The URL names no store that can be opened."""

    def __init__(self, url: str, why: str) -> None:
        LimpetError.__init__(self, url, why)
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
        LimpetError.__init__(self, place, why)
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
        LimpetError.__init__(self, reference, why)
        self.reference = reference
        self.why = why

    def __str__(self) -> str:
        return (
            f"The agent {self.reference!r} was not found: {self.why}. Import the module that declares it first, "
            "give it with `agent=`, or name it as 'module:agent' on the command line."
        )


class AgentNotAllowed(UsageError):
    """A stored state names code that nobody has allowed to be run; it was not imported."""

    def __init__(self, reference: str, place: str) -> None:
        LimpetError.__init__(self, reference, place)
        self.reference = reference
        self.place = place

    def __str__(self) -> str:
        # What stands before the name is what would have to be allowed.
        entry = self.reference.rpartition(":")[0]
        return (
            f"The state names the agent {self.reference!r}, and {self.place!r} is neither imported by this program nor "
            "part of the current project. It was not run, as a state must not choose what is executed. If you trust "
            f"that code, allow {entry!r} with `--app`, with `Limpet(modules=…)` or in [run] modules of the "
            "configuration (LIMPET_RUN_MODULES); or give the agent with `agent=`."
        )


class StateMismatch(UsageError):
    """The state id belongs to a run of another agent or of another input; nothing was changed."""

    def __init__(self, state_id: str, what: str) -> None:
        LimpetError.__init__(self, state_id, what)
        self.state_id = state_id
        self.what = what

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} is another run: {self.what}. Nothing was changed. Give this run an id of its "
            f"own, or go on with the stored one by `resume({self.state_id!r})`."
        )


_DATA = (
    "Return data instead (a dataclass, a pydantic model, plain values), tell how it is stored with `register_type`, or "
    "mark the field with `Annotated[…, NotStored]`."
)
_INSTEAD = {
    "coroutine": "Write `await` before the call.",
    "task": "Await the task.",
    "actor": "Call it, and await the call.",
}
"""What to do about a value that is no result yet."""


class ValueNotStorable(UsageError):
    """A value cannot be written so that it comes back equal and of the same type."""

    def __init__(self, place: str, type_name: str, why: str) -> None:
        LimpetError.__init__(self, place, type_name, why)
        self.place = place
        self.type_name = type_name
        self.why = why

    def __str__(self) -> str:
        return f"{self.place} cannot be stored: {self.type_name} {self.why}. {_INSTEAD.get(self.type_name, _DATA)}"


class InvalidArtifactId(UsageError):
    """The text cannot be the id of an artifact."""

    def __init__(self, artifact_id: object) -> None:
        LimpetError.__init__(self, artifact_id)
        self.artifact_id = artifact_id

    def __str__(self) -> str:
        shown = repr(self.artifact_id)
        shown = shown if len(shown) <= 100 else shown[:97] + "..."
        return (
            f"{shown} cannot be the id of an artifact. An id is 'sha256:' and 64 hexadecimal digits in lower case; "
            "`limpet show STATE` names those of a state."
        )


class ContentChanged(UsageError):
    """What was to be stored as an artifact changed while it was being stored. Nothing was stored."""

    def __init__(self, what: str) -> None:
        LimpetError.__init__(self, what)
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.what} changed while it was being stored as an artifact, and nothing was stored. Finish writing it "
            "before it is returned or stored."
        )


class ArtifactsShared(UsageError):
    """Other stores use these artifacts too, so none of them can be proved unreachable. Nothing was deleted."""

    def __init__(self, artifacts: str, others: tuple[str, ...]) -> None:
        LimpetError.__init__(self, artifacts, others)
        self.artifacts = artifacts
        self.others = others

    def __str__(self) -> str:
        return (
            f"The artifacts at {self.artifacts} are also used by {', '.join(self.others)}, so none can be proved "
            "unreachable from here. Nothing was deleted. Give those stores too, with `also=[…]` (--also on the "
            "command line)."
        )


class InvalidKey(UsageError):
    """The text is not a key for encryption. It is not repeated here."""

    def __init__(self, where: str, why: str) -> None:
        LimpetError.__init__(self, where, why)
        self.where = where
        self.why = why

    def __str__(self) -> str:
        return f"{self.where} gives no key for encryption: {self.why}. `limpet key` makes a new one."


class NotImported(UsageError):
    """The file or folder is no exported state that can be read. Nothing was imported."""

    def __init__(self, path: str, why: str) -> None:
        LimpetError.__init__(self, path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be imported: {self.why}. Nothing was changed. Export the state again where it comes "
            "from (`limpet export`), or name another file or folder."
        )


class ImportTooLarge(NotImported):
    """What is to be imported is larger than is allowed, packed or unpacked. Nothing was imported."""

    def __init__(self, path: str, why: str, max_bytes: int) -> None:
        LimpetError.__init__(self, path, why, max_bytes)
        self.path = path
        self.why = why
        self.max_bytes = max_bytes
        """How many bytes were allowed in all."""

    def __str__(self) -> str:
        return (
            f"{self.path} is not imported, since {self.max_bytes:,} bytes are allowed: {self.why}. Nothing was "
            "changed. If it comes from somebody you trust, allow more with `limpet import --max-size 10GB`, or "
            "`import_(…, max_bytes=10 * 10**9)`."
        )


class ConfigurationProblem(NamedTuple):
    """One thing that is not right in a configuration."""

    where: str
    """``limpet.toml:12``, the name of a variable of the environment, or ``argument``."""
    key: str
    """``retry.max_attempts``; empty where it is the file as a whole."""
    what: str
    """What is wrong, and what is allowed; a whole sentence."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class ConfigurationError(UsageError):
    """Settings in a file, the environment or arguments are not right. ``problems`` has all of them."""

    def __init__(self, problems: tuple[ConfigurationProblem, ...]) -> None:
        LimpetError.__init__(self, problems)
        self.problems = problems

    def __str__(self) -> str:
        remedy = "Put that right; `limpet config check` says what is left."
        if len(self.problems) == 1:
            return f"The configuration is not right. {self.problems[0]} {remedy}"
        first = f"The configuration is not right in {len(self.problems)} places."
        return "\n".join([first, *(f"  {problem}" for problem in self.problems), remedy])


class MissingDependency(LimpetError):
    """An optional part is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(feature, package, extra)
        self.feature = feature
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return (
            f"{self.feature} needs the package {self.package}, which is not installed. Install it with "
            f"`pip install 'limpet[{self.extra}]'`."
        )
