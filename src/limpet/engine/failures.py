"""Where failures come from and what they pass on, what is recorded of them, and recorded ones raised again.

A failure that the program caught is part of what happened, so only what the exception that fails an event really passes
on is retried when the event is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from limpet.codec import values
from limpet.codec.secret_search import secrets_of_error
from limpet.codec.secrets import scrubbed
from limpet.codec.user_types.exceptions import FAILED_CALL, RECORDED_TRACEBACK
from limpet.codec.user_types.stand_in_exceptions import make_stand_in, names_from
from limpet.engine.scope import Scope
from limpet.engine.tracebacks import OwnTraceback, as_utf8, own_traceback, recorded
from limpet.errors import ValueNotReadable
from limpet.journal.tracebacks import FindRecord, whole_traceback
from limpet.model import Details, EventRecord, Failure

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

_SLIPS: Final = frozenset(
    {
        *(AssertionError, AttributeError, ImportError, IndexError, KeyError, ModuleNotFoundError, NameError),
        *(NotImplementedError, RecursionError, SyntaxError, TypeError, UnboundLocalError, ZeroDivisionError),
    }
)
"""Raised in an ``except`` block, these very classes say that its own code is wrong."""

_Made = tuple[dict[str, int], int]
"""The counts of the calls that a sequence of code has made, and how many these were at some time."""


def mark_failed(scope: Scope, address: str, error: BaseException) -> None:
    """Remember where an exception came from, for the record of what it fails next."""
    scope.note_failed(address)
    # Its class may forbid to set attributes, as a frozen dataclass does.
    error.__dict__[FAILED_CALL] = (address, tuple(_made(scope)))


def _made(scope: Scope) -> Iterator[_Made]:
    """How many calls the code has made that a failure goes up through: that of its branch, and of its event."""
    above: Scope | None = scope
    while above is not None:
        yield above.counts, sum(above.counts.values())
        above = None if above is above.event else above.parent


def causes_of(error: BaseException, failed: Collection[str]) -> tuple[str, ...]:
    """The failed calls whose failure an exception really passes on; none where it shows none.

    It does so with an exception that is that failure, was raised ``from`` it, or is a group of such. One that was
    raised in an ``except`` block without ``from`` passes on what had been caught there, unless the block had made
    another call by then, which the failure had led to; or unless it is a slip of the code.
    """
    if not failed:
        return ()
    passed_on = (_failed_call(each)[0] for each in _failures_in(error, failed, _passed_on))
    return tuple(dict.fromkeys(passed_on))


def failed_call(error: BaseException) -> str:
    """Returns the address of the call that an exception failed last, or an empty text if it has failed none."""
    return _failed_call(error)[0]


def _failed_call(error: BaseException) -> tuple[str, tuple[_Made, ...]]:
    """The call that an exception failed last, and how many calls had been made by then."""
    found: Any = error.__dict__.get(FAILED_CALL)
    # Older records have the address alone, as an attribute of the exception.
    return cast("tuple[str, tuple[_Made, ...]]", found[:2]) if type(found) is tuple else ("", ())


_Follow = Callable[[BaseException, Collection[str]], Iterator[BaseException]]


def _failures_in(error: BaseException, failed: Collection[str], follow: _Follow) -> Iterator[BaseException]:
    """The failures of these calls that are met from an exception on."""
    seen: set[int] = set()
    to_look_at = [error]
    while to_look_at:
        one = to_look_at.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if _failed_call(one)[0] in failed:
            # What this one was raised in the wake of had been caught: it is not what is passed on.
            yield one
        else:
            to_look_at += follow(one, failed)


def _connected(error: BaseException, _: Collection[str]) -> Iterator[BaseException]:
    """The exceptions that one is a group of, or was raised from or in the wake of."""
    if isinstance(error, BaseExceptionGroup):
        yield from cast("BaseExceptionGroup[BaseException]", error).exceptions
    yield from (each for each in (error.__cause__, error.__context__) if each is not None)


def _passed_on(error: BaseException, failed: Collection[str]) -> Iterator[BaseException]:
    """Those of the connected exceptions that one passes on."""
    cause, context = error.__cause__, error.__context__
    for each in _connected(error, failed):
        if each is not context or each is cause or (cause is None and _is_wrap(error, each, failed)):
            yield each


def _is_wrap(error: BaseException, caught: BaseException, failed: Collection[str]) -> bool:
    """Whether code that had caught an exception said by another one, without ``from``, that it cannot go on."""
    # `raise … from None` is said with intent, whatever the class is.
    if type(error) in _SLIPS and not error.__suppress_context__:
        return False
    made = (each for failure in _failures_in(caught, failed, _connected) for each in _failed_call(failure)[1])
    return all(sum(counts.values()) == before for counts, before in made)


def recorded_error(record: EventRecord, find: FindRecord) -> BaseException:
    """The exception that a failed event raised, built again; what cannot be built is stood in for."""
    error = _built(record)
    error.__dict__[RECORDED_TRACEBACK] = whole_traceback(record, find)
    to_look_at, seen = [(error, record.seq)], {id(error)}
    while to_look_at:
        one, number = to_look_at.pop()
        cause_number: Any = one.__dict__.pop(FAILED_CALL, None)
        cause = find(cause_number) if type(cause_number) is int and 0 < cause_number < number else None
        if cause is not None:
            is_hidden = one.__suppress_context__
            BaseException.__setattr__(one, "__cause__", _built(cause))
            BaseException.__setattr__(one, "__suppress_context__", is_hidden)
            assert one.__cause__ is not None
            one.__cause__.__dict__[RECORDED_TRACEBACK] = whole_traceback(cause, find)
            number = cause.seq
        to_look_at += [(each, number) for each in _connected(one, ()) if id(each) not in seen]
        seen |= {id(each) for each in _connected(one, ())}
    return error


def _built(record: EventRecord) -> BaseException:
    failure = record.error
    assert failure is not None, "what failed has an error"
    error: Any = None
    if failure.value is not None:
        with suppress(ValueNotReadable):
            error = values.decode(failure.value)
    if not isinstance(error, BaseException):
        error = make_stand_in(names_from(failure.type_name), failure.message, (failure.message,))
    return error


class Told(NamedTuple):
    """What is recorded of an exception."""

    failure: Failure
    traceback: OwnTraceback

    def with_blocks(self, details: Details | None) -> Details | None:
        """What else is said of the event, with the blocks of the traceback where it has any."""
        blocks = self.traceback.blocks
        return msgspec.structs.replace(details or Details(), blocks=blocks) if blocks else details


def failure_in(live: LiveState, error: BaseException, *, is_recorded: bool = True) -> Told:
    """What is recorded of an exception in a run. What it shows to be secret is so from now on."""
    live.secrets |= secrets_of_error(error)
    return failure_of(error, live.secrets, live.state_id if is_recorded else "")


def failure_of(error: BaseException, secrets: Collection[str] = (), state_id: str = "") -> Told:
    """What is recorded of an exception, with a mask in place of every secret.

    What stands in another record of this state already is named, and not recorded again.
    """
    secrets = {*secrets, *secrets_of_error(error)}
    kind = type(error)
    message = as_utf8(scrubbed(_told(error), secrets))
    own = own_traceback(error, state_id, secrets)
    failure = Failure(
        type_name=kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        message=message,
        traceback=own.text,
        value=values.encode_failure(error, message, secrets, partial(_number_of, state_id=state_id)),
    )
    return Told(failure, own)


def _number_of(error: BaseException, state_id: str) -> int:
    """The number of the record in which a failure stands as it is; 0: in none."""
    known = recorded(error, state_id)
    return known.number if known is not None and known.is_as_it_was(error) else 0


def _told(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failed:
        # It is the failure of the call that counts, not that of its text.
        return f"<its text cannot be made: {type(failed).__name__}>"
