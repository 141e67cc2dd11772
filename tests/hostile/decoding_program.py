"""Reads hostile inputs under watch, in a process of its own: ``python -m hostile.decoding_program WHAT LAST …``.

``files LAST FOLDER`` reads the files of a folder; ``values``, ``frames`` and ``artifacts LAST SEED COUNT`` read changed
values, journals and artifacts. LAST is the file that holds the input that is being read. What was found is printed as
JSON.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import msgspec
from acceptance.table_of_types import rows
from hostile.artifact_contents import ChangedArtifacts, read_artifact
from hostile.fuzzing import Fuzzer
from hostile.journals import KEY, STATE_ID, ChangedJournals, framed, read_journal
from hostile.watch import Reading, Watch
from pydantic import TypeAdapter, ValidationError

from limpet.codec.frames import from_frames
from limpet.codec.user_types.http_parts import RecordedHeaders, RecordedRequest, RecordedResponse
from limpet.codec.values import decode, encode, encode_failure
from limpet.errors import NotEncrypted, StateCorrupted, UnsupportedVersion, ValueNotReadable, WrongKey
from limpet.journal.timeline import intact

VALUE = "a value"
MOST_FAULTS = 5


class Found(msgspec.Struct):
    """What came of many inputs: how often each outcome, and the first inputs that did what none may do."""

    outcomes: dict[str, int]
    faults: list[str]


def read_value(data: bytes) -> str:
    """The outcome of reading a value."""
    try:
        decode(data)
    except ValueNotReadable as error:
        return _named(error)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return VALUE


def read_frame(data: bytes, is_sealed: bool) -> str:
    """The outcome of reading a journal of one frame."""
    try:
        list(intact(from_frames(STATE_ID, [(1, data)], cipher=KEY if is_sealed else None)))
    except (StateCorrupted, UnsupportedVersion, WrongKey, NotEncrypted) as error:
        return type(error).__name__
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return VALUE


def _named(error: BaseException) -> str:
    """The name of an error, unless it only says that the memory was used up."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return "MemoryError"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def read_files(watch: Watch, folder: Path) -> dict[str, Reading]:
    """What each file of the folder came to."""
    found: dict[str, Reading] = {}
    for file in sorted(folder.glob("*.bin")):
        data = file.read_bytes()
        is_frame, is_sealed = "frame-" in file.name, file.name.startswith("sealed-")
        read = (lambda data, is_sealed=is_sealed: read_frame(data, is_sealed)) if is_frame else read_value
        found[file.stem] = watch.read(data, read)
    return found


Supply = tuple[Callable[[], bytes], Callable[[bytes], str], set[str]]
"""What makes the inputs, what reads one, and which outcomes it may have."""


def fuzz(watch: Watch, make: Callable[[], bytes], read: Callable[[bytes], str], allowed: set[str], count: int) -> Found:
    """Read so many inputs; whatever is neither allowed nor harmless is a fault."""
    found = Found({}, [])
    for _ in range(count):
        data = make()
        reading = watch.read(data, read)
        faults = reading.faults() + ([] if reading.outcome in allowed else [reading.outcome])
        found.outcomes[reading.outcome] = found.outcomes.get(reading.outcome, 0) + 1
        if faults:
            found.faults.append(f"{'; '.join(faults)}: {data.hex()}")
            if len(found.faults) == MOST_FAULTS:
                break
    return found


def samples() -> list[list[bytes]]:
    """The encoded values of the table, by row, and the failures that a run records of its exceptions."""
    table = rows()
    failures = [encode_failure(error, str(error)) for error in (*table["exceptions"].values(), *_lost_exceptions())]
    return [*([encode(value) for value in row.values()] for row in table.values()), failures]


def _lost_exceptions() -> list[BaseException]:
    """Exceptions that cannot come back as they were."""

    class Local(ConnectionError):
        pass

    local = Local("no answer")
    pairs = (("Content-Type", "text/plain"),)
    request = RecordedRequest({"method": "GET", "url": "https://api.example/v1", "headers": RecordedHeaders(pairs)})
    local.response = RecordedResponse({"status": 503, "text": "busy", "more": 0, "request": request})  # pyright: ignore[reportAttributeAccessIssue]
    local.connection = object()  # pyright: ignore[reportAttributeAccessIssue]
    return [local, ExceptionGroup("both", [local]), _invalid()]


def _invalid() -> BaseException:
    try:
        TypeAdapter(int).validate_python("many")
    except ValidationError as error:
        return error
    raise AssertionError("it is no number")


def _supply(what: str, encoded: list[list[bytes]], seed: int) -> Supply:
    match what:
        case "values":
            return Fuzzer(encoded, seed).next, read_value, {VALUE, "ValueNotReadable"}
        case "artifacts":
            return ChangedArtifacts(encoded, seed).next, read_artifact, {VALUE, "ValueNotReadable", "ArtifactCorrupted"}
        case _:
            errors = {"StateCorrupted", "UnsupportedVersion", "WrongKey", "NotEncrypted"}
            return ChangedJournals(encoded, seed).next, read_journal, {VALUE, *errors}


def main(what: str, last_input: str, *arguments: str) -> None:
    warnings.simplefilter("ignore")
    framed(KEY)  # The first use of a key imports what it needs.
    if what == "files":
        found = read_files(Watch(Path(last_input)), Path(arguments[0]))
    else:
        seed, count = map(int, arguments)
        encoded = samples()
        for data in (data for group in encoded for data in group):
            assert VALUE == read_value(data)
        watch = Watch(Path(last_input), allows_parsing=what == "artifacts")
        found = fuzz(watch, *_supply(what, encoded, seed), count)
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
