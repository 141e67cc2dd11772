"""What an exported state says of itself: it comes back as it was, and nothing else is taken for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from limpet.engine.portable.form import (
    Manifest,
    Portable,
    from_json,
    header_of,
    manifest_of,
    name_of_artifact,
    owner_of,
    to_json,
)
from limpet.engine.portable.limits import Unreadable
from limpet.errors import UnsupportedVersion
from limpet.model import Base, End, Holder, StateHeader, StateMetadata, StateStatus

DIGEST = "ab" * 32
FILES = {"journal.jsonl": Portable(10, "0" * 64), f"artifacts/{DIGEST}": Portable(4, DIGEST)}
HEADER = StateHeader(
    state_id="kelp-42",
    status=StateStatus.FAILED,
    created_at=datetime(2024, 5, 1, 10, 0, 0, 123456, UTC),
    updated_at=datetime(2024, 5, 2, tzinfo=UTC),
    metadata=StateMetadata(tags=["früh"], custom_data={"depth": 1.5, "large": 2**63, "none": None}),
    agent="pipeline:research",
    position=9,
    bases=(Base("a", 3), Base("b", 5)),
    timeline=6,
    end=End(9, 0xDEADBEEF),
)


def manifest(**changes: Any) -> Manifest:
    return msgspec.structs.replace(manifest_of(HEADER, HEADER.end, FILES, "limpet 1"), **changes)


def test_a_header_comes_back_but_for_who_holds_it() -> None:
    holder = Holder("host", "boot", "", 1, "", "token")
    held = msgspec.structs.replace(HEADER, holder=holder)
    assert HEADER == header_of(from_json(to_json(manifest_of(held, HEADER.end, FILES, "limpet 1"))))


def test_a_state_without_records_has_no_end() -> None:
    empty = msgspec.structs.replace(HEADER, position=0, bases=(), timeline=0, end=None)
    assert empty == header_of(from_json(to_json(manifest_of(empty, None, FILES, "limpet 1"))))


def test_white_space_does_not_matter() -> None:
    text = to_json(manifest())
    assert from_json(text) == from_json(msgspec.json.format(text, indent=0))


@pytest.mark.parametrize(
    "changes",
    [
        {"made_by": "limpet 2"},
        {"records": 8},
        {"end": "deadbee0"},
        {"files": {"journal.jsonl": Portable(11, "0" * 64)}},
        {"sha256": "0" * 64},
    ],
)
def test_whatever_is_changed_does_not_fit_the_checksum(changes: dict[str, Any]) -> None:
    with pytest.raises(Unreadable, match=r"the checksum of limpet\.json does not fit"):
        from_json(to_json(manifest(**changes)))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b"null", b'{"format": 1}', b"[" * 100_000])
def test_what_is_no_manifest_is_unreadable(text: bytes) -> None:
    with pytest.raises(Unreadable):
        from_json(text)


def test_a_newer_version_is_told_whatever_else_it_says() -> None:
    with pytest.raises(UnsupportedVersion):
        from_json(b'{"format": "limpet state", "version": 3, "unknown": [1]}')


def test_each_record_belongs_to_the_state_that_wrote_it() -> None:
    owners = [owner_of(HEADER, seq) for seq in range(1, 10)]
    assert ["a"] * 3 + ["b"] * 2 + ["kelp-42"] * 4 == owners


def test_an_artifact_is_named_after_its_content() -> None:
    assert f"artifacts/{DIGEST}" == name_of_artifact(f"sha256:{DIGEST}")
