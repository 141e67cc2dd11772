"""What must hold of a state whose stored bytes were changed, whatever was changed."""

from __future__ import annotations

import asyncio

from damage.small_program import EXPECTED, executions

from limpet import EventRecord, ExecutionStatus, Limpet, Record, StateBackend, StateHeader
from limpet.codec import values
from limpet.errors import LimpetError, StateCorrupted, UsageError

RESULTS = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)


class Sound:
    """How a state was before anything was changed."""

    def __init__(self, backend: StateBackend, state_id: str) -> None:
        header = backend.find_state(state_id)
        assert header is not None
        self.state_id = state_id
        self.header = header
        self.records = list(Limpet(backend).history(state_id))
        self.addresses = {record.seq: record.address for record in self.records if isinstance(record, EventRecord)}


def names_of(records: list[Record]) -> set[str]:
    """What the tools of the program were called with, of the calls whose outcome is among the records."""
    return {
        values.decode(record.input)[0]
        for record in records
        if isinstance(record, EventRecord)
        and record.status in RESULTS
        and record.address.endswith("tool_call")
        and record.input is not None
    }


def without_lease(header: StateHeader) -> tuple[object, ...]:
    return (header.state_id, header.status, header.metadata, header.agent, header.timeline, header.created_at)


def checked(backend: StateBackend, sound: Sound, *, resumes: bool = False, recovers: bool = True) -> str:
    """How a changed state is met: "harmless", "detected", or "lost" where nothing of it is left.

    Fails where it is silently wrong, or where what stands before the damage cannot be used.
    """
    client = Limpet(backend)
    verification = client.verify(sound.state_id)
    assert sound.state_id == verification.state_id
    error = None
    try:
        view = client.show(sound.state_id)
        found, header = list(view.history), view.header
        assert found == sound.records[: len(found)], "another history, and nothing is said of it"
        assert without_lease(sound.header) == without_lease(header), "another header, and nothing is said of it"
        assert verification.header_damage is None
        assert not verification.needs_recovery
        if len(found) == len(sound.records):
            if resumes:
                _resume(client, sound, found)
            return "harmless"
        # Less is there than was acknowledged. Only a state that was being written can look like that.
        assert sound.header.holder is not None or sound.state_id == "stopped"
    except StateCorrupted as raised:
        error = raised
    if error is not None:
        assert not verification.is_sound, f"verify has not seen it: {error}"
        assert verification.needs_recovery
        assert error.seq == verification.usable + 1 or (error.seq == 0 and verification.header_damage)
    if not recovers:
        return "detected" if verification.usable else "lost"
    return _recovered(client, sound, resumes=resumes)


def _recovered(client: Limpet, sound: Sound, *, resumes: bool) -> str:
    usable = client.verify(sound.state_id).usable
    try:
        client.recover(sound.state_id)
    except UsageError:
        assert 0 == usable, "something stands before the damage, and was given up"
        return "lost"
    found = list(client.history(sound.state_id))
    assert found == [record for record in sound.records if record.seq <= usable], "what stood before is not all there"
    verification = client.verify(sound.state_id)
    assert not verification.needs_recovery
    if resumes:
        _resume(client, sound, found)
    return "detected"


def _resume(client: Limpet, sound: Sound, recorded: list[Record]) -> None:
    executions.clear()
    assert EXPECTED == asyncio.run(client.resume(sound.state_id))
    assert set() == names_of(recorded) & set(executions), "a recorded call was executed again"


def require_others_untouched(backend: StateBackend, other: Sound) -> None:
    """A damaged state never hides another one."""
    client = Limpet(backend)
    listed = {header.state_id: header for header in client.list_states()}
    assert without_lease(other.header) == without_lease(listed[other.state_id])
    assert other.records == list(client.history(other.state_id))


def refused(call: object) -> bool:
    """Whether a call is refused with an error of ours."""
    assert callable(call)
    try:
        call()
    except LimpetError:
        return True
    return False
