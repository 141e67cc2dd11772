"""The form of an exported state, version 2. A file is a zip of the very tree that a folder has:

    limpet.json      what this is: the header of the state, where its shared records come from, how many records there
                       are, and the size and SHA-256 of every other file; its own last field is the SHA-256 of the rest
    journal.jsonl      the records, one on each line, as ``limpet.lines`` writes them for the state that wrote each;
                       a shared one names that state as its ``owner``
    letters.jsonl      what lay in its inbox, a letter on each line: its name, and its body in base64. Where it was
                       empty there is no such file, and the version is 1
    artifacts/<hex>    the content of each artifact that the records name, as it is stored, under its SHA-256

Each line has a checksum that takes in the line before, and each record rebuilds the very frame that was stored. So
everything that is read is known to be what was written, unless somebody has made all of it anew on purpose; against
that there is encryption. Names are looked up in the tree, never taken from it. Pure: touches no file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from limpet.engine.portable.limits import Limits, Unreadable
from limpet.errors import LimpetError, UnsupportedVersion
from limpet.model import (
    FORMAT_VERSION,
    Base,
    End,
    Letter,
    StateHeader,
    StateMetadata,
    StateStatus,
    checked_state_id,
    is_letter_name,
)

FORMAT = "limpet state"
VERSION = 2
WITHOUT_LETTERS = 1
"""The version of a tree that has none, which older programs read as well."""
MANIFEST = "limpet.json"
JOURNAL = "journal.jsonl"
LETTERS = "letters.jsonl"

_LINK = re.compile(r"[0-9a-f]{8}")
_ARTIFACT = re.compile(r"artifacts/([0-9a-f]{64})")
_MANY = 1 << 62


class Portable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the tree."""

    size: int
    sha256: str


class PortableHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in the header of a state and belongs to it wherever it is."""

    state_id: str
    status: StateStatus
    created_at: datetime
    updated_at: datetime
    metadata: StateMetadata
    agent: str | None
    version: int
    timeline: int
    bases: tuple[Base, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is in the tree."""

    format: str = FORMAT
    version: int = VERSION
    made_by: str
    state: PortableHeader
    records: int
    end: str | None
    """The chain of the last record, as hexadecimal digits."""
    files: dict[str, Portable]
    sha256: str = ""
    """Of all that stands before it."""


class _Opening(msgspec.Struct):
    """What can be asked of every version."""

    format: str = ""
    version: int = 0


def name_of_artifact(artifact_id: str) -> str:
    return f"artifacts/{artifact_id.removeprefix('sha256:')}"


def owner_of(header: StateHeader, seq: int) -> str:
    """The state that wrote the record of that number."""
    return next((base.state_id for base in header.bases if seq <= base.last), header.state_id)


def manifest_of(header: StateHeader, end: End | None, files: dict[str, Portable], made_by: str) -> Manifest:
    """What is said of a state whose journal ends so."""
    state = PortableHeader(
        state_id=header.state_id,
        status=header.status,
        created_at=header.created_at,
        updated_at=header.updated_at,
        metadata=header.metadata,
        agent=header.agent,
        version=header.version,
        timeline=header.timeline,
        bases=header.bases,
    )
    link = None if end is None else f"{end.link:08x}"
    version = VERSION if LETTERS in files else WITHOUT_LETTERS
    unsigned = Manifest(version=version, made_by=made_by, state=state, records=header.position, end=link, files=files)
    return msgspec.structs.replace(unsigned, sha256=_sum_of(unsigned))


