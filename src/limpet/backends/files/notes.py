"""The pins and the enlisted stores of a folder of artifacts. Takes no lock; the backend does where one is needed."""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from limpet.backends.artifact_rules import id_of_hex
from limpet.backends.files import layout
from limpet.backends.files.tree import FILE_MODE, open_folder
from limpet.model.artifacts import Pin


class _Store(msgspec.Struct):
    """What stands in the file of an enlisted store."""

    name: str


def add_pin(pins: int, pin_folder: str, digits: str) -> None:
    folder = open_folder(pins, pin_folder, make=True)
    assert folder is not None
    try:
        os.close(os.open(digits, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=folder))
    finally:
        os.close(folder)


def remove_pin(pins: int, pin_folder: str) -> None:
    folder = open_folder(pins, pin_folder)
    if folder is None:
        return
    try:
        for name in os.listdir(folder):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(pin_folder, dir_fd=pins)


def pins_in(pins: int) -> dict[Pin, frozenset[str]]:
    found: dict[Pin, frozenset[str]] = {}
    for name in os.listdir(pins):
        pin = layout.pin_of_folder(name)
        folder = None if pin is None else open_folder(pins, name)
        if pin is None or folder is None:
            continue
        try:
            found[pin] = frozenset(map(id_of_hex, filter(layout.DIGITS.fullmatch, os.listdir(folder))))
        finally:
            os.close(folder)
    return found


def written_store(name: str) -> bytes:
    return msgspec.json.encode(_Store(name))


def stores_in(stores: int) -> dict[str, str]:
    """The names of the stores. One whose file is damaged is enlisted all the same, under its id."""
    found: dict[str, str] = {}
    for store_id in filter(layout.STORE_ID.fullmatch, os.listdir(stores)):
        found[store_id] = store_id
        with suppress(OSError, msgspec.MsgspecError):
            found[store_id] = msgspec.json.decode(_read(stores, store_id), type=_Store).name
    return found


def _read(folder: int, name: str) -> bytes:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(handle, "rb") as file:
        return file.read()
