"""States in a folder: what is made, what is recognised, what is refused, and how it looks."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any, cast

import pytest
from backends.bounds import as_ordinary_user
from backends.file_states_case import FileStatesCase, folder_of_ordinary_user, frames

from limpet.backends.contract import Append, Claim
from limpet.backends.files import FileSystemArtifactBackend
from limpet.backends.files.states import FileSystemStateBackend
from limpet.errors import (
    BackendUnavailable,
    InvalidStateId,
    NotAStore,
    StoreDamaged,
    StoreNotWritable,
    UnsupportedVersion,
    UsageError,
)
from limpet.model import Base, Holder, StateMetadata, StateStatus
from limpet.model.artifacts import content_of
from limpet.testing.conformance.artifact_case import id_of
from limpet.testing.conformance.case import OURS, granted, new_header


def _entries(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


def _contents(path: Path) -> dict[Path, bytes]:
    return {entry: entry.read_bytes() for entry in _entries(path) if entry.is_file()}


class TestOpening(FileStatesCase):
    def test_nothing_is_made_before_something_is_written(self) -> None:
        with FileSystemStateBackend(self.path / "a" / "b") as backend:
            assert ([], [], None) == (backend.list_states(), backend.read("kelp"), backend.find_state("kelp"))
            assert not backend.delete_state("../kelp")
            assert ([], []) == (backend.examine("kelp"), backend.examine_store(repair=True))
        assert not self.path.exists()

    def test_a_backend_says_where_it_is_and_what_belongs_beside_it(self) -> None:
        assert f"file://{self.path.resolve()}" == self.backend.name
        assert str(self.path.resolve() / "artifacts") == self.backend.artifacts_folder
        assert (None, False, True) == (
            self.backend.own_artifacts,
            self.backend.commit_waits,
            self.backend.inline_when_quick,
        )
        assert FileSystemStateBackend(self.path, "full").commit_waits

    def test_files_and_folders_are_for_their_owner_alone(self) -> None:
        before = os.umask(0)
        try:
            self.lease("kelp", *frames("kelp", 3))
            self.update(self.fork("fork", "kelp", 2), status=StateStatus.COMPLETED, releases=True)
            assert 2 == len(self.listed())
            self.clock.turn(60.0)
            assert self.backend.delete_state("kelp")
        finally:
            os.umask(before)
        modes = {(entry.is_dir(), stat.S_IMODE(entry.stat().st_mode)) for entry in (self.path, *_entries(self.path))}
        assert {(True, 0o700), (False, 0o600)} == modes

    def test_the_layout_is_the_one_that_is_written_down(self) -> None:
        self.lease("kelp", b"one")
        self.fork("fork", "kelp", 1, b"own")
        assert ["fork", "kelp"] == self.listed()
        self.backend.close()
        files = {str(entry.relative_to(self.path)) for entry in _entries(self.path) if entry.is_file()}
        assert {
            "format",
            "store.json",
            "store.copy.json",
            "last.json",
            "lock",
            "index.db",
            *(f"states/kelp/{name}" for name in ("journal-000000001.jsonl", "header.json", "lease.json", "lock")),
            "states/kelp/forks/2",
            *(f"states/fork/{name}" for name in ("journal-000000002.jsonl", "header.json", "lease.json", "lock")),
        } == files
        assert b"limpet states 1\n" == (self.path / "format").read_bytes()
        assert [] == list((self.path / "tmp").iterdir())

    def test_a_journal_is_lines_of_json_that_anybody_can_read(self) -> None:
        metadata = StateMetadata(tags=["deep"], custom_data={"für": [1, None]})
        lease = self.lease("kelp", *frames("kelp", 1), header=new_header("kelp", metadata=metadata))
        self.append(lease, 2, frames("kelp", 2)[1])
        self.update(lease, status=StateStatus.COMPLETED, releases=True)
        lines = [json.loads(line) for line in self.journal().read_text().splitlines()]
        first, one, two, update = lines
        assert ("kelp", 1, "running", ["deep"]) == (
            first["header"]["state_id"],
            first["header"]["key"],
            first["header"]["status"],
            first["header"]["metadata"]["tags"],
        )
        assert (1, "what stands there 1") == (one["seq"], one["record"]["event"]["result"])
        assert (2, "what stands there 2") == (two["seq"], two["record"]["event"]["result"])
        assert ("completed", True) == (update["update"]["status"], update["update"]["releases"])
        assert [1, 0, 0, 0] == [line.get("left", 0) for line in lines]
        assert [line["sum"] for line in lines[:-1]] == [line["after"] for line in lines[1:]]
        assert "für" in self.journal().read_text()

    def test_what_is_derived_can_be_read_by_people(self) -> None:
        lease = self.lease("kelp", b"one")
        self.lease("wrack")
        self.update(lease, status=StateStatus.FAILED)
        header = json.loads((self.folder() / "header.json").read_text())
        assert ("failed", 1, "journal-000000001.jsonl") == (
            header["header"]["status"],
            header["position"],
            header["segment"],
        )
        assert self.journal().stat().st_size == header["offset"]
        assert self.clock.now + 60.0 == json.loads((self.folder() / "lease.json").read_text())["until"]
        last = json.loads((self.path / "last.json").read_text())
        assert ("kelp", "failed") == (last["state_id"], last["status"])

    def test_an_empty_folder_becomes_a_store(self) -> None:
        self.path.mkdir()
        self.lease("kelp")
        assert ["kelp"] == self.listed()

    def test_artifacts_may_be_put_before_the_first_state(self) -> None:
        with FileSystemArtifactBackend(self.path / "artifacts", "normal") as artifacts:
            artifacts.put(id_of(b"x"), content_of(b"x"))
        self.lease("kelp")
        assert ["kelp"] == self.listed()

    @pytest.mark.parametrize("name", ["format", "other", "states"])
    def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(self, name: str) -> None:
        self.path.mkdir()
        (self.path / name).write_text("mine")
        before = _contents(self.path)
        with pytest.raises(NotAStore):
            FileSystemStateBackend(self.path)
        assert before == _contents(self.path)

    def test_a_folder_of_artifacts_is_no_store(self) -> None:
        with FileSystemArtifactBackend(self.path, "normal") as artifacts:
            artifacts.put(id_of(b"x"), content_of(b"x"))
        with pytest.raises(NotAStore):
            FileSystemStateBackend(self.path)

    def test_a_file_is_no_store(self) -> None:
        self.path.write_text("mine")
        with pytest.raises(NotAStore):
            FileSystemStateBackend(self.path)
        assert "mine" == self.path.read_text()

    def test_a_newer_format_is_refused_and_left_alone(self) -> None:
        self.lease("kelp")
        self.backend.close()
        (self.path / "format").write_text("limpet states 2\n")
        before = _contents(self.path)
        with pytest.raises(UnsupportedVersion):
            FileSystemStateBackend(self.path)
        assert before == _contents(self.path)

    @pytest.mark.parametrize("setting", [{"synchronous": "off"}, {"compression": "rar"}])
    def test_a_setting_that_is_none_is_refused(self, setting: dict[str, str]) -> None:
        with pytest.raises(UsageError):
            cast(Any, FileSystemStateBackend)(self.path, **setting)

    def test_a_closed_backend_is_not_used(self) -> None:
        backend = self.backend
        lease = self.lease("kelp", b"one")
        backend.close()
        for use in (
            lambda: backend.read("kelp"),
            lambda: backend.find_state("kelp"),
            lambda: backend.list_states(),
            lambda: self.append(lease, 2, b"two"),
            lambda: backend.examine("kelp"),
        ):
            with pytest.raises(UsageError):
                use()

    def test_a_path_may_be_relative_and_hold_any_characters(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        with FileSystemStateBackend("a ?b#c%20'é", "normal") as backend:
            monkeypatch.chdir(tmp_path / "elsewhere")
            backend.acquire([Claim(header=new_header("kelp"), holder=OURS, ttl_s=60.0)])
            assert ["kelp"] == [header.state_id for header in backend.list_states()]
        assert (tmp_path / "a ?b#c%20'é" / "states" / "kelp").is_dir()

    def test_an_ordinary_user_without_the_right_to_write_is_told_so(self) -> None:
        claim = Claim(header=new_header("wrack"), holder=OURS, ttl_s=60.0)
        with folder_of_ordinary_user() as folder, as_ordinary_user():
            self.path = folder / "store"
            self.lease("kelp", b"one")
            self.backend.close()
            for closed in (self.path / "states", self.path):
                closed.chmod(0o500)
            again = self.opened_again()
            assert [(1, b"one")] == again.read("kelp")
            with pytest.raises(StoreNotWritable):
                again.acquire([claim])
            with pytest.raises(StoreNotWritable):
                FileSystemStateBackend(self.path / "inner").acquire([claim])

    def test_links_that_are_laid_into_the_store_lead_nowhere(self, tmp_path: Path) -> None:
        self.lease("kelp", b"one")
        elsewhere = tmp_path / "elsewhere"
        shutil.move(self.folder(), elsewhere)
        before = _contents(elsewhere)
        self.folder().symlink_to(elsewhere)
        (self.path / "states" / "wrack").symlink_to(elsewhere)
        again = self.opened_again()
        assert (None, []) == (again.find_state("kelp"), again.read("kelp"))
        assert None is again.find_state("wrack")
        assert not again.delete_state("kelp")
        assert before == _contents(elsewhere)

    def test_a_link_in_place_of_a_file_is_not_followed(self, tmp_path: Path) -> None:
        self.lease("kelp", b"one")
        secret = tmp_path / "secret"
        shutil.move(self.journal(), secret)
        before = secret.read_bytes()
        (self.folder() / "journal-000000001.jsonl").symlink_to(secret)
        (self.folder() / "header.json").unlink()
        (self.path / "index.db").unlink()
        (self.path / "index.db").symlink_to(secret)
        again = self.opened_again()
        assert [] == again.read("kelp")
        again.list_states()
        assert before == secret.read_bytes()
        assert not (self.path / "index.db").is_symlink()


class TestIds(FileStatesCase):
    @pytest.mark.parametrize("state_id", ["../x", "a/b", "", ".hidden", "a\0b", "é", "x" * 201, "a..b"])
    def test_what_cannot_be_an_id_never_becomes_a_path(self, state_id: str) -> None:
        self.lease("kelp")
        before = set(_entries(self.path))
        with pytest.raises(InvalidStateId):
            self.acquire(state_id)
        assert (None, [], False) == (
            self.backend.find_state(state_id),
            self.backend.read(state_id),
            self.backend.delete_state(state_id),
        )
        claim = Claim(header=new_header("fork"), holder=OURS, ttl_s=60.0, base=Base(state_id, 1))
        assert [None] == self.backend.acquire([claim])
        assert before == set(_entries(self.path))

    def test_the_longest_id_is_one(self) -> None:
        self.lease("x" * 200, b"one")
        assert [b"one"] == self.bodies("x" * 200)

    def test_a_folder_of_another_state_is_never_given_for_this_one(self) -> None:
        """As on a file system that does not tell upper from lower case."""
        self.lease("kelp", b"one")
        shutil.copytree(self.folder("kelp"), self.folder("KELP"))
        before = _contents(self.folder("KELP"))
        again = self.opened_again()
        assert (None, []) == (again.find_state("KELP"), again.read("KELP"))
        claim = Claim(header=new_header("KELP"), holder=OURS, ttl_s=60.0, create=False)
        assert [None] == again.acquire([claim])
        with pytest.raises(UsageError, match="kelp"):
            again.acquire([Claim(header=new_header("KELP"), holder=OURS, ttl_s=60.0)])
        assert not again.delete_state("KELP")
        assert ["kelp"] == [header.state_id for header in again.list_states()]
        (flaw,) = again.examine_store(repair=True)
        assert (True, False) == (flaw.is_harmless, flaw.is_mended)
        assert before == _contents(self.folder("KELP"))


class TestStoreFiles(FileStatesCase):
    @pytest.mark.parametrize("name", ["store.json", "store.copy.json"])
    def test_of_the_two_files_that_say_the_id_one_may_be_damaged_or_lost(self, name: str) -> None:
        store_id = self.backend.store_id
        first = self.lease("kelp")
        sound = (self.path / name).read_bytes()
        for data in (sound[:20], b"", sound.replace(b'"keys_below":1001', b'"keys_below":1000'), None):
            if data is None:
                (self.path / name).unlink()
            else:
                (self.path / name).write_bytes(data)
            again = self.opened_again()
            assert store_id == again.store_id
            (grant,) = again.acquire([Claim(header=new_header("wrack"), holder=OURS, ttl_s=60.0)])
            assert grant is not None
            assert granted(grant).key > first.key
            assert again.delete_state("wrack", grant.lease)
            assert [True] == [flaw.is_harmless for flaw in again.examine_store()]
            assert [True] == [flaw.is_mended for flaw in again.examine_store(repair=True)]
            assert [] == again.examine_store()

    def test_a_store_whose_id_is_lost_has_another_one_and_uses_no_key_twice(self) -> None:
        first = self.lease("kelp")
        for name in ("store.json", "store.copy.json", "lock"):
            (self.path / name).unlink()
        again = self.opened_again()
        (grant,) = again.acquire([Claim(header=new_header("wrack"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert granted(grant).key > first.key + 1000

    def test_damaged_store_files_are_named_and_mended_without_using_a_key_twice(self) -> None:
        store_id = self.backend.store_id
        first = self.lease("kelp")
        for name in ("store.json", "store.copy.json"):
            file = self.path / name
            file.write_bytes(file.read_bytes().replace(b'"keys_below":1001', b'"keys_below":1000'))
        again = self.opened_again()
        with pytest.raises(StoreDamaged, match=r"store\.json"):
            again.acquire([Claim(header=new_header("wrack"), holder=OURS, ttl_s=60.0)])
        assert "kelp" == again.list_states()[0].state_id
        assert [False] == [flaw.is_mended for flaw in again.examine_store()]
        assert [True] == [flaw.is_mended for flaw in again.examine_store(repair=True)]
        (grant,) = again.acquire([Claim(header=new_header("wrack"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        assert granted(grant).key > first.key
        assert store_id == self.opened_again().store_id

    def test_keys_grow_also_where_what_counts_them_is_lost(self) -> None:
        keys = [self.lease("a").key, self.lease("b").key]
        (self.path / "lock").write_bytes(b"")
        self._opened.append(self.make_backend(self.clock))
        (grant,) = self._opened[-1].acquire([Claim(header=new_header("c"), holder=OURS, ttl_s=60.0)])
        assert grant is not None
        keys.append(granted(grant).key)
        keys.append(self.lease("d").key)
        assert sorted(set(keys)) == keys

    def test_a_lock_that_is_not_given_back_is_waited_for_and_then_told(self) -> None:
        lease = self.lease("kelp")
        with (
            FileSystemStateBackend(self.path, "normal", lock_timeout_s=0.02) as impatient,
            (self.folder() / "lock").open("rb") as held,
        ):
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(BackendUnavailable):
                impatient.renew([lease], 60.0)
            fcntl.flock(held, fcntl.LOCK_UN)
            assert [True] == impatient.renew([lease], 60.0)

    def test_many_states_are_written_with_few_files_open(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        leases = [self.lease(f"kelp-{number}") for number in range(140)]
        for _ in range(2):
            for number, lease in enumerate(leases):
                assert self.append(lease, 1, b"%d" % number) is None
        assert len(os.listdir("/proc/self/fd")) < before + 320
        assert [b"139"] == self.bodies("kelp-139")
        self.backend.close()
        assert before == len(os.listdir("/proc/self/fd"))

    def test_one_call_appends_to_more_states_than_are_kept_open(self) -> None:
        leases = [self.lease(f"kelp-{number}") for number in range(120)]
        for seq, body in ((1, b"one"), (2, b"two")):
            assert [None] * 120 == self.backend.append([Append(lease, seq, (body,)) for lease in leases])
        assert {2} == {header.position for header in self.backend.list_states(limit=200)}
        assert [b"one", b"two"] == self.bodies("kelp-119")

    def test_a_child_process_does_not_share_the_locks_of_its_parent(self) -> None:
        lease = self.lease("kelp", b"one")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, b"%d" % (self.append(lease, 2, b"two") is None))
            os._exit(0)
        assert b"1" == os.read(reading, 1)
        os.waitpid(child, 0)
        for handle in (reading, writing):
            os.close(handle)
        assert self.append(lease, 3, b"three") is None
        assert [b"one", b"two", b"three"] == self.bodies()

    def test_a_lease_file_that_is_damaged_counts_as_run_out(self) -> None:
        lease = self.lease("kelp", b"one")
        (self.folder() / "lease.json").write_bytes(b"{}")
        assert self.header().holder is None
        assert [True] == [flaw.is_harmless for flaw in self.backend.examine("kelp")]
        taken = granted(self.acquire(holder=Holder("there", "", "", 1, "", "")))
        assert taken.fence == lease.fence + 1
        assert [] == self.backend.examine("kelp")
