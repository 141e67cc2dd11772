"""Where failures come from and what they pass on, what is recorded of them, and recorded ones raised again."""

from __future__ import annotations

import traceback
from collections.abc import Collection
from typing import Any, cast

from limpet.codec import values
from limpet.codec.secret_search import secrets_of_error
from limpet.codec.secrets import scrubbed
from limpet.codec.user_types.exceptions import RECORDED_TRACEBACK
from limpet.engine.scope import Scope
from limpet.errors import ValueNotReadable, ValueNotStorable
from limpet.model import EventRecord, Failure

_ADDRESS = "_limpet_address"


def mark_failed(scope: Scope, address: str, error: BaseException) -> None:
    """Remember where an exception came from, for the record of what it fails next."""
    scope.note_failed(address)
    error.__dict__[_ADDRESS] = address  # Its class may forbid to set attributes, as a frozen dataclass does.


def causes_of(error: BaseException, failed: list[str]) -> tuple[str, ...]:
    """The failed calls that an exception passes on; all of them where it does not show which."""
    if not failed:
        return ()
    found: list[str] = []
    seen: set[int] = set()
    to_look_at: list[BaseException | None] = [error]
    while to_look_at:
        one = to_look_at.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        address = one.__dict__.get(_ADDRESS)
        if address in failed:
            # What this one was raised in the wake of had been caught: it is not what is passed on.
            found.append(address)
            continue
        to_look_at += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            to_look_at += cast("BaseExceptionGroup[BaseException]", one).exceptions
    return tuple(found or failed)


def can_be_raised(record: EventRecord) -> bool:
    """Whether a recorded failure can be raised again as what it was; if not, the call is executed again."""
    try:
        return isinstance(recorded_error(record), Exception)
    except ValueNotReadable:
        return False


def recorded_error(record: EventRecord) -> Any:
    """The exception that a failed event raised, built again; None where it could not be recorded."""
    assert record.error is not None
    error = None if record.error.value is None else values.decode(record.error.value)
    if isinstance(error, BaseException):
        error.__dict__[RECORDED_TRACEBACK] = record.error.traceback
    return error


def failure_of(error: BaseException, secrets: Collection[str] = ()) -> Failure:
    """What is recorded of an exception, with a mask in place of every secret."""
    secrets = {*secrets, *secrets_of_error(error)}
    try:
        value = values.encode_failure(error, secrets)
    except ValueNotStorable:
        value = None
    kind = type(error)
    return Failure(
        type_name=kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        message=_as_utf8(scrubbed(str(error), secrets)),
        traceback=_as_utf8(scrubbed("".join(traceback.format_exception(error)), secrets)),
        value=value,
    )


def _as_utf8(text: str) -> str:
    """Text as a record can hold it: an exception may speak of what is no text, such as the name of a file."""
    return text.encode("utf-8", "backslashreplace").decode()
