"""A configuration: read from its sources at the edge, put together by pure functions, and read again on request.

Nothing here is global. Each ``Configuration`` remembers its own folder, file, environment and arguments.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from limpet.config.files import ConfigurationFile, Unreadable, anchored_url, find_file, identity, read_file
from limpet.config.merging import ARGUMENT, Found, Merged, Source, in_tables, in_variables, merged, store_of
from limpet.config.model import SETTINGS, BudgetSettings, Settings
from limpet.config.problems import unknown_key
from limpet.config.project import anchored_code, project_folder, working_folder
from limpet.config.reloading import Change, Reloaded, differences, with_fixed
from limpet.config.retention_table import retention_of
from limpet.config.retry_tables import retry_configs
from limpet.config.variables import ours
from limpet.errors import ConfigurationError, ConfigurationProblem, UsageError
from limpet.logs import logger
from limpet.model import Budget, CheckpointPolicy, EventType, Retention, RetryConfig
from limpet.processes import new_lock

LOOK_AGAIN_S: Final = 1.0
"""A file is looked at for changes at most so often, however often it is asked for."""

Subscriber = Callable[[tuple[Change, ...]], None]
RetryConfigs = tuple[RetryConfig | None, dict[EventType, RetryConfig]]

_UNLIMITED: Final = BudgetSettings()

log = logger("limpet.config")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    folder: Path
    """From here upwards the file is looked for."""
    file: Path | None
    """The file that was named; None: it is looked for."""
    environment: Mapping[str, str]
    arguments: Mapping[str, Any]


def load_config(
    file: str | os.PathLike[str] | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Configuration:
    """The configuration as it is here: defaults, the nearest file, the environment, arguments. The later one counts.

    ``file`` names the file instead of looking for it from ``folder``, the working folder, upwards. ``environment``
    stands for that of the process. Tables are given as dicts: ``load_config(retry={"max_attempts": 5})``.

    Raises ConfigurationError, with all that is wrong in any of the sources.
    """
    here = working_folder() if folder is None else Path(folder).absolute()
    return Configuration(
        _Sources(
            folder=here,
            file=None if file is None else here / file,
            environment=os.environ if environment is None else environment,
            arguments={key: value for key, value in arguments.items() if value is not None},
        )
    )


def configured_store() -> str:
    """The URL of the store that is used where none is named. Raises ConfigurationError."""
    return load_config().store


class Configuration:
    """The settings that count, where each comes from, and how to have them read again. Made by ``load_config``.

    ``values`` are the settings as they were last read: ``config.values.retry.max_attempts``. They never change in
    place; ``reload``, ``current`` and ``watch`` put new ones there, if all of them are right. What cannot change while
    a store is open stays as it was: the store and how it is written, and where the keys are.
    """

    def __init__(self, sources: _Sources, clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._clock = clock
        self._lock = new_lock()
        self._subscribers: list[Subscriber] = []
        self._identity = identity(sources.folder, sources.file)
        self._looked_at = clock()
        self._merged, self._file = _read(sources)
        self._values = self._merged.settings
        self._retry: tuple[Merged, RetryConfigs] | None = None
        """What retries are made of, and what was made of it: every run asks for that."""
        self._policy: tuple[Merged, CheckpointPolicy] | None = None
        """The same of the policy: every run asks for that again and again."""

    @property
    def values(self) -> Settings:
        """The settings, as they were last read."""
        return self._values

    @property
    def file(self) -> Path | None:
        """The file in use; None where there is none."""
        return None if self._file is None else self._file.path

    @property
    def store(self) -> str:
        """The URL of the store of whoever names none: ``store``, or ``memory://`` without persistence."""
        return store_of(self._merged)

    @property
    def budget(self) -> Budget | None:
        """The budget of runs that are given none; None where nothing is limited."""
        limits = self._values.budget
        return None if limits == _UNLIMITED else Budget(**asdict(limits))

    @property
    def checkpoint_policy(self) -> CheckpointPolicy:
        """When the records of runs are saved that are given no policy."""
        read, made = self._merged, self._policy
        if made is None or made[0] is not read:
            said = read.settings.checkpoint
            policy = CheckpointPolicy(said.frequency, said.steps, said.interval_s, said.triggers, said.large_artifact)
            self._policy = made = read, policy
        return made[1]

    @property
    def retention(self) -> Retention | None:
        """What a cleanup goes by that is given no retention; None where no limit is set."""
        retention = retention_of(self._values.retention)
        return None if retention.is_empty else retention

    def retry_configs(self) -> RetryConfigs:
        """How calls are retried that say nothing of it: all, and those of each type.

        Raises ConfigurationError where an exception type is named that is neither imported nor installed.
        """
        read, made = self._merged, self._retry
        if made is None or made[0] is not read:
            self._retry = made = read, retry_configs(read)
        return made[1]

    def value(self, key: str) -> Any:
        """The value of a setting, by its key: ``retry.max_attempts``. Raises UsageError."""
        return self._merged.values[_known(key)]

    def origin(self, key: str) -> str:
        """Where a value comes from: ``limpet.toml:12``, ``LIMPET_STORE``, ``argument`` or ``default``.

        Raises UsageError.
        """
        return self._merged.origins[_known(key)].where

    def is_given(self, key: str) -> bool:
        """Whether any source but the defaults says something of a setting. Raises UsageError."""
        return self._merged.origins[_known(key)].source is not Source.DEFAULT

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """From now on tell a function what has changed, whenever something has; calling what is given ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber) if subscriber in self._subscribers else None

    def reload(self) -> Reloaded:
        """Read all sources again, and say what came of it. What is wrong is logged, too, and changes nothing."""
        with self._lock:
            # Before it is read: whoever changes it meanwhile is noticed the next time.
            self._identity = identity(self._sources.folder, self._sources.file)
            self._looked_at = self._clock()
            try:
                new, file = _read(self._sources)
            except ConfigurationError as error:
                reloaded = Reloaded(problems=error.problems)
            else:
                reloaded = differences(self._merged, new)
                self._merged, self._file = with_fixed(self._merged, new), file
                self._values = self._merged.settings
        if reloaded.problems or reloaded.fixed:
            log.warning("%s", " ".join(str(reloaded).split("\n")))
        if reloaded.changed:
            self._tell(reloaded.changed)
        return reloaded

    def current(self) -> Settings:
        """The settings as they are now. The file is looked at for changes, but not more than every second."""
        if self._clock() - self._looked_at >= LOOK_AGAIN_S:
            self._look()
        return self._values

    async def watch(
        self,
        on_reload: Callable[[Reloaded], Awaitable[None] | None] | None = None,
        *,
        every_s: float = LOOK_AGAIN_S,
    ) -> None:
        """Read the sources again whenever a file has changed, until this is cancelled."""
        while True:
            await asyncio.sleep(every_s)
            reloaded = await asyncio.to_thread(self._look)
            told = on_reload(reloaded) if reloaded is not None and on_reload is not None else None
            if told is not None:
                await told

    def _look(self) -> Reloaded | None:
        """Reload, if a file that may be the configuration is not the one that was read."""
        self._looked_at = self._clock()
        now = identity(self._sources.folder, self._sources.file)
        return None if now == self._identity else self.reload()

    def _tell(self, changes: tuple[Change, ...]) -> None:
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(changes)
            except Exception:
                log.exception("A subscriber to changes of the configuration failed.")


def _known(key: str) -> str:
    if key not in SETTINGS:
        raise UsageError(unknown_key(key), "`limpet config` lists all settings.")
    return key


def _read(sources: _Sources) -> tuple[Merged, ConfigurationFile | None]:
    """Everything that the sources say. Raises ConfigurationError."""
    problems: tuple[ConfigurationProblem, ...] = ()
    file = None
    try:
        file = find_file(sources.folder) if sources.file is None else read_file(sources.file, sources.folder)
    except Unreadable as error:
        problems = (error.problem,)
    read, wrong = merged(_found(sources, file))
    if problems or wrong:
        raise ConfigurationError((*problems, *wrong))
    if file is not None:
        anchored: dict[str, Callable[[Any], Any]] = {
            "store": lambda url: file.anchored(url, sources.folder),
            "run.modules": lambda entries: tuple(anchored_code(entry, file.path.parent) for entry in entries),
        }
        said = {key: anchor(read.values[key]) for key, anchor in anchored.items() if _is_in_file(read, key)}
        read = Merged(values={**read.values, **said}, origins=read.origins)
    if read.origins["store"].source is Source.DEFAULT:
        store = anchored_url(read.values["store"], project_folder(sources.folder))
        read = Merged(values={**read.values, "store": store}, origins=read.origins)
    return read, file


def _is_in_file(read: Merged, key: str) -> bool:
    return read.origins[key].source is Source.FILE


def _found(sources: _Sources, file: ConfigurationFile | None) -> Iterator[Any]:
    found: list[Found] = [] if file is None else [file.found()]
    found += [
        in_variables(ours(sources.environment)),
        in_tables(sources.arguments, Source.ARGUMENT, lambda _: ARGUMENT),
    ]
    for source in found:
        yield from source
