"""Actors: the units of work that users declare, as the engine sees them.

An actor holds what was declared and turns a call into an event where it is made inside a run. It keeps nothing of a
run.
"""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, cast, overload
from weakref import WeakSet, WeakValueDictionary

from limpet.codec.names import main_module_name
from limpet.codec.secret_search import secrets_in
from limpet.codec.secrets import MissingSecret, secret_parameters, texts_of
from limpet.engine.call import Call
from limpet.engine.keyed import perform_keyed
from limpet.engine.perform import perform, perform_call
from limpet.engine.scope import current_scope
from limpet.engine.signatures import is_async, name_of_kind, only_named, positional_names
from limpet.engine.threads import loop_of, run_plain, wait_for
from limpet.engine.undo_names import name_of_undo
from limpet.engine.user_threads import require_scope_not_lost, scope_of_thread, using_key
from limpet.errors import UsageError
from limpet.journal.address import SEPARATOR, label
from limpet.model import DeterminismLevel, EventType, RetryConfig
from limpet.model.notebooks import NOTEBOOK, is_cell

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

Condition = Callable[..., object]
"""Given a handler's arguments (before it) or its result (after it); False or an exception stops the event."""

Probe = Callable[..., object]
"""Given a handler's arguments; Happened(result), DidNotHappen(), or anything else where it does not know."""

Comparison = Callable[[Any, Any], object]
"""Given the recorded result and the one of executing again; true if the second counts as the first."""
TOLERANCE = 1e-6
"""How far numbers of an approximate actor may be apart, unless it says so itself."""

declared_once: WeakSet[Actor[..., Any]] = WeakSet()
"""The actors of this process that are declared ``once``."""
with_undo: WeakValueDictionary[tuple[str, EventType, str], Actor[..., Any]] = WeakValueDictionary()
"""The actors of this process that something undoes, by name and kind, and the name of what undoes them."""


class Options(TypedDict, total=False):
    """What can be declared of an actor, by decorator or class."""

    name: str
    description: str
    version: str
    preconditions: Sequence[Condition]
    postconditions: Sequence[Condition]
    is_artifact: bool
    """Store every result as an artifact, whatever its size."""
    gate: bool
    """Where the policy saves on gates: all that was recorded is saved with the outcome of this."""
    total_events: int
    """Of an agent: about how many events its runs have, from which their progress is told."""
    once: bool
    """Never executed twice without a person's word: the start is durable before the handler runs."""
    probe: Probe
    """Of what is declared ``once``: finds out whether a call that was cut off has done its work."""
    undo: Callable[..., object]
    """What undoes a call when its run is rolled back: given its arguments, and ``result`` if it takes that."""
    retry_config: RetryConfig
    """How often and when a call that failed is tried again."""
    timeout_s: float
    """How long one attempt may take; then it is cancelled, and fails with EventTimedOut."""
    total_timeout_s: float
    """How long a call may take as a whole, with all attempts and the waits between them."""
    determinism: DeterminismLevel
    """How far executing it again gives the same; what a validation compares. Strict where nothing is said."""
    tolerance: float
    """Of an approximate actor: how far numbers may be apart, relative to them."""
    compare: Comparison
    """Of an approximate actor: whether a result counts as the recorded one."""
    cacheable: bool
    """Accepted from older programs; does nothing."""
    cache_ttl: int
    """Accepted from older programs; does nothing."""


