"""A state tells where it began: the program, its packages and its commit, and none of its secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from limpet.engine.environment import repository, with_environment
from limpet.model import StateMetadata

PROGRAM = """
from limpet import ExecutionState, Limpet, MemoryStateBackend, agent

@agent
async def hello(name: str) -> str:
    return f"hello {name}"

if __name__ == "__main__":
    with Limpet(MemoryStateBackend()) as client:
        client.run_sync(hello, "kelp", state_id="run")
        explicit = ExecutionState(state_backend=client.backend, state_id="explicit")
        explicit.save_checkpoint()
        print(client.show("run").header.metadata.to_json())
        print(client.show("explicit").header.metadata.to_json())
"""


def git(folder: Path, *arguments: str) -> str:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    who = ("-c", "user.name=Diver", "-c", "user.email=diver@example.org", "-c", "init.defaultBranch=reef")
    command = ("git", *who, "-C", str(folder), *arguments)
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.strip()


def repository_at(folder: Path) -> str:
    """A repository with one commit, which is given."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet")
    (folder / "tracked.txt").write_text("kelp")
    git(folder, "add", "tracked.txt")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return git(folder, "rev-parse", "HEAD")


def facts_of(folder: Path) -> dict[str, Any]:
    """What git says of a folder, waited for as long as it takes."""
    facts = repository.first_repository([str(folder)])
    while facts and "dirty" not in facts and repository.is_asking(str(folder)):
        facts = repository.first_repository([str(folder)])
    return facts


