"""One of many processes on one store: ``python sharing_worker.py URL FOLDER NUMBER``, where the
URL has ``{}`` in the place of the folder.

It appends to a state of its own and, in turns, to one that all of them want, with a lease for each append. It says
``ready``, waits for a line, and says at the end how many appends of each kind were acknowledged, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from limpet.backends.contract import Append, Claim, Grant, StateBackend, StateUpdate
from limpet.errors import LeaseLost
from limpet.model import Holder, StateHeader, StateStatus
from limpet.stores import open_store

APPENDS = 200


def claimed(backend: StateBackend, state_id: str, number: int) -> Grant:
    now = datetime.now(UTC)
    header = StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=now, updated_at=now)
    (grant,) = backend.acquire([Claim(header=header, holder=Holder("here", "", "", number, "", ""), ttl_s=600.0)])
    assert grant is not None
    return grant


def append_to_shared(backend: StateBackend, number: int, written: int) -> bool:
    """Append one record to the state that all want; False if another one has it."""
    grant = claimed(backend, "shared", number)
    if grant.lease is None:
        assert grant.held_by is not None
        return False
    update = StateUpdate(at=0.0, releases=True)
    body = b"%d:%d" % (number, written)
    (answer,) = backend.append([Append(grant.lease, grant.header.position + 1, (body,), update)])
    assert answer is None or isinstance(answer, LeaseLost)
    return answer is None


def work(backend: StateBackend, number: int) -> dict[str, int]:
    own = claimed(backend, f"own-{number}", number).lease
    assert own is not None
    shared = 0
    for seq in range(1, APPENDS + 1):
        assert [None] == backend.append([Append(own, seq, (b"%d:%d" % (number, seq),))])
        shared += append_to_shared(backend, number, shared)
    while shared < APPENDS:
        if append_to_shared(backend, number, shared):
            shared += 1
        else:
            os.sched_yield()
    return {"own": APPENDS, "shared": shared}


if __name__ == "__main__":
    with open_store(sys.argv[1].format(sys.argv[2])) as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        sys.stdout.write(json.dumps(work(store, int(sys.argv[3]))) + "\n")
        sys.stdout.flush()
