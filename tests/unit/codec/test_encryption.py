"""Sealed bytes come back only with their key and at their place, and no key is ever shown."""

from __future__ import annotations

import copy
import hmac
import logging
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.codec.encryption import OVERHEAD, Cipher, Key, RecordCipher
from limpet.errors import LimpetError, MissingDependency, WrongKey
from limpet.keys import Encryption, key_id

MASTER = bytes(range(32))
OTHER = bytes(range(1, 33))
PLAIN = b"The storm takes everything that is loose; what is held stays."


def sealed_by(master: bytes, plain: bytes = PLAIN, place: bytes = b"here") -> bytes:
    return Encryption(master).seal(plain, place)


def test_sealed_bytes_come_back() -> None:
    assert PLAIN == Encryption(MASTER).open(sealed_by(MASTER), b"here", "It")


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=5000), st.binary(max_size=50))
def test_any_bytes_come_back_from_any_place(plain: bytes, place: bytes) -> None:
    cipher = Encryption(MASTER)
    sealed = cipher.seal(plain, place)
    assert plain == cipher.open(sealed, place, "It")
    assert OVERHEAD + len(plain) == len(sealed)


def test_the_format_is_as_it_is_written_down() -> None:
    def derived(label: bytes) -> bytes:
        return hmac.digest(MASTER, label, "sha256")

    message = len(b"here").to_bytes(8, "big") + b"here" + PLAIN
    nonce = hmac.digest(derived(b"limpet nonce key"), message, "sha256")[:12]
    ciphertext = AESGCM(derived(b"limpet encryption key")).encrypt(nonce, PLAIN, b"here")
    assert derived(b"limpet key id")[:4] + nonce + ciphertext == sealed_by(MASTER)


def test_the_same_bytes_are_sealed_to_the_same_bytes_in_every_process() -> None:
    program = "import sys; from limpet.keys import Encryption; " + (
        "print(Encryption(bytes(range(32))).seal(sys.argv[1].encode(), b'here').hex())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, PLAIN.decode()], capture_output=True, text=True, timeout=60, check=True
    )
    assert sealed_by(MASTER).hex() == told.stdout.strip()


def test_other_bytes_another_place_and_another_key_have_other_nonces() -> None:
    seals = [
        sealed_by(MASTER),
        sealed_by(OTHER),
        sealed_by(MASTER, PLAIN + b"!"),
        sealed_by(MASTER, place=b"there"),
        sealed_by(MASTER, b"e" + PLAIN, b"her"),
    ]
    assert len(seals) == len({sealed[4:16] for sealed in seals})


def test_every_flipped_bit_is_noticed() -> None:
    cipher, sealed = Encryption(MASTER), sealed_by(MASTER)
    for place in range(len(sealed)):
        for bit in range(8):
            damaged = bytearray(sealed)
            damaged[place] ^= 1 << bit
            with pytest.raises(WrongKey):
                cipher.open(bytes(damaged), b"here", "It")


def test_every_cut_is_noticed() -> None:
    cipher, sealed = Encryption(MASTER), sealed_by(MASTER)
    for length in range(len(sealed)):
        with pytest.raises(WrongKey, match="It cannot be decrypted: it was changed"):
            cipher.open(sealed[:length], b"here", "It")


def test_bytes_that_were_moved_do_not_open() -> None:
    with pytest.raises(
        WrongKey, match="It cannot be decrypted: it was changed since it was written, or belongs elsewh"
    ):
        Encryption(MASTER).open(sealed_by(MASTER), b"there", "It")


def test_a_record_opens_only_at_its_position_in_its_state() -> None:
    cipher = Encryption(MASTER)
    sealed = RecordCipher(cipher, "kelp-4").seal(PLAIN, 21)
    assert PLAIN == RecordCipher(cipher, "kelp-4").open(sealed, 21)
    for state_id, seq in (("kelp-4", 20), ("kelp-4", -21), ("kelp-42", 1), ("kelp-5", 21), ("", 21)):
        with pytest.raises(WrongKey, match=f"Record {seq} of state '{state_id}' cannot be decrypted"):
            RecordCipher(cipher, state_id).open(sealed, seq)


def test_a_missing_key_is_named_and_so_are_those_that_are_given() -> None:
    third = bytes(32)
    with pytest.raises(WrongKey) as caught:
        Encryption([MASTER, OTHER]).open(sealed_by(third), b"here", "Record 1 of state 's'")
    why = (
        f"it needs the key with the id {key_id(third)}, and those given have the ids {key_id(MASTER)}, {key_id(OTHER)}"
    )
    assert ("Record 1 of state 's'", why) == caught.value.args


def test_after_a_rotation_the_new_key_writes_and_both_read() -> None:
    rotated = Encryption([OTHER, MASTER])
    assert sealed_by(OTHER) == rotated.seal(PLAIN, b"here")
    assert PLAIN == rotated.open(sealed_by(OTHER), b"here", "It")
    assert PLAIN == rotated.open(sealed_by(MASTER), b"here", "It")