def captured_by(folder: Path, *arguments: str, **settings: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a program in a folder captures of itself, in a run and in an explicit state."""
    (folder / "hello.py").write_text(PROGRAM)
    answer = subprocess.run(
        [sys.executable, "hello.py", *arguments],
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    run, explicit = (json.loads(line)["environment"] for line in answer.stdout.splitlines())
    return run, explicit


def test_a_run_notes_where_it_began_and_with_what(tmp_path: Path) -> None:
    commit = repository_at(tmp_path)
    run, explicit = captured_by(tmp_path, "--topic", "kelp", "--api-key=hunter2", "https://me:hunter2@example.org/x")
    assert f"CPython {sys.version.split()[0]}" == run["python"]
    assert run["platform"].startswith(f"{os.uname().sysname} {os.uname().release}")
    assert str(tmp_path.resolve()) == run["started_in"]
    expected = ["hello.py", "--topic", "kelp", "--api-key=***", "https://***@example.org/x"]
    assert expected == run["command"][1:]
    assert {"limpet", "msgspec", "ormsgpack"} <= set(run["packages"])
    assert run["limpet"] == run["packages"]["limpet"]
    assert "pandas" not in run["packages"]
    assert (commit, "reef") == (run["git"]["commit"], run["git"]["branch"])
    assert set(run) == set(explicit)
    assert [run["command"], run["git"]["commit"]] == [explicit["command"], explicit["git"]["commit"]]
    assert "hunter2" not in json.dumps(run)


def test_nothing_of_the_environment_variables_is_captured(tmp_path: Path) -> None:
    run, _ = captured_by(tmp_path, KELP_SETTING="strange-value", LOGNAME="strange-name")
    assert "strange" not in json.dumps(run)


def test_capturing_is_switched_off_by_a_variable(tmp_path: Path) -> None:
    assert ({}, {}) == captured_by(tmp_path, LIMPET_CAPTURE="off")
    run, _ = captured_by(tmp_path, LIMPET_CAPTURE="minimal")
    assert {"python", "platform", "limpet"} == set(run)


def test_a_clean_repository_becomes_dirty_by_a_change_of_what_git_knows(tmp_path: Path) -> None:
    clean, dirty, staged = tmp_path / "clean", tmp_path / "dirty", tmp_path / "staged"
    for folder in (clean, dirty, staged):
        repository_at(folder)
        (folder / "unknown-to-git.db").touch()
    (dirty / "tracked.txt").write_text("changed")
    git(staged, "add", "unknown-to-git.db")
    assert [False, True, True] == [facts_of(folder)["dirty"] for folder in (clean, dirty, staged)]


def test_the_folders_inside_a_repository_belong_to_it(tmp_path: Path) -> None:
    commit = repository_at(tmp_path)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(inner)
    expected = {"commit": commit, "branch": "reef", "dirty": False}
    assert [expected, expected] == [facts_of(inner), facts_of(link)]


def test_a_detached_head_has_no_branch(tmp_path: Path) -> None:
    commit = repository_at(tmp_path)
    git(tmp_path, "checkout", "--quiet", "--detach")
    assert {"commit": commit, "dirty": False} == facts_of(tmp_path)


def test_a_repository_without_a_commit_has_a_branch_alone(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert {"branch": "reef", "dirty": False} == facts_of(tmp_path)


def test_a_further_worktree_has_its_own_branch(tmp_path: Path) -> None:
    main, further = tmp_path / "main", tmp_path / "further"
    commit = repository_at(main)
    git(main, "worktree", "add", "--quiet", "-b", "tide/low", str(further))
    (main / "tracked.txt").write_text("changed")
    assert {"commit": commit, "branch": "tide/low", "dirty": False} == facts_of(further)
    assert {"commit": commit, "branch": "reef", "dirty": True} == facts_of(main)


def test_refs_that_git_has_packed_are_read(tmp_path: Path) -> None:
    commit = repository_at(tmp_path)
    git(tmp_path, "pack-refs", "--all")
    assert not (tmp_path / ".git" / "refs" / "heads" / "reef").exists()
    assert commit == facts_of(tmp_path)["commit"]


def test_a_branch_that_stands_for_another_is_followed(tmp_path: Path) -> None:
    commit = repository_at(tmp_path)
    git(tmp_path, "symbolic-ref", "refs/heads/alias", "refs/heads/reef")
    git(tmp_path, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert {"commit": commit, "branch": "reef", "dirty": False} == facts_of(tmp_path)
    git(tmp_path, "symbolic-ref", "refs/heads/reef", "refs/heads/alias")
    assert {"branch"} == set(repository.head_of(str(tmp_path)))


def test_without_a_repository_there_is_nothing_of_git(tmp_path: Path) -> None:
    assert {} == facts_of(tmp_path)
    run, _ = captured_by(tmp_path)
    assert "git" not in run


@pytest.mark.parametrize("content", ["", "gitdir: /nowhere/at/all", "\x00\xff"])
def test_a_broken_repository_has_no_facts(content: str, tmp_path: Path) -> None:
    (tmp_path / ".git").write_text(content)
    assert {} == facts_of(tmp_path)


def test_a_repository_whose_refs_are_in_one_table_has_no_branch(tmp_path: Path) -> None:
    repository_at(tmp_path)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
    assert {} == repository.head_of(str(tmp_path))


def test_the_folder_of_the_agent_comes_before_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs, nowhere = tmp_path / "mine", tmp_path / "theirs", tmp_path / "nowhere"
    nowhere.mkdir()
    commits = {folder: repository_at(folder) for folder in (mine, theirs)}
    monkeypatch.chdir(theirs)

    def commit_of(agent: str | None) -> str:
        return with_environment(StateMetadata(), agent=agent).environment["git"]["commit"]

    assert commits[mine] == commit_of(f"{mine}/research.py:explore")
    assert commits[theirs] == commit_of(f"{nowhere}/research.py:explore")
    assert commits[theirs] == commit_of(None)
    assert commits[theirs] == commit_of("never.imported:explore")
    module = type(sys)("captured_sample")
    module.__file__ = str(mine / "captured_sample.py")
    monkeypatch.setitem(sys.modules, "captured_sample", module)
    assert commits[mine] == commit_of("captured_sample:explore")


def test_a_run_notes_the_repository_of_its_agent(tmp_path: Path) -> None:
    commit = repository_at(tmp_path / "code")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "code" / "hello.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "code" / "hello.py")]
    where = {"cwd": tmp_path / "elsewhere", "env": os.environ | {"PYTHONWARNINGS": "error"}}
    answer = subprocess.run(command, **where, capture_output=True, text=True, check=True, timeout=60)
    run, explicit = (json.loads(line)["environment"] for line in answer.stdout.splitlines())
    assert commit == run["git"]["commit"]
    assert "git" not in explicit
    assert "" == answer.stderr


def put_in_place_of_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_git_that_fails_leaves_only_dirty_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = repository_at(tmp_path / "code")
    put_in_place_of_git(tmp_path / "bin", monkeypatch, "exit 128")
    assert {"commit": commit, "branch": "reef"} == facts_of(tmp_path / "code")


def test_git_that_is_missing_leaves_only_dirty_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = repository_at(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {"commit": commit, "branch": "reef"} == facts_of(tmp_path)


def test_git_that_hangs_holds_nobody_up_and_is_ended_with_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    repository_at(code)
    put_in_place_of_git(tmp_path / "bin", monkeypatch, f"echo $$ > {tmp_path}/pid\nexec sleep 1000")
    run, _ = captured_by(code, PYTHONWARNINGS="error")
    assert {"commit", "branch"} == set(run["git"])
    # On a busy machine it may have been ended before it could write anything.
    pids = (tmp_path / "pid").read_text().split() if (tmp_path / "pid").exists() else []
    assert [] == [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_git_that_closes_its_output_and_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository_at(tmp_path / "code")
    put_in_place_of_git(tmp_path / "bin", monkeypatch, "exec 1>&-\nexec sleep 1000")
    assert {"commit", "branch"} == set(facts_of(tmp_path / "code"))


def test_git_that_answers_late_is_heard_by_later_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "code"
    repository_at(code)
    os.mkfifo(tmp_path / "go")
    put_in_place_of_git(tmp_path / "bin", monkeypatch, f"read word < {tmp_path}/go\necho ' M tracked.txt'")
    assert "dirty" not in repository.first_repository([str(code)])
    (tmp_path / "go").write_text("go\n")
    assert True is facts_of(code)["dirty"]


def test_git_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "code"
    repository_at(code)
    put_in_place_of_git(tmp_path / "bin", monkeypatch, f"echo $$ > {tmp_path}/pid\nexec sleep 1000")
    assert "dirty" not in repository.first_repository([str(code)])
    monkeypatch.setattr(repository, "GIVE_UP_S", 0.0)
    assert "dirty" not in facts_of(code)
    assert not repository.is_asking(str(code))


def test_git_is_asked_once_for_each_repository_and_told_to_leave_things_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    repository_at(code)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another"))
    put_in_place_of_git(
        tmp_path / "bin",
        monkeypatch,
        f'echo "$GIT_DIR|$GIT_OPTIONAL_LOCKS|$GIT_TERMINAL_PROMPT|$*" >> {tmp_path}/asked',
    )
    assert facts_of(code) == facts_of(code)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert 1 == len(asked)
    assert asked[0].startswith(f"|0|0|-C {code.resolve()} -c core.fsmonitor=false -c core.hooksPath=/dev/null status")


def test_a_forked_process_leaves_the_answer_to_the_one_that_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    repository_at(code)
    os.mkfifo(tmp_path / "go")
    put_in_place_of_git(tmp_path / "bin", monkeypatch, f"read word < {tmp_path}/go\necho ' M tracked.txt'")
    assert "dirty" not in repository.first_repository([str(code)])
    (tmp_path / "go").write_text("go\n")
    ours = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: ours + 1)
    assert "dirty" not in repository.first_repository([str(code)])
    monkeypatch.setattr(os, "getpid", lambda: ours)
    assert True is facts_of(code)["dirty"]
