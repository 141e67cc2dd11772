"""A disk that really is full: small ones in memory, of every size from one page to enough, in a namespace of their own.

``full_disk_program`` runs a pipeline on each and says what it saw; here that is judged. Whatever the size, nothing that
was acknowledged is lost, nothing that was refused is there, and with room the same line ends as on a large disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from crash import full_disk_program

Facts = dict[str, Any]

KINDS = ["full", "files full", "files packed"]
AT_MOST_S = 100
"""A program that takes longer hangs; it takes a tenth of that."""

NAMESPACES = [("unshare", "--mount"), ("unshare", "--mount", "--map-root-user")]
"""The first is for root, the second for everybody whom the system lets be root in a namespace."""

CALLS = sorted(["b.1", "b.2", "c", "d.1", "d.2", "large", *(f"a.{number}" for number in range(6))])


@cache
def namespace(folder: Path) -> Sequence[str]:
    """The command that runs another one where it may mount disks that nobody else sees."""
    why: list[str] = []
    for command in NAMESPACES:
        mount = ("mount", "-t", "tmpfs", "-o", "size=4096", "tmpfs", str(folder))
        done = subprocess.run([*command, *mount], capture_output=True, text=True)
        if done.returncode == 0:
            return command
        why.append(f"`{' '.join(command)}` with `mount`: {done.stderr.strip()}")
    pytest.fail(
        "No small disk can be mounted here, so nothing is known of full ones. Let this user have mount namespaces "
        f"(CAP_SYS_ADMIN, or user namespaces). {'; '.join(why)}"
    )


@pytest.fixture(scope="module", params=KINDS)
def sweep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Facts]]:
    """The kind of store, and what was seen on each disk."""
    folder = tmp_path_factory.mktemp("disk")
    command = [*namespace(folder), sys.executable, full_disk_program.__file__, request.param, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=AT_MOST_S, env=environment)
    assert 0 == done.returncode, done.stderr
    return request.param, [json.loads(line) for line in done.stdout.splitlines()]


def looks(facts: Facts) -> list[tuple[str, Facts]]:
    return [(when, facts[when]) for when in ("as_left", "when_full", "with_room")]


def where(facts: Facts) -> str:
    return f"on a disk of {facts['pages']} pages: {facts}"


def test_a_run_ends_or_says_that_there_is_no_room(sweep: tuple[str, list[Facts]]) -> None:
    _, disks = sweep
    *small, _, _ = disks
    assert {"StoreFull"} == {facts["outcome"] for facts in small if facts["outcome"] != "ended"}
    assert ["ended", "ended"] == [facts["outcome"] for facts in disks[-2:]]


def test_there_is_a_disk_on_which_the_run_comes_to_any_of_its_calls(sweep: tuple[str, list[Facts]]) -> None:
    _, disks = sweep
    reached = {name for facts in disks for name in facts["refused"]}
    assert {"large", "d.1", "d.2"} <= reached, "no disk was full when the artifact, or two calls at once, were written"
    assert CALLS == disks[-1]["acknowledged"]
    assert len({len(facts["acknowledged"]) for facts in disks}) >= 8, "most sizes end at the same few calls"


def test_what_was_acknowledged_is_there_and_what_was_refused_is_not(sweep: tuple[str, list[Facts]]) -> None:
    _, disks = sweep
    for facts in disks:
        for when, seen in looks(facts):
            if isinstance(seen["recorded"], list):
                lost = set(facts["acknowledged"]) - set(seen["recorded"])
                assert set() == lost, f"lost {when}, {where(facts)}"
                visible = set(facts["refused"]) & set(seen["recorded"])
                assert set() == visible, f"there although refused, {when}, {where(facts)}"
                assert [] == seen["unsound"], f"{when}, {where(facts)}"


def test_a_full_store_is_read_or_says_that_it_is_full(sweep: tuple[str, list[Facts]]) -> None:
    kind, disks = sweep
    for facts in disks:
        for when, seen in looks(facts):
            has_records = bool(facts["acknowledged"])
            # A file of SQLite needs some room to be opened; readable files need none.
            may_refuse = when != "with_room" and (not has_records or (kind == "full" and when == "when_full"))
            refusals = [answer for answer in seen.values() if isinstance(answer, str)]
            assert set(refusals) <= {"StoreFull"}, where(facts)
            assert may_refuse or [] == refusals, f"{when}, {where(facts)}"
            if has_records and not refusals:
                assert ["small"] == seen["listed"], f"{when}, {where(facts)}"


def test_with_room_the_same_line_ends_as_on_a_large_disk(sweep: tuple[str, list[Facts]]) -> None:
    _, disks = sweep
    for facts in disks:
        assert "ended" == facts["second_outcome"], where(facts)
        assert facts["result_is_right"], where(facts)
        repeated = set(facts["executed_again"]) & set(facts["with_room"]["recorded"])
        assert set() == repeated, f"executed although recorded, {where(facts)}"


def test_nothing_is_left_behind(sweep: tuple[str, list[Facts]]) -> None:
    _, disks = sweep
    for facts in disks:
        assert [] == facts["flaws"], where(facts)
        assert [] == facts["left_behind"], where(facts)
