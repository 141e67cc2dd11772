"""A process of its own that delivers letters: started by the tests as ``python letters_worker.py STORE PATH NUMBER``.

It says ``ready``, waits for a line, and then says of every letter, as soon as it is acknowledged, which one it is: a
line of JSON with its name, its number, and who has written it.
"""

from __future__ import annotations

import json
import sys

from limpet.backends.contract import StateBackend
from limpet.backends.files.states import FileSystemStateBackend
from limpet.backends.sqlite import SQLiteStateBackend

LETTERS = 100


def opened(store: str, path: str) -> StateBackend:
    return SQLiteStateBackend(path, "normal") if store == "sqlite" else FileSystemStateBackend(path, "normal")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(store: str, path: str, number: int) -> None:
    say("ready")
    sys.stdin.readline()
    with opened(store, path) as backend:
        for each in range(LETTERS):
            # Every other one has a name that all of these processes use.
            name = f"{each} of all" if each % 2 else f"{each} of {number}"
            letter = backend.deliver(("kelp", "wrack")[each % 3 % 2], name, str(number).encode())
            assert letter is not None
            say(json.dumps([letter.name, letter.number, int(letter.body)]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
