"""``ask``, ``sleep``, ``sleep_until`` and ``wait_for_message``: what a run waits for outside of itself."""

from __future__ import annotations

import inspect
import math
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast, overload

from limpet.codec.answer_types import NotFitting, converted, schema_of, to_plain
from limpet.engine.actors import Actor
from limpet.engine.call import Call
from limpet.engine.hidden import require_not_secret
from limpet.engine.keyed import perform_keyed
from limpet.engine.live import LiveState
from limpet.engine.questions import fitting_answer, question_of
from limpet.engine.replacement import NOTHING
from limpet.engine.scope import Scope, current_scope
from limpet.engine.threads import wait_for
from limpet.engine.untaken import Arrived
from limpet.engine.user_threads import require_scope_not_lost
from limpet.engine.waiting import Awaited, WaitEnd
from limpet.errors import (
    DeadlinePassed,
    EventFailed,
    QuestionWithdrawn,
    StateCorrupted,
    UsageError,
    ValueNotReadable,
    WrongAnswer,
)
from limpet.journal.address import SEPARATOR, label
from limpet.journal.waits import answer_name, due_at_of, is_in_time, topic_key
from limpet.model import EventRecord, InterruptReason, InterruptSignal, StateStatus
from limpet.model.waits import Ended, Question
from limpet.model.words import WaitType

T = TypeVar("T")


class WaitActor(Actor[..., Any]):
    """What an event calls that waits. There is one of each kind."""

    is_wait = True
    is_plain = False

    def __init__(self, name: str, kind: WaitType) -> None:
        super().__init__(name=name)
        self.suffix = f"{SEPARATOR}{kind}"

    def begin(
        self, scope: Scope, awaited: Awaited, plain: dict[str, Any], key: str | None, topic: str | None = None
    ) -> Coroutine[Any, Any, Any]:
        """The call, whose address is taken now. A topic stands in it where there is no key, and is none."""
        named = label(self.name, topic if key is None else key)
        call = Call(self, scope.take(named) if key is None else scope.take_keyed(named), (awaited,), {}, (plain,))
        if scope.live.rehearsal is not None:
            scope.live.rehearsal.note_site(call.address)
        perform = self._perform_call
        return perform(scope, call) if key is None else perform_keyed(scope, named, perform, scope, call)


_QUESTION = WaitActor("ask", WaitType.QUESTION)
_TIMER = WaitActor("sleep", WaitType.TIMER)
_MESSAGE = WaitActor("message", WaitType.MESSAGE)


class _Limited(Awaited):
    """A wait with a deadline, and perhaps with what counts where nothing has come by then."""

    def __init__(self, deadline: timedelta | datetime | float | None, default: Any) -> None:
        self._deadline = deadline
        self._default = default

    def due_at(self, now: float) -> float:
        match self._deadline:
            case None:
                return 0.0
            case datetime():
                return self._deadline.timestamp()
            case timedelta():
                return now + self._deadline.total_seconds()
            case _:
                return now + self._deadline

    def overdue(self, record: EventRecord) -> WaitEnd:
        if self._default is not NOTHING:
            return WaitEnd(Ended.DUE, self._default)
        assert record.details is not None
        until = datetime.fromtimestamp(record.details.due_at).astimezone()
        return WaitEnd(
            Ended.DUE, error=DeadlinePassed(record.address, f"nothing had come by {until:%Y-%m-%d %H:%M:%S}")
        )


class _Asked(_Limited):
    """A question."""

    def __init__(self, wanted: Any, deadline: timedelta | datetime | float | None, default: Any) -> None:
        super().__init__(deadline, default)
        self._wanted = wanted

    async def ask_here(self, scope: Scope, record: EventRecord) -> WaitEnd | None:
        live, said = scope.live, None
        if live.on_question is None:
            return None
        question = question_of(live.stored, live.state_id, record)
        try:
            said = live.on_question(question)
            if inspect.isawaitable(said):
                said = await said
            if not is_in_time(due_at_of(record), live.clock.now()):
                return self.overdue(record)
            return WaitEnd(Ended.ANSWERED, fitting_answer(question, self._wanted, said), by="on_question")
        except Exception as error:
            if said is None and isinstance(error, WrongAnswer):
                return None  # It has no answer: somebody else may.
            await _refuse(scope, question, error)
            raise AssertionError("a run that is left goes no further") from error

    def key(self, record: EventRecord) -> str:
        return answer_name(record)

    def taken(self, live: LiveState, record: EventRecord, letter: Arrived) -> WaitEnd:
        text = letter.text
        if text.ended == Ended.WITHDRAWN or text.value is None:
            why = f"{text.by} took it back" if text.by else "somebody took it back"
            error: EventFailed = QuestionWithdrawn(record.address, why)
            return WaitEnd(Ended.WITHDRAWN, error=error, by=text.by, letter=letter.name)
        question = question_of(live.stored, live.state_id, record)
        try:
            value = fitting_answer(question, self._wanted, live.stored.decode(text.value))
        except (WrongAnswer, ValueNotReadable) as refused:
            # It fitted what is recorded of the type, and not the type itself.
            return WaitEnd("", error=refused, by=text.by, letter=letter.name, is_refused=True)
        return WaitEnd(Ended.ANSWERED, value, by=text.by, letter=letter.name)


