"""``limpet key``: a new key for encryption."""

from __future__ import annotations

import click

from limpet.cli.options import json_option
from limpet.cli.output import say, say_json, tell
from limpet.keys import KEY_VARIABLE, key_id, new_key

ADVICE = f"""\
Set {KEY_VARIABLE} to this key, or put it into a file for `Encryption.from_file` that only you may read (chmod 600).
Keep a copy apart from the store: nobody can read what is encrypted without the key.
To rotate, put the new key before the old one ({KEY_VARIABLE}=new,old). What the old one wrote still needs it."""


@click.command("key", short_help="Make a new key for encryption.")
@json_option
def key(as_json: bool) -> None:
    """Make a new key for the encryption of records and artifacts, and print it. It is stored nowhere."""
    made = new_key()
    made_id = key_id(made)
    if as_json:
        say_json({"key": made, "key_id": made_id})
    else:
        say(made)
    tell(f"Its id is {made_id}; an error that misses a key names it so.")
    for line in ADVICE.split("\n"):
        tell(line)
