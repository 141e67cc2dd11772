"""What git knows of the folder that a program runs in: the commit, the branch, and whether something is changed.

The commit and the branch are read from the files of the repository, which takes a tenth of a millisecond. Whether
something is changed only git itself can tell, in about five. It is asked once per process and repository, and waited
for once and shortly: in a repository so large that it takes longer, ``dirty`` is missing from the first states of a
process and stands in the later ones. The code that runs was read when the process began, so the first answer stays the
right one.

Files that git does not know do not count as changes: a store in the folder would make every repository dirty.
"""

from __future__ import annotations

import atexit
import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import IO, Any

from limpet.engine.environment.command_line import readable, without_credentials
from limpet.processes import new_lock

FIRST_WAIT_S = 0.05
"""How long the first state of a process waits for git."""
GIVE_UP_S = 10.0
"""When nobody looks for its answer any more."""
END_S = 0.05
"""How long it is waited for once it has said everything, or is killed."""

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_BYTES = 8 * 1024 * 1024
_BRANCHES = "refs/heads/"
_MOST_HOPS = 5

# Nothing that a repository configures is run, nothing is asked of anybody, and nothing is written.
_STATUS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "status", "--porcelain")
_LIMITS = ("--untracked-files=no", "--ignore-submodules=dirty", "--no-renames")
_SETTINGS = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}

_known: dict[str, tuple[dict[str, str], Changes]] = {}
"""By the top folder of a repository: what its files said, and what git says."""
_asking = new_lock()


def first_repository(folders: Iterable[str | None]) -> dict[str, Any]:
    """The facts of the first folder that lies in a repository; empty where none does."""
    for folder in folders:
        top = None if folder is None else _top_of(folder)
        if top is not None:
            with _asking:
                return _facts_of(top)
    return {}


def is_asking(folder: str) -> bool:
    """Whether git has been asked about the repository of a folder, and has not answered yet."""
    top = _top_of(folder)
    return top in _known and _known[top][1].is_open


def head_of(top: str) -> dict[str, str]:
    """The commit and the branch that are checked out, as far as there are any."""
    folder = _git_folder(top)
    common = _first_line(os.path.join(folder, "commondir"))
    shared = os.path.join(folder, common) if common else folder
    head = _first_line(os.path.join(folder, "HEAD"))
    name, commit = _followed(head, shared)
    facts = {"commit": commit} if commit else {}
    # A repository whose refs are in one table has this name in place of the branch, for programs that cannot read it.
    if name.startswith(_BRANCHES) and name != f"{_BRANCHES}.invalid":
        facts["branch"] = without_credentials(readable(name.removeprefix(_BRANCHES)))
    return facts


class Changes:
    """Asks git whether tracked files are changed, and looks for the answer without waiting for long."""

    __slots__ = ("_asked_at", "_asked_by", "_process", "is_dirty")

    def __init__(self, top: str) -> None:
        self.is_dirty: bool | None = None
        self._asked_at = time.monotonic()
        self._asked_by = os.getpid()
        self._process = _asked(top)
        if self._process is not None:
            atexit.register(self._end)
            self.look(FIRST_WAIT_S)

    @property
    def is_open(self) -> bool:
        return self._process is not None

    def look(self, wait_s: float = 0.0) -> bool | None:
        """Whether something is changed, if that is known by now."""
        process = self._process
        # A forked process would take the answer away from the one that asked.
        if process is None or process.stdout is None or self._asked_by != os.getpid():
            return self.is_dirty
        if _is_ready(process.stdout, wait_s):
            # The first letter of the first changed file is enough.
            is_changed = process.stdout.read(1) != b""
            if is_changed or _ended_well(process):
                self.is_dirty = is_changed
            self._end()
        elif time.monotonic() - self._asked_at > GIVE_UP_S:
            self._end()
        return self.is_dirty

    def _end(self) -> None:
        process, self._process = self._process, None
        # What the parent asked is ended by the parent.
        if self._asked_by == os.getpid() and process is not None and process.stdout is not None:
            atexit.unregister(self._end)
            process.kill()
            process.stdout.close()
            _ended_well(process)


def _facts_of(top: str) -> dict[str, Any]:
    if top not in _known:
        _known[top] = (head_of(top), Changes(top))
    head, changes = _known[top]
    is_dirty = changes.look()
    return dict(head) if is_dirty is None else {**head, "dirty": is_dirty}


@lru_cache(maxsize=64)
def _top_of(folder: str) -> str | None:
    folder = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def _git_folder(top: str) -> str:
    """Where the repository is kept: a folder, or what a file in its place names, as in further worktrees."""
    place = os.path.join(top, ".git")
    if os.path.isdir(place):
        return place
    return os.path.join(top, _first_line(place).removeprefix("gitdir:").strip())


def _followed(head: str, shared: str) -> tuple[str, str]:
    """The name of the ref that HEAD stands for and its commit, either of them empty where there is none."""
    name = ""
    for _ in range(_MOST_HOPS):
        if not head.startswith("ref:"):
            break
        name = head.removeprefix("ref:").strip()
        head = _first_line(os.path.join(shared, name)) or _packed(name, shared)
    return name, head if _COMMIT.fullmatch(head) else ""


def _packed(name: str, shared: str) -> str:
    found = re.search(rf"^(\S+) {re.escape(name)}$", _text_of(os.path.join(shared, "packed-refs")), re.MULTILINE)
    return "" if found is None else found[1]


def _first_line(file: str) -> str:
    return _text_of(file).partition("\n")[0].strip()


def _text_of(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            return os.fsdecode(opened.read(_MOST_BYTES))
    except (OSError, ValueError):  # A name with a null byte in it is no name.
        return ""


def _asked(top: str) -> subprocess.Popen[bytes] | None:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with suppress(OSError):
        return subprocess.Popen(
            ("git", "-C", top, *_STATUS, *_LIMITS),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=settings | _SETTINGS,
            bufsize=0,
        )
    return None


def _ended_well(process: subprocess.Popen[bytes]) -> bool:
    # Bounded: a process that waits for a disk which does not answer does not even end when it is killed.
    with suppress(subprocess.TimeoutExpired):
        return process.wait(END_S) == 0
    return False


def _is_ready(pipe: IO[bytes], wait_s: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(wait_s))
