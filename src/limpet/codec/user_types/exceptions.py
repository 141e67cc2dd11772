"""Exceptions: their type, arguments, attributes, notes and cause, and where they were raised, as text.

The initialisers of built-in exceptions fill fields from the arguments and are called; those of users' classes are not.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import local
from typing import Any, Final, cast

import msgspec

from limpet.codec.kinds import Lower, NotStorable, Opaque, listed, mapped
from limpet.codec.names import name_of
from limpet.codec.user_types.families import (
    layout_of,
    make_family,
    others_of,
    plan_for_reading,
    require_known_slots,
    require_same_fields,
    slots_of,
)
from limpet.codec.user_types.not_kept import stand_in, with_stand_ins
from limpet.codec.user_types.structs import fields_of
from limpet.errors import ValueNotReadable

RECORDED_TRACEBACK: Final = "recorded_traceback"
"""The attribute under which a recorded exception has the text of the traceback that it had."""

FAILED_CALL: Final = "_limpet_address"
"""The attribute under which an exception that goes up through a run has the call that it failed last. Never stored.

One that is read has the number of the record there that its cause is to be read from, where it names one."""


class _Plan(msgspec.Struct, frozen=True):
    name: str
    layout: Any
    members: tuple[tuple[str, Any], ...]
    """What a built-in exception keeps beside its arguments and its ``__dict__``."""
    slots: dict[str, Any]
    """The fields that a dataclass or an attrs class keeps in slots."""


_plans: Final[dict[type, _Plan]] = {}


def _plan(cls: type) -> _Plan:
    fields = fields_of(cls)
    # attrs keeps a place for a hash, which no exception uses.
    require_known_slots(cls, (*fields, "_attrs_cached_hash"))
    layout = layout_of(cls)
    members = tuple(
        (name, vars(base)[name]) for base, names in MEMBERS.items() if base in layout.__mro__ for name in names
    )
    slots = {name: slot for name, slot in slots_of(cls).items() if name in fields}
    plan = _plans[cls] = _Plan(name_of(cls), layout, members, slots)
    return plan


MEMBERS: Final[dict[type, tuple[str, ...]]] = {
    ImportError: ("name", "path"),
    AttributeError: ("name",),
    NameError: ("name",),
}
"""What built-in exceptions keep beside their arguments and their ``__dict__``."""


_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    **MEMBERS,
    OSError: ("errno", "strerror", "filename", "filename2"),
    StopIteration: ("value",),
    SyntaxError: ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset"),
    UnicodeDecodeError: ("encoding", "object", "start", "end", "reason"),
    UnicodeEncodeError: ("encoding", "object", "start", "end", "reason"),
}
"""The same, with those that are filled from the arguments: code may set them to something else later."""


def built_in_fields(error: BaseException) -> dict[str, Any]:
    """What an exception has of ``_FIELDS`` that its arguments do not give."""
    layout = layout_of(type(error))
    fields = {(base, name): vars(base)[name] for base in layout.__mro__ for name in _FIELDS.get(base, ())}
    plain: BaseException | None = None
    with suppress(Exception):
        plain = initialised(layout, layout, argument_list(error))
    kept = {name: field.__get__(error) for (_, name), field in fields.items()}
    if plain is None:
        return kept
    given = {name: field.__get__(plain) for (_, name), field in fields.items()}
    return {name: item for name, item in kept.items() if not _is_same(item, given[name])}


def _is_same(one: object, other: object) -> bool:
    return one is other or (type(one) in (str, bytes, int) and type(one) is type(other) and one == other)


def put_fields(error: BaseException, fields: dict[Any, Any]) -> None:
    """Give an exception that is made again what it has of ``_FIELDS``. What does not fit there is left out."""
    for base in layout_of(type(error)).__mro__:
        for name in _FIELDS.get(base, ()):
            if name in fields and type(fields[name]) is not Opaque:
                with suppress(Exception):
                    vars(base)[name].__set__(error, fields[name])


def lower_exception(
    value: BaseException, lower: Lower, with_traceback: bool, lower_cause: Lower | None = None
) -> list[Any]:
    """The parts of an exception, each lowered; without the text of its traceback if that is not wanted.

    The text tells where the program stood, so it is no part of what makes two exceptions the same.
    """
    plan = _plans.get(type(value)) or _plan(type(value))
    args = argument_list(value)
    try:
        initialised(type(value), plan.layout, args)
    except Exception as error:
        raise NotStorable(type(value), f"cannot be built again from its arguments ({error})") from error
    others = others_of(value.__dict__, (RECORDED_TRACEBACK, FAILED_CALL))
    for name, slot in plan.slots.items():
        others[name] = slot.__get__(value)
    members = {name: lower(member.__get__(value)) for name, member in plan.members}
    parts = [plan.name, lower(args), lower(others), members]
    text = traceback_text(value) if with_traceback else None
    if value.__cause__ is None and not value.__suppress_context__ and text is None:
        return parts
    _require_no_cycle(value)
    return [*parts, (lower_cause or lower)(value.__cause__), value.__suppress_context__, lower(text)]


def argument_list(value: BaseException) -> list[Any]:
    """The arguments that an exception is made again from."""
    args = list(value.args)
    if isinstance(value, OSError) and value.filename is not None and len(args) == 2:
        # OSError takes the names of files as arguments, and does not show them as such.
        args += [value.filename] if value.filename2 is None else [value.filename, None, value.filename2]
    return args


def traceback_text(value: BaseException) -> str | None:
    """Where an exception was raised: the frames of its own traceback, or what was recorded of it."""
    if value.__traceback__ is not None:
        return "".join(traceback.format_tb(value.__traceback__))
    recorded = value.__dict__.get(RECORDED_TRACEBACK)
    return recorded if type(recorded) is str else None


def _require_no_cycle(value: BaseException) -> None:
    """Raise NotStorable where an exception is, over causes and members of groups, its own cause."""
    to_look_at = [value.__cause__]
    seen = set[int]()
    while to_look_at:
        error = to_look_at.pop()
        if error is value:
            raise NotStorable(type(value), "is its own cause")
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        to_look_at.append(error.__cause__)
        if isinstance(error, BaseExceptionGroup):
            to_look_at += cast("BaseExceptionGroup[BaseException]", error).exceptions


_TAKING_PARTS: Final[frozenset[type]] = frozenset({BaseExceptionGroup, SyntaxError})
"""They go through their second argument, and a range or a network has no end."""


def initialised(cls: type[BaseException], layout: Any, args: list[Any]) -> BaseException:
    """An exception of a class, made by the built-in class that it is laid out as. No code of the class runs."""
    if len(args) > 1 and type(args[1]) not in (list, tuple) and not _TAKING_PARTS.isdisjoint(layout.__mro__):
        raise TypeError("its second argument is no list and no tuple")
    error: BaseException = layout.__new__(cls, *args)
    layout.__init__(error, *args)
    return error


def _build_as(cls: type[BaseException], parts: Any) -> BaseException:
    name, args, others, members = parts[:4]
    plan = _plans.get(cls) or plan_for_reading(cls, "an exception", _plan, name)
    of = str(name).replace(":", ".")
    try:
        error = initialised(cls, plan.layout, [stand_in(each, "args", of) for each in listed(args)])
    except Exception as cause:
        raise ValueNotReadable(name, f"it cannot be built from its arguments ({cause})") from cause
    rest = dict(mapped(others))
    require_same_fields(name, rest.keys() & plan.slots.keys(), plan.slots)
    for key, slot in plan.slots.items():
        slot.__set__(error, rest.pop(key))
    error.__dict__.update(with_stand_ins(rest, of))
    for key, member in plan.members:
        member.__set__(error, members.get(key))
    if len(parts) > 4:
        put_origin(error, *parts[4:7])
    return error


def put_origin(error: BaseException, cause: Any, is_context_hidden: Any, text: Any) -> None:
    """Give an exception that is made again its cause, and where it was raised."""
    # A class may forbid its attributes to be set, so these are set as those of any exception. A cause that could not be
    # stored has left a note in its place, which cannot be a cause.
    if isinstance(cause, BaseException):
        BaseException.__setattr__(error, "__cause__", cause)
    elif type(cause) is int:
        error.__dict__[FAILED_CALL] = cause
    BaseException.__setattr__(error, "__suppress_context__", bool(is_context_hidden))
    if text is not None:
        error.__dict__[RECORDED_TRACEBACK] = str(text)


class _Compared(local):
    """Whether exceptions are lowered here to be compared: the text of a traceback tells where the program stood."""

    is_so = False


_compared: Final = _Compared()


@contextmanager
def without_tracebacks() -> Generator[None]:
    """While this lasts, exceptions are lowered without the text of their tracebacks."""
    before, _compared.is_so = _compared.is_so, True
    try:
        yield
    finally:
        _compared.is_so = before


def _lower(value: BaseException, lower: Lower) -> list[Any]:
    return lower_exception(value, lower, with_traceback=not _compared.is_so)


EXCEPTION: Final = make_family(21, "an exception", _plan, _lower, _build_as)
"""Parts: the name of the class, its arguments, its attributes by name, what built-in classes keep besides; and where
there is any of it: the cause (a number: it is the failure in the record of that number), whether the context is hidden,
and the text of the traceback."""
