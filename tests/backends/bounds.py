"""What a process may do, narrowed for a while: as an ordinary user, and with small files only."""

from __future__ import annotations

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def as_ordinary_user() -> Generator[None]:
    """Permissions do not bind root: step down for a while where the tests are run as root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@contextmanager
def files_limited_to(size: int) -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
