"""What to do with a call, given what stands at its address and the mode of replay; and what has drifted since."""

from __future__ import annotations

from enum import Enum, auto

from limpet.model import EventRecord, ExecutionStatus, ReplayMode

INPUT_CHANGED = "its input changed"


class Decision(Enum):
    """What happens with a call."""

    SKIP = auto()
    """Its recorded outcome is given: the result, or the failure raised again."""
    EXECUTE = auto()
    """The handler runs, and what becomes of it is recorded."""
    ENTER = auto()
    """The handler of an agent runs, on the recorded outcomes of what it calls; nothing is recorded."""
    COMPARE = auto()
    """The handler runs, and its outcome is compared with the recorded one; nothing is recorded."""
    REFUSE = auto()
    """Nothing runs, and the call is an error."""


def decide(
    mode: ReplayMode, recorded: ExecutionStatus | None, is_to_retry: bool = False, is_orchestration: bool = False
) -> Decision:
    """Decide by the newest status recorded at the address, and whether its failure is to be tried again.

    ``is_orchestration`` says that it is an agent inside which something is recorded: a rehearsal runs its code.
    """
    if mode is ReplayMode.VALIDATION:
        return Decision.COMPARE
    if mode is ReplayMode.REHEARSAL and is_orchestration:
        return Decision.ENTER
    if recorded is ExecutionStatus.COMPLETED or (recorded is ExecutionStatus.FAILED and not is_to_retry):
        return Decision.SKIP
    return Decision.REFUSE if mode is ReplayMode.REHEARSAL else Decision.EXECUTE


def drift(record: EventRecord, version: str | None, fingerprint: bytes) -> str | None:
    """What no longer agrees with the record: the input, the actor's version, both; None if all agrees.

    Replay trusts what stands at an address all the same. An empty fingerprint says that the input was not looked at.
    """
    changed: list[str] = []
    before = record.input_fingerprint
    if fingerprint and before and fingerprint != before:
        changed.append(INPUT_CHANGED)
    if version != record.version:
        changed.append(f"its version was {record.version or 'not set'} and is {version or 'not set'}")
    return " and ".join(changed) or None
