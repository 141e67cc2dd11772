"""Artifacts in a folder: what is made, what is recognised, what is refused, and what damage does."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from backends.bounds import NOBODY, as_ordinary_user, files_limited_to

from limpet.backends.compression import decompressed
from limpet.backends.files import FileSystemArtifactBackend
from limpet.backends.files.faults import translated
from limpet.backends.files.stored import put_later
from limpet.errors import (
    ArtifactCorrupted,
    ArtifactMissing,
    BackendError,
    BackendUnavailable,
    NotAStore,
    StoreFull,
    StoreNotWritable,
    UnsupportedVersion,
    UsageError,
)
from limpet.model.artifacts import CHUNK, Content, Pin, content_of
from limpet.testing.conformance.artifact_case import id_of, noise, prose

PIN = Pin("0123456789abcdef" * 2, "kelp", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a" / "artifacts"


@pytest.fixture
def backend(path: Path) -> Iterator[FileSystemArtifactBackend]:
    with FileSystemArtifactBackend(path, "normal", lock_timeout_s=0.05) as backend:
        yield backend


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach, and owns."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, -1)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)
    shutil.rmtree(folder)


def _put(backend: FileSystemArtifactBackend, data: bytes, pin: Pin | None = None) -> str:
    backend.put(id_of(data), content_of(data), pin)
    return id_of(data)


def _read(backend: FileSystemArtifactBackend, artifact_id: str) -> bytes:
    return b"".join(backend.read(artifact_id))


def _file(path: Path, artifact_id: str) -> Path:
    digits = artifact_id.removeprefix("sha256:")
    (found,) = (path / digits[:2]).glob(f"{digits[2:]}*")
    return found


def _entries(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


def test_nothing_is_made_before_something_is_put(path: Path) -> None:
    with FileSystemArtifactBackend(path) as backend:
        assert ([], {}, {}) == (backend.list_artifacts(), backend.pins(), backend.stores())
        assert backend.find(id_of(b"x")) is None
        assert not backend.delete(id_of(b"x"), 1.0)
        backend.unpin([PIN])
        with pytest.raises(ArtifactMissing):
            backend.read(id_of(b"x"))
    assert not path.parent.exists()


def test_files_and_folders_are_for_their_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        with FileSystemArtifactBackend(path) as backend:
            for data in (b"raw", prose(5000)):
                _put(backend, data, PIN)
            backend.enlist(PIN.store_id, "ours")
            backend.delete(id_of(b"raw"), cast(Any, backend.find(id_of(b"raw"))).put_at)
    finally:
        os.umask(before)
    modes = {(entry.is_dir(), stat.S_IMODE(entry.stat().st_mode)) for entry in (path.parent, path, *_entries(path))}
    assert {(True, 0o700), (False, 0o600)} == modes


def test_the_layout_is_the_one_that_is_written_down(path: Path, backend: FileSystemArtifactBackend) -> None:
    raw, packed = _put(backend, b"raw", PIN), _put(backend, prose(5000))
    backend.enlist(PIN.store_id, "ours")
    raw_hex, packed_hex = raw.removeprefix("sha256:"), packed.removeprefix("sha256:")
    files = {str(entry.relative_to(path)) for entry in _entries(path) if entry.is_file()}
    assert {
        "format",
        "lock",
        f"{raw_hex[:2]}/{raw_hex[2:]}",
        f"{packed_hex[:2]}/{packed_hex[2:]}.zst",
        f"pins/{PIN.store_id}.kelp.1/{raw_hex}",
        f"stores/{PIN.store_id}",
    } == files
    assert b"limpet artifacts 1\n" == (path / "format").read_bytes()
    assert b"raw" == _file(path, raw).read_bytes()
    assert b'{"name":"ours"}' == (path / "stores" / PIN.store_id).read_bytes()
    assert [] == list((path / "tmp").iterdir())


def test_the_time_of_a_file_is_that_of_its_put(path: Path) -> None:
    with FileSystemArtifactBackend(path, clock=lambda: 1_700_000_000.25) as backend:
        artifact_id = _put(backend, b"content")
        assert 1_700_000_000_250_000_000 == _file(path, artifact_id).stat().st_mtime_ns


def test_what_is_large_and_cannot_be_compressed_is_kept_as_it_is(
    path: Path, backend: FileSystemArtifactBackend
) -> None:
    data = noise(3 * CHUNK)
    assert data == _file(path, _put(backend, data)).read_bytes()


def test_a_path_may_be_relative_and_hold_any_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with FileSystemArtifactBackend("a ?b#c%20'é/artifacts") as backend:
        monkeypatch.chdir(tmp_path / "elsewhere")
        _put(backend, b"content")
        assert f"file://{tmp_path.resolve()}/a ?b#c%20'é/artifacts" == backend.name
    assert (tmp_path / "a ?b#c%20'é" / "artifacts" / "format").exists()


def test_an_empty_folder_becomes_one_of_artifacts(path: Path) -> None:
    path.mkdir(parents=True)
    with FileSystemArtifactBackend(path) as backend:
        assert [] == list(path.iterdir())
        assert b"content" == _read(backend, _put(backend, b"content"))


@pytest.mark.parametrize("begun", [b"", b"limpet arti"])
def test_a_folder_whose_making_was_cut_short_is_finished(path: Path, begun: bytes) -> None:
    path.mkdir(parents=True)
    (path / "format").write_bytes(begun)
    with FileSystemArtifactBackend(path) as backend:
        assert [] == backend.list_artifacts()
        assert b"content" == _read(backend, _put(backend, b"content"))
    assert b"limpet artifacts 1\n" == (path / "format").read_bytes()


@pytest.mark.parametrize(
    ("name", "content"),
    [("mine.txt", b"mine"), ("format", b"something else"), ("format", b""), ("format", b"limpet artifacts x\n")],
)
def test_a_folder_with_something_else_is_refused_and_left_as_it_is(path: Path, name: str, content: bytes) -> None:
    path.mkdir(parents=True)
    (path / name).write_bytes(content)
    if not content:
        (path / "mine.txt").touch()
    before = _entries(path)
    with pytest.raises(NotAStore, match="the folder holds something else"):
        FileSystemArtifactBackend(path)
    assert (before, content) == (_entries(path), (path / name).read_bytes())


def test_something_else_that_came_before_the_first_put_is_left_as_it_is(path: Path) -> None:
    with FileSystemArtifactBackend(path) as backend:
        path.mkdir(parents=True)
        (path / "mine.txt").touch()
        with pytest.raises(NotAStore):
            _put(backend, b"content")
    assert [path / "mine.txt"] == _entries(path)


def test_a_newer_format_is_refused_and_left_as_it_is(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "format").write_bytes(b"limpet artifacts 2\n")
    with pytest.raises(UnsupportedVersion) as caught:
        FileSystemArtifactBackend(path)
    assert (2, 1) == (caught.value.found, caught.value.known)
    assert [path / "format"] == _entries(path)


def test_a_file_is_no_folder_of_artifacts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotAStore, match="it is not a folder"):
        FileSystemArtifactBackend(tmp_path / "file")
    with pytest.raises(StoreNotWritable, match="Not a directory"):
        FileSystemArtifactBackend(tmp_path / "file" / "below")


def test_a_tree_that_was_removed_is_made_anew(path: Path, backend: FileSystemArtifactBackend) -> None:
    _put(backend, b"before")
    shutil.rmtree(path)
    assert [] == backend.list_artifacts()
    assert b"after" == _read(backend, _put(backend, b"after"))
    assert (path / "format").exists()
    shutil.rmtree(path / "tmp")
    assert b"again" == _read(backend, _put(backend, b"again"))


def test_a_setting_that_does_not_exist_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="synchronous='off' is no setting"):
        FileSystemArtifactBackend(path, cast(Any, "off"))


def test_closed_artifacts_say_that_they_are_closed(backend: FileSystemArtifactBackend) -> None:
    backend.close()
    for use in (lambda: _put(backend, b"x"), lambda: backend.find(id_of(b"x")), backend.pins):
        with pytest.raises(UsageError, match="are closed"):
            use()


def test_a_reader_goes_on_although_the_artifact_is_deleted(backend: FileSystemArtifactBackend) -> None:
    data = noise(3 * CHUNK)
    reader = backend.read(_put(backend, data))
    begun = next(reader)
    assert backend.delete(id_of(data), cast(Any, backend.find(id_of(data))).put_at)
    assert data == begun + b"".join(reader)


@pytest.mark.parametrize("data", [b"x", b"a small content", noise(1500), prose(1500)])
def test_every_flipped_byte_and_every_cut_is_noticed(
    path: Path, backend: FileSystemArtifactBackend, data: bytes
) -> None:
    artifact_id = _put(backend, data)
    file = _file(path, artifact_id)
    body = file.read_bytes()
    damaged = [body[:at] + bytes([body[at] ^ flip]) + body[at + 1 :] for at in range(len(body)) for flip in (1, 0x80)]
    damaged += [body[:at] for at in range(len(body))] + [body + b"\0", b"", body * 2]
    for other in damaged:
        file.write_bytes(other)
        given: list[bytes] = []
        with pytest.raises(ArtifactCorrupted, match=artifact_id):
            given.extend(backend.read(artifact_id))
        assert data != b"".join(given)
        assert [artifact_id] == [info.artifact_id for info in backend.list_artifacts()]
    file.write_bytes(body)
    assert data == _read(backend, artifact_id)


def test_a_reader_never_has_all_of_a_damaged_content_in_hand(path: Path, backend: FileSystemArtifactBackend) -> None:
    for data in (noise(3 * CHUNK), prose(3 * CHUNK)):
        file = _file(path, _put(backend, data))
        body = bytearray(file.read_bytes())
        body[-1] ^= 1
        file.write_bytes(body)
        given: list[bytes] = []
        with pytest.raises(ArtifactCorrupted):
            given.extend(backend.read(id_of(data)))
        assert len(b"".join(given)) < len(data)


def test_a_bomb_is_not_unpacked(path: Path, backend: FileSystemArtifactBackend) -> None:
    bomb, small = bytes(60 * CHUNK), prose(5000)
    packed = _file(path, _put(backend, bomb)).read_bytes()
    file = _file(path, _put(backend, small))
    header = bytearray(file.read_bytes()[:24])
    header[16:24] = len(packed).to_bytes(8, "little")
    file.write_bytes(header + packed[24:])
    given: list[bytes] = []
    with pytest.raises(ArtifactCorrupted, match="unpacks to more than its size"):
        given.extend(backend.read(id_of(small)))
    assert [] == given


@pytest.mark.parametrize("data", [noise(3000), prose(30_000)])
@pytest.mark.parametrize("kept", [0, 10, 50])
def test_putting_again_mends_a_file_that_was_cut_short(
    path: Path, backend: FileSystemArtifactBackend, data: bytes, kept: int
) -> None:
    artifact_id = _put(backend, data)
    before = cast(Any, backend.find(artifact_id)).put_at
    file = _file(path, artifact_id)
    os.truncate(file, kept)
    os.utime(file, (before, before))
    assert backend.put(artifact_id, content_of(data), PIN)
    assert data == _read(backend, artifact_id)
    assert cast(Any, backend.find(artifact_id)).put_at > before


def test_putting_again_replaces_a_damaged_file_of_the_other_kind(
    path: Path, backend: FileSystemArtifactBackend
) -> None:
    data = prose(30_000)
    artifact_id = _put(backend, data)
    file = _file(path, artifact_id)
    file.rename(file.with_suffix(""))
    assert backend.put(artifact_id, content_of(data))
    assert file == _file(path, artifact_id)
    assert data == _read(backend, artifact_id)


def test_a_damaged_file_can_be_deleted_as_it_was_seen(path: Path, backend: FileSystemArtifactBackend) -> None:
    artifact_id = _put(backend, prose(5000))
    os.truncate(_file(path, artifact_id), 3)
    info = backend.find(artifact_id)
    assert info is not None
    assert 3 == info.size
    assert backend.delete(artifact_id, info.put_at)
    assert backend.find(artifact_id) is None


def test_a_link_in_place_of_content_is_not_followed(path: Path, backend: FileSystemArtifactBackend) -> None:
    artifact_id = _put(backend, b"content")
    outside = path.parent / "outside"
    outside.write_bytes(b"content")
    file = _file(path, artifact_id)
    for make in (lambda: file.symlink_to(outside), lambda: os.mkfifo(file)):
        file.unlink()
        make()
        assert (None, []) == (backend.find(artifact_id), backend.list_artifacts())
        with pytest.raises(ArtifactMissing):
            backend.read(artifact_id)
        assert not backend.delete(artifact_id, outside.stat().st_mtime)
    assert backend.put(artifact_id, content_of(b"content"))
    assert (b"content", False) == (_read(backend, artifact_id), file.is_symlink())
    assert b"content" == outside.read_bytes()


def test_a_link_in_place_of_a_folder_is_not_followed(path: Path, backend: FileSystemArtifactBackend) -> None:
    artifact_id = _put(backend, b"content", PIN)
    backend.enlist(PIN.store_id, "ours")
    outside = path.parent / "outside"
    outside.mkdir()
    for name in (artifact_id[7:9], "pins", "stores", "tmp"):
        shutil.copytree(path / name, outside / name)
        shutil.rmtree(path / name)
        (path / name).symlink_to(outside / name)
    before = _entries(outside)
    (outside / "tmp" / "leftover").touch()
    assert (None, [], {}, {}) == (
        backend.find(artifact_id),
        backend.list_artifacts(),
        backend.pins(),
        backend.stores(),
    )
    backend.unpin([PIN])
    for use in (lambda: _put(backend, b"content", PIN), lambda: backend.enlist(PIN.store_id, "theirs")):
        with pytest.raises(StoreNotWritable):
            use()
    assert before == [entry for entry in _entries(outside) if entry.name != "leftover"]
    assert (outside / "tmp" / "leftover").exists()


def test_a_link_in_place_of_a_file_of_the_tree_is_not_followed(path: Path, backend: FileSystemArtifactBackend) -> None:
    artifact_id = _put(backend, b"content", PIN)
    outside = path.parent / "outside"
    outside.write_bytes(b"mine")
    (path / "lock").unlink()
    (path / "lock").symlink_to(outside)
    with pytest.raises(StoreNotWritable, match="symbolic link"):
        _put(backend, b"other")
    assert [] == list((path / "tmp").iterdir())
    (path / "lock").unlink()
    (path / "deleted").symlink_to(outside)
    with pytest.raises(StoreNotWritable):
        backend.delete(artifact_id, cast(Any, backend.find(artifact_id)).put_at)
    assert (b"mine", b"content") == (outside.read_bytes(), _read(backend, artifact_id))


def test_what_is_not_ours_in_the_tree_is_passed_over(path: Path, backend: FileSystemArtifactBackend) -> None:
    artifact_id = _put(backend, b"content", PIN)
    backend.enlist(PIN.store_id, "ours")
    (path / "zz").mkdir()
    (path / "00").touch()
    (path / artifact_id[7:9] / "notes.txt").touch()
    (path / "pins" / "mine").mkdir()
    (path / "pins" / f"{PIN.store_id}.wrack.1").touch()
    (path / "pins" / f"{PIN.store_id}.kelp.1" / "mine").touch()
    (path / "stores" / "mine").touch()
    assert [artifact_id] == [info.artifact_id for info in backend.list_artifacts()]
    assert ({PIN: {artifact_id}}, {PIN.store_id: "ours"}) == (dict(backend.pins()), dict(backend.stores()))


@pytest.mark.parametrize("damage", [b"", b"[]", b"{"])
def test_a_store_whose_note_is_damaged_stays_enlisted(
    path: Path, backend: FileSystemArtifactBackend, damage: bytes
) -> None:
    backend.enlist(PIN.store_id, "ours")
    (path / "stores" / PIN.store_id).write_bytes(damage)
    assert {PIN.store_id: PIN.store_id} == dict(backend.stores())
    backend.enlist(PIN.store_id, "ours")
    assert {PIN.store_id: "ours"} == dict(backend.stores())


def test_leftovers_of_the_dead_are_cleared_when_the_tree_is_opened_or_listed(path: Path) -> None:
    with FileSystemArtifactBackend(path, "normal") as backend:
        _put(backend, b"content")
        leftover = path / "tmp" / "0123456789abcdef"
        for clear in (lambda: FileSystemArtifactBackend(path).close(), backend.list_artifacts):
            leftover.write_bytes(b"half")
            clear()
            assert not leftover.exists()
        (path / "tmp" / "folder").mkdir()
        (path / "tmp" / "link").symlink_to("nowhere")
        assert 1 == len(backend.list_artifacts())


def test_what_is_being_written_is_not_cleared(path: Path, backend: FileSystemArtifactBackend) -> None:
    data = noise(3 * CHUNK)

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]
            FileSystemArtifactBackend(path).close()
            assert [] == backend.list_artifacts()
            assert 1 == len(list((path / "tmp").iterdir()))

    assert backend.put(id_of(data), Content(len(data), chunks))
    assert data == _read(backend, id_of(data))


def test_a_new_file_that_is_cleared_before_it_is_locked_is_made_again(
    path: Path, backend: FileSystemArtifactBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(backend, b"first")
    flock = fcntl.flock
    cleared: list[str] = []

    def clears_first(handle: int, operation: int) -> None:
        if not cleared:
            for file in (path / "tmp").iterdir():
                cleared.append(file.name)
                file.unlink()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", clears_first)
    assert b"second" == _read(backend, _put(backend, b"second"))
    assert 1 == len(cleared)


def test_content_that_came_meanwhile_is_not_stored_twice(path: Path, backend: FileSystemArtifactBackend) -> None:
    data = prose(30_000)

    def chunks() -> Iterator[bytes]:
        assert backend.put(id_of(data), content_of(data))
        yield data

    before = cast(Any, backend.find(id_of(data)))
    assert before is None
    assert not backend.put(id_of(data), Content(len(data), chunks), PIN)
    assert {PIN: {id_of(data)}} == dict(backend.pins())
    assert [] == list((path / "tmp").iterdir())


def test_content_that_went_meanwhile_is_stored_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileSystemArtifactBackend(path) as backend:
        artifact_id = _put(backend, b"content")
        locked = backend._tree.locked

        @contextmanager
        def deletes_first(root: int) -> Generator[None]:
            monkeypatch.setattr(backend._tree, "locked", locked)
            assert backend.delete(artifact_id, cast(Any, backend.find(artifact_id)).put_at)
            with locked(root):
                yield

        monkeypatch.setattr(backend._tree, "locked", deletes_first)
        assert backend.put(artifact_id, content_of(b"content"))
        assert b"content" == _read(backend, artifact_id)


def test_a_tree_that_stays_locked_does_not_answer(path: Path, backend: FileSystemArtifactBackend) -> None:
    _put(backend, b"content")
    with FileSystemArtifactBackend(path) as other, other._tree.opened() as root:
        assert root is not None
        with (
            other._tree.locked(root),
            pytest.raises(BackendUnavailable, match="another process has kept it locked for too long"),
        ):
            _put(backend, b"content")
    assert not backend.put(id_of(b"content"), content_of(b"content"))


def test_a_put_without_room_leaves_nothing_and_can_be_repeated(path: Path, backend: FileSystemArtifactBackend) -> None:
    _put(backend, b"first")
    before = _entries(path)
    data = noise(3 * CHUNK)
    with files_limited_to(CHUNK + 5), pytest.raises(StoreFull, match="File too large"):
        backend.put(id_of(data), content_of(data), PIN)
    assert before == _entries(path)
    assert backend.put(id_of(data), content_of(data), PIN)
    assert data == _read(backend, id_of(data))


def test_a_tree_cannot_be_made_without_room(path: Path) -> None:
    with FileSystemArtifactBackend(path) as backend:
        with files_limited_to(3), pytest.raises(StoreFull):
            _put(backend, b"content")
        assert b"content" == _read(backend, _put(backend, b"content"))


def test_a_folder_that_may_not_be_written_is_named(open_folder: Path) -> None:
    with as_ordinary_user():
        path = open_folder / "artifacts"
        with FileSystemArtifactBackend(path) as backend:
            artifact_id = _put(backend, b"content")
            put_at = cast(Any, backend.find(artifact_id)).put_at
            for name, use in (
                ("tmp", lambda: _put(backend, b"other")),
                (artifact_id[7:9], lambda: backend.delete(artifact_id, put_at)),
            ):
                (path / name).chmod(0o500)
                with pytest.raises(StoreNotWritable, match="Permission denied"):
                    use()
                (path / name).chmod(0o700)
            assert b"content" == _read(backend, artifact_id)
            assert [] == list((path / "tmp").iterdir())
        open_folder.chmod(0o500)
        with FileSystemArtifactBackend(open_folder / "new") as new, pytest.raises(StoreNotWritable):
            _put(new, b"content")


def test_a_folder_that_may_be_written_and_not_listed_is_good_enough_to_stand_in(open_folder: Path) -> None:
    with as_ordinary_user():
        open_folder.chmod(0o300)
        with FileSystemArtifactBackend(open_folder / "artifacts") as backend:
            assert b"content" == _read(backend, _put(backend, b"content"))


def test_content_that_may_not_be_read_is_named(open_folder: Path) -> None:
    with as_ordinary_user():
        path = open_folder / "artifacts"
        with FileSystemArtifactBackend(path) as backend:
            artifact_id = _put(backend, b"content")
            _file(path, artifact_id).chmod(0)
            with pytest.raises(StoreNotWritable, match="Permission denied"):
                backend.read(artifact_id)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EROFS, StoreNotWritable),
        (errno.EACCES, StoreNotWritable),
        (errno.EIO, BackendUnavailable),
        (errno.EMFILE, BackendUnavailable),
    ],
)
def test_every_error_of_the_file_system_says_what_it_means(number: int, expected: type[BackendError]) -> None:
    ours = translated(OSError(number, os.strerror(number), "/a"), "file:///a")
    assert expected is type(ours)
    assert os.strerror(number) in str(ours)


def test_a_disk_that_fails_in_the_middle_of_reading_does_not_answer(
    backend: FileSystemArtifactBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = backend.read(_put(backend, b"content"))

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "read", fails)
    with pytest.raises(BackendUnavailable, match="Input/output error"):
        next(reader)
    monkeypatch.undo()


@pytest.mark.parametrize("granularity", [1, 10**9, 2 * 10**9])
def test_times_grow_also_where_the_file_system_keeps_whole_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, granularity: int
) -> None:
    utime = os.utime

    def coarse(file: int, *, ns: tuple[int, int]) -> None:
        utime(file, ns=cast(tuple[int, int], tuple(each // granularity * granularity for each in ns)))

    monkeypatch.setattr(os, "utime", coarse)
    with (tmp_path / "file").open("wb") as file:
        before = 1_700_000_000.0
        for _ in range(3):
            put_later(file.fileno(), 1_700_000_000.5, before)
            after = os.fstat(file.fileno()).st_mtime
            assert after > before
            before = after


def test_a_file_system_without_times_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "utime", lambda *_, **__: None)
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="does not keep the times"):
        put_later(file.fileno(), 1.0, 4e9)


def test_content_and_folder_are_synced_in_full_and_not_in_normal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def counting(handle: int) -> None:
        synced.append(handle)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", counting)
    monkeypatch.setattr(os, "fdatasync", counting)
    counts: dict[str, tuple[int, int]] = {}
    for synchronous in ("full", "normal"):
        with FileSystemArtifactBackend(tmp_path / synchronous, synchronous) as backend:
            _put(backend, b"first")
            synced.clear()
            _put(backend, b"second")
            new = len(synced)
            _put(backend, b"second", PIN)
            counts[synchronous] = (new, len(synced) - new)
    assert (0, 0) == counts["normal"]
    assert counts["full"][0] >= 3
    assert counts["full"][1] >= 2


def test_a_compressed_file_is_a_frame_that_is_skipped_and_one_with_the_content(
    path: Path, backend: FileSystemArtifactBackend
) -> None:
    data = prose(30_000)
    body = _file(path, _put(backend, data)).read_bytes()
    assert (b"\x50\x2a\x4d\x18", 16) == (body[:4], int.from_bytes(body[4:8], "little"))
    assert (30_000, len(body)) == (int.from_bytes(body[8:16], "little"), int.from_bytes(body[16:24], "little"))
    assert data == b"".join(decompressed([body[24:]], len(data)))


def test_importing_the_backends_does_not_import_zstandard() -> None:
    code = "import sys, limpet.backends.files; print([name for name in sys.modules if 'zstd' in name])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "[]\n" == said.stdout
