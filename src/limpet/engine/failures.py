"""Where failures come from and what they pass on, what is recorded of them, and recorded ones raised again.

A failure that the program caught is part of what happened, so only what the exception that fails an event really passes
on is retried when the event is.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, Final, cast

from limpet.codec import values
from limpet.codec.secret_search import secrets_of_error
from limpet.codec.secrets import scrubbed
from limpet.codec.user_types.exceptions import FAILED_CALL, RECORDED_TRACEBACK
from limpet.codec.user_types.stand_in_exceptions import make_stand_in, names_from
from limpet.engine.scope import Scope
from limpet.errors import ValueNotReadable
from limpet.model import EventRecord, Failure

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
    return cast("tuple[str, tuple[_Made, ...]]", found) if type(found) is tuple else ("", ())


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


def recorded_error(record: EventRecord) -> BaseException:
    """The exception that a failed event raised, built again; what cannot be built is stood in for."""
    failure = record.error
    assert failure is not None, "what failed has an error"
    error: Any = None
    if failure.value is not None:
        with suppress(ValueNotReadable):
            error = values.decode(failure.value)
    if not isinstance(error, BaseException):
        error = make_stand_in(names_from(failure.type_name), failure.message, (failure.message,))
    keep_traceback(error, failure)
    return error


def keep_traceback(error: BaseException, failure: Failure) -> None:
    """Give an exception the text of its traceback: the same when it fails a call as when it is raised again."""
    error.__dict__[RECORDED_TRACEBACK] = failure.traceback


def failure_of(error: BaseException, secrets: Collection[str] = ()) -> Failure:
    """What is recorded of an exception, with a mask in place of every secret."""
    secrets = {*secrets, *secrets_of_error(error)}
    kind = type(error)
    message = _as_utf8(scrubbed(_told(error), secrets))
    return Failure(
        type_name=kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        message=message,
        traceback=_as_utf8(scrubbed(_traceback(error), secrets)),
        value=values.encode_failure(error, message, secrets),
    )


def _told(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failed:
        # It is the failure of the call that counts, not that of its text.
        return f"<its text cannot be made: {type(failed).__name__}>"


def _traceback(error: BaseException) -> str:
    """The traceback as Python prints it. A class may raise when it is asked for that, as for ``bool()``."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return "".join(traceback.format_tb(error.__traceback__))


def _as_utf8(text: str) -> str:
    """Text as a record can hold it: an exception may speak of what is no text, such as the name of a file."""
    return text.encode("utf-8", "backslashreplace").decode()
