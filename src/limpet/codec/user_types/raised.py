"""Exceptions that failed an event: they come back as what they were, or as what ``except`` clauses take for it.

Unlike an exception that is a value, one that failed an event must come back always: what followed from it is recorded.
So this loses what cannot be stored and says so where that is used, and stands in for classes that are not there. No
initialiser of a user's class is called, and what data names is looked up, never imported or executed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from limpet.codec.kinds import Kind, Lower, NotStorable, listed, mapped
from limpet.codec.left_out import LeftOut, secrets_only, stand_ins_of
from limpet.codec.names import find_class, find_entry, name_of
from limpet.codec.secret_annotations import hidden_fields
from limpet.codec.user_types.exceptions import (
    FAILED_CALL,
    RECORDED_TRACEBACK,
    argument_list,
    built_in_fields,
    put_fields,
    put_origin,
    traceback_text,
)
from limpet.codec.user_types.families import READ_AS_OLD, is_derived, others_of, slots_of
from limpet.codec.user_types.not_kept import stand_in, with_stand_ins
from limpet.codec.user_types.stand_in_exceptions import (
    RECORDED_AS,
    make_as,
    make_stand_in,
    may_stand_for,
    put_args,
    readable_name,
    recorded_as,
)
from limpet.errors import ValueNotReadable

_MOST_NAMES: Final = 32
_bases_of = cast("Callable[[type], tuple[type, ...]]", vars(type)["__mro__"].__get__)
_EXCEPTION_TAG: Final = 21

# What a subclass has under these names is passed over.
_message_of = cast("Callable[[BaseException], str]", vars(BaseExceptionGroup)["message"].__get__)
_exceptions_in = cast(
    "Callable[[BaseException], tuple[BaseException, ...]]", vars(BaseExceptionGroup)["exceptions"].__get__
)


class Raised(msgspec.Struct, frozen=True, array_like=True):
    """The parts as they are written."""

    names: Any
    message: Any
    args: Any
    attributes: Any
    members: Any
    says_message: Any
    cause: Any
    is_context_hidden: Any
    traceback: Any


def lower_raised(
    error: BaseException,
    lower: Lower,
    message: str,
    *,
    with_traceback: bool,
    says_message: bool = False,
    lower_cause: Lower | None = None,
) -> list[Any]:
    """The parts of an exception, each lowered. ``says_message``: its class cannot say that by itself, once read."""
    named = recorded_as(error)
    names = list(named[0]) if named is not None else _names_of(type(error))
    pydantic = _pydantic_parts(error)
    parts = Raised(
        names,
        message,
        lower(_args_of(error, message)),
        lower(_attributes_of(error)),
        lower(pydantic if pydantic is not None else built_in_fields(error)),
        says_message or named is not None,
        (lower_cause or lower)(error.__cause__),
        error.__suppress_context__,
        lower(traceback_text(error)) if with_traceback else None,
    )
    return list(msgspec.structs.astuple(parts))


def lower_briefly(error: BaseException, message: str) -> list[Any]:
    """The parts of an exception of which nothing else can be written."""
    return [_names_of(type(error)), message, [message], {}, {}, True, None, error.__suppress_context__, None]


def _names_of(cls: type) -> list[str]:
    derived = [each for each in _bases_of(cls) if is_derived(each, BaseException)]
    return [_as_utf8(name_of(each)) for each in derived[:_MOST_NAMES]]


def _as_utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _args_of(error: BaseException, message: str) -> list[Any]:
    if is_derived(type(error), BaseExceptionGroup):
        # A class of groups may be made from other arguments than what every group has.
        return [_message_of(error), list(_exceptions_in(error))]
    # The arguments of a class with secret fields are often just these.
    return [message] if hidden_fields(type(error)) else argument_list(error)


def _attributes_of(error: BaseException) -> dict[str, Any]:
    """What an instance carries in its ``__dict__`` and in slots, with stand-ins for what is marked."""
    cls = type(error)
    attributes = others_of(error.__dict__, (RECORDED_TRACEBACK, FAILED_CALL, RECORDED_AS))
    for name, slot in slots_of(cls).items():
        try:
            attributes[name] = slot.__get__(error)
        except AttributeError:
            continue  # It has no value.
    try:
        marked = stand_ins_of(cls)
    except NotStorable:
        marked = secrets_only(cls)
    attributes = marked.put_into(attributes)
    return {name: item for name, item in attributes.items() if type(item) is not LeftOut}


def _pydantic_error() -> Any:
    """The class of pydantic's validation errors, where the program has imported it."""
    return find_entry("pydantic_core:ValidationError")


