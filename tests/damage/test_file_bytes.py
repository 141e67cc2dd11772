"""Every byte of the files of a state is flipped; they are cut anywhere; lines are removed, repeated and swapped."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from damage.checking import Sound, checked, require_others_untouched
from damage.damaged_store import BITS, STATES, DamagedStore, flipped
from damage.small_program import fill

from limpet import FileSystemStateBackend

JOURNAL = "journal-000000001.jsonl"
DERIVED = ("header.json", "lease.json")


class Store(DamagedStore):
    """One folder of states."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "sound", folder / "store", lambda path: FileSystemStateBackend(path, "normal"))

    def restore(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self._sound, self.path)

    def read(self, state_id: str, name: str) -> bytes:
        return (self._sound / "states" / state_id / name).read_bytes()

    def write(self, state_id: str, name: str, data: bytes) -> None:
        (self.path / "states" / state_id / name).write_bytes(data)


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("files"))


@pytest.fixture
def store(whole_store: Store) -> Store:
    whole_store.reset()
    return whole_store


@pytest.mark.parametrize(("state_id", "turn"), [("done", 0), ("done", 1), ("done", 2), ("stopped", 0)], ids=str)
def test_every_flipped_byte_of_a_journal_is_detected_or_harmless(store: Store, state_id: str, turn: int) -> None:
    data = store.read(state_id, JOURNAL)
    outcomes: Counter[str] = Counter()
    for place in range(len(data)):
        # In three turns each byte is flipped at three bits.
        store.write(state_id, JOURNAL, flipped(data, place, BITS[(place + turn) % 3]))
        is_tried = place % 23 == turn
        outcomes[store.met(state_id, recovers=is_tried, resumes=is_tried and place % 3 == 0)] += 1
    store.reset()
    assert outcomes["detected"] > len(data) / 2
    assert outcomes["lost"] < len(data) / 8, "the line of the first record alone"


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("state_id", STATES)
def test_every_flipped_byte_of_what_is_derived_is_harmless(store: Store, state_id: str, name: str) -> None:
    data = store.read(state_id, name)
    for place in range(len(data)):
        for bit in BITS:
            store.write(state_id, name, flipped(data, place, bit))
            assert "harmless" == store.met(state_id, resumes=(place, bit) == (30, 0), recovers=False)
    store.reset()
    for length in range(len(data)):
        store.write(state_id, name, data[:length])
        assert "harmless" == store.met(state_id, recovers=False)
    store.reset()


@pytest.mark.parametrize("state_id", STATES)
def test_a_journal_cut_to_any_length_is_detected_or_as_if_its_process_had_died_there(
    store: Store, state_id: str
) -> None:
    data = store.read(state_id, JOURNAL)
    outcomes: Counter[str] = Counter()
    for length in range(len(data)):
        store.write(state_id, JOURNAL, data[:length])
        outcomes[store.met(state_id, recovers=length % 15 == 0, resumes=length % 45 == 0)] += 1
    store.reset()
    assert outcomes["detected"] > len(data) / 2


@pytest.mark.parametrize("state_id", STATES)
def test_lines_that_are_removed_repeated_or_swapped_are_detected_or_harmless(store: Store, state_id: str) -> None:
    lines = store.read(state_id, JOURNAL).splitlines(keepends=True)
    for number, line in enumerate(lines):
        store.write(state_id, JOURNAL, b"".join(lines[:number] + lines[number + 1 :]))
        removed = store.met(state_id, resumes=True)
        is_record = b'"record":' in line
        assert not is_record or removed in ("detected", "lost")
        store.write(state_id, JOURNAL, b"".join([*lines[: number + 1], line, *lines[number + 1 :]]))
        assert store.met(state_id, resumes=True) in ("detected", "harmless")
        for other in range(number + 1, len(lines)):
            swapped = list(lines)
            swapped[number], swapped[other] = swapped[other], swapped[number]
            store.write(state_id, JOURNAL, b"".join(swapped))
            assert store.met(state_id, resumes=other == number + 1) in ("detected", "lost", "harmless")


def test_lines_of_another_state_are_never_taken_for_its_own(store: Store) -> None:
    lines, others = (store.read(state_id, JOURNAL).splitlines(keepends=True) for state_id in STATES)
    for number in range(1, len(others)):
        store.write("done", JOURNAL, b"".join([*lines[:number], others[number], *lines[number + 1 :]]))
        assert store.met("done", resumes=True) in ("detected", "lost")
    store.write("done", JOURNAL, b"".join([lines[0], *others[1:]]))
    assert "lost" == store.met("done")
    store.write("done", JOURNAL, b"".join(others))
    assert "lost" == store.met("done")


def test_every_flipped_byte_of_packed_segments_is_detected_or_harmless(tmp_path: Path) -> None:
    path, sound_path = tmp_path / "store", tmp_path / "sound"
    with FileSystemStateBackend(sound_path, "normal", compression="zstd", segment_size=1200) as backend:
        fill(backend)
        sound = Sound(backend, "done")
    packed = sorted((sound_path / "states" / "done").glob("*.zst"))
    assert len(packed) > 1
    outcomes: Counter[str] = Counter()
    for file in packed:
        data = file.read_bytes()
        for place in range(len(data)):
            is_tried = place % 25 == 0
            if is_tried or not place or (place - 1) % 25 == 0:
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(sound_path, path)
            (path / "states" / "done" / file.name).write_bytes(flipped(data, place, place % 8))
            with FileSystemStateBackend(path, "normal") as backend:
                outcomes[checked(backend, sound, recovers=is_tried, resumes=is_tried)] += 1
    assert outcomes["detected"] > 0
    assert {"detected", "harmless", "lost"} >= outcomes.keys()


def test_a_state_without_its_journal_is_still_listed(store: Store) -> None:
    (store.path / "states" / "done" / JOURNAL).unlink()
    with FileSystemStateBackend(store.path, "normal") as backend:
        listed = {header.state_id: header.damage for header in backend.list_states()}
        assert {"done", "stopped"} == listed.keys()
        assert listed["done"] is not None
        require_others_untouched(backend, store.sound["stopped"])
    store.reset()
