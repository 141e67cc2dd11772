"""``limpet verify`` and ``limpet doctor``: whether what is stored is still what was written."""

from __future__ import annotations

from typing import Any

import click

from limpet.cli.copy import bar, quiet_option
from limpet.cli.exit_codes import ExitCode
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import dim, say, say_json, styled
from limpet.cli.progress import COMPLETED_SIGN, FAILED_SIGN
from limpet.model import Diagnosis, Verification

MOST = 20
"""So many damaged records are listed one by one."""


@click.command("verify", short_help="Check that a state is intact.")
@click.argument("state_id", metavar="ID")
@json_option
@store_option
def verify(state_id: str, store: str | None, as_json: bool) -> int:
    """Check every record of a state, its header, and every artifact that it names. Nothing is changed.

    Ends with 1 where something is damaged. `limpet recover` goes on from before the damage.
    """
    with open_limpet(store) as client:
        found = client.verify(state_id)
    if as_json:
        say_json(verification_for_programs(found))
    else:
        _say_verification(found)
    return ExitCode.DONE if found.is_sound else ExitCode.DIFFERENT


@click.command("doctor", short_help="Check the whole store.")
@click.option("--repair", is_flag=True, help="Put right what can be derived anew. States are never changed.")
@quiet_option
@json_option
@store_option
def doctor(repair: bool, is_quiet: bool, store: str | None, as_json: bool) -> int:
    """Check every state of the store, every artifact, and the store itself.

    With `--repair`, an index is made anew and what crashes left behind is cleared away. Ends with 1 where something is
    damaged.
    """
    with open_limpet(store) as client, bar("Checking", is_quiet) as on_progress:
        found = client.doctor(repair=repair, on_progress=on_progress)
    if as_json:
        say_json(_diagnosis_for_programs(found))
    else:
        _say_diagnosis(found)
    return ExitCode.DONE if found.is_sound else ExitCode.DIFFERENT


def _say_verification(found: Verification) -> None:
    if found.is_sound:
        say(f"{styled(COMPLETED_SIGN, fg='green')} {found.state_id} is sound: {found.records:,} records.")
    else:
        say(f"{styled(FAILED_SIGN, fg='red')} {found.state_id} is damaged.")
        for line in _damages(found):
            say(f"    {line}")
        say(_way_out(found))
    for line in found.harmless:
        say(dim(f"  {line}"))
    if not found.artifacts_checked:
        say(dim("  Its artifacts were not checked: the records are encrypted, and the key is not given."))


def _damages(found: Verification) -> list[str]:
    lines = [] if found.header_damage is None else [f"header: {found.header_damage}"]
    lines += [f"record {damaged.seq}: {damaged.why}" for damaged in found.damaged[:MOST]]
    if len(found.damaged) > MOST:
        lines.append(f"and {len(found.damaged) - MOST:,} more records")
    lines += found.flaws
    lines += [f"{artifact_id} is missing" for artifact_id in found.missing_artifacts]
    return lines + [f"{artifact_id} is damaged" for artifact_id in found.damaged_artifacts]


def _way_out(found: Verification) -> str:
    if not found.needs_recovery:
        return "  Its current timeline does not need what is damaged: the state can be used as it is."
    if not found.usable:
        return "  Nothing stands before the damage. Restore it from a backup, or delete it and run again."
    return (
        f"  {found.usable:,} of {found.records:,} records stand before the damage: "
        f"`limpet recover {found.state_id}` goes on from there."
    )


def _say_diagnosis(found: Diagnosis) -> None:
    for verification in found.unsound:
        _say_verification(verification)
    for line in found.flaws:
        say(f"{styled(FAILED_SIGN, fg='red')} {line}")
    for line in found.mended:
        say(f"{styled(COMPLETED_SIGN, fg='green')} {line}")
    for line in found.harmless:
        say(dim(f"  {line}"))
    states = "1 state" if found.states == 1 else f"{found.states:,} states"
    damaged = f"{len(found.unsound):,} damaged" if found.unsound else "all sound"
    say(f"{states} checked in {found.store}: {damaged}.")


def verification_for_programs(found: Verification) -> dict[str, Any]:
    """What was found of a state, as JSON says it."""
    return {
        "state_id": found.state_id,
        "is_sound": found.is_sound,
        "records": found.records,
        "usable": found.usable,
        "needs_recovery": found.needs_recovery,
        "header_damage": found.header_damage,
        "damaged": [{"seq": damaged.seq, "why": damaged.why} for damaged in found.damaged],
        "flaws": found.flaws,
        "harmless": found.harmless,
        "missing_artifacts": found.missing_artifacts,
        "damaged_artifacts": found.damaged_artifacts,
        "artifacts_checked": found.artifacts_checked,
    }


def _diagnosis_for_programs(found: Diagnosis) -> dict[str, Any]:
    return {
        "store": found.store,
        "is_sound": found.is_sound,
        "states": found.states,
        "unsound": [verification_for_programs(each) for each in found.unsound],
        "flaws": found.flaws,
        "harmless": found.harmless,
        "mended": found.mended,
    }
