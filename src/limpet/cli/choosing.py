"""Choosing among the states of a store: the options for it, and which states they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from limpet.cli.effects import rollback_of
from limpet.cli.standing import DAMAGED, ROLLED_BACK, STOPPED, is_held, is_stopped
from limpet.client import Limpet
from limpet.errors import LimpetError
from limpet.model import ExecutionStatus, StateHeader, StateStatus
from limpet.model.interrupts import ROLLED_BACK as ROLLED_BACK_REASON

F = TypeVar("F", bound=Callable[..., Any])

ALL = 1 << 62
STORED_WORDS = tuple(map(str, StateStatus))
STATUS_WORDS = (*STORED_WORDS, STOPPED, DAMAGED, ROLLED_BACK)
"""Every word that is shown for how a state stands."""


class StatusWord(click.Choice[str]):
    """A word for how a state stands, in whatever case, and with any of space, dash and underscore between its parts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(" ".join(str(value).lower().replace("-", " ").replace("_", " ").split()), param, ctx)


def choosing_options(function: F) -> F:
    """The options that choose among the states of a store."""
    for option in (
        click.option("--pipeline", metavar="NAME", help="Only states of this pipeline."),
        click.option(
            "--tag", "tags", multiple=True, metavar="TAG", help="Only states with this tag; may be given several times."
        ),
        click.option("--status", type=StatusWord(STATUS_WORDS), help="Only states of this status."),
    ):
        function = option(function)
    return function


def chosen_states(
    client: Limpet, *, status: str | None, tags: Sequence[str], pipeline: str | None, limit: int = ALL
) -> list[StateHeader]:
    """The states that have the status, every tag and the pipeline that are asked for, the newest first."""
    stored, is_meant = _meant(client, status)
    most = limit if is_meant is None else ALL
    headers = client.list_states(tags=tags, status=stored, pipeline_name=pipeline, limit=most)
    return headers if is_meant is None else list(filter(is_meant, headers))[:limit]


def _meant(client: Limpet, status: str | None) -> tuple[StateStatus | None, Callable[[StateHeader], bool] | None]:
    """The status that is stored for a word, and what else must hold where the word says more."""
    if status == STOPPED:
        return StateStatus.RUNNING, lambda header: header.damage is None and is_stopped(header)
    if status == DAMAGED:
        return None, lambda header: header.damage is not None
    if status == ROLLED_BACK:
        return None, lambda header: _is_rolled_back(client, header)
    return None if status is None else StateStatus(status), None


def _is_rolled_back(client: Limpet, header: StateHeader) -> bool:
    """Whether a state is shown as rolled back, of which its journal has the end."""
    if is_held(header) or header.metadata.stopped.get("reason") != ROLLED_BACK_REASON:
        return False
    with suppress(LimpetError):
        rollback = rollback_of(client.history(header.state_id))
        return rollback is not None and rollback.status is ExecutionStatus.COMPLETED
    return False
