"""``limpet list``: the states of a store, the newest first."""

from __future__ import annotations

from typing import Any

import click

from limpet.cli.choosing import choosing_options, chosen_states
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import say, say_json, say_table
from limpet.cli.standing import is_held, standing_of
from limpet.cli.stop_reports import stop_for_programs
from limpet.model import StateHeader
from limpet.model.notebooks import is_of_notebook

HEADING = ("STATE", "STATUS", "AGENT", "RECORDS", "BEGUN (UTC)", "TAGS")


@click.command("list", short_help="List the states of a store.")
@choosing_options
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@json_option
@store_option
def list_states(
    status: str | None, tags: tuple[str, ...], pipeline: str | None, limit: int, store: str | None, as_json: bool
) -> None:
    """List the states of a store, the newest first.

    A state that is `running` although no process holds it is listed as `stopped`; `--status running` finds it, too.
    """
    with open_limpet(store) as client:
        headers = chosen_states(client, status=status, tags=tags, pipeline=pipeline, limit=limit)
        name = client.backend.name
    if as_json:
        say_json({"states": [header_for_programs(header) for header in headers]})
    elif headers:
        say_table([HEADING, *(_row(header) for header in headers)], right=(3,))
    else:
        say(f"No such states in {name}." if status or tags or pipeline else f"No states in {name}.")


def _row(header: StateHeader) -> tuple[str, ...]:
    return (
        header.state_id,
        standing_of(header),
        "–" if header.agent is None else header.agent.rpartition(":")[2],
        str(header.position),
        f"{header.created_at:%Y-%m-%d %H:%M:%S}",
        ", ".join(header.metadata.tags),
    )


def agent_for_people(reference: str | None) -> str:
    """Where the agent of a state was declared."""
    if is_of_notebook(reference):
        return f"{str(reference).rpartition(':')[2]}, declared in a notebook"
    return reference or "none (explicit form)"


def header_for_programs(header: StateHeader) -> dict[str, Any]:
    """A header as JSON says it."""
    metadata = header.metadata
    return {
        "state_id": header.state_id,
        "status": header.status,
        "is_held": is_held(header),
        "holder": str(header.holder) if is_held(header) else None,
        "agent": header.agent,
        "created_at": header.created_at,
        "updated_at": header.updated_at,
        "records": header.position,
        "damage": header.damage,
        "stopped": stop_for_programs(header),
        "tags": metadata.tags,
        "description": metadata.description,
        "pipeline_name": metadata.pipeline_name,
        "parent_state_id": metadata.parent_state_id,
        "custom_data": metadata.custom_data,
        "environment": metadata.environment,
        "origin": metadata.origin,
    }
