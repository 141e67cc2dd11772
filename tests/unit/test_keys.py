"""Keys are found where they are said to be, refused clearly where they are not, and never shown."""

from __future__ import annotations

import base64
import hashlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limpet.errors import InvalidKey, WrongKey
from limpet.keys import KEY_VARIABLE, Encryption, configured_encryption, key_id, new_key

MASTER = bytes(range(200, 232))
OTHER = bytes(range(32))
TEXT = base64.urlsafe_b64encode(MASTER).decode()
OTHER_TEXT = base64.urlsafe_b64encode(OTHER).decode()
SEALED = Encryption(MASTER).seal(b"kelp", b"here")
OTHER_SEALED = Encryption(OTHER).seal(b"kelp", b"here")


def opens(encryption: Encryption, sealed: bytes = SEALED) -> bool:
    return b"kelp" == encryption.open(sealed, b"here", "It")


def key_file(folder: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path = folder / "limpet.key"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


def test_a_new_key_is_a_key_and_new() -> None:
    made = {new_key() for _ in range(100)}
    assert 100 == len(made)
    assert {44} == {len(each) for each in made}
    assert {32} == {len(base64.urlsafe_b64decode(each)) for each in made}
    one = Encryption(made.pop())
    assert opens(one, one.seal(b"kelp", b"here"))


@pytest.mark.parametrize(
    "key",
    [
        TEXT,
        f"  {TEXT}\n",
        TEXT.encode(),
        base64.b64encode(MASTER).decode(),
        MASTER.hex(),
        MASTER.hex().upper(),
        MASTER.hex().encode(),
        MASTER,
        [TEXT],
        (OTHER_TEXT, MASTER),
        [TEXT, TEXT, MASTER.hex()],
        lambda: TEXT,
        lambda: [MASTER],
    ],
)
def test_a_key_is_taken_in_every_form(key: Any) -> None:
    assert "-" in TEXT or "_" in TEXT
    assert opens(Encryption(key))


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "this has 0 characters"),
        (TEXT[:-1], "this has 43 characters"),
        (f"{TEXT},{OTHER_TEXT}", "this has 89 characters"),
        ("!" + TEXT[1:], "this has a character that does not belong there"),
        ("é" + TEXT[1:], "this has a character that does not belong there"),
        ("x" + MASTER.hex()[1:], "this has a character that does not belong there"),
        (MASTER[:-1], "this has 31 characters"),
        (5, "a key is text, and this is int"),
        (None, "a key is text, and this is NoneType"),
        ([TEXT, None], "a key is text, and this is NoneType"),
        (bytearray(MASTER), "a key is text, and this is int"),
        ([], "no key is in it"),
    ],
)
def test_what_is_no_key_is_refused(key: Any, why: str) -> None:
    with pytest.raises(InvalidKey, match=r"The argument gives no key for encryption: .*`limpet key` makes") as at_once:
        Encryption(key)
    assert at_once.value.why.endswith(why)
    lazy = Encryption(lambda: key)
    with pytest.raises(InvalidKey, match="The callable gives no key") as later:
        lazy.seal(b"kelp", b"here")
    assert later.value.why.endswith(why)


def test_two_keys_with_one_id_are_refused() -> None:
    twins = [hashlib.sha256(f"kelp {number}".encode()).digest() for number in (72516, 82867)]
    assert twins[0] != twins[1]
    assert key_id(twins[0]) == key_id(twins[1]) == "38ece67d"
    with pytest.raises(InvalidKey, match="two different keys have the id 38ece67d by chance, so a new one is needed"):
        Encryption(twins)


def test_keys_come_from_the_environment_and_the_first_one_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KELP_KEYS", f"{TEXT}, {OTHER_TEXT},\n")
    encryption = Encryption.from_environment("KELP_KEYS")
    assert SEALED == encryption.seal(b"kelp", b"here")
    assert opens(encryption, SEALED)
    assert opens(encryption, OTHER_SEALED)
    assert not encryption.accept_plain
    assert Encryption.from_environment("KELP_KEYS", accept_plain=True).accept_plain


@pytest.mark.parametrize(
    ("value", "why"), [(None, "it is not set"), ("", "no key is in it"), (" , ", "no key is in it")]
)
def test_an_environment_without_a_key_is_refused(monkeypatch: pytest.MonkeyPatch, value: str | None, why: str) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(KEY_VARIABLE, value)
    with pytest.raises(InvalidKey, match=f"The environment variable LIMPET_KEY gives no key for encryption: {why}"):
        Encryption.from_environment()


