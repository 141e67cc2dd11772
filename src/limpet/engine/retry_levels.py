"""How calls of a state are retried that say nothing of it themselves, as it was configured for the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from limpet.codec.retry_settings import from_plain, to_plain
from limpet.errors import UsageError
from limpet.journal.retry import effective
from limpet.model import EventType, RetryConfig, StateMetadata

_SETTING = "retry"


class RetryLevels:
    """What counts for the actors of each type, and what for all others. Built in is what counts where nothing does."""

    __slots__ = ("by_type", "default", "limits_time")

    def __init__(
        self, default: RetryConfig | None = None, by_type: Mapping[EventType, RetryConfig] | None = None
    ) -> None:
        """Raises UsageError for what is no configuration."""
        self.default = default
        self.by_type = {_event_type(key): config for key, config in (by_type or {}).items()}
        given = [*self.by_type.values(), *(() if default is None else (default,))]
        for config in given:
            if not isinstance(cast(object, config), RetryConfig):
                raise UsageError(f"{config!r} is no configuration of retries.", "Give a RetryConfig.")
        self.limits_time = any(config.retry_timeout is not None for config in given)
        """Whether a call must be looked at before it is executed, since its time may be limited."""

    @property
    def is_given(self) -> bool:
        return self.default is not None or bool(self.by_type)

    def config_for(self, event_type: EventType, own: RetryConfig | None) -> RetryConfig:
        """What counts for a call, of which ``own`` is said itself."""
        return effective(event_type, own, self.by_type, self.default)

    def kept_in(self, metadata: StateMetadata) -> StateMetadata:
        """The metadata of a state, in which this is kept; the same where there is nothing new. Raises UsageError."""
        if not self.is_given:
            return metadata
        settings: dict[str, Any] = {**metadata.settings, _SETTING: to_plain(self.default, self.by_type)}
        return metadata if settings == metadata.settings else msgspec.structs.replace(metadata, settings=settings)

    @classmethod
    def recorded(cls, metadata: StateMetadata) -> RetryLevels:
        """What was kept with a state. Raises ValueNotReadable where an exception type is not imported here."""
        kept = metadata.settings.get(_SETTING)
        return cls(*from_plain(kept)) if kept else cls()


def _event_type(key: object) -> EventType:
    """The type that is meant: a member, its text, or the class of actor that it is of."""
    key = getattr(key, "event_type", key)
    if key not in list(EventType):
        raise UsageError(f"{key!r} is no type of actor.", f"Use one of {', '.join(EventType)}.")
    return EventType(cast(str, key))
