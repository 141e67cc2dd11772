"""The value of ``--replace``: read from the command line or from a file, and made what the recorded result was."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from holdfast.cli.arguments import read_json
from holdfast.cli.from_json import NotFitting, type_name, value_like
from holdfast.client import Holdfast
from holdfast.codec.comparison.parts import type_of
from holdfast.engine.declared import find_actor
from holdfast.engine.replacement import NOTHING
from holdfast.errors import AgentNotFound, UsageError
from holdfast.journal.address import parse

_HOW = "Text has quotes of its own ('\"kelp\"'), and @FILE names a file that has the JSON."


def replacement(
    client: Holdfast, state_id: str, at: str | None, text: str | None, *, any_type: bool, timeline: int | None
) -> Any:
    """What the call at the address is to give; NOTHING where nothing was given.

    The agent of the state must be imported, so that the classes of its results are there. Raises UsageError, and what
    looking for the address raises.
    """
    if text is None:
        if any_type:
            raise UsageError("`--any-type` says how `--replace` is read, which is not given.", "Give both, or neither.")
        return NOTHING
    if at is None:
        raise UsageError("There is no telling which result is to be replaced.", "Name the call with `--at ADDRESS`.")
    given = _read(text)
    address = client.plan_rerun(state_id, at, timeline=timeline).address
    if any_type:
        return given
    recorded = client.history(state_id, timeline=timeline).get_event_result(address)
    expected = "" if recorded is None else f" is of the type {type_name(type_of(recorded))}, and"
    try:
        return value_like(recorded, given, _annotation(address))
    except NotFitting as error:
        raise UsageError(
            f"The result at {address!r}{expected} cannot be replaced by this JSON: {error}.",
            f"`holdfast show {state_id} --json` has the recorded one; `--any-type` takes the JSON as it is.",
        ) from error


def _read(text: str) -> Any:
    source = _file(text[1:]) if text.startswith("@") else text
    where = f"{text[1:]} has" if text.startswith("@") else "--replace is"
    try:
        return read_json(source)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} no JSON: {' '.join(str(error).split())}.", _HOW) from error


def _file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{name!r} cannot be read: {why}.", _HOW) from error


def _annotation(address: str) -> Any:
    """What the actor at the address says that it returns; Any where it says nothing, or is not declared here."""
    try:
        function = find_actor(None, parse(address).name).function
        annotation = inspect.signature(function, eval_str=True).return_annotation
    except (AgentNotFound, NameError, TypeError, ValueError, SyntaxError, AttributeError):
        return Any
    return Any if annotation is inspect.Signature.empty else annotation
