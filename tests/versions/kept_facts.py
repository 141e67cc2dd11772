"""What is known of a store, as JSON can say it: written by the version that made the store, compared by those after it.

Only what version 0.1.0 can do is used, and what came later where the store has it.
"""

from __future__ import annotations

from typing import Any

from limpet import EventRecord, ExecutionState, Limpet

TEST_KEY = "a2VscGtlbHBrZWxwa2VscGtlbHBrZWxwa2VscGtlbHA="
"""The key of the sealed stores. It protects nothing."""


def facts_of(client: Limpet, *, with_timelines: bool, **options: Any) -> dict[str, Any]:
    """Every state of a store by its id. ``options`` are those with which its states are loaded."""
    found = {each.state_id: each for each in client.list_states()}
    facts: dict[str, Any] = {}
    for state_id in sorted(found):
        header = found[state_id]
        metadata = header.metadata
        history = client.history(state_id)
        facts[state_id] = {
            "status": str(header.status),
            "agent": header.agent,
            "records": header.position,
            "created_at": header.created_at.isoformat(),
            "updated_at": header.updated_at.isoformat(),
            "metadata": [metadata.tags, metadata.description, metadata.pipeline_name, metadata.custom_data],
            "parent": metadata.parent_state_id,
            "python": metadata.environment["python"],
            "life": [_life(record) for record in history],
            "outcomes": {address: _outcome(history, address) for address in history.addresses()},
            "storage": _storage(client, state_id, with_artifacts=with_timelines, **options),
        }
        if with_timelines:
            facts[state_id]["timelines"] = [
                _timeline(client, state_id, each.number) for each in client.timelines(state_id)
            ]
    return facts


def _life(record: Any) -> list[Any]:
    named = [record.address, str(record.status), record.version] if isinstance(record, EventRecord) else []
    return [type(record).__name__, record.seq, record.recorded_at.isoformat(), *named]


def _outcome(history: Any, address: str) -> list[Any]:
    record = history[address]
    failure = None if record.error is None else [record.error.type_name, record.error.message]
    result = history.get_event_result(address)
    # Of a long text its beginning and its length tell enough.
    return [str(record.status), f"{len(result)}: {result[:40]}" if isinstance(result, str) else repr(result), failure]


def _storage(client: Limpet, state_id: str, *, with_artifacts: bool, **options: Any) -> dict[str, str]:
    storage = ExecutionState.load_from_state_id(state_id, client.backend, **options).storage
    kept = {key: repr(storage.get(key)) for key in storage.keys()}  # noqa: SIM118  # not a mapping
    if with_artifacts:
        kept |= {f"artifact {key}": repr(storage.get_artifact(key))[:40] for key in storage.artifact_keys()}
    return kept


def _timeline(client: Limpet, state_id: str, number: int) -> list[Any]:
    history = client.history(state_id, timeline=number)
    return [number, {address: _outcome(history, address) for address in history.addresses()}]