def test_encryption_is_configured_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert configured_encryption() is None
    monkeypatch.setenv(KEY_VARIABLE, TEXT)
    configured = configured_encryption()
    assert configured is not None
    assert opens(configured)


def test_a_key_that_is_set_and_empty_does_not_switch_encryption_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "")
    with pytest.raises(InvalidKey, match="no key is in it"):
        configured_encryption()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"# the keys of kelp\r\n\r\n  {TEXT}  # since May\r\n{OTHER_TEXT}\r\n",
        b"\xef\xbb\xbf" + TEXT.encode(),
        "# Schlüssel\n".encode("latin-1") + TEXT.encode(),
    ],
)
def test_keys_come_from_a_file_and_the_first_one_writes(tmp_path: Path, text: str | bytes) -> None:
    encryption = Encryption.from_file(key_file(tmp_path, text))
    assert SEALED == encryption.seal(b"kelp", b"here")
    assert opens(encryption)


def test_a_key_file_may_be_read_only_and_is_named_as_text_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = key_file(tmp_path, TEXT, 0o400)
    assert opens(Encryption.from_file(str(path), accept_plain=True))
    monkeypatch.chdir(tmp_path)
    assert opens(Encryption.from_file("limpet.key"))


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o620, 0o601, 0o777])
def test_a_key_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, TEXT, mode)
    with pytest.raises(InvalidKey, match=f"others than its owner may use it; forbid that with `chmod 600 {path}`"):
        Encryption.from_file(path)


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "The key file {}", "no key is in it"),
        ("# none\n\n", "The key file {}", "no key is in it"),
        (f"# one\n{TEXT}\n{TEXT[1:]}", "Line 3 of the key file {}", "this has 43 characters"),
        (b"\xff\xfe" * 40, "Line 1 of the key file {}", "this has 80 characters"),
        ("#" * 70_000, "The key file {}", "it is too large to be a file of keys"),
    ],
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: str | bytes, where: str, why: str) -> None:
    path = key_file(tmp_path, text)
    with pytest.raises(InvalidKey) as caught:
        Encryption.from_file(path)
    assert where.format(path) == caught.value.where
    assert caught.value.why.endswith(why)


def test_a_key_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match=r"it cannot be read \(No such file or directory\)"):
        Encryption.from_file(tmp_path / "missing.key")
    with pytest.raises(InvalidKey, match=r"it cannot be read \(Is a directory\)"):
        Encryption.from_file(tmp_path)


def test_a_rotation_in_the_file_reaches_a_process_that_runs(tmp_path: Path) -> None:
    encryption = Encryption.from_file(key_file(tmp_path, TEXT))
    with pytest.raises(WrongKey):
        opens(encryption, OTHER_SEALED)
    key_file(tmp_path, f"{OTHER_TEXT}\n{TEXT}")
    assert SEALED == encryption.seal(b"kelp", b"here")
    assert opens(encryption, OTHER_SEALED)
    assert OTHER_SEALED == encryption.seal(b"kelp", b"here")
    assert opens(encryption)


def fail_by_argument(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Encryption([text])


def fail_by_callable(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Encryption(lambda: text.encode("utf-8")).seal(b"", b"")


def fail_by_environment(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, f"{OTHER_TEXT},{text}")
    configured_encryption()


def fail_by_file(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Encryption.from_file(key_file(folder, text))


def fail_by_rights(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Encryption.from_file(key_file(folder, TEXT, 0o644))


@pytest.mark.parametrize("text", [TEXT + "x", TEXT[:-1], "é" + TEXT[1:], MASTER.hex() + "0"])
@pytest.mark.parametrize(
    "failing", [fail_by_argument, fail_by_callable, fail_by_environment, fail_by_file, fail_by_rights]
)
def test_no_refusal_shows_what_was_given(
    failing: Callable[[str, Path, pytest.MonkeyPatch], None], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidKey) as caught:
        failing(text, tmp_path, monkeypatch)
    error = caught.value
    shown = "".join([str(error), repr(error), *traceback.format_exception(error)])
    while error is not None:
        shown += repr(error) + repr(error.args)
        error = error.__cause__ or error.__context__
    # Half a key is too much as well.
    for secret in (TEXT, OTHER_TEXT, MASTER.hex()):
        assert [] == [secret[at : at + 16] for at in range(len(secret) - 15) if secret[at : at + 16] in shown]
