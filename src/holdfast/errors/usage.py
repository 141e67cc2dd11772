"""The caller's mistakes, and what is not installed: trying the same again does not help."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.root import HoldfastError


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
            "model, plain values), tell how it is stored with `register_type`, or mark the field with "
            "`Annotated[…, NotStored]`."
        )


class InvalidArtifactId(UsageError):
    """The text cannot be the id of an artifact."""

    def __init__(self, artifact_id: object) -> None:
        HoldfastError.__init__(self, artifact_id)
        self.artifact_id = artifact_id

    def __str__(self) -> str:
        shown = repr(self.artifact_id)
        shown = shown if len(shown) <= 100 else shown[:97] + "..."
        return (
            f"{shown} cannot be the id of an artifact. An id is 'sha256:' and 64 hexadecimal digits in lower case; "
            "`holdfast show STATE` names those of a state."
        )


class ContentChanged(UsageError):
    """What was to be stored as an artifact changed while it was being stored. Nothing was stored."""

    def __init__(self, what: str) -> None:
        HoldfastError.__init__(self, what)
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.what} changed while it was being stored as an artifact, and nothing was stored. Finish writing it "
            "before it is returned or stored."
        )


class ArtifactsShared(UsageError):
    """Other stores use these artifacts too, so none of them can be proved unreachable. Nothing was deleted."""

    def __init__(self, artifacts: str, others: tuple[str, ...]) -> None:
        HoldfastError.__init__(self, artifacts, others)
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
        HoldfastError.__init__(self, where, why)
        self.where = where
        self.why = why

    def __str__(self) -> str:
        return f"{self.where} gives no key for encryption: {self.why}. `holdfast key` makes a new one."


class MissingDependency(HoldfastError):
    """An optional part is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(feature, package, extra)
        self.feature = feature
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return (
            f"{self.feature} needs the package {self.package}, which is not installed. Install it with "
            f"`pip install 'holdfast[{self.extra}]'`."
        )
