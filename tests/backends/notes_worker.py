"""A process of its own that counts in a note: started by the tests as ``python notes_worker.py STORE PATH NUMBER``.

It says ``ready``, waits for a line, and then takes turns: each is a swap of the note, and is said as soon as it
succeeded, as a line with the number of the turn.
"""

from __future__ import annotations

import sys

from backends.letters_worker import opened, say

TURNS = 150


def main(store: str, path: str) -> None:
    say("ready")
    sys.stdin.readline()
    with opened(store, path) as backend:
        while True:
            before = backend.note("turn")
            turn = int(before or 0) + 1
            if turn > TURNS:
                return
            if backend.swap_note("turn", before, str(turn)):
                say(str(turn))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
