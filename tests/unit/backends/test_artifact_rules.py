"""What every artifact backend does alike."""

from __future__ import annotations

import math

import pytest

from limpet.backends.artifact_rules import StoredContent, checked_store_id, later, readable, verified
from limpet.backends.files.layout import (
    folder_of_pin,
    header_of_compressed,
    nanoseconds,
    pin_of_folder,
    seconds,
    size_of_compressed,
)
from limpet.errors import ArtifactCorrupted, InvalidStateId, UsageError
from limpet.model.artifacts import Pin
from limpet.testing.conformance.artifact_case import id_of

STORE = "0123456789abcdef" * 2


def test_the_last_piece_is_given_only_when_the_whole_is_right() -> None:
    stored = StoredContent("here", id_of(b"abc"), 3, False)
    assert [b"a", b"b", b"c"] == list(verified(stored, [b"a", b"b", b"c"]))
    given: list[bytes] = []
    with pytest.raises(ArtifactCorrupted, match="hash of its content is another one"):
        given.extend(verified(stored, [b"a", b"b", b"x"]))
    assert b"x" not in given
    with pytest.raises(ArtifactCorrupted, match="has 4 bytes instead of 3"):
        list(verified(stored, [b"abc", b"d"]))


@pytest.mark.parametrize("standing", [0.0, 1.0, 1.7e9, 1.7e9 + 0.123456, 4e9, 1e15])
def test_a_put_is_later_than_the_one_that_stands(standing: float) -> None:
    assert standing + 5 == later(standing + 5, standing)
    for now in (standing, standing - 1, math.nextafter(standing, -math.inf)):
        assert standing < later(now, standing) < standing + 1


@pytest.mark.parametrize("moment", [0.0, 1e-6, 0.999999999, 1.7e9, 1_763_406_471.123456, 4_102_444_799.999999])
def test_a_moment_survives_as_the_time_of_a_file(moment: float) -> None:
    assert moment == seconds(nanoseconds(moment))
    following = later(moment, moment)
    assert seconds(nanoseconds(following)) > moment


def test_the_folder_of_a_pin_gives_the_pin_again() -> None:
    for pin in (Pin(STORE, "kelp", 0), Pin(STORE, "a.b.3@x", 17), Pin(STORE, "k" * 200, 2**63 - 1)):
        assert pin == pin_of_folder(folder_of_pin(pin))
        assert len(folder_of_pin(pin)) <= 255


@pytest.mark.parametrize(
    "name", ["", "x", f"{STORE}.kelp", f"{STORE}.kelp.x", f"{STORE}.kelp.01", f"{STORE}..1", "x.kelp.1", f"{STORE}.a.²"]
)
def test_a_folder_with_another_name_is_no_pin(name: str) -> None:
    assert pin_of_folder(name) is None


@pytest.mark.parametrize("fence", [-1, 10**19])
def test_a_pin_that_makes_no_folder_name_is_refused(fence: int) -> None:
    with pytest.raises(UsageError, match="cannot be the fence"):
        folder_of_pin(Pin(STORE, "kelp", fence))
    with pytest.raises(InvalidStateId):
        folder_of_pin(Pin(STORE, "../x", 1))


def test_a_header_gives_the_size_only_to_a_file_of_its_length() -> None:
    header = header_of_compressed(5000, 99)
    assert 5000 == size_of_compressed(header, 99)
    assert [None] * 3 == [
        size_of_compressed(header, 98),
        size_of_compressed(header[:-1], 99),
        size_of_compressed(b"x" + header[1:], 99),
    ]


def test_a_store_id_is_32_hexadecimal_digits() -> None:
    assert STORE == checked_store_id(STORE)
    for wrong in ("", "x" * 32, STORE.upper(), STORE + "0", "../" + STORE[3:]):
        with pytest.raises(UsageError, match="cannot be the id of a store"):
            checked_store_id(wrong)


def test_a_name_that_is_no_text_becomes_text() -> None:
    assert ("ü", "a\\udcff") == (readable("ü"), readable("a\udcff"))