def test_a_rotation_reaches_a_process_that_runs() -> None:
    given_keys: list[bytes] = [MASTER]
    asked: list[int] = []

    def source() -> list[bytes]:
        asked.append(len(given_keys))
        return list(given_keys)

    cipher = Encryption(source)
    assert [] == asked
    assert sealed_by(MASTER) == cipher.seal(PLAIN, b"here") == cipher.seal(PLAIN, b"here")
    assert [1] == asked
    given_keys.insert(0, OTHER)
    assert PLAIN == cipher.open(sealed_by(OTHER), b"here", "It")
    assert [1, 2] == asked
    assert PLAIN == cipher.open(sealed_by(MASTER), b"here", "It")
    assert sealed_by(OTHER) == cipher.seal(PLAIN, b"here")
    assert [1, 2] == asked


def test_the_keys_are_asked_for_once_more_for_each_opening_that_misses_one() -> None:
    asked: list[None] = []
    cipher = Encryption(lambda: asked.append(None) or MASTER)
    for count in (1, 2, 3):
        with pytest.raises(WrongKey):
            cipher.open(sealed_by(OTHER), b"here", "It")
        assert count == len(asked)


def test_threads_that_need_the_key_at_once_ask_for_it_once() -> None:
    asked: list[None] = []
    is_asked, may_answer = threading.Event(), threading.Event()

    def source() -> bytes:
        asked.append(None)
        is_asked.set()
        assert may_answer.wait(10)
        return MASTER

    cipher = Encryption(source)
    seals: list[bytes] = []
    threads = [threading.Thread(target=lambda: seals.append(cipher.seal(PLAIN, b"here"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert is_asked.wait(10)
    may_answer.set()
    for thread in threads:
        thread.join()
    assert [sealed_by(MASTER)] * 4 == seals
    assert 1 == len(asked)


def test_what_the_callable_raises_is_raised_and_it_is_asked_again() -> None:
    answers: Iterator[Callable[[], bytes]] = iter([lambda: bytes([1 // 0]), lambda: MASTER])
    cipher = Encryption(lambda: next(answers)())
    with pytest.raises(ZeroDivisionError):
        cipher.seal(PLAIN, b"here")
    assert sealed_by(MASTER) == cipher.seal(PLAIN, b"here")


def test_encryption_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    sealed, cipher = bytes(64), Encryption(MASTER)
    with pytest.raises(MissingDependency, match=r"Encryption needs .* cryptography, .* `pip install 'limpet\[encryp"):
        cipher.seal(PLAIN, b"here")
    with pytest.raises(MissingDependency):
        cipher.open(Key(MASTER).id + sealed, b"here", "It")


def test_the_package_is_imported_only_when_a_key_is_used() -> None:
    program = (
        "import sys; import limpet, limpet.cli.main; from limpet.keys import Encryption; "
        "e = Encryption(bytes(32)); print('cryptography' in sys.modules); "
        "e.seal(b'', b''); print('cryptography' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ["False", "True"] == told.stdout.split()


@pytest.mark.parametrize("holder", [Key(MASTER), Cipher(lambda: [Key(MASTER)]), Encryption(MASTER)])
def test_what_holds_a_key_is_not_pickled_or_copied(holder: object) -> None:
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled or copied"):
            way(holder)


def test_a_repr_shows_the_ids_of_keys_and_no_more() -> None:
    cipher = Encryption([MASTER, OTHER])
    assert "<Encryption, not used yet>" == repr(cipher)
    cipher.seal(b"", b"")
    assert f"<Encryption with the keys {key_id(MASTER)}, {key_id(OTHER)}>" == repr(cipher)
    assert f"<Key {key_id(MASTER)}>" == repr(Key(MASTER))


def forms_of(master: bytes) -> list[str]:
    """What would give a key away: the master key and what is derived from it, as text of any kind."""
    derived = (hmac.digest(master, f"limpet {what} key".encode(), "sha256") for what in ("encryption", "nonce"))
    return [form for secret in (master, *derived) for form in (repr(secret)[2:-1], secret.hex())]


def tampered(sealed: bytes) -> bytes:
    return sealed[:-1] + bytes([sealed[-1] ^ 1])


@pytest.mark.parametrize(
    "failing",
    [
        lambda cipher: cipher.open(b"", b"here", "It"),
        lambda cipher: cipher.open(sealed_by(OTHER), b"here", "It"),
        lambda cipher: cipher.open(tampered(sealed_by(MASTER)), b"here", "It"),
        lambda cipher: cipher.open(sealed_by(MASTER), b"there", "It"),
        lambda cipher: RecordCipher(cipher, "s").open(sealed_by(MASTER), 1),
        pickle.dumps,
    ],
)
def test_no_failure_shows_a_key(failing: Callable[[Encryption], object], caplog: pytest.LogCaptureFixture) -> None:
    cipher = Encryption([MASTER])
    with caplog.at_level(logging.DEBUG), pytest.raises((LimpetError, TypeError)) as caught:
        failing(cipher)
    error = caught.value
    # With the local variables of every function of ours, as some reporters show them.
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    shown = [str(error), repr(error), repr(error.args), caplog.text, repr(cipher), *told.format()]
    assert [] == [form for form in forms_of(MASTER) if any(form in text for text in shown)]