async def _refuse(scope: Scope, question: Question, error: Exception) -> None:
    """Leave the run with its question open. Raised inside it, the code might take this for an outcome."""
    if not isinstance(error, WrongAnswer):
        cause, error = (
            error,
            UsageError(
                f"`on_question` raised {type(error).__name__}: {error}, when it was asked {question.prompt!r}.",
                "The question is still open: mend the function, or answer with `answer`, and run again.",
            ),
        )
        error.__cause__ = cause
    signal = InterruptSignal(InterruptReason.WAITING, "What `on_question` said is no answer.", is_graceful=True)
    await scope.live.stopper.stop_here(scope, signal, StateStatus.AWAITING, error)


class _Sent(_Limited):
    """A message."""

    def __init__(self, topic: str, wanted: Any, deadline: timedelta | datetime | float | None, default: Any) -> None:
        super().__init__(deadline, default)
        self._topic = topic
        self._wanted = wanted

    def key(self, record: EventRecord) -> str:
        return topic_key(self._topic)

    def taken(self, live: LiveState, record: EventRecord, letter: Arrived) -> WaitEnd:
        text = letter.text
        if text.value is None:
            raise StateCorrupted(live.state_id, 0, f"the message {letter.name!r} has no value")
        try:
            value = converted(live.stored.decode(text.value), self._wanted)
        except NotFitting as refused:
            error = EventFailed(record.address, f"the message about {self._topic!r} does not fit: {refused}")
            return WaitEnd(Ended.ARRIVED, error=error, by=text.by, letter=letter.name)
        return WaitEnd(Ended.ARRIVED, value, by=text.by, letter=letter.name)


class _Time(_Limited):
    """A time that comes."""

    def overdue(self, record: EventRecord) -> WaitEnd:
        return WaitEnd(Ended.DUE)


class Asking:
    """``ask``: awaited in async code; ``ask.call(…)`` in plain code."""

    @overload
    def __call__(
        self,
        prompt: str,
        type: type[T],
        *,
        choices: Sequence[T] | None = None,
        default: T = ...,
        deadline: timedelta | datetime | None = None,
        context: Any = None,
        to: str = "",
        key: str | None = None,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self,
        prompt: str,
        type: Any = bool,
        *,
        choices: Sequence[Any] | None = None,
        default: Any = ...,
        deadline: timedelta | datetime | None = None,
        context: Any = None,
        to: str = "",
        key: str | None = None,
    ) -> Coroutine[Any, Any, Any]: ...
    def __call__(self, prompt: str, type: Any = bool, *, default: Any = NOTHING, **options: Any) -> Any:
        """Ask a person, and give the answer, a value of that type.

        The question is kept with the state. When nothing is left to do but to wait for answers, ``run`` raises
        AwaitingAnswer and the process may end; when the run is taken up again it goes on here, with the answer.

        ``choices`` are the only values that are accepted. By the ``deadline`` the ``default`` counts, or DeadlinePassed
        is raised here. ``context`` is shown with the question, ``to`` says whom it is for. ``key`` names the address.
        """
        return ask_in(_here("ask"), prompt, type, default=default, **options)

    def call(self, prompt: str, type: Any = bool, **options: Any) -> Any:
        """The same from plain code, waiting for the answer."""
        scope = _here("ask")
        return wait_for(ask_in(scope, prompt, type, **options), scope.live.loop)


ask = Asking()


