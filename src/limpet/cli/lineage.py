"""``limpet lineage``: what a state comes from, and what was forked from it."""

from __future__ import annotations

from typing import Any

import click

from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import dim, say, say_json, styled
from limpet.model import Lineage, Timeline

_TREE = "└├│─ "
HERE = "← this one"


@click.command("lineage", short_help="Show what a state comes from, and its forks.")
@click.argument("state_id", metavar="ID")
@json_option
@store_option
def lineage(state_id: str, store: str | None, as_json: bool) -> None:
    """Show the whole family of a state as a tree: what it was forked from, at the top, and all forks of that.

    A state that was run on from an earlier call is shown with its timelines.
    """
    with open_limpet(store) as client:
        tree = client.lineage(state_id)
    if as_json:
        say_json(_for_programs(tree, state_id))
        return
    for line in str(tree).split("\n"):
        say(_marked(line, state_id))


def _marked(line: str, state_id: str) -> str:
    """A line of the tree, with the state that was asked for easily found."""
    content = line.lstrip(_TREE)
    stem = line.removesuffix(content)
    # No id has a space in it, so what stands before the first two is one, or the description of a timeline.
    name, _, rest = content.partition("  ")
    if name == state_id:
        return f"{dim(stem)}{styled(name, bold=True)}  {rest}  {styled(HERE, fg='green')}"
    return f"{dim(stem)}{content}"


def _for_programs(tree: Lineage, asked: str) -> dict[str, Any]:
    return {
        "state_id": tree.state_id,
        "status": tree.status,
        "is_asked_for": tree.state_id == asked,
        "parent_state_id": tree.parent_state_id,
        "timelines": [timeline_for_programs(each) for each in tree.timelines],
        "children": [_for_programs(child, asked) for child in tree.children],
    }


def timeline_for_programs(timeline: Timeline) -> dict[str, Any]:
    """A timeline as JSON says it."""
    return {
        "number": timeline.number,
        "base": timeline.base,
        "forked_from": timeline.forked_from,
        "address": timeline.address,
        "began_at": timeline.began_at,
        "first": timeline.first,
        "last": timeline.last,
        "is_current": timeline.is_current,
    }