def to_json(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def from_json(text: bytes) -> Manifest:
    """The manifest in a file. Raises Unreadable, or UnsupportedVersion."""
    try:
        opening = msgspec.json.decode(text, type=_Opening)
        if opening.format != FORMAT:
            raise Unreadable(f"{MANIFEST} does not say that it is an exported state")
        if opening.version > VERSION:
            raise UnsupportedVersion("The exported state", opening.version, VERSION)
        manifest = msgspec.json.decode(text, type=Manifest)
        _require_sound(manifest)
    except UnsupportedVersion:
        raise
    except (msgspec.MsgspecError, LimpetError, UnicodeError, RecursionError, OverflowError) as error:
        raise Unreadable(f"{MANIFEST} cannot be read ({error})") from error
    return manifest


def require_allowed(manifest: Manifest, limits: Limits) -> None:
    """Raises TooLarge for a tree that says that it has more than is read. It is never read beyond what it says."""
    files = manifest.files
    limits.require_files(len(files), "files")
    limits.require_total(sum(file.size for file in files.values()))
    for name in (JOURNAL, LETTERS):
        if name in files:
            limits.require_held(files[name].size, name)


def is_name_in_tree(name: str) -> bool:
    """Whether a file of an export can have this name: no other one ever becomes part of a path."""
    return name in (MANIFEST, JOURNAL, LETTERS) or _ARTIFACT.fullmatch(name) is not None


def _require_sound(manifest: Manifest) -> None:
    """Raises Unreadable unless everything is as ``manifest_of`` says it; nothing else is relied upon later."""
    if manifest.sha256 != _sum_of(manifest):
        raise Unreadable(f"the checksum of {MANIFEST} does not fit: it was changed or damaged")
    state = manifest.state
    checked_state_id(state.state_id)
    if state.version > FORMAT_VERSION:
        raise UnsupportedVersion(f"State {state.state_id!r}", state.version, FORMAT_VERSION)
    numbers = state.version > 0 and manifest.records >= 0 and 0 <= state.timeline <= manifest.records
    times = state.created_at.tzinfo is not None and state.updated_at.tzinfo is not None
    is_link = manifest.end is None or _LINK.fullmatch(manifest.end)
    if not numbers or not times or not is_link:
        raise Unreadable(f"the numbers or times in {MANIFEST} cannot be right")
    _require_known_names(manifest)


def _require_known_names(manifest: Manifest) -> None:
    last = 0
    for base in manifest.state.bases:
        checked_state_id(base.state_id)
        if not last < base.last <= manifest.records:
            raise Unreadable(f"the shared records in {MANIFEST} are not in order")
        last = base.last
    for name, file in manifest.files.items():
        found = _ARTIFACT.fullmatch(name)
        is_known = name == JOURNAL or (name == LETTERS and manifest.version == VERSION)
        if not is_known and (found is None or found[1] != file.sha256):
            raise Unreadable(f"{MANIFEST} names {name[:100]!r}, which does not belong into it")
        if not 0 <= file.size < _MANY:
            raise Unreadable(f"{MANIFEST} says that {name} has {file.size} bytes")
    if JOURNAL not in manifest.files:
        raise Unreadable(f"{MANIFEST} names no {JOURNAL}")


class _LetterLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    body: bytes
    """In base64, as JSON has it."""


def lines_of_letters(letters: Sequence[Letter]) -> bytes:
    """The letters of a state, in their order."""
    return b"".join(msgspec.json.encode(_LetterLine(letter.name, letter.body)) + b"\n" for letter in letters)


def letters_in(lines: Iterable[bytes], state_id: str) -> list[Letter]:
    """The letters on the lines of such a file, numbered anew. Raises Unreadable."""
    letters: list[Letter] = []
    for number, line in enumerate(lines, 1):
        try:
            letter = msgspec.json.decode(line, type=_LetterLine)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Unreadable(f"line {number} of {LETTERS} cannot be read ({error})") from error
        if not is_letter_name(letter.name):
            raise Unreadable(f"line {number} of {LETTERS} has a name that no letter can have")
        letters.append(Letter(number, state_id, letter.name, letter.body, 0.0))
    return letters


def _sum_of(manifest: Manifest) -> str:
    # Of the values rather than of the text, so that white space does not matter.
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(manifest, sha256=""))).hexdigest()


def header_of(manifest: Manifest) -> StateHeader:
    """The header of the state, as it stands in a store."""
    state = manifest.state
    return StateHeader(
        state_id=state.state_id,
        status=state.status,
        created_at=state.created_at,
        updated_at=state.updated_at,
        metadata=state.metadata,
        agent=state.agent,
        version=state.version,
        position=manifest.records,
        bases=state.bases,
        timeline=state.timeline,
        end=None if manifest.end is None else End(manifest.records, int(manifest.end, 16)),
    )
