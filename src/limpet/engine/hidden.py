"""What is hidden of the calls of an actor: found from its annotations where it is declared, applied where it is called.

What cannot be recognised is refused where it is declared.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from limpet.codec.annotations import NotUnderstood, space_of
from limpet.codec.secret_annotations import NOTHING, WHOLE, Hiding, Hidings, hiding_of_type, hidings_of
from limpet.codec.secret_search import secrets_in
from limpet.engine.signatures import parameters_of, positional_names
from limpet.errors import UsageError

NO_HIDINGS: Final = Hidings({}, None, is_final=True)


class Places(msgspec.Struct, frozen=True):
    """What the parameters of a function are called."""

    positional: tuple[str, ...]
    rest: str = ""
    rest_named: str = ""
    named: frozenset[str] = frozenset()
    """Those that can be given by name."""
    defaults: int = 0
    """How many of those in a place have a default."""

    def name_at(self, position: int) -> str:
        """The parameter to which an argument in that place goes; empty where there is none."""
        return self.positional[position] if position < len(self.positional) else self.rest

    def named_as(self, name: str) -> str:
        """The parameter to which an argument of that name goes; empty where there is none."""
        return name if name in self.named else self.rest_named


def places_of(function: Callable[..., Any]) -> Places:
    """What the parameters of a function are called."""
    kinds = inspect.Parameter
    parameters = parameters_of(function)
    positional, defaults = positional_names(function)
    by_kind = {each.kind: each.name for each in parameters}
    by_name = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    return Places(
        positional,
        by_kind.get(kinds.VAR_POSITIONAL, ""),
        by_kind.get(kinds.VAR_KEYWORD, ""),
        frozenset(each.name for each in parameters if each.kind in by_name),
        defaults,
    )


def hidden_arguments(
    actor: str, hidden: Mapping[str, Hiding], places: Places, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as they are recorded."""
    placed = tuple(
        _hiding_at(hidden, places, number).hide(value, f"{actor}({places.name_at(number)})")
        for number, value in enumerate(args)
    )
    return placed, {
        name: _hiding_as(hidden, places, name).hide(value, f"{actor}({name})") for name, value in kwargs.items()
    }


