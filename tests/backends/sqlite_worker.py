"""A process of its own that works on a store: started by the tests as ``python sqlite_worker.py WORK PATH NUMBER``.

It says ``ready``, waits for a line, does its work, and says how that went as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from limpet.backends.contract import Append, Claim
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.model import Holder, Lease, StateHeader, StateStatus

RECORDS = 200


def claim(backend: SQLiteStateBackend, state_id: str, number: int) -> Lease | None:
    now = datetime.now(UTC)
    header = StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=now, updated_at=now)
    holder = Holder("here", "", "", number, "", "")
    (grant,) = backend.acquire([Claim(header=header, holder=holder, ttl_s=600.0)])
    assert grant is not None
    return grant.lease


def acknowledged(backend: SQLiteStateBackend, number: int) -> Iterator[int]:
    """Append to a state of this process, and give the number of each record when it is acknowledged."""
    lease = claim(backend, f"kelp-{number}", number)
    assert lease is not None
    for seq in range(1, RECORDS + 1):
        assert [None] == backend.append([Append(lease, seq, (b"%d:%d" % (number, seq),))])
        yield seq


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(work: str, path: str, number: int) -> None:
    say("ready")
    sys.stdin.readline()
    with SQLiteStateBackend(path, "normal") as backend:
        if work == "claim":
            say(json.dumps(claim(backend, "kelp", number) is not None))
        elif work == "append":
            say(json.dumps(len(list(acknowledged(backend, number)))))
        elif work == "append aloud":
            for seq in acknowledged(backend, number):
                say(str(seq))
            sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
