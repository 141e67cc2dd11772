"""A process of its own that works on a folder of states: started as ``python files_worker.py WORK PATH NUMBER``.

It says ``ready``, waits for a line, does its work, and says how that went as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from limpet.backends.contract import Append, Claim, StateUpdate
from limpet.backends.files.states import FileSystemStateBackend
from limpet.errors import LeaseLost
from limpet.model import Base, Holder, Lease, StateHeader, StateStatus

RECORDS = 200


def claim(backend: FileSystemStateBackend, state_id: str, number: int, base: Base | None = None) -> Lease | None:
    now = datetime.now(UTC)
    header = StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=now, updated_at=now)
    holder = Holder("here", "", "", number, "", "")
    (grant,) = backend.acquire([Claim(header=header, holder=holder, ttl_s=600.0, base=base)])
    return None if grant is None else grant.lease


def acknowledged(backend: FileSystemStateBackend, number: int) -> Iterator[int]:
    """Append to a state of this process, and give the number of each record when it is acknowledged."""
    lease = claim(backend, f"kelp-{number}", number)
    assert lease is not None
    for seq in range(1, RECORDS + 1):
        assert [None] == backend.append([Append(lease, seq, (b"%d:%d" % (number, seq),))])
        yield seq


def fought_for(backend: FileSystemStateBackend, number: int, wanted: int) -> int:
    """Append one record at a time to a state that others want as well, with a lease for each; how many were written."""
    written = 0
    while written < wanted:
        lease = claim(backend, "shared", number)
        if lease is None:
            continue
        found = backend.find_state("shared")
        assert found is not None
        body = b"%d:%d" % (number, written)
        update = StateUpdate(at=0.0, releases=True)
        (answer,) = backend.append([Append(lease, found.position + 1, (body,), update)])
        assert answer is None or isinstance(answer, LeaseLost)
        written += answer is None
    return written


def come_and_gone(backend: FileSystemStateBackend, number: int) -> int:
    """Create a state, fork it, and delete both in either order, again and again."""
    for turn in range(15):
        parent = claim(backend, f"parent-{number}", number)
        assert parent is not None
        assert [None] == backend.append([Append(parent, 1, (b"1", b"2"))])
        fork = claim(backend, f"fork-{number}", number, Base(parent.state_id, 1))
        assert fork is not None
        assert [(1, b"1")] == backend.read(fork.state_id)
        for lease in (parent, fork) if turn % 2 else (fork, parent):
            assert backend.delete_state(lease.state_id, lease)
        backend.list_states()
    return 15


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(work: str, path: str, number: int) -> None:
    say("ready")
    sys.stdin.readline()
    compression = "zstd" if number % 2 else None
    with FileSystemStateBackend(path, "normal", compression=compression, segment_size=5000) as backend:
        if work == "claim":
            say(json.dumps(claim(backend, "kelp", number) is not None))
        elif work == "append":
            say(json.dumps(len(list(acknowledged(backend, number)))))
        elif work == "fight":
            say(json.dumps(fought_for(backend, number, 25)))
        elif work == "come and go":
            say(json.dumps(come_and_gone(backend, number)))
        elif work == "append aloud":
            for seq in acknowledged(backend, number):
                say(str(seq))
            sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
