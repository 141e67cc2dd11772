"""Exported states: one file or a folder, carried to another store and taken up there; damaged ones are refused."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import stat
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from acceptance.moving_stores import (
    KINDS,
    artifacts_in,
    executions,
    failing,
    fill,
    present,
    require_equal,
    stepping,
    told,
    writing,
)

from limpet import (
    ArtifactMissing,
    Encryption,
    ExecutionState,
    ImportTooLarge,
    Limpet,
    LimpetError,
    MemoryStateBackend,
    NotImported,
    StateCorrupted,
    StateMetadata,
    UnknownState,
    UnsupportedVersion,
    UsageError,
    WrongKey,
    new_key,
)

KEY = new_key()


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    failing.clear()


def resume(client: Limpet, state_id: str) -> Any:
    return asyncio.run(client.resume(state_id))


def in_memory(**settings: Any) -> Limpet:
    return Limpet(MemoryStateBackend(), **settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_folder", [False, True])
def test_every_sort_of_state_comes_back_in_every_byte(kind: str, as_folder: bool, tmp_path: Path) -> None:
    source = in_memory()
    fill(source)
    with KINDS[kind](tmp_path) as backend:
        target = Limpet(backend)
        for state_id in present():
            path = source.export(state_id, tmp_path / f"{state_id}.export", as_folder=as_folder)
            assert path.is_dir() is as_folder
            assert state_id == target.import_(path)
            # Once more changes nothing.
            assert state_id == target.import_(path)
        require_equal(source, target, present())
        assert artifacts_in(source) == artifacts_in(target)
        assert sorted(present()) == sorted(header.state_id for header in target.list_states())


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_begun_in_one_store_ends_in_another(kind: str, tmp_path: Path) -> None:
    source = in_memory()
    failing.add("end")
    with pytest.raises(LookupError):
        source.run_sync(writing, "end", state_id="x")
    path = source.export("x", tmp_path / "x.zip")
    failing.clear()
    executions.clear()
    with KINDS[kind](tmp_path) as backend:
        target = Limpet(backend)
        target.import_(path)
        assert ["kelp " * 10_000, "kelp " * 60_000, "end/1"] == resume(target, "x")
    assert Counter(end=1) == executions


def test_an_encrypted_state_stays_encrypted_and_needs_its_key(tmp_path: Path) -> None:
    source = in_memory(encryption=Encryption(KEY))
    result = source.run_sync(writing, "treasure", state_id="x")
    path = source.export("x", tmp_path / "x", as_folder=True)
    assert not any(b"treasure" in file.read_bytes() for file in path.rglob("*") if file.is_file())
    target = in_memory(encryption=Encryption(KEY))
    assert "x" == target.import_(path)
    assert result == resume(target, "x")
    without, other = in_memory(), in_memory(encryption=Encryption(new_key()))
    for client in (without, other):
        with pytest.raises(WrongKey):
            client.import_(path)
        assert [] == client.list_states()
    with pytest.raises(WrongKey):
        Limpet(source.backend).export("x", tmp_path / "y.zip")
    assert ["x"] == os.listdir(tmp_path)


def test_what_is_exported_is_readable_json(tmp_path: Path) -> None:
    client = in_memory()
    metadata = StateMetadata(tags=["tide"], description="Ebbe und Flut, früh")
    client.run_sync(stepping, 2, state_id="x", metadata=metadata)
    client.fork("x", "step#2", new_state_id="y")
    path = client.export("y", tmp_path / "y", as_folder=True)
    manifest = json.loads((path / "limpet.json").read_text())
    assert ("limpet state", 1, "y", 3) == (
        *(manifest[key] for key in ("format", "version")),
        manifest["state"]["state_id"],
        manifest["records"],
    )
    assert [{"state_id": "x", "last": 2}] == manifest["state"]["bases"]
    assert "früh" in (path / "limpet.json").read_text()
    lines = [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]
    assert ["x", "x", None] == [line.get("owner") for line in lines[:3]]
    assert "stepping::step::tool_call" == lines[1]["record"]["event"]["address"]
    zipped = client.export("y", tmp_path / "y.zip")
    with zipfile.ZipFile(zipped) as file:
        assert {name: file.read(name) for name in file.namelist()} == {
            found.relative_to(path).as_posix(): found.read_bytes() for found in path.rglob("*") if found.is_file()
        }


def test_an_export_is_for_its_owner_alone_and_the_same_each_time(tmp_path: Path) -> None:
    client = in_memory()
    client.run_sync(writing, "end", state_id="x")
    file = client.export("x", tmp_path / "x.zip")
    folder = client.export("x", tmp_path / "x", as_folder=True)
    assert [0o600] == [stat.S_IMODE(file.stat().st_mode)]
    modes = {stat.S_IMODE(found.stat().st_mode) for found in folder.rglob("*") if found.is_file()}
    assert ({0o600}, 0o700) == (modes, stat.S_IMODE(folder.stat().st_mode))
    assert file.read_bytes() == client.export("x", tmp_path / "again.zip").read_bytes()
    assert {"x.zip", "x", "again.zip"} == set(os.listdir(tmp_path))


def test_an_export_replaces_only_an_export_and_only_where_that_is_asked_for(tmp_path: Path) -> None:
    client = in_memory()
    client.run_sync(stepping, 1, state_id="x")
    for as_folder in (False, True):
        path = client.export("x", tmp_path / f"{as_folder}", as_folder=as_folder)
        with pytest.raises(UsageError, match=r"There is something at .* already"):
            client.export("x", path, as_folder=as_folder)
        assert path == client.export("x", path, as_folder=as_folder, overwrite=True)
        assert "x" == in_memory().import_(path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "kelp.jpg").write_bytes(b"kelp")
    for as_folder in (False, True):
        with pytest.raises(UsageError, match="is not replaced"):
            client.export("x", tmp_path / "photos", as_folder=as_folder, overwrite=True)
    assert b"kelp" == (tmp_path / "photos" / "kelp.jpg").read_bytes()
    with pytest.raises(UsageError, match="cannot be written to"):
        client.export("x", tmp_path / "missing" / "x.zip")
    assert {"False", "True", "photos"} == set(os.listdir(tmp_path))


def test_a_state_that_cannot_be_exported_leaves_nothing_behind(tmp_path: Path) -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend)
    client.run_sync(writing, "end", state_id="x")
    with pytest.raises(UnknownState):
        client.export("y", tmp_path / "y.zip")
    assert client.artifacts is not None
    info = client.artifacts.list_artifacts()[0]
    client.artifacts.delete(info.artifact_id, info.put_at)
    with pytest.raises(ArtifactMissing):
        client.export("x", tmp_path / "x", as_folder=True)
    bodies = next(backend._by_id["x"].journal.sources()).bodies
    bodies[1] = bodies[1][:-1] + b"?"
    with pytest.raises(StateCorrupted, match="at record 2"):
        client.export("x", tmp_path / "x.zip")
    assert [] == os.listdir(tmp_path)


def test_an_import_shares_what_its_parent_has_there(tmp_path: Path) -> None:
    source, target = in_memory(), in_memory()
    source.run_sync(stepping, 3, state_id="x")
    source.fork("x", "step#2", new_state_id="y")
    child, parent = source.export("y", tmp_path / "y.zip"), source.export("x", tmp_path / "x.zip")
    target.import_(parent)
    target.import_(child)
    require_equal(source, target, ["x", "y"])
    target.delete("x")
    require_equal(source, target, ["y"])


def test_an_id_that_is_taken_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    source, target = in_memory(), in_memory()
    source.run_sync(writing, "end", state_id="x")
    target.run_sync(stepping, 1, state_id="x")
    path = source.export("x", tmp_path / "x.zip")
    before = told(target.backend.find_state("x")), target.backend.read("x")
    with pytest.raises(UsageError, match="Another state has the id 'x' in memory://: they differ from record 1 on"):
        target.import_(path)
    assert before == (told(target.backend.find_state("x")), target.backend.read("x"))
    assert {} == artifacts_in(target)


def test_an_import_goes_on_from_the_beginning_that_is_there_and_never_back(tmp_path: Path) -> None:
    source, target = in_memory(), in_memory()
    failing.add("s3")
    with pytest.raises(LookupError):
        source.run_sync(stepping, 3, state_id="x")
    early = source.export("x", tmp_path / "early.zip")
    failing.clear()
    resume(source, "x")
    late = source.export("x", tmp_path / "late.zip")
    target.import_(early)
    target.import_(late)
    require_equal(source, target, ["x"])
    with pytest.raises(UsageError, match="it has gone on there"):
        target.import_(early)
    require_equal(source, target, ["x"])


def same_or_refused(source: Limpet, path: Path) -> bool:
    """Whether an import of what may be damaged was refused; otherwise it has to be the very same state."""
    target = in_memory()
    try:
        target.import_(path)
    except (NotImported, UnsupportedVersion):
        assert [] == target.list_states()
        return True
    require_equal(source, target, ["x"])
    assert artifacts_in(source) == artifacts_in(target)
    return False


@pytest.fixture
def tiny() -> Limpet:
    """A state of few bytes, with an artifact."""
    client = in_memory()
    state = ExecutionState(state_backend=client.backend, state_id="x")
    state.storage.set_artifact("chart", b"kelp")
    return client


def flips(data: bytes) -> list[bytes]:
    """The data as often as it has bytes, each time with one bit of another byte changed."""
    return [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))]


def test_every_byte_of_an_exported_file_that_is_changed_is_noticed_or_does_not_matter(
    tiny: Limpet, tmp_path: Path
) -> None:
    path = tiny.export("x", tmp_path / "x.zip")
    whole = path.read_bytes()
    refused = 0
    for damaged in flips(whole):
        path.write_bytes(damaged)
        refused += same_or_refused(tiny, path)
    assert refused > len(whole) // 2
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(NotImported):
            in_memory().import_(path)


def test_every_byte_of_an_exported_folder_that_is_changed_is_noticed_or_does_not_matter(
    tiny: Limpet, tmp_path: Path
) -> None:
    folder = tiny.export("x", tmp_path / "x", as_folder=True)
    files = sorted(found for found in folder.rglob("*") if found.is_file())
    assert 3 == len(files)
    for file in files:
        whole = file.read_bytes()
        refused = 0
        for damaged in flips(whole):
            file.write_bytes(damaged)
            refused += same_or_refused(tiny, folder)
        # White space in the manifest does not matter.
        assert refused > len(whole) // 2
        for cut in (whole[:-1], whole + b"\n", b"", whole * 2):
            file.write_bytes(cut)
            assert same_or_refused(tiny, folder) or json.loads(cut) == json.loads(whole)
        file.unlink()
        with pytest.raises(NotImported, match=f"{file.name} is missing in it"):
            in_memory().import_(folder)
        file.mkdir()
        with pytest.raises(NotImported):
            in_memory().import_(folder)
        file.rmdir()
        file.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(whole)
        with pytest.raises(NotImported):
            in_memory().import_(folder)
        file.unlink()
        file.write_bytes(whole)
    assert not same_or_refused(tiny, folder)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tiny: Limpet, tmp_path: Path) -> None:
    folder = tiny.export("x", tmp_path / "x", as_folder=True)
    (folder / "journal.jsonl").unlink()
    os.mkfifo(folder / "journal.jsonl")
    with pytest.raises(NotImported, match=r"journal\.jsonl is no file"):
        in_memory().import_(folder)


def forged(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """An exported folder whose manifest was changed by somebody who knows how its checksum is made."""
    manifest = json.loads((path / "limpet.json").read_text())
    change(manifest)
    manifest["sha256"] = ""
    text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False)
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (path / "limpet.json").write_text(json.dumps(manifest))
    return path


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda manifest: manifest["state"].update(state_id="../../etc"), "cannot be a state id"),
        (lambda manifest: manifest["state"].update(timeline=10**30), "cannot be right"),
        (lambda manifest: manifest["state"].update(timeline=99), "cannot be right"),
        (lambda manifest: manifest["state"].update(created_at="2020-01-01T00:00:00"), "cannot be right"),
        (lambda manifest: manifest["state"].update(version=0), "cannot be right"),
        (lambda manifest: manifest["state"].update(bases=[{"state_id": "y", "last": 9}]), "are not in order"),
        (lambda manifest: manifest["state"].update(bases=[{"state_id": "y", "last": 1}]), "line 1 of journal"),
        (lambda manifest: manifest["state"]["metadata"].update(tags="kelp"), "cannot be read"),
        (lambda manifest: manifest["state"].update(more=1), "cannot be read"),
        (lambda manifest: manifest.update(records=2), "has 1 records instead of 2"),
        (lambda manifest: manifest.update(end="no hexad"), "cannot be right"),
        (lambda manifest: manifest.update(end=""), "cannot be right"),
        (lambda manifest: manifest.update(end="00000000"), "record 1 is damaged"),
        (
            lambda manifest: manifest["files"].update({"../x": {"size": 1, "sha256": "0" * 64}}),
            "does not belong into it",
        ),
        (lambda manifest: manifest["files"]["journal.jsonl"].update(size=-1), "has -1 bytes"),
        (lambda manifest: manifest["files"]["journal.jsonl"].update(size=10), "is longer than the 10 bytes"),
        (lambda manifest: manifest["files"]["journal.jsonl"].update(size=10**6), "is cut off"),
        (lambda manifest: manifest["files"].pop("journal.jsonl"), r"names no journal\.jsonl"),
        (lambda manifest: manifest.update(format="something else"), "does not say that it is an exported state"),
    ],
)
def test_a_forged_manifest_is_refused_with_the_reason(
    tiny: Limpet, tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    folder = forged(tiny.export("x", tmp_path / "x", as_folder=True), change)
    target = in_memory()
    with pytest.raises(NotImported, match=why):
        target.import_(folder)
    assert [] == target.list_states()
    assert {} == artifacts_in(target)


def test_an_artifact_that_is_left_out_is_missed(tiny: Limpet, tmp_path: Path) -> None:
    folder = tiny.export("x", tmp_path / "x", as_folder=True)
    name = f"artifacts/{hashlib.sha256(b'kelp').hexdigest()}"
    target = in_memory()
    with pytest.raises(ArtifactMissing):
        target.import_(forged(folder, lambda manifest: manifest["files"].pop(name)))
    assert [] == target.list_states()


def test_a_newer_export_is_told_from_a_damaged_one(tiny: Limpet, tmp_path: Path) -> None:
    folder = tiny.export("x", tmp_path / "x", as_folder=True)
    with pytest.raises(UnsupportedVersion, match="The exported state has format version 3"):
        in_memory().import_(forged(folder, lambda manifest: manifest.update(version=3, more="fields")))
    folder = tiny.export("x", tmp_path / "y", as_folder=True)
    with pytest.raises(UnsupportedVersion, match="State 'x' has format version 99"):
        in_memory().import_(forged(folder, lambda manifest: manifest["state"].update(version=99)))


def zipped(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


def test_a_zip_that_swells_is_read_no_further_than_it_says(tiny: Limpet, tmp_path: Path) -> None:
    folder = tiny.export("x", tmp_path / "x", as_folder=True)
    files = {found.relative_to(folder).as_posix(): found.read_bytes() for found in folder.rglob("*") if found.is_file()}
    bomb = zipped(tmp_path / "bomb.zip", files | {"journal.jsonl": bytes(50_000_000)})
    with pytest.raises(NotImported, match=r"journal\.jsonl is longer than"):
        in_memory().import_(bomb)
    bomb = zipped(tmp_path / "bomb.zip", files | {"limpet.json": b" " * 70_000_000})
    with pytest.raises(NotImported, match=r"limpet\.json is longer than"):
        in_memory().import_(bomb)
    other = zipped(tmp_path / "lzma.zip", files, zipfile.ZIP_LZMA)
    with pytest.raises(NotImported, match="compressed in a way that is not used here"):
        in_memory().import_(other)


@pytest.mark.parametrize("max_bytes", [0, -1, True, "10GB", 1.5])
def test_a_limit_that_is_no_number_of_bytes_is_refused(tiny: Limpet, tmp_path: Path, max_bytes: Any) -> None:
    path = tiny.export("x", tmp_path / "x.zip")
    with pytest.raises(UsageError, match="is no number of bytes"):
        in_memory().import_(path, max_bytes=max_bytes)


def test_more_is_imported_where_more_is_allowed(tmp_path: Path) -> None:
    source, target = in_memory(), in_memory()
    source.run_sync(writing, "end", state_id="x")
    path = source.export("x", tmp_path / "x.zip")
    with pytest.raises(ImportTooLarge, match=r"it has .* kB when it is unpacked") as caught:
        target.import_(path, max_bytes=100_000)
    assert (100_000, str(path)) == (caught.value.max_bytes, caught.value.path)
    assert ([], {}) == (target.list_states(), artifacts_in(target))
    assert "x" == target.import_(path, max_bytes=1_000_000)
    require_equal(source, target, ["x"])


NAMES = (
    *("../outside", "/outside", "C:\\outside", "\\\\host\\outside", "more", "", "Limpet.json", "./limpet.json"),
    *("limpet.json/x", "limpet.json\0x", "artifacts/../x", "artifacts/" + "f" * 63, "artifacts/" + "F" * 64, "a" * 256),
    *("artifacts/" + "0" * 64 + "/", "journal.jsonl ", "artifacts\\" + "0" * 64),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_zip_with_a_name_that_no_export_has_is_refused(tiny: Limpet, tmp_path: Path, name: str) -> None:
    path = tiny.export("x", tmp_path / "x.zip")
    with zipfile.ZipFile(path, "a") as file:
        info = zipfile.ZipInfo("x")
        info.filename = info.orig_filename = name
        file.writestr(info, b"x")
    target = in_memory()
    with pytest.raises(NotImported, match="which does not belong into an export"):
        target.import_(path)
    assert [] == target.list_states()
    assert ["x.zip"] == os.listdir(tmp_path)


def test_a_zip_with_a_link_or_a_file_twice_is_refused(tiny: Limpet, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"kelp").hexdigest()
    path = tiny.export("x", tmp_path / "x.zip")
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr(f"artifacts/{digest}", b"kelp")
    with pytest.raises(NotImported, match=f"artifacts/{digest} is in it twice"):
        in_memory().import_(path)
    path = tiny.export("x", tmp_path / "y.zip")
    with zipfile.ZipFile(path, "a") as file:
        info = zipfile.ZipInfo("artifacts/" + "0" * 64)
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/passwd")
    with pytest.raises(NotImported, match="is no file"):
        in_memory().import_(path)


def test_an_export_that_was_packed_again_by_another_program_is_read(tiny: Limpet, tmp_path: Path) -> None:
    folder = tiny.export("x", tmp_path / "x", as_folder=True)
    with zipfile.ZipFile(tmp_path / "again.zip", "w") as file:
        for found in sorted(folder.rglob("*")):
            file.write(found, found.relative_to(folder))
    assert not same_or_refused(tiny, tmp_path / "again.zip")


def test_a_folder_of_artifacts_that_is_a_link_is_not_followed(tiny: Limpet, tmp_path: Path) -> None:
    folder = tiny.export("x", tmp_path / "x", as_folder=True)
    (folder / "artifacts").rename(tmp_path / "elsewhere")
    (folder / "artifacts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotImported):
        in_memory().import_(folder)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.zip")
    os.mkfifo(tmp_path / "x.json")
    (tmp_path / "states").mkdir()
    os.mkfifo(tmp_path / "states" / "x.json")
    for path in (tmp_path / "x.zip", tmp_path / "x.json", tmp_path):
        with pytest.raises(NotImported, match="is no file"):
            in_memory().import_(path)


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    client = in_memory()
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("kelp")
    buffer = io.BytesIO()
    with closing(zipfile.ZipFile(buffer, "w")) as file:
        file.writestr("kelp.txt", "kelp")
    (tmp_path / "other.zip").write_bytes(buffer.getvalue())
    for name, why in (
        ("nothing", "it is not there"),
        ("empty", "limpet.json is missing in it"),
        ("text", "it is no zip file"),
        ("other.zip", "limpet.json is missing in it"),
    ):
        with pytest.raises(NotImported, match=why) as caught:
            client.import_(tmp_path / name)
        assert "Nothing was changed." in str(caught.value)
        assert isinstance(caught.value, LimpetError)


def test_progress_is_told_file_by_file(tmp_path: Path) -> None:
    client = in_memory()
    client.run_sync(writing, "end", state_id="x")
    told_of: list[tuple[int, int]] = []
    path = client.export("x", tmp_path / "x.zip", on_progress=lambda done, total, _: told_of.append((done, total)))
    in_memory().import_(path, on_progress=lambda done, total, _: told_of.append((done, total)))
    assert [(1, 3), (2, 3), (3, 3)] * 2 == told_of


def test_a_damaged_disk_between_checking_and_storing_is_noticed(tmp_path: Path) -> None:
    client = in_memory()
    client.run_sync(writing, "end", state_id="x")
    folder = client.export("x", tmp_path / "x", as_folder=True)
    target = in_memory()

    def wear(done: int, total: int, name: str) -> None:
        if done == total:
            (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)

    with pytest.raises(LimpetError):
        target.import_(folder, on_progress=wear)
    assert [] == target.list_states()
