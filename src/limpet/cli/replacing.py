"""The value of ``--replace``: read from the command line or from a file, and made what the recorded result was."""

from __future__ import annotations

import inspect
from typing import Any

from limpet.cli.from_json import NotFitting, type_name, value_like
from limpet.cli.given_json import given_json
from limpet.client import Limpet
from limpet.codec.comparison.parts import type_of
from limpet.engine.declared import find_declared
from limpet.engine.replacement import NOTHING
from limpet.errors import UsageError
from limpet.journal.address import parse


def replacement(
    client: Limpet, state_id: str, at: str | None, text: str | None, *, any_type: bool, timeline: int | None
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
    given = given_json("--replace", text)
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
            f"`limpet show {state_id} --json` has the recorded one; `--any-type` takes the JSON as it is.",
        ) from error


def _annotation(address: str) -> Any:
    """What the actor at the address says that it returns; Any where it says nothing, or is not declared here."""
    try:
        actor = find_declared(None, parse(address).name)
        if actor is None:
            return Any
        annotation = inspect.signature(actor.function, eval_str=True).return_annotation
    except (NameError, TypeError, ValueError, SyntaxError, AttributeError):
        return Any
    return Any if annotation is inspect.Signature.empty else annotation