def texts_of_arguments(
    hidden: Mapping[str, Hiding], places: Places, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> set[str]:
    """The texts of what is hidden of arguments."""
    if not hidden:
        return set()
    given = [_hiding_at(hidden, places, number).texts(value) for number, value in enumerate(args)]
    return set[str]().union(*given, *(_hiding_as(hidden, places, name).texts(value) for name, value in kwargs.items()))


def _hiding_at(hidden: Mapping[str, Hiding], places: Places, number: int) -> Hiding:
    parameter = places.name_at(number)
    # What fits no parameter may be a secret in a wrong place.
    return hidden.get(parameter, NOTHING) if parameter else WHOLE


def _hiding_as(hidden: Mapping[str, Hiding], places: Places, name: str) -> Hiding:
    parameter = places.named_as(name)
    if not parameter:
        return WHOLE
    hiding = hidden.get(parameter, NOTHING)
    # The keys of ``**options: Unpack[Options]`` are names here.
    return WHOLE if parameter == places.rest_named and name in hiding.keys else hiding


def hidden_of(actor: str, function: Callable[..., Any], local: Mapping[str, object]) -> Hidings:
    """What is hidden of the calls of a decorated function. Raises UsageError for what cannot be recognised."""
    try:
        found = hidings_of(function, local)
    except NotUnderstood as error:
        raise _refusal(actor, error) from error
    if not found.parameters:
        _require_annotated(actor, function)
    return found


def hidden_of_handler(
    actor: str, handler: Callable[..., Any], input_model: object, output_model: object, local: Mapping[str, object]
) -> Hidings:
    """What is hidden of the calls of an actor of the explicit form. Raises UsageError likewise."""
    found = hidden_of(actor, handler, local)
    first, *_ = *positional_names(handler)[0], ""
    space = space_of(handler, local)
    try:
        input_ = found.parameters.get(first, NOTHING) | hiding_of_type(input_model, space)
        result = (found.result or NOTHING) | hiding_of_type(output_model, space)
    except NotUnderstood as error:
        raise _refusal(actor, error) from error
    return Hidings({"input": input_} if input_ else {}, result or None, found.is_final)


class SecretsOfCalls:
    """What an actor declares secret of its calls."""

    name: str
    is_artifact: bool
    places = Places(("input",))
    """What its parameters are called."""

    @cached_property
    def hidden(self) -> Hidings:
        """What is hidden of the calls: found where the actor is declared, and again when it is first called where an
        annotation names what stands further down in its module."""
        return self._find_hidden()

    def _find_hidden(self) -> Hidings:
        return NO_HIDINGS

    def _check_hidden(self) -> None:
        """Raise UsageError for annotations of which it cannot be told what they hide."""
        found = self._find_hidden()
        if found.is_final:
            self.hidden = found

    @cached_property
    def secret_parameters(self) -> frozenset[str]:
        """The parameters that have secrets: what is secret of what they are given is not recorded."""
        return frozenset(self.hidden.parameters)

    @cached_property
    def is_kept_apart(self) -> bool:
        """Whether a result takes the longer way to its record: it is an artifact as a whole, or has secrets."""
        return self.is_artifact or self.hidden.result is not None

    def secrets_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[str]:
        """The texts of the secrets among the arguments of a call."""
        return secrets_in((args, kwargs)) | texts_of_arguments(self.hidden.parameters, self.places, args, kwargs)

    def hide_result(self, result: Any) -> Any:
        """The result as it is recorded or shown: with notes in place of what is declared secret of it."""
        hiding = self.hidden.result
        return result if hiding is None else hiding.hide(result, f"{self.name}(), its result")

    def secrets_in_result(self, result: Any) -> set[str]:
        """The texts of the secrets in a result."""
        hiding = self.hidden.result
        return secrets_in(result) | (set() if hiding is None else hiding.texts(result))


def require_not_secret(wanted: object, what: str) -> None:
    """Raise UsageError where what comes from outside of the run, through the store, is to have a secret in it."""
    try:
        is_secret = _has_secret(wanted)
    except TypeError:
        is_secret = bool(hiding_of_type(wanted))  # It cannot be noted.
    if is_secret:
        raise UsageError(
            f"{what} is to be of the type {wanted!r}, which has a secret in it. It comes to the run through the store, "
            "and no secret is stored.",
            "Ask for the name under which the secret is kept, and read it there.",
        )


@lru_cache(maxsize=256)
def _has_secret(wanted: object) -> bool:
    return bool(hiding_of_type(wanted))


def _refusal(actor: str, error: NotUnderstood) -> UsageError:
    place = {"return": "result"}.get(error.place, repr(error.place) if error.place else "input or output model")
    return UsageError(
        f"In the actor {actor!r}, {place} is annotated as {error.text!r}, and {error.name!r} cannot be found there: "
        "it cannot be told what is secret.",
        f"Import {error.name!r} where the program runs, not for type checkers only, and before the actor is declared.",
    )


def _require_annotated(actor: str, function: Callable[..., Any]) -> None:
    """Raise UsageError for a function that passes on whatever it is given, and hides whose annotations count."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    kinds = {each.kind for each in parameters if each.annotation is inspect.Parameter.empty}
    passes_all_on = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if kinds != passes_all_on or len(parameters) != len(kinds):
        return
    for cell in getattr(function, "__closure__", None) or ():
        inner = _content(cell)
        secret = getattr(inner, "secret_parameters", None)
        if secret is None and inspect.isfunction(inner):
            secret = hidings_of(inner).parameters
        if secret:
            name = getattr(inner, "__name__", inner)
            raise UsageError(
                f"The actor {actor!r} passes on what it is given to {name!r}, whose parameter {min(secret)!r} is "
                "secret, and does not say so itself.",
                "Decorate the wrapper with `functools.wraps`, or annotate its parameters.",
            )


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # It has no value yet.