def _pydantic_parts(error: BaseException) -> dict[str, Any] | None:
    """What a validation error of pydantic is made again from; None for any other exception."""
    cls = _pydantic_error()
    if cls is None or type(error) is not cls:
        return None
    core: Any = error
    # A model may hide its inputs in the text of its errors: then they are secrets.
    hides_input = "input_value=" not in str(error)
    told = ("type", "loc", "msg", "ctx") if hides_input else ("type", "loc", "msg", "input", "ctx")
    lines = [{key: line[key] for key in told if key in line} for line in core.errors(include_url=False)]
    errors = [{**line, "loc": list(line["loc"])} for line in lines]
    return {"title": core.title, "errors": errors, "hides_input": hides_input}


def _build(parts: Any) -> BaseException:
    raised = Raised(*listed(parts)[:9])
    names = [_text(name) for name in listed(raised.names)][:_MOST_NAMES]
    if not names:
        raise TypeError("it names no class")
    of, message = readable_name(names[0]), _text(raised.message)
    args = [stand_in(each, "args", of) for each in listed(raised.args)]
    attributes = {_text(name): item for name, item in mapped(raised.attributes).items()}
    error = None
    if raised.says_message is not True or not may_stand_for(names[0]):
        error = _as_old(names[0], raised) or _exact(names[0], args, mapped(raised.members))
    if error is None:
        error = make_stand_in(names, message, args)
        put_fields(error, mapped(raised.members))
    _put(error, with_stand_ins(attributes, of))
    put_origin(error, raised.cause, raised.is_context_hidden, raised.traceback)
    return error


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a part of it is no text")
    return value


def _found(name: str) -> type | None:
    try:
        cls = find_class(name)
    except ValueNotReadable:
        return None
    return cls if is_derived(cls, BaseException) else None


def _as_old(name: str, raised: Raised) -> BaseException | None:
    """One that was recorded before its class was registered with a later version, read as the program says."""
    cls = _found(name)
    read = None if cls is None else READ_AS_OLD.get(cls)
    if read is None:
        return None
    try:
        found = read(_EXCEPTION_TAG, [name, raised.args, raised.attributes, raised.members])
    except ValueNotReadable:
        return None
    return found if isinstance(found, BaseException) else None


def _exact(name: str, args: list[Any], members: dict[Any, Any]) -> BaseException | None:
    """An exception of the very class that was recorded; None where it is not there, or cannot be made."""
    cls = _found(name)
    if cls is None:
        return None
    if cls is _pydantic_error():
        error = _validation_error(cls, members)
        if error is not None:
            put_args(error, args)
        return error
    error = make_as(cast("type[BaseException]", cls), args)
    if error is None:
        return None
    put_fields(error, members)
    return error


def _validation_error(cls: Any, members: dict[Any, Any]) -> BaseException | None:
    """A validation error of pydantic, from what it said of each place."""
    try:
        lines = [_line(cls, mapped(line)) for line in listed(members["errors"])]
        hides_input = members.get("hides_input") is True
        return cls.from_exception_data(_text(members["title"]), lines, hide_input=hides_input)
    except Exception:
        return None


def _line(cls: Any, line: dict[Any, Any]) -> dict[str, Any]:
    kind = _text(line["type"])
    known: dict[str, Any] = {"type": kind, "loc": tuple(listed(line["loc"])), "input": line.get("input")}
    if type(line.get("ctx")) is dict:
        known["ctx"] = line["ctx"]
    try:
        cls.from_exception_data("", [known])
    except Exception:
        # A validator's own type of error, or one that this version of pydantic does not know.
        custom: Any = find_entry("pydantic_core:PydanticCustomError")
        known.pop("ctx", None)
        known["type"] = custom(kind, _text(line["msg"]))
    return known


def _put(error: BaseException, attributes: dict[str, Any]) -> None:
    slots = slots_of(type(error))
    for name, item in attributes.items():
        if name in slots:
            slots[name].__set__(error, item)
        else:
            error.__dict__[name] = item


RAISED: Final = Kind(40, lambda value, lower: lower_raised(value, lower, str(value), with_traceback=True), _build)
"""Parts: those of ``Raised``."""
