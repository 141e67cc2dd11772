"""Watches this process while it reads hostile bytes: what it imports, opens and executes, its memory and its time.

Python tells an audit hook of everything that reaches out of it. What is not listed here as harmless is noted.
"""

from __future__ import annotations

import faulthandler
import importlib
import mmap
import os
import pkgutil
import resource
import sys
import time
import zoneinfo
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pandas
import polars
import tzdata

import limpet

MOST_ADDRESS_SPACE = 2 << 30
"""How much more address space than at the start the process may ask for; beyond that it is refused."""
MOST_MEMORY = 100 << 20
MOST_SECONDS = 1.0
LONGEST_INPUT = 1 << 20

LAZY_LIBRARIES = ("numpy", "pandas", "polars")
"""They import parts of themselves when these are first needed."""
LIBRARY_FOLDERS = tuple(library.__path__[0] for library in (numpy, pandas, polars))
ZONE_FOLDERS = (*zoneinfo.TZPATH, tzdata.__path__[0])
OWN_FILES = (limpet.__path__[0], "/proc/sys/kernel/random/boot_id", *filter(None, sys.path))
"""What Limpet itself reads, also of the packages that are installed."""
FILE_EVENTS = frozenset(
    {
        *("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.utime"),
        *("os.truncate", "os.chmod", "shutil.rmtree"),
    }
)
HARMLESS = frozenset({"builtins.id", "object.__getattr__", "object.__setattr__", "sys._getframe"})


class Reading(msgspec.Struct):
    """What reading one input came to."""

    outcome: str
    seconds: float
    growth: int
    """By how many bytes the most memory that the process ever had is above what it had at the start."""
    noted: list[str]

    def faults(self, most_seconds: float = MOST_SECONDS, most_memory: int = MOST_MEMORY) -> list[str]:
        """What must not be, whatever the input was."""
        found = list(self.noted)
        if self.seconds > most_seconds:
            found.append(f"took {self.seconds:.1f} s")
        if self.growth > most_memory:
            found.append(f"took {self.growth >> 20} MB")
        return found


class Watch:
    """The watch over this process. Begins when it is made and cannot be taken off again."""

    def __init__(self, last_input: Path, *, allows_parsing: bool = False, folder: Path | None = None) -> None:
        """``last_input`` is a file that holds the input that is being read, for the case that the process dies.

        In ``folder``, which is that of the process, files may be read, made and removed.

        The header of an ``.npy`` file is a literal of Python, which numpy has parsed. To parse is not to execute; where
        it is allowed, executing is still noted.
        """
        self._allows_parsing = allows_parsing
        self._folder = None if folder is None else str(folder)
        faulthandler.enable()
        self._noted: list[str] = []
        self._is_on = False
        _load_the_zone_database()
        _annotations()
        last_input.write_bytes(bytes(LONGEST_INPUT + 4))
        with last_input.open("r+b") as file:
            self._slot = mmap.mmap(file.fileno(), 0)
        limit_address_space()
        self._modules = set(sys.modules)
        self._status = os.open("/proc/self/status", os.O_RDONLY)
        self._least = self._most_memory()
        sys.addaudithook(self._hear)

    def read(self, data: bytes, read: Callable[[bytes], str]) -> Reading:
        """Read an input with a function that gives the outcome as text."""
        self._slot[:4] = len(data).to_bytes(4, "big")
        self._slot[4 : 4 + len(data)] = data
        began = time.process_time()
        self._is_on = True
        try:
            outcome = read(data)
        finally:
            self._is_on = False
        seconds = time.process_time() - began
        noted, self._noted = self._noted, []
        if len(sys.modules) != len(self._modules):
            added = set(sys.modules) - self._modules
            self._modules |= added
            noted += [f"the module {name} is new" for name in sorted(added) if not _may_be_imported(name)]
        return Reading(outcome, seconds, self._most_memory() - self._least, noted)

    def _most_memory(self) -> int:
        # Not ru_maxrss: a process is born with that of the one that started it.
        text = os.pread(self._status, 4096, 0)
        return int(text.partition(b"VmHWM:")[2].split(maxsplit=1)[0]) * 1024

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_parsing = self._allows_parsing and event == "compile" and arguments[1] == "<unknown>"
        if not self._is_on or event in HARMLESS or is_parsing or _is_allowed(event, arguments):
            return
        if self._folder is None or not _is_inside(event, arguments, self._folder):
            self._noted.append(f"{event} {arguments!r}"[:300])


def last_input_of(file: Path) -> bytes:
    """The input that a process was reading when it died."""
    content = file.read_bytes()
    return content[4 : 4 + int.from_bytes(content[:4], "big")]


def _is_allowed(event: str, arguments: tuple[Any, ...]) -> bool:
    match event:
        case "import":
            return _may_be_imported(arguments[0])
        case "open" | "os.listdir" | "os.scandir":
            return str(arguments[0]).startswith((*ZONE_FOLDERS, *LIBRARY_FOLDERS))
        case "marshal.loads":
            return any(folder.encode() in arguments[0] for folder in LIBRARY_FOLDERS)
        case "exec":
            # What is evaluated as text was heard as "compile" before.
            return arguments[0].co_filename.startswith((*LIBRARY_FOLDERS, "<string>"))
        case "compile":
            return arguments[0] in _annotations()
        case _:
            return False


def _is_inside(event: str, arguments: tuple[Any, ...], folder: str) -> bool:
    """Whether this only reads or changes files of a folder."""
    if event in ("fcntl.flock", "socket.gethostname", "fcntl.fcntl"):
        return True
    if event not in FILE_EVENTS:
        return False
    paths = [str(part) for part in arguments[: 2 if event in ("os.rename", "os.link") else 1] if type(part) is not int]
    is_read = event == "os.listdir" or (event == "open" and arguments[1] in ("r", "rb"))
    if is_read and str(arguments[0]).startswith(OWN_FILES):
        return True
    # Whatever is relative to the folder of the process, or to one that it has open, is inside if it does not lead out.
    return all(path.startswith(f"{folder}/") or not (path.startswith("/") or ".." in path) for path in paths)


@cache
def _annotations() -> frozenset[bytes]:
    """The annotations in the program's own source, which Python leaves as text and which are evaluated when needed."""
    classes = [
        each for module in list(sys.modules.values()) for each in vars(module).values() if isinstance(each, type)
    ]
    written = [vars(cls).get("__annotations__") for cls in classes]
    texts = [text for each in written if isinstance(each, dict) for text in each.values()]
    return frozenset(text.encode() for text in texts if isinstance(text, str))


def _may_be_imported(name: str) -> bool:
    return name.partition(".")[0] in (*LAZY_LIBRARIES, "tzdata")


def _load_the_zone_database() -> None:
    # Its folders are packages, which zoneinfo imports when it looks a name up in them. They are imported now, and not
    # under watch, so that nothing but the looking up is left.
    for package in pkgutil.walk_packages(tzdata.__path__, "tzdata."):
        importlib.import_module(package.name)
    with suppress(zoneinfo.ZoneInfoNotFoundError):
        zoneinfo.ZoneInfo("Nowhere/City")


def limit_address_space() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_ADDRESS_SPACE
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
