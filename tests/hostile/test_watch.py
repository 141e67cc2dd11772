"""The watch sees what it is to see: without this, that it saw nothing would say nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEEDS = {
    "an import": ("import antigravity_is_no_module", "import ('antigravity_is_no_module'"),
    "a file": ("open('/dev/null').close()", "open ('/dev/null'"),
    "a command": ("import os; os.system('true')", "os.system (b'true'"),
    "a process": ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
    "a socket": ("import socket; socket.socket().close()", "socket.__new__"),
    "text as code": ("eval('1 + 1')", "compile (b'1 + 1'"),
    "memory": ("b'x' * (300 << 20)", " MB"),
    "too much memory": ("b'x' * (3 << 30)", "MemoryError"),
    "time": ("while time.process_time() < until: pass", "took 1"),
}
PROGRAM = """
import sys, time
from pathlib import Path
from hostile.watch import Watch
import os, socket, subprocess
code = compile(sys.argv[2], "deed", "exec")
watch = Watch(Path(sys.argv[1]))
until = time.process_time() + 1.2
def read(data):
    try:
        exec(code)
    except (ImportError, MemoryError) as error:
        return type(error).__name__
    return "done"
reading = watch.read(b"", read)
print(reading.outcome, *reading.faults(), sep="\\n")
"""


@pytest.mark.parametrize("deed", DEEDS)
def test_the_watch_notes_what_is_done(deed: str, tmp_path: Path) -> None:
    code, expected = DEEDS[deed]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "last input"), code]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert "" == answer.stderr
    assert expected in answer.stdout
