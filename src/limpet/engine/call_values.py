"""The input and the result of a call as they are recorded, where the short way does not do: large ones, and secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.artifacts.stored_values import Encoded, Pending, has_secret
from limpet.codec.secret_search import secrets_at_hand
from limpet.engine.unawaited import require_awaited

if TYPE_CHECKING:
    from limpet.engine.actors import Actor
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState


async def encode_input(live: LiveState, call: Call, given: Any) -> Encoded:
    """The input as it is recorded, where that is large or has secrets.

    Where inputs are not recorded, what tells it from others.
    """
    pending: Sequence[Pending] = ()
    encoded = live.stored.encode_small(given) if live.records_inputs else live.stored.canonical(given)
    if encoded is None:
        require_awaited(call.actor.name, given)
        encoded, pending = await live.stored.encode_input(given, is_lenient=True)
        if not pending:
            # It may have a part that cannot be stored, and is noted by its type.
            live.secrets |= secrets_at_hand(given)
    if has_secret(encoded, pending):
        live.secrets |= call.actor.secrets_in(call.inputs, call.kwargs)
    return encoded, pending


async def encode_result(live: LiveState, actor: Actor[..., Any], result: Any) -> Encoded:
    """The result as it is recorded, where that is large or has secrets."""
    pending: Sequence[Pending] = ()
    hidden = actor.hide_result(result)
    encoded = None if actor.is_artifact else live.stored.encode_small(hidden)
    if encoded is None:
        encoded, pending = await live.stored.encode_result(hidden, actor.is_artifact)
    if has_secret(encoded, pending):
        live.secrets |= actor.secrets_in_result(result)
    return encoded, pending