def ask_in(
    scope: Scope,
    prompt: str,
    type: Any = bool,
    *,
    choices: Sequence[Any] | None = None,
    default: Any = NOTHING,
    deadline: timedelta | datetime | None = None,
    context: Any = None,
    to: str = "",
    key: str | None = None,
) -> Coroutine[Any, Any, Any]:
    """The question as an event of that scope. Raises UsageError for what cannot be asked."""
    plain = {"prompt": _text(prompt), "type": _noted(type), "schema": schema_of(type)}
    require_not_secret(type, f"The answer to {prompt!r}")
    if choices is not None:
        plain["choices"] = [_of_type(type, choice, "choice") for choice in choices]
        if not plain["choices"]:
            raise UsageError(f"The question {prompt!r} has no choices.", "Give at least one, or leave `choices` out.")
    if default is not NOTHING:
        plain["default"] = default = _of_type(type, default, "default")
        if choices is not None and default not in plain["choices"]:
            raise UsageError(f"The default {default!r} is none of the choices.", "Give one that is.")
    plain |= _noted_deadline(deadline)
    if context is not None:
        plain["context"] = context
    if to:
        plain["to"] = to
    return _QUESTION.begin(scope, _Asked(type, deadline, default), plain, key)


def sleep(duration: timedelta | float, *, key: str | None = None) -> Coroutine[Any, Any, None]:
    """Let so much time pass, in seconds or as a timedelta. When it is over is recorded once: a process that takes the
    run up later waits for the rest. A long sleep leaves the memory of the process."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if not isinstance(cast(object, seconds), int | float) or not 0 <= seconds < math.inf:
        raise UsageError(f"A run cannot sleep for {duration!r}.", "Give seconds, or a timedelta.")
    return _TIMER.begin(_here("sleep"), _Time(float(seconds), NOTHING), {"seconds": float(seconds)}, key)


def sleep_until(moment: datetime, *, key: str | None = None) -> Coroutine[Any, Any, None]:
    """Wait for a moment, given with its time zone. As ``sleep`` otherwise."""
    _check_deadline(moment)
    return _TIMER.begin(_here("sleep_until"), _Time(moment, NOTHING), {"until": moment}, key)


def wait_for_message(
    topic: str,
    type: Any = Any,
    *,
    deadline: timedelta | datetime | None = None,
    default: Any = NOTHING,
    key: str | None = None,
) -> Coroutine[Any, Any, Any]:
    """Wait for a message about a topic that somebody sends with ``Limpet.send``, and give it.

    Every message is given once, in the order in which they were sent; also one that was sent before this was called. By
    the ``deadline`` the ``default`` counts, or DeadlinePassed is raised here.
    """
    plain = {"topic": checked_topic(topic), "type": _noted(type), **_noted_deadline(deadline)}
    require_not_secret(type, f"The message about {topic!r}")
    if default is not NOTHING:
        plain["default"] = default
    return _MESSAGE.begin(_here("wait_for_message"), _Sent(topic, type, deadline, default), plain, key, topic)


def checked_topic(topic: object) -> str:
    """The topic, if a message can have it. Raises UsageError."""
    if not isinstance(topic, str) or not topic or len(topic) > 100 or ":" in topic or not topic.isprintable():
        raise UsageError(
            f"{topic!r} cannot be the topic of messages.", "Give text of 1 to 100 printable characters without a colon."
        )
    return topic


def _here(verb: str) -> Scope:
    scope = current_scope.get()
    if scope is None:
        require_scope_not_lost(verb)
        raise UsageError(
            f"`{verb}` was called outside of a run, so nothing could be kept until it is over.",
            "Call it inside an agent that is run with `run`.",
        )
    return scope


def _text(prompt: object) -> str:
    if not isinstance(prompt, str) or not prompt:
        raise UsageError(f"{prompt!r} cannot be asked.", "Give the question as text.")
    return prompt


def _noted(wanted: Any) -> Any:
    try:
        return to_plain(wanted)
    except TypeError as error:
        raise UsageError(
            f"{error}.", "Give a class, or a type that is made of classes, such as `list[int]`."
        ) from error


def _of_type(wanted: Any, value: object, what: str) -> Any:
    try:
        return converted(value, wanted)
    except NotFitting as error:
        raise UsageError(f"The {what} {value!r} is not of the type that is asked for: {error}.", "Give one.") from error


def _check_deadline(deadline: object) -> None:
    is_moment = isinstance(deadline, datetime) and deadline.tzinfo is not None
    is_span = isinstance(deadline, timedelta) and deadline >= timedelta(0)
    if deadline is not None and not is_moment and not is_span:
        raise UsageError(
            f"{deadline!r} is no deadline.",
            "Give a timedelta, or a datetime with a time zone: `datetime.now(UTC) + …`.",
        )


def _noted_deadline(deadline: timedelta | datetime | None) -> dict[str, Any]:
    _check_deadline(deadline)
    return {} if deadline is None else {"deadline": deadline}