class Actor(Generic[P, R]):
    """Something that can be called, and whose calls are events inside a run."""

    event_type: EventType = EventType.TOOL_CALL
    function: Callable[..., Any]
    """What a call executes."""
    only_named: frozenset[str] = frozenset()
    """The parameters that must be given, and cannot be given by their place."""
    is_wait = False
    """Whether its events execute nothing, and wait for something outside of the run."""
    is_plain: bool
    """True for a plain ``def``: it runs on a worker thread."""

    def __init__(
        self,
        *,
        name: str,
        description: str = "",
        version: str | None = None,
        preconditions: Sequence[Condition] = (),
        postconditions: Sequence[Condition] = (),
        is_artifact: bool = False,
        gate: bool = False,
        total_events: int | None = None,
        once: bool = False,
        probe: Probe | None = None,
        undo: Callable[..., object] | None = None,
        retry_config: RetryConfig | None = None,
        timeout_s: float | None = None,
        total_timeout_s: float | None = None,
        determinism: DeterminismLevel | str | None = None,
        tolerance: float | None = None,
        compare: Comparison | None = None,
        cacheable: bool | None = None,
        cache_ttl: int | None = None,
    ) -> None:
        if not name:
            raise UsageError("An actor needs a name.", "Give one with `name=…`.")
        if cacheable is not None or cache_ttl is not None:
            warnings.warn(
                "`cacheable` and `cache_ttl` do nothing: a run's results are in its journal.",
                DeprecationWarning,
                stacklevel=4,
            )
        self.name = name
        self.description = description
        self.version = version
        self.preconditions = tuple(preconditions)
        self.postconditions = tuple(postconditions)
        self.is_artifact = is_artifact
        self.gate = gate
        self.total_events = total_events
        self.once = once
        self.probe = probe
        self.probe_is_plain = probe is not None and not is_async(probe)
        self.undo = undo
        self.retry_config = retry_config
        self.timeout_s = timeout_s
        self.total_timeout_s = total_timeout_s
        self.is_agent = self.event_type is EventType.AGENT_CALL
        self._check_execution()
        self.determinism = _determinism(name, determinism, tolerance, compare)
        self.tolerance = TOLERANCE if tolerance is None else tolerance
        self.compare = compare
        self.key: str | None = None
        self.label = label(name)
        self.suffix = f"{SEPARATOR}{self.event_type}"
        if once:
            declared_once.add(self)
        if undo is not None:
            with_undo[name, self.event_type, name_of_undo(undo)] = self

    def _check_execution(self) -> None:
        """See to what follows from the options of execution. Raises UsageError where they contradict each other."""
        config = self.retry_config
        check_limits(self.name, config, self.timeout_s, self.total_timeout_s)
        _check_total(self.name, self.total_events)
        if self.once and config is not None and config.enabled and config.max_attempts > 1:
            raise UsageError(
                f"The actor {self.name!r} is declared once, and is to be tried {config.max_attempts} times.",
                "Leave out `once` and give the service `current_event().idempotency_key`, or do not retry it.",
            )
        if self.probe is not None and not self.once:
            raise UsageError(
                f"The actor {self.name!r} has a probe, and is not declared once: nothing would ask the probe.",
                "Add `once=True`, or leave out the probe.",
            )
        self.limits_time = (
            self.timeout_s is not None
            or self.total_timeout_s is not None
            or (config is not None and config.retry_timeout is not None)
        )
        self.has_details = self.once or self.undo is not None or self.event_type is EventType.LLM_CALL
        """Whether its outcomes may have more to say than most."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Inside a run, an event whose address is taken now; outside, just the function. Either way to be awaited."""
        scope = current_scope.get()
        if scope is None:
            require_scope_not_lost(self.name)
            return self._execute_outside(args, kwargs)
        live, path = scope.live, scope.take(self.label) if self.key is None else scope.take_keyed(self.label)
        address = path + self.suffix
        if live.rehearsal is not None:
            live.rehearsal.note_site(address)
        if self.key is not None:
            return perform_keyed(scope, self.label, perform, scope, self, path, address, args, kwargs)
        if address in live.history.latest:
            return perform(scope, self, path, address, args, kwargs)
        return perform_call(scope, Call(self, path, args, kwargs, args, address))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same from plain code, waiting for the result. Inside a plain actor it keeps the scope."""
        scope = scope_of_thread(self)
        if scope is None and self.is_plain:
            return self.function(*args, **kwargs)
        loop = None if scope is None else loop_of(scope)  # Before the call is made: a stopped run makes none.
        with using_key(scope, self):
            return wait_for(self(*args, **kwargs), loop)

    def options(
        self,
        *,
        key: str | None = None,
        name: str | None = None,
        version: str | None = None,
        preconditions: Sequence[Condition] | None = None,
        postconditions: Sequence[Condition] | None = None,
        is_artifact: bool | None = None,
        gate: bool | None = None,
        once: bool | None = None,
        retry_config: RetryConfig | None = None,
        timeout_s: float | None = None,
        total_timeout_s: float | None = None,
        determinism: DeterminismLevel | str | None = None,
        tolerance: float | None = None,
        compare: Comparison | None = None,
    ) -> Self:
        """This actor with other options for one call; a key names the address: ``fetch.options(key="page-2")(url)``."""
        changed = copy.copy(self)
        changed.name = name or self.name
        changed.key = self.key if key is None else key
        changed.version = version or self.version
        changed.preconditions = self.preconditions if preconditions is None else tuple(preconditions)
        changed.postconditions = self.postconditions if postconditions is None else tuple(postconditions)
        changed.is_artifact = self.is_artifact if is_artifact is None else is_artifact
        changed.gate = self.gate if gate is None else gate
        changed.once = self.once if once is None else once
        changed.retry_config = self.retry_config if retry_config is None else retry_config
        changed.timeout_s = self.timeout_s if timeout_s is None else timeout_s
        changed.total_timeout_s = self.total_timeout_s if total_timeout_s is None else total_timeout_s
        if once is not None or retry_config is not None or timeout_s is not None or total_timeout_s is not None:
            changed._check_execution()
        # What is said of one call counts by itself: a tolerance there makes it approximate.
        if determinism is not None or tolerance is not None or compare is not None:
            changed.determinism = _determinism(changed.name, determinism, tolerance, compare)
            changed.tolerance = TOLERANCE if tolerance is None else tolerance
            changed.compare = compare
        changed.label = label(changed.name, changed.key)
        return changed

    def input_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The input as it is recorded: the arguments as a list, with a dict beside it for those only named."""
        return {"args": list(args), "kwargs": kwargs} if kwargs else list(args)

    @property
    def secret_parameters(self) -> frozenset[str]:
        """The parameters that are marked as secret: what they are given is not recorded."""
        return frozenset()

    def secrets_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[str]:
        """The texts of the secrets among the arguments of a call."""
        return secrets_in((args, kwargs))

    def arguments_of(self, recorded: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that a recorded input was made of."""
        if isinstance(recorded, list):
            return tuple(cast("list[Any]", recorded)), {}
        return tuple(recorded["args"]), dict(recorded["kwargs"])

    @property
    def reference(self) -> str | None:
        """Where this actor can be imported from, 'module:name' or 'file.py:name'; None where it cannot."""
        return None

    async def _execute_outside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.is_plain:
            return await run_plain(self.function, args, kwargs)
        return await self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class FunctionActor(Actor[P, R]):
    """A decorated function, of any signature."""

    def __init__(
        self, function: Callable[..., Any], event_type: EventType, name: str | None = None, **options: Any
    ) -> None:
        _require_known(options)
        if not callable(function):
            raise UsageError(f"{function!r} was declared as an actor, and is no function.", "Decorate a function.")
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise UsageError(
                f"{function.__qualname__} is a generator, and what it yields could not be given again.",
                "Return a list instead.",
            )
        self.event_type = event_type
        super().__init__(name=name or function.__name__, **options)
        self.function = function
        self.is_plain = not is_async(function)
        self.description = self.description or inspect.getdoc(function) or ""
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._positional = positional_names(function)
        self._rest = name_of_kind(inspect.Parameter.VAR_POSITIONAL, function)
        self._rest_named = name_of_kind(inspect.Parameter.VAR_KEYWORD, function)
        self.only_named = only_named(function)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: FunctionActor[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> FunctionActor[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: the instance goes to the function and is not part of the recorded input."""
        if instance is None:
            return self
        bound = copy.copy(self)
        bound.function = partial(self.function, instance)
        bound._positional = self._positional[1:]
        return bound

    def input_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.secret_parameters:
            args, kwargs = self._with_secrets_hidden(args, kwargs)
        if not kwargs:
            return list(args)
        # An argument that could stand in its place counts as standing there: naming it is no change of the input.
        placed, named = list(args), dict(kwargs)
        for name in self._positional[len(args) :]:
            if name not in named:
                break
            placed.append(named.pop(name))
        return super().input_of(tuple(placed), named)

    @cached_property
    def secret_parameters(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleMethodOverride]  # found once
        # When it is first called, since an annotation may name what stands further down in its module.
        function = self.function
        while isinstance(function, partial):
            function = function.func
        return secret_parameters(function)

    def secrets_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[str]:
        given = {**dict(zip(self._positional, args, strict=False)), **kwargs}
        found = super().secrets_in(args, kwargs)
        return found.union(*(texts_of(given[name]) for name in self.secret_parameters if name in given))

    def _with_secrets_hidden(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        hidden = {name: MissingSecret(f"{self.name}({name})") for name in self.secret_parameters}
        names = (*self._positional, *([self._rest] * len(args)))
        placed = tuple(hidden.get(name, argument) for name, argument in zip(names, args, strict=False))
        return placed, {name: hidden.get(name, hidden.get(self._rest_named, item)) for name, item in kwargs.items()}

    @property
    def reference(self) -> str | None:
        return reference_of(self.__module__, self.__qualname__, self.function)


class HandlerActor(Actor[[Any], Any]):
    """An actor of the explicit form, whose handler gets the input, a context and the state.

    The handler is given as ``handler=`` or declared as a method of a subclass.
    """

    def __init__(
        self,
        *,
        name: str,
        handler: Callable[..., Any] | None = None,
        input_model: Any = None,
        output_model: Any = None,
        **options: Any,
    ) -> None:
        _require_known(options)
        super().__init__(name=name, **options)
        function = handler or getattr(self, "handler", None)
        if function is None:
            raise UsageError(
                f"The actor {name!r} has no handler.", "Give one with `handler=…`, or declare it as a method."
            )
        self.handler = function
        self.function = function
        self.is_plain = not is_async(function)
        self.input_model = input_model
        self.output_model = output_model

    def __call__(self, input: Any, context: Any = None) -> Coroutine[Any, Any, Any]:
        scope = current_scope.get()
        if scope is None:
            require_scope_not_lost(self.name)
            return self._execute_outside((input, context, None), {})
        path = scope.take(self.label) if self.key is None else scope.take_keyed(self.label)
        call = Call(self, path, (input, context, scope.live.facade), {}, (input,))
        if scope.live.rehearsal is not None:
            scope.live.rehearsal.note_site(call.address)
        if self.key is not None:
            return perform_keyed(scope, self.label, perform_call, scope, call)
        return perform_call(scope, call)

    def call(self, input: Any, context: Any = None) -> Any:
        scope = scope_of_thread(self)
        with using_key(scope, self):
            return wait_for(self(input, context), scope.live.loop if scope is not None else None)

    @property
    def reference(self) -> str | None:
        cls = type(self)
        is_ours = cls.__module__.startswith("limpet.")
        return None if is_ours else reference_of(cls.__module__, cls.__qualname__, self.function)


def _determinism(
    name: str, level: DeterminismLevel | str | None, tolerance: float | None, compare: Comparison | None
) -> DeterminismLevel | None:
    """The level that is declared; a tolerance or a comparison says that it is approximate."""
    if level is not None and level not in list(DeterminismLevel):
        raise UsageError(
            f"The actor {name!r} has the determinism {level!r}.", f"Use one of {', '.join(DeterminismLevel)}."
        )
    if tolerance is not None and not 0 <= tolerance < 1:
        raise UsageError(f"The actor {name!r} has the tolerance {tolerance!r}.", "Give a number from 0 to less than 1.")
    if tolerance is None and compare is None:
        return None if level is None else DeterminismLevel(level)
    if level not in (None, DeterminismLevel.APPROXIMATE):
        raise UsageError(
            f"The actor {name!r} is declared {level}, and has a tolerance or a comparison.",
            "Declare it approximate, or leave those out.",
        )
    return DeterminismLevel.APPROXIMATE


def check_limits(
    name: str, retry_config: object, timeout_s: float | None = None, total_timeout_s: float | None = None
) -> None:
    """Raises UsageError for what cannot limit a call."""
    if retry_config is not None and not isinstance(retry_config, RetryConfig):
        raise UsageError(f"The actor {name!r} has the retry_config {retry_config!r}.", "Give a RetryConfig.")
    for option, limit in (("timeout_s", timeout_s), ("total_timeout_s", total_timeout_s)):
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit is not None and not (is_number and 0 < limit < float("inf")):
            raise UsageError(f"The actor {name!r} has the {option} {limit!r}.", "Give seconds, more than 0.")


def _check_total(name: str, total: object) -> None:
    if total is not None and (not isinstance(total, int) or isinstance(total, bool) or total < 1):
        raise UsageError(f"The actor {name!r} has the total_events {total!r}.", "Give a whole number from 1 on.")


def _require_known(options: Mapping[str, object]) -> None:
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)} is no option of an actor.", f"The options are {', '.join(Options.__annotations__)}."
        )


def reference_of(module: str, qualified_name: str, function: Callable[..., Any] | None = None) -> str | None:
    """Where a thing declared in a module can be imported from; the running script is named by its file.

    What is declared in a notebook can be imported from nowhere, and is named as that.
    """
    if "<locals>" in qualified_name:
        return None
    if module != "__main__":
        return f"{module}:{qualified_name}"
    code = None if function is None else getattr(inspect.unwrap(function), "__code__", None)
    if code is not None and is_cell(code.co_filename):
        return f"{NOTEBOOK}:{qualified_name}"
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None:
        return f"{main_module_name()}:{qualified_name}"
    return f"{_whole_path(file)}:{qualified_name}" if file else None


@lru_cache(maxsize=1)
def _whole_path(file: str) -> Path:
    """Where the running script lies, found once: asking the file system takes longer than recording an event."""
    return Path(file).resolve()
