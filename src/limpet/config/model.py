"""The settings: one class for each table of a configuration file, one field for each key, with its default, what it may
be and what it does. A new table is one class here and one line in ``Settings``.

Everything else is derived from this: what is read from files, variables and arguments, what is told of wrong values,
``limpet config``, and the reference. Only what really does something stands here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Final, Literal, cast

from limpet.config.exception_types import EXCEPTION_NAME
from limpet.config.kinds import (
    DURATION,
    SIZE,
    STORE,
    TEXT,
    TRUTH,
    VARIABLE,
    Kind,
    list_of,
    number,
    one_of,
    optional,
    whole,
)
from limpet.keys import KEY_VARIABLE
from limpet.model import BackoffStrategy, Capture, CheckpointFrequency, OnDrift, OnSaveError, Schedule, StateStatus
from limpet.model.checkpoints import LARGE_ARTIFACT, TRIGGERS
from limpet.model.defaults import ARTIFACT_THRESHOLD, LEASE_TTL_S, THREADS

DEFAULT_STORE: Final = "sqlite:///.limpet/runs.db"

_SECONDS: Final = number(is_above_zero=True, unit=" of seconds")
_WAIT: Final = number(is_above_zero=False, unit=" of seconds")
_NAMES: Final = list_of(EXCEPTION_NAME)


def _capture_in(text: str) -> Capture:
    # Whoever misspells it in the environment wants less than everything, and a run is worth more than the word.
    word = text.strip().lower()
    return Capture(word) if word in list(Capture) else Capture.MINIMAL


_CAPTURE: Final = replace(one_of(Capture), read_text=_capture_in)


def _setting(default: Any, kind: Kind, about: str, *, is_fixed: bool = False) -> Any:
    return field(default=default, metadata={"kind": kind, "about": about, "is_fixed": is_fixed})


def _limit(kind: Kind, about: str) -> Any:
    """A setting that has no value unless somebody gives it one."""
    return _setting(None, optional(kind), about)


def _table(of: type, about: str) -> Any:
    return field(default_factory=of, metadata={"table": of, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOfType:
    """How calls are tried again that say nothing of it themselves; None: as one level up, and there as built in."""

    max_attempts: int | None = _limit(whole(1), "How often a call is tried; the first try counts.")
    backoff_strategy: BackoffStrategy | None = _limit(one_of(BackoffStrategy), "How the wait grows.")
    initial_delay: float | None = _limit(_WAIT, "The first wait.")
    max_delay: float | None = _limit(_WAIT, "No computed wait is longer.")
    backoff_multiplier: float | None = _limit(
        number(is_above_zero=True), "By how much an exponential wait grows each time."
    )
    jitter: bool | None = _limit(TRUTH, "Whether a wait is made shorter by chance.")
    retry_on_exceptions: tuple[str, ...] | None = _limit(_NAMES, "Only these exceptions are tried again.")
    exclude_exceptions: tuple[str, ...] | None = _limit(_NAMES, "These exceptions are never tried again.")
    retry_timeout: float | None = _limit(_SECONDS, "Bounds all attempts and waits of a call together.")
    enabled: bool | None = _limit(TRUTH, "False: nothing is tried again.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(RetryOfType):
    """How calls of all types are tried again, and of each type where that differs."""

    tool_call: RetryOfType = _table(RetryOfType, "The same for tools; what is not said here is as in `retry`.")
    llm_call: RetryOfType = _table(RetryOfType, "The same for model calls.")
    agent_call: RetryOfType = _table(RetryOfType, "The same for agents.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """What a run may use before it is stopped, where its own budget is not given."""

    events: int | None = _limit(whole(0), "How many calls may be made.")
    model_calls: int | None = _limit(whole(0), "How many calls of models may be made.")
    tokens: int | None = _limit(whole(0), "How many tokens model calls may use.")
    cost: float | None = _limit(number(is_above_zero=False), "What model calls may cost.")
    wall_time_s: float | None = _limit(_WAIT, "How long a run may take, over all processes.")
    repeats: int | None = _limit(whole(0), "How often the same call may be made with the same input.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """When the records of a run are saved, and what happens where that fails. A running run follows a change."""

    frequency: CheckpointFrequency = _setting(
        CheckpointFrequency.EVERY_STEP, one_of(CheckpointFrequency), "When what was recorded is saved."
    )
    steps: int = _setting(10, whole(1), "With `every_n_steps`: after so many outcomes.")
    interval_s: float = _setting(
        10.0, _SECONDS, "With `time_based`: so long after the first outcome that is not saved."
    )
    triggers: tuple[str, ...] = _setting((), list_of(one_of(TRIGGERS)), "What is saved after besides.")
    large_artifact: int = _setting(LARGE_ARTIFACT, SIZE, "From how many bytes on an artifact is a `large_artifact`.")
    on_save_error: OnSaveError = _setting(
        OnSaveError.FAIL, one_of(OnSaveError), "What a run does while its store takes no records."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """Which states may go, and when they do. A key that has the name of a field of ``Retention`` is that field."""

    max_age: timedelta | None = _limit(DURATION, "States go that did not change for longer.")
    max_per_pipeline: int | None = _limit(whole(0), "Of each pipeline so many may stay; the oldest go.")
    max_total_size: int | None = _limit(
        SIZE, "So many bytes all states may take together; the oldest go until it fits."
    )
    compact_after: timedelta | None = _limit(
        DURATION, "Completed states that did not change for longer keep their results, and lose what led to them."
    )
    prune_after: timedelta | None = _limit(DURATION, "States that did not change for longer lose earlier timelines.")
    keep_latest: int = _setting(0, whole(0), "Of each pipeline the newest so many stay, whatever the limits say.")
    statuses: tuple[StateStatus, ...] = _setting(
        (StateStatus.COMPLETED,), list_of(one_of(StateStatus), is_ever_empty=False), "Only states of these go."
    )
    tags: tuple[str, ...] = _setting((), list_of(TEXT), "Only states that have all of these tags go.")
    keep_tags: tuple[str, ...] = _setting((), list_of(TEXT), "States that have any of these tags stay.")
    schedule: Schedule = _setting(Schedule.MANUAL, one_of(Schedule), "When a supervisor (`limpet serve`) cleans up.")
    compact_file: bool = _setting(
        False, TRUTH, "Whether it then gives the room that is free in an SQLite file back to the disk."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How runs use the process that they go on in, and which code may be run because a stored state names it."""

    threads: int = _setting(
        THREADS, whole(1), "So many plain functions (`def`) run at once, at each level of nesting; others wait."
    )
    modules: tuple[str, ...] = _setting(
        (),
        list_of(TEXT),
        "Modules, files and folders whose agents may be run because a state names them; a package stands for all that "
        "is in it. The current project may always.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSettings:
    """Where secrets are found. The secrets themselves are never in a configuration."""

    key_variable: str = _setting(
        KEY_VARIABLE,
        VARIABLE,
        "The variable of the environment that has the keys for encryption. One that is named here must be set.",
        is_fixed=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, each with a value that counts."""

    store: str = _setting(DEFAULT_STORE, STORE, "The store that is used where none is named.", is_fixed=True)
    persistence: bool = _setting(
        True, TRUTH, "False: `memory://` is the store of whoever names none. Nothing is kept.", is_fixed=True
    )
    durability: Literal["full", "normal"] = _setting(
        "full", one_of(("full", "normal")), "The `synchronous` of a store URL that does not say it.", is_fixed=True
    )
    compression: Literal["none", "gzip", "zstd"] = _setting(
        "none",
        one_of(("none", "gzip", "zstd")),
        "The `compression` of a `file://` URL that does not say it.",
        is_fixed=True,
    )
    artifact_threshold: int = _setting(
        ARTIFACT_THRESHOLD, SIZE, "Values of more bytes than this are stored as artifacts."
    )
    on_drift: OnDrift = _setting(OnDrift.DEFAULT, one_of(OnDrift), "What happens where code no longer fits its record.")
    lease_ttl_s: float = _setting(
        LEASE_TTL_S, _SECONDS, "How long a state stays reserved for a process that is not heard of any more."
    )
    capture: Capture = _setting(Capture.FULL, _CAPTURE, "How much of the environment is noted where a state begins.")
    record_inputs: bool = _setting(True, TRUTH, "Whether the inputs of the calls inside a run are recorded.")
    timeout_s: float | None = _limit(_SECONDS, "A run is stopped after so long; it can be resumed.")
    run: RunSettings = _table(
        RunSettings, "How runs use the process, and which code may be run because a stored state names it."
    )
    retry: Retry = _table(Retry, "How calls are tried again that say nothing of it themselves.")
    budget: BudgetSettings = _table(BudgetSettings, "What a run may use before it is stopped.")
    checkpoint: CheckpointSettings = _table(CheckpointSettings, "When the records of a run are saved.")
    retention: RetentionSettings = _table(RetentionSettings, "Which states a cleanup deletes, and when one is made.")
    secrets: SecretSettings = _table(SecretSettings, "Where secrets are found.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A setting as the model describes it."""

    key: str
    kind: Kind
    default: Any
    about: str
    is_fixed: bool
    """Whether it stays as it was while a store is open."""


def _described(of: type, place: str) -> dict[str, Described]:
    found: dict[str, Described] = {}
    for each in fields(of):
        key, says = place + each.name, each.metadata
        if "table" in says:
            found |= _described(says["table"], f"{key}.")
        else:
            found[key] = Described(
                key=key, kind=says["kind"], default=each.default, about=says["about"], is_fixed=says["is_fixed"]
            )
    return found


def _tables(of: type, place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in fields(of):
        if "table" in each.metadata:
            found[place + each.name] = each.metadata["about"]
            found |= _tables(each.metadata["table"], f"{place}{each.name}.")
    return found


SETTINGS: Final = _described(Settings, "")
"""Every setting by its key, ``retry.max_attempts``."""

TABLES: Final = _tables(Settings, "")
"""Every table by its key, and what it is for."""


def settings_from(values: dict[str, Any]) -> Settings:
    """The settings with these values by their keys, and their defaults for the rest."""
    return cast(Settings, _made(Settings, "", values))


def _made(of: type, place: str, values: dict[str, Any]) -> object:
    given: dict[str, Any] = {}
    for each in fields(of):
        key = place + each.name
        if "table" in each.metadata:
            given[each.name] = _made(each.metadata["table"], f"{key}.", values)
        elif key in values:
            given[each.name] = values[key]
    return of(**given)
