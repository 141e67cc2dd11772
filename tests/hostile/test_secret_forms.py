"""A secret reaches no byte of a store and no word of a command, in whatever place and spelling a program declares it.

The forms are generated (``secret_forms.py``); each has a secret of its own. By default every place meets every spelling
once; with LIMPET_ALL_SECRET_FORMS=1 each of them as text and as bytes.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import os
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from hostile.secret_forms import PREFIX, Form, Forms, modules

from limpet import DriftWarning, EventBus, Limpet, RetryConfig
from limpet.cli.main import commands

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

IS_WHOLE = os.environ.get("LIMPET_ALL_SECRET_FORMS") == "1"
FORMS = list(Forms(is_whole=IS_WHOLE))
MODES = ("whole", "failed", "retried", "large")
PUBLIC = b"zqx7public"
"""Stands in the result of every run that has one: what is searched for secrets must have it."""

_FRAME = b"\x28\xb5\x2f\xfd"
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")


def readings_of(data: bytes) -> Iterator[bytes]:
    """The bytes as they are, and all that can be unpacked of them."""
    yield data
    if data[:2] == b"PK":
        with zipfile.ZipFile(BytesIO(data)) as archive:
            for name in archive.namelist():
                yield name.encode()
                yield from readings_of(archive.read(name))
        return
    for found in re.finditer(re.escape(_FRAME), data):
        unpacked = b""
        try:
            unpacked = zstd.ZstdDecompressor().decompress(data[found.start() :])
        except zstd.ZstdError:
            continue
        yield from readings_of(unpacked)
    if data[:1] == b"\x78":
        with suppress(zlib.error):
            yield zlib.decompress(data)
    for text in _BASE64.findall(data):
        # Text before it may be of the same letters, so every beginning is tried.
        for start in range(4):
            piece = text[start:].rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
            yield base64.b64decode(piece[: len(piece) // 4 * 4])


def leaks_in(data: bytes) -> set[int]:
    """The numbers of the forms whose secret is in some bytes."""
    found: set[int] = set()
    for reading in readings_of(data):
        # As text of two bytes a character as well, and as the escapes of JSON.
        for each in (reading, reading.replace(b"\0", b"")):
            found |= {int(number) for number in re.findall(PREFIX.encode() + rb"(\d+)x", each)}
    return found


def stored_in(folder: Path) -> bytes:
    return b"\n".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def secret_of(form: Form, mode: str) -> str | bytes:
    text = f"{PREFIX}{form.number}x" * (8000 if mode == "large" else 1)
    # Bytes that are no text, and text that has to be escaped.
    return b"\xff\0" + text.encode() + b"\xfe" if "bytes" in form.source else f"'{text}\né"


def named(numbers: set[int]) -> list[str]:
    return sorted(form.what for form in FORMS if form.number in numbers)


PAIRS = [(False, "sqlite"), (True, "file"), *([(True, "sqlite"), (False, "file")] if IS_WHOLE else [])]


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{'text' if pair[0] else 'evaluated'} {pair[1]}")
def setting(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ModuleType, str]]:
    """A program with all the forms, its annotations evaluated or left as text, and a store."""
    is_text, store = request.param
    name = f"program_with_secrets_{'as_text' if is_text else 'evaluated'}"
    for path, source in modules(name, FORMS, is_text=is_text).items():
        file = tmp_path / "program" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path / "program"))
    monkeypatch.setenv("COLUMNS", "1000")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic does not like the names of some fields.
        program = importlib.import_module(name)
    yield program, f"sqlite:///{tmp_path}/runs.db" if store == "sqlite" else f"file:///{tmp_path}/runs"
    assert f"{name}_unloaded" not in sys.modules
    for each in (name, f"{name}_other"):
        sys.modules.pop(each, None)


def runs() -> Iterator[tuple[str, str, list[Form]]]:
    """The runs: their ids, modes and forms. The more secrets a run knows, the longer it searches every failure."""
    for mode in MODES:
        forms = FORMS if mode == "whole" or IS_WHOLE else FORMS[:: 1 + MODES.index(mode) * 4]
        for start in range(0, len(forms), 50):
            yield f"{mode}-{start}", mode, forms[start : start + 50]


def perform(program: Any, url: str, told: list[object]) -> dict[str, list[Form]]:
    bus = EventBus()
    bus.subscribe(told.append)
    begun: dict[str, list[Form]] = {}
    for mode in MODES:
        program.SECRETS.update({form.number: secret_of(form, mode) for form in FORMS})
        retry = RetryConfig(enabled=mode == "retried", max_attempts=2, initial_delay=0.0)
        with Limpet(url, default_retry_config=retry) as client:
            for state_id, _, forms in (each for each in runs() if each[1] == mode):
                numbers = [form.number for form in forms]
                begun[state_id] = forms
                try:
                    client.run_sync(
                        program.every_form, mode, numbers, state_id=state_id, event_bus=bus, checkpoint_policy="manual"
                    )
                except RuntimeError:
                    assert "failed" == mode
    bus.flush()
    return begun


def test_no_form_lets_a_secret_into_the_store_or_into_what_is_shown(
    setting: tuple[Any, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, url = setting
    told: list[object] = []
    leaks: dict[str, set[int]] = {}
    begun = perform(program, url, told)
    ways = sum(map(len, begun.values()))
    first = {mode: f"{mode}-0" for mode in MODES}
    with Limpet(url) as client:
        program.SECRETS.update({form.number: secret_of(form, "whole") for form in FORMS})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DriftWarning)
            report = asyncio.run(client.validate(first["whole"], agent=program.every_form))
        leaks["events and reports"] = leaks_in(f"{told} {report} {report.mismatches}".encode())
        called = {
            int(number)
            for state_id in begun
            for address in client.history(state_id).addresses()
            for number in re.findall(r"form_?(\d+)::", address, re.IGNORECASE)
        }
    assert [] == named({form.number for form in FORMS} - called)
    leaks["the store"] = leaks_in(stored := stored_in(tmp_path))
    assert any(PUBLIC in reading for reading in readings_of(stored))
    for arguments in (
        *(["show", state_id, *more] for state_id in first.values() for more in ([], ["--json"])),
        ["diff", first["whole"], first["failed"]],
        ["diff", first["whole"], first["retried"], "--json"],
        ["list", "--json"],
        ["verify", first["whole"]],
        *(["export", state_id, str(tmp_path / f"{mode}.limpet")] for mode, state_id in first.items()),
        ["export", first["whole"], str(tmp_path / "readable"), "--folder"],
    ):
        shown = CliRunner().invoke(commands, [*arguments, "--store", url])
        assert shown.exit_code in (0, 1), (arguments, shown.output)
        leaks[" ".join(arguments[:1] + arguments[2:])] = leaks_in(shown.output.encode())
    leaks["exports"] = leaks_in(
        b"".join(file.read_bytes() for file in (tmp_path / "readable").rglob("*") if file.is_file())
    )
    for mode in MODES:
        leaks["exports"] |= leaks_in((tmp_path / f"{mode}.limpet").read_bytes())
    with capsys.disabled():
        sys.stdout.write(f" {len(FORMS):,} forms, {ways:,} ways to the disk ")
    assert {} == {where: named(numbers) for where, numbers in leaks.items() if numbers}
