"""Configurations of retrying as plain JSON, as they are kept in the metadata of a state, and back.

Only what differs from the default of ``RetryConfig`` is written. Exception types are written by their names and looked
up among what is imported; nothing is imported or called because data names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from limpet.codec.names import find_class, name_of
from limpet.errors import UsageError, ValueNotReadable
from limpet.model import BackoffStrategy, EventType, RetryConfig

_DEFAULT: Final = "default"
_BY_TYPE: Final = "by_type"
_UNCHANGED: Final = RetryConfig()
_EXCEPTIONS: Final = ("retry_on_exceptions", "exclude_exceptions")


def to_plain(default: RetryConfig | None, by_type: Mapping[EventType, RetryConfig]) -> dict[str, Any]:
    """Both as JSON has them; empty where there is nothing.

    Raises UsageError where an exception type could not be found again by its name.
    """
    plain: dict[str, Any] = {}
    if default is not None:
        plain[_DEFAULT] = _lowered(default)
    # In the order of the enum, so that equal settings are the same text.
    configs = {kind.value: _lowered(by_type[kind]) for kind in EventType if kind in by_type}
    if configs:
        plain[_BY_TYPE] = configs
    return plain


def _lowered(config: RetryConfig) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field in RetryConfig.__struct_fields__:
        value: Any = getattr(config, field)
        if value == getattr(_UNCHANGED, field):
            continue
        if field in _EXCEPTIONS:
            value = [_findable_name(cls) for cls in value]
        plain[field] = value.value if isinstance(value, BackoffStrategy) else value
    return plain


def _findable_name(cls: type[BaseException]) -> str:
    name = name_of(cls)
    try:
        is_findable = find_class(name) is cls
    except ValueNotReadable:
        is_findable = False
    if not is_findable:
        raise UsageError(
            f"A retry configuration names the exception type {cls.__qualname__}, which cannot be found again by its "
            f"name ({name}), so it cannot be stored with the state.",
            "Declare it at the top of a module, or give the configuration with the actor or the call.",
        )
    return name


def from_plain(data: Mapping[str, Any]) -> tuple[RetryConfig | None, dict[EventType, RetryConfig]]:
    """The default and the configurations by type that ``to_plain`` was given.

    Raises ValueNotReadable where an exception type is not imported or is none, and where the data is of another form.
    """
    parts = _mapping(data, "the settings")
    _require_known(parts, (_DEFAULT, _BY_TYPE))
    default = _raised(parts[_DEFAULT]) if _DEFAULT in parts else None
    by_type: dict[EventType, RetryConfig] = {}
    configs = _mapping(parts.get(_BY_TYPE, {}), _BY_TYPE)
    _require_known(configs, tuple(EventType))
    for kind, config in configs.items():
        by_type[EventType(kind)] = _raised(config)
    return default, by_type


def _raised(data: object) -> RetryConfig:
    fields = dict(_mapping(data, "a configuration"))
    _require_known(fields, RetryConfig.__struct_fields__)
    for field in _EXCEPTIONS:
        if field in fields:
            fields[field] = _classes(field, fields[field])
    try:
        return RetryConfig(**fields)
    except UsageError as error:
        raise _damaged(error.problem.rstrip(".")) from error


def _classes(field: str, names: object) -> tuple[type[BaseException], ...]:
    if not isinstance(names, (list, tuple)):
        raise _damaged(f"{field} is no list")
    return tuple(_class(field, name) for name in cast("list[object]", names))


def _class(field: str, name: object) -> type[BaseException]:
    if type(name) is not str:
        raise _damaged(f"{field} holds something that is no name")
    cls = find_class(name)
    if not issubclass(cls, BaseException):
        raise ValueNotReadable(name, f"{field} names it, and it is no exception type")
    return cls


def _mapping(data: object, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _damaged(f"{what} has no fields")
    return cast("Mapping[str, Any]", data)


def _require_known(data: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in cast("Mapping[object, Any]", data):
        if not isinstance(key, str):
            raise _damaged("it has a field whose name is no text")
        if key not in known:
            raise _damaged(f"it has the unknown field {key[:80]!r}")


def _damaged(why: str) -> ValueNotReadable:
    return ValueNotReadable("RetryConfig", why)
