"""Actors: the units of work that users declare, as the engine sees them.

An actor holds what was declared and turns a call into an event where it is made inside a run. It keeps nothing of a
run.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    overload,
)
from weakref import WeakSet, WeakValueDictionary

import msgspec

from limpet.codec.annotations import names_around
from limpet.codec.secret_annotations import Hidings
from limpet.engine.actor_options import (
    TOLERANCE,
    Comparison,
    Condition,
    Probe,
    check_limits,
    check_total,
    determinism_of,
    require_known,
)
from limpet.engine.call import Call
from limpet.engine.call_names import named, short_name
from limpet.engine.callables import Binding, examined
from limpet.engine.hidden import SecretsOfCalls, hidden_arguments, hidden_of, hidden_of_handler, places_of
from limpet.engine.keyed import perform_keyed
from limpet.engine.perform import perform, perform_call
from limpet.engine.references import reference_of, reference_to
from limpet.engine.scope import current_scope
from limpet.engine.signatures import is_async, only_named, require_fit
from limpet.engine.threads import loop_of, run_plain, wait_for
from limpet.engine.undo_names import name_of_undo
from limpet.engine.user_threads import require_scope_not_lost, scope_of_thread, using_key
from limpet.errors import UsageError
from limpet.journal.address import SEPARATOR, label
from limpet.model import DeterminismLevel, EventType, RetryConfig

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

declared_once: WeakSet[Actor[..., Any]] = WeakSet()
"""The actors of this process that are declared ``once``."""
with_undo: WeakValueDictionary[tuple[str, EventType, str], Actor[..., Any]] = WeakValueDictionary()
"""The actors of this process that something undoes, by name and kind, and the name of what undoes them."""


class Actor(SecretsOfCalls, Generic[P, R]):
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
        if not isinstance(cast(object, name), str) or not name:
            raise UsageError(f"An actor needs a name, and has {name!r}.", "Give a text with `name=…`.")
        if not isinstance(cast(object, version), str | None):
            raise UsageError(f"The actor {name!r} has the version {version!r}.", "Give a text.")
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
        self.determinism = determinism_of(name, determinism, tolerance, compare)
        self.tolerance = TOLERANCE if tolerance is None else tolerance
        self.compare = compare
        self.key: str | None = None
        self.label = label(name)
        self.suffix = f"{SEPARATOR}{self.event_type}"
        self._name_calls(name)
        if once:
            declared_once.add(self)
        if undo is not None:
            with_undo[name, self.event_type, name_of_undo(undo)] = self

    def _check_execution(self) -> None:
        """See to what follows from the options of execution. Raises UsageError where they contradict each other."""
        config = self.retry_config
        check_limits(self.name, config, self.timeout_s, self.total_timeout_s)
        check_total(self.name, self.total_events)
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

    def _name_calls(self, name: str) -> None:
        """From now on Python names the calls so where one of them is never awaited."""
        self._shown_name = name
        self._perform, self._perform_call = named(perform, name), named(perform_call, name)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Inside a run, an event whose address is taken now; outside, just the function. Either way to be awaited."""
        scope = current_scope.get()
        if scope is None:
            return self._outside(args, kwargs)
        live, path = scope.live, scope.take(self.label) if self.key is None else scope.take_keyed(self.label)
        address = path + self.suffix
        if live.rehearsal is not None:
            live.rehearsal.note_site(address)
        if self.key is not None:
            return perform_keyed(scope, self.label, self._perform, scope, self, path, address, args, kwargs)
        if address in live.history.index:
            return self._perform(scope, self, path, address, args, kwargs)
        return self._perform_call(scope, Call(self, path, args, kwargs, args, address))

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same from plain code, waiting for the result. Inside a plain actor it keeps the scope."""
        scope = scope_of_thread(self)
        if scope is None and self.is_plain:
            result = self.function(*args, **kwargs)
            return wait_for(result, None) if inspect.iscoroutine(result) else result
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
            changed.determinism = determinism_of(changed.name, determinism, tolerance, compare)
            changed.tolerance = TOLERANCE if tolerance is None else tolerance
            changed.compare = compare
        changed.label = label(changed.name, changed.key)
        changed.__dict__.pop("is_kept_apart", None)
        return changed

    def input_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The input as it is recorded: the arguments as a list, with a dict beside it for those only named."""
        if self.secret_parameters:
            args, kwargs = hidden_arguments(self.name, self.hidden.parameters, self.places, args, kwargs)
        return {"args": list(args), "kwargs": kwargs} if kwargs else list(args)

    def require_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises TypeError where a call could not be made with these arguments."""

    def arguments_of(self, recorded: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that a recorded input was made of."""
        if isinstance(recorded, list):
            return tuple(cast("list[Any]", recorded)), {}
        return tuple(recorded["args"]), dict(recorded["kwargs"])

    @property
    def reference(self) -> str | None:
        """Where this actor can be imported from, 'module:name' or 'file.py:name'; None where it cannot."""
        return None

    def _outside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        require_scope_not_lost(self.name)
        call = self._execute_outside(args, kwargs)
        call.__qualname__ = self._shown_name
        return call

    async def _execute_outside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.is_plain:
            return await self.function(*args, **kwargs)
        result = await run_plain(self.function, args, kwargs)
        return await result if inspect.iscoroutine(result) else result

    if not TYPE_CHECKING:  # A type checker is to say that an actor is not awaited, too.

        def __await__(self) -> NoReturn:
            shown = self._shown_name
            raise UsageError(f"`await {shown}` awaits the actor itself.", f"Call it: `await {shown}(…)`.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class FunctionActor(Actor[P, R]):
    """A decorated function, of any signature."""

    owner: object = None
    """Of a method: the object or the class that it is bound to."""
    _found_at: str | None = None

    def __init__(
        self, function: Callable[..., Any], event_type: EventType, name: str | None = None, **options: Any
    ) -> None:
        require_known(options)
        declared = examined(function, event_type)
        function = declared.function
        self.event_type = event_type
        super().__init__(name=declared.name if name is None else name, **options)
        self.function = function
        self.is_plain = not is_async(function)
        self.description = self.description or declared.description
        self.__name__, self.__qualname__, self.__module__ = declared.name, declared.qualified_name, declared.module
        self.__doc__ = declared.description or None
        self.__wrapped__ = function
        self._binding = declared.binding
        self._name_calls(short_name(declared.qualified_name))
        self.places = places_of(function)
        self.only_named = only_named(function)
        self._local = names_around(function)
        self._check_hidden()

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: FunctionActor[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> FunctionActor[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: the instance goes to the function and is not part of the recorded input."""
        if self._binding is Binding.CLASS:
            instance = type(instance) if owner is None else owner
        if instance is None or self._binding is Binding.NOTHING:
            return self
        bound = copy.copy(self)
        bound.function = partial(self.function, instance)
        bound.owner = instance
        bound.places = msgspec.structs.replace(self.places, positional=self.places.positional[1:])
        return bound

    def require_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        most = len(self.places.positional)
        if kwargs or self.only_named or not most - self.places.defaults <= len(args) <= most:
            require_fit(self._shown_name, self.function, args, kwargs)

    def input_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.secret_parameters:
            args, kwargs = hidden_arguments(self.name, self.hidden.parameters, self.places, args, kwargs)
        if not kwargs:
            return list(args)
        # An argument that could stand in its place counts as standing there: naming it is no change of the input.
        placed, named = list(args), dict(kwargs)
        for name in self.places.positional[len(args) :]:
            if name not in named:
                break
            placed.append(named.pop(name))
        return {"args": placed, "kwargs": named} if named else placed

    def _find_hidden(self) -> Hidings:
        return hidden_of(self.name, self.function, self._local)

    @property
    def reference(self) -> str | None:
        if isinstance(self.owner, type):
            name = self.__qualname__.rpartition(".")[2]
            return reference_of(self.owner.__module__, f"{self.owner.__qualname__}.{name}", self.__wrapped__)
        function = self.__wrapped__
        is_function = type(function) is FunctionType and self.__name__ != "<lambda>"
        if is_function and "<locals>" in self.__qualname__:
            return None
        if self._found_at is None:  # While it is being declared, its module does not have it yet.
            self._found_at = reference_to(self._is_declared_as, self.__module__, self.__qualname__, function)
        return self._found_at or (reference_of(self.__module__, self.__qualname__, function) if is_function else None)

    def _is_declared_as(self, other: object) -> bool:
        # Not isinstance: that asks the object, and a stand-in for another one may refuse to answer.
        is_actor = issubclass(type(other), FunctionActor)
        actor = cast("FunctionActor[..., Any]", other)
        return is_actor and actor.__wrapped__ is self.__wrapped__ and actor.name == self.name


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
        require_known(options)
        super().__init__(name=name, **options)
        function = handler or getattr(self, "handler", None)
        if not callable(function):
            raise UsageError(
                f"The actor {name!r} has no handler."
                if function is None
                else f"The handler of {name!r} is {function!r}.",
                "Give a function with `handler=…`, or declare a method `handler`.",
            )
        self.handler = function
        self.function = function
        self.is_plain = not is_async(function)
        self.input_model = input_model
        self.output_model = output_model
        self._local = names_around(function)
        self._check_hidden()

    def _find_hidden(self) -> Hidings:
        return hidden_of_handler(self.name, self.function, self.input_model, self.output_model, self._local)

    def __call__(self, input: Any, context: Any = None) -> Coroutine[Any, Any, Any]:
        scope = current_scope.get()
        if scope is None:
            return self._outside((input, context, None), {})
        path = scope.take(self.label) if self.key is None else scope.take_keyed(self.label)
        call = Call(self, path, (input, context, scope.live.facade), {}, (input,))
        if scope.live.rehearsal is not None:
            scope.live.rehearsal.note_site(call.address)
        if self.key is not None:
            return perform_keyed(scope, self.label, self._perform_call, scope, call)
        return self._perform_call(scope, call)

    def require_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if kwargs or len(args) != 1:
            raise TypeError(f"{self.name} is run with one argument, its input")

    def call(self, input: Any, context: Any = None) -> Any:
        scope = scope_of_thread(self)
        with using_key(scope, self):
            return wait_for(self(input, context), scope.live.loop if scope is not None else None)

    @property
    def reference(self) -> str | None:
        cls = type(self)
        is_ours = cls.__module__.startswith("limpet.")
        return None if is_ours else reference_of(cls.__module__, cls.__qualname__, self.function)
