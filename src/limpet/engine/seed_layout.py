"""Reading the folder ``.state_store`` of the system that Limpet grew out of, as history that is over.

    .state_store/states/<id>.json     one snapshot: state_id, created_at, updated_at, version, status, metadata,
                                      artifact_refs, execution_state (history.events, storage.data, storage.artifacts)
    .state_store/artifacts/<hash>.pkl  pickled objects, which are never opened: a note stands in their place

An event is listed once when it starts and once more when it ends, both times as it ended. Calls of the same actor in
the same place have the same address there; here the second one is ``#2``. What is missing has a default; what cannot be
understood is refused, with the file and the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from limpet.artifacts.stored_values import Pending, StoredValues
from limpet.codec import frames
from limpet.engine.arriving import Original, end_of
from limpet.engine.portable.files import opened_file, opened_in, read_text
from limpet.engine.portable.limits import Limits
from limpet.engine.portable.reading import refusing
from limpet.engine.seed_events import NotUnderstood, SeedEvent, SeedHistory
from limpet.errors import ArtifactMissing, LimpetError, NotImported, UnsupportedVersion
from limpet.model import (
    CheckpointRecord,
    Content,
    Record,
    StateHeader,
    StateMetadata,
    StateStatus,
    StorageRecord,
    checked_state_id,
)

_KNOWN_VERSION = 1
_EVENTS = "execution_state.history.events"

_STATUSES: Mapping[str, StateStatus] = {
    # Nothing runs it here any more.
    "running": StateStatus.PAUSED,
    "paused": StateStatus.PAUSED,
    "awaiting": StateStatus.AWAITING,
    "human_intervention": StateStatus.AWAITING,
    "completed": StateStatus.COMPLETED,
    "failed": StateStatus.FAILED,
    "interrupted": StateStatus.INTERRUPTED,
    "cancelled": StateStatus.INTERRUPTED,
}


class _Metadata(msgspec.Struct, frozen=True):
    tags: list[str] = []
    description: str = ""
    pipeline_name: str = ""
    parent_state_id: str | None = None
    custom: dict[str, Any] = {}
    custom_data: dict[str, Any] = {}


class _History(msgspec.Struct, frozen=True):
    events: list[SeedEvent] = []


class _Storage(msgspec.Struct, frozen=True):
    data: dict[str, Any] = {}
    artifacts: dict[str, Any] = {}


class _Execution(msgspec.Struct, frozen=True):
    history: _History = _History()
    storage: _Storage = _Storage()


class _Snapshot(msgspec.Struct, frozen=True):
    state_id: str
    execution_state: _Execution
    created_at: str | None = None
    updated_at: str | None = None
    version: str = "1.0.0"
    status: str = "running"
    metadata: _Metadata = _Metadata()
    artifact_refs: dict[str, str] = {}


def is_seed_store(path: Path) -> bool:
    """Whether a folder has the layout, as far as its names tell."""
    return (path / "states").is_dir() and not (path / "format").exists()


class SeedReading:
    """Reads states that the seeds wrote, which may come from anybody, up to a limit for all of them together."""

    def __init__(self, stored: StoredValues, limits: Limits) -> None:
        self._stored = stored
        self._limits = limits
        self._read = 0
        """How many bytes were read so far: all of them are held in memory."""

    def store(self, path: Path) -> list[Original]:
        """All states of a folder, the oldest first. Raises NotImported where one of them cannot be understood."""
        with refusing(path, self._limits):
            files: list[Path] = []
            for number, file in enumerate((path / "states").iterdir(), 1):
                self._limits.require_files(number, "files")
                files += [file] if file.suffix == ".json" else []
        if not files:
            raise NotImported(str(path), "no state is in its folder 'states'")
        found = [self._state(file, opened_in(file.parent, file.name)) for file in sorted(files)]
        return sorted(found, key=lambda each: each.header.created_at)

    def state(self, path: Path) -> Original:
        """One state from its snapshot. Raises NotImported that names the place, or UnsupportedVersion."""
        return self._state(path, opened_file(path))

    def _state(self, path: Path, opened: AbstractContextManager[BinaryIO]) -> Original:
        try:
            with refusing(path, self._limits), opened as file:
                text = read_text(file, path.name, self._limits.text)
                self._require_allowed(path, text)
            snapshot = msgspec.json.decode(text, type=_Snapshot)
            _require_known_version(path, snapshot.version)
            return _Import(path, snapshot, self._stored).original()
        except (NotImported, UnsupportedVersion):
            raise
        except OSError as error:
            raise NotImported(str(path), f"it cannot be read ({error.strerror or error})") from error
        except (msgspec.MsgspecError, LimpetError, UnicodeError, RecursionError, OverflowError) as error:
            raise NotImported(str(path), f"it is no snapshot of a state that is understood ({error})") from error

    def _require_allowed(self, path: Path, text: bytes) -> None:
        self._read += len(text)
        self._limits.require_held(self._read, "all that is in it")
        self._limits.require_parts(text, path.name)


def _require_known_version(path: Path, version: str) -> None:
    major = version.partition(".")[0]
    if not major.isdecimal():
        raise NotImported(str(path), f"its version is {version!r}")
    if int(major[:9]) > _KNOWN_VERSION:
        raise UnsupportedVersion(f"The snapshot {path}", int(major[:9]), _KNOWN_VERSION)


class _Import:
    """Makes a journal of one snapshot."""

    def __init__(self, path: Path, snapshot: _Snapshot, stored: StoredValues) -> None:
        self._path = path
        self._snapshot = snapshot
        self._stored = stored
        self._pending: dict[str, Pending] = {}
        self._records: list[Record] = []
        self._newest_start = 0
        self._updated = self._time("updated_at", snapshot.updated_at, datetime(1970, 1, 1, tzinfo=UTC))

    def original(self) -> Original:
        snapshot = self._snapshot
        status = _STATUSES.get(snapshot.status.lower())
        if status is None:
            raise NotImported(str(self._path), f"its status {snapshot.status!r} is not known")
        metadata = self._metadata()
        self._add_events()
        self._add_storage()
        at = self._updated.timestamp()
        self._records.append(CheckpointRecord(len(self._records) + 1, status, at, metadata.to_json()))
        header = StateHeader(
            state_id=checked_state_id(snapshot.state_id),
            status=status,
            created_at=self._time("created_at", snapshot.created_at, self._updated),
            updated_at=self._updated,
            metadata=metadata,
            position=len(self._records),
        )
        read = self._framed(header.state_id)
        header = msgspec.structs.replace(header, end=end_of(read))
        return Original(header, lambda after: read[after:], self._content, self._stored)

    def _metadata(self) -> StateMetadata:
        metadata = self._snapshot.metadata
        return StateMetadata(
            tags=metadata.tags,
            description=metadata.description,
            pipeline_name=metadata.pipeline_name,
            parent_state_id=metadata.parent_state_id,
            custom_data={**metadata.custom, **metadata.custom_data},
            environment={"imported_from": f"a snapshot of version {self._snapshot.version}"},
        )

    def _add_events(self) -> None:
        history = SeedHistory(self._snapshot.execution_state.history.events)
        try:
            for number, step in history.steps():
                place = f"{_EVENTS}[{number}]"
                at = self._time(f"{place}.datetime", step.event.datetime, self._updated).timestamp()
                result = self._encoded(step.event.result, f"{place}.result") if step.has_result else (None, ())
                self._records.append(step.record(len(self._records) + 1, at, *result))
        except NotUnderstood as error:
            why = f"{_EVENTS}[{error.number}] is not understood: {error.why}"
            raise NotImported(str(self._path), why) from error
        self._newest_start = history.started

    def _add_storage(self) -> None:
        storage = self._snapshot.execution_state.storage
        for key, value in storage.data.items():
            self._store(key, value, is_artifact=False)
        for key in dict.fromkeys((*self._snapshot.artifact_refs, *storage.artifacts)):
            note = self._note(key, self._snapshot.artifact_refs.get(key), storage.artifacts.get(key))
            self._store(key, note, is_artifact=True)

    def _note(self, key: str, digest: str | None, shown: object) -> object:
        """What stands for an artifact. Its file is looked at from outside, never opened: it could run anything."""
        if digest is None:
            return shown
        note: dict[str, object] = {"not_imported": "a pickled artifact, which is never opened", "hash": digest}
        file = self._path.parent.parent / "artifacts" / f"{Path(digest).name}.pkl"
        if file.is_file():
            note["size"] = file.stat().st_size
        return note if shown is None else {**note, "shown_as": shown}

    def _store(self, key: str, value: object, *, is_artifact: bool) -> None:
        seq = len(self._records) + 1
        data, artifacts = self._encoded(value, f"storage[{key!r}]")
        at, behind = self._updated.timestamp(), seq - self._newest_start
        self._records.append(StorageRecord(seq, key, at, data, artifacts, is_artifact, behind))

    def _encoded(self, value: object, place: str) -> tuple[bytes, tuple[str, ...]]:
        data, pending = self._stored.encode(value, place)
        self._pending.update((each.artifact_id, each) for each in pending)
        return data, tuple(each.artifact_id for each in pending)

    def _content(self, artifact_id: str) -> Content:
        if artifact_id not in self._pending:
            raise ArtifactMissing(str(self._path), artifact_id)
        return self._pending[artifact_id].content

    def _framed(self, state_id: str) -> list[tuple[int, bytes]]:
        link = owner = frames.first_link(state_id)
        cipher = self._stored.record_cipher(state_id)
        read: list[tuple[int, bytes]] = []
        for record in self._records:
            frame, link = frames.to_frame(record, link, owner, cipher)
            read.append((record.seq, frame))
        return read

    def _time(self, place: str, text: str | None, default: datetime) -> datetime:
        """A time; without a zone it is that of this machine, which most probably wrote it."""
        if text is None:
            return default
        try:
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise NotImported(str(self._path), f"{place} is no time: {text!r}") from error
