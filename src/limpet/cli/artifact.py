"""``limpet artifact``: the content of one artifact, to a file or to the next program."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from limpet.artifacts.file import write_whole
from limpet.cli.options import json_option, open_limpet, store_option
from limpet.cli.output import say_json, size, tell
from limpet.client import Limpet
from limpet.errors import UsageError

_BEGINNING = re.compile(r"[0-9a-f]{4,64}")


@click.command("artifact", short_help="Fetch the content of an artifact.")
@click.argument("artifact_id", metavar="ID")
@click.option("-o", "--out", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to this file.")
@json_option
@store_option
def artifact(artifact_id: str, out: str | None, store: str | None, as_json: bool) -> None:
    """Fetch the content of an artifact, verified and, where that is needed, decrypted.

    The beginning of an id is enough; `limpet show` names the artifacts of a state. Without a file it goes to stdout.
    With `--json` only what is known of it is printed.
    """
    with open_limpet(store) as client:
        artifact_id = _whole_id(client, artifact_id)
        chunks = client.open_artifact(artifact_id)
        if out is not None:
            written = write_whole(chunks, Path(out))
            tell(f"Wrote {size(written.stat().st_size)} to {out}.")
        if as_json:
            info = None if client.artifacts is None else client.artifacts.find(artifact_id)
            say_json(
                {"artifact_id": artifact_id, "size": info and info.size, "put_at": info and info.put_at, "out": out}
            )
        elif out is None:
            if sys.stdout.isatty():
                raise UsageError("The content would go to the terminal.", "Name a file with `-o FILE`, or use a pipe.")
            sys.stdout.buffer.writelines(chunks)
            sys.stdout.buffer.flush()


def _whole_id(client: Limpet, given: str) -> str:
    """The id that begins so. What cannot be the beginning of one is left to be refused as an id."""
    digits = given.removeprefix("sha256:")
    if client.artifacts is None or not _BEGINNING.fullmatch(digits):
        return given
    before = int(digits.ljust(64, "0"), 16) - 1
    after = "" if before < 0 else f"sha256:{before:064x}"
    found = [info.artifact_id for info in client.artifacts.list_artifacts(after, limit=2)]
    found = [artifact_id for artifact_id in found if artifact_id.startswith(f"sha256:{digits}")]
    if len(found) > 1:
        raise UsageError(f"Several artifacts have an id that begins with {given!r}.", "Give more of it.")
    return found[0] if found else f"sha256:{digits.ljust(64, '0')}"
