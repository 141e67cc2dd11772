"""The documentation is true: its code runs, its console shows what is really printed, and its links lead somewhere.

In README.md and docs/, each page in an empty folder of its own, from top to bottom:

* ```python blocks are one program, in order, run where the first of them stands;
* ```python title="research.py" blocks are saved under that name, and run unless a console block names the file;
* ```console blocks: the lines beginning with `$ limpet` or `$ python` are run. What the block shows below such a line
  is compared with what is printed, where `...` stands for anything. A line that shows nothing below it must succeed.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN_PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
LINKING_PAGES = sorted({*RUN_PAGES, *(path.name for path in ROOT.glob("*.md"))})

FENCE = re.compile(
    r"^(?P<indent>[ ]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^[ ]*(?P=ticks)`*[ ]*$", re.M | re.S
)
TITLE = re.compile(r"""title=(["'])(?P<title>[\w./-]+)\1""")
LINK = re.compile(r"!?\[[^\]]*\]\((?P<inline><[^>]*>|[^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(?P<reference>\S+)", re.M)
HEADING = re.compile(r"^#+\s+(?P<text>.+?)\s*#*$", re.M)
RUNNABLE = ("limpet", "python")
LONGEST_RUN_S = 120


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    title: str | None
    text: str


@dataclass(frozen=True)
class Command:
    line: int
    command: str
    shown: str


@dataclass(frozen=True)
class Printed:
    status: int
    text: str


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    for fence in FENCE.finditer(page):
        language, _, options = fence["info"].strip().partition(" ")
        title = TITLE.search(options)
        body = "".join(line.removeprefix(fence["indent"]) for line in fence["body"].splitlines(keepends=True))
        found.append(Block(page.count("\n", 0, fence.start()) + 2, language, title and title["title"], body))
    return found


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block that are run, each with the output shown below it."""
    lines = block.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = next(number for number in range(start, end) if not lines[number].endswith("\\"))
        command = "\n".join(lines[start : last + 1]).removeprefix("$ ")
        if command.split()[0] in RUNNABLE:
            yield Command(block.line + start, command, "\n".join(lines[last + 1 : end]))


def program(untitled: list[Block]) -> str:
    """The blocks as one file, each on the lines on which it stands in the page, so that a traceback points there."""
    text = ""
    for block in untitled:
        text += "\n" * (block.line - 1 - text.count("\n")) + block.text
    return text


def run(command: str, folder: Path) -> Printed:
    """What a person would see who types the command in that folder."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("LIMPET_", "COV_"))}
    settings |= {"HOME": str(folder), "NO_COLOR": "1", "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
    settings["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), settings.get("PATH", os.defpath)))
    answer = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=LONGEST_RUN_S,
    )
    return Printed(answer.returncode, answer.stdout)


def is_as_shown(shown: str, printed: str) -> bool:
    """Equal, where `...` stands for anything, and apart from white space at the ends of lines and of the whole."""
    want, got = ("\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n" for text in (shown, printed))
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)


def problem_of(command: Command, folder: Path) -> str | None:
    printed = run(command.command, folder)
    is_right = is_as_shown(command.shown, printed.text) if command.shown.strip() else printed.status == 0
    if is_right:
        return None
    where = f"line {command.line}: $ {command.command}"
    return f"{where}\nshown:\n{command.shown}\nprinted, with status {printed.status}:\n{printed.text}"


def steps(page: str, folder: Path) -> Iterator[Command]:
    """The commands of a page in order; the files that they need are written on the way."""
    found = blocks(page)
    untitled = [block for block in found if block.language == "python" and not block.title]
    typed = [command for block in found if block.language == "console" for command in commands(block)]
    for block in found:
        if block.language == "console":
            yield from commands(block)
        elif block.title:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)
            if block.language == "python" and not any(block.title in command.command for command in typed):
                yield Command(block.line, f"python {block.title}", "")
        elif block in untitled[:1]:
            (folder / "page.py").write_text(program(untitled))
            yield Command(block.line, "python page.py", "")


def problems(page: str, folder: Path) -> list[str]:
    return [problem for command in steps(page, folder) if (problem := problem_of(command, folder))]


def anchors(page: str) -> set[str]:
    """The names under which the headings of a page can be linked to."""
    headings = (found["text"] for found in HEADING.finditer(FENCE.sub("", page)))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def dead_links(page: Path) -> list[str]:
    dead: list[str] = []
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    for found in LINK.finditer(text):
        link = (found["inline"] or found["reference"]).strip("<>")
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", RUN_PAGES)
def test_what_a_page_shows_is_what_happens(page: str, tmp_path: Path) -> None:
    found = problems((ROOT / page).read_text(), tmp_path)
    assert not found, "\n\n".join([page, *found])


@pytest.mark.parametrize("page", LINKING_PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    assert [] == dead_links(ROOT / page)


TRUE_PAGE = """
```python
answer = 42
```

- In a list:

  ```python
  open("seen.txt", "w").write("kelp")
  assert 42 == answer
  ```

```python title="tide.py"
import sys
sys.exit(print("high at", 6 * 7, "past") or len(sys.argv) - 1)
```

```console
$ python tide.py
high at ... past
$ python -c 'print(open("seen.txt").read())'
kelp
$ make nothing
$ python tide.py \\
    fails
high at 42 past
```
"""


def test_a_true_page_has_no_problems(tmp_path: Path) -> None:
    assert [] == problems(TRUE_PAGE, tmp_path)


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("assert 42 == answer", "assert 43 == answer"),
        ("high at ... past", "low at ... past"),
        ("kelp\n$ make", "$ python -c 'raise SystemExit(1)'\n$ make"),
        ("    fails\nhigh at 42 past", "    fails"),
    ],
)
def test_a_false_page_has_one_problem(true: str, false: str, tmp_path: Path) -> None:
    assert true in TRUE_PAGE
    assert 1 == len(problems(TRUE_PAGE.replace(true, false), tmp_path))


def test_a_titled_block_that_no_command_names_is_run(tmp_path: Path) -> None:
    assert 1 == len(problems('```python title="broken.py"\nraise SystemExit("broken")\n```\n', tmp_path))


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Two words\n[a](page.md#two-words) [b](#two-words) [c](gone.md) [d](#gone) `[e](gone)` [f](mailto:x)\n"
    )
    assert ["gone.md", "#gone"] == dead_links(page)
