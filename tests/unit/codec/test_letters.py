from __future__ import annotations

import pytest

from limpet import NotEncrypted, StateCorrupted, UnsupportedVersion, WrongKey
from limpet.codec.encryption import Cipher, Key
from limpet.codec.letters import LetterText, from_body, to_body

TEXT = LetterText(value=b"\xc3", ended="answered", by="ada")


def cipher(*, accept_plain: bool = False) -> Cipher:
    keys = [Key(b"k" * 32)]
    return Cipher(lambda: keys, accept_plain=accept_plain)


@pytest.mark.parametrize("sealing", [None, cipher()])
@pytest.mark.parametrize("text", [TEXT, LetterText(), LetterText(topic="news", value=b"")])
def test_a_letter_comes_back_as_it_was(text: LetterText, sealing: Cipher | None) -> None:
    body = to_body(text, "kelp", "answer:1", sealing)
    assert text == from_body(body, "kelp", "answer:1", sealing)


def test_every_damaged_byte_is_noticed() -> None:
    body = to_body(TEXT, "kelp", "answer:1", None)
    for place in range(len(body)):
        damaged = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        with pytest.raises(StateCorrupted):
            from_body(damaged, "kelp", "answer:1", None)
    for length in range(len(body)):
        with pytest.raises(StateCorrupted):
            from_body(body[:length], "kelp", "answer:1", None)


@pytest.mark.parametrize(("state_id", "name"), [("kelp2", "answer:1"), ("kelp", "answer:2"), ("kel", "panswer:1")])
def test_a_letter_of_another_state_or_name_is_noticed(state_id: str, name: str) -> None:
    for sealing in (None, cipher()):
        with pytest.raises((StateCorrupted, WrongKey)):
            from_body(to_body(TEXT, "kelp", "answer:1", sealing), state_id, name, sealing)


def test_a_sealed_letter_shows_nothing_and_needs_the_key() -> None:
    body = to_body(TEXT, "kelp", "answer:1", cipher())
    assert b"ada" not in body
    with pytest.raises(WrongKey, match="no key is given"):
        from_body(body, "kelp", "answer:1", None)


def test_a_plain_letter_is_refused_where_a_key_is_given() -> None:
    body = to_body(TEXT, "kelp", "answer:1", None)
    with pytest.raises(NotEncrypted):
        from_body(body, "kelp", "answer:1", cipher())
    assert TEXT == from_body(body, "kelp", "answer:1", cipher(accept_plain=True))


def test_a_newer_version_is_refused() -> None:
    import struct
    import zlib

    rest = bytes([9]) + to_body(TEXT, "kelp", "a", None)[5:]
    body = struct.pack(">I", zlib.crc32(rest, zlib.crc32(b"kelp\na"))) + rest
    with pytest.raises(UnsupportedVersion):
        from_body(body, "kelp", "a", None)


def test_what_is_no_letter_inside_is_damage() -> None:
    import struct
    import zlib

    rest = bytes([1]) + b"\x93"
    body = struct.pack(">I", zlib.crc32(rest, zlib.crc32(b"kelp\na"))) + rest
    with pytest.raises(StateCorrupted):
        from_body(body, "kelp", "a", None)
