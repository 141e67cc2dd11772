"""Every byte of what SQLite holds of a state is flipped; records are cut, removed, repeated and swapped."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import apsw
import pytest
from damage.damaged_store import BITS, STATES, DamagedStore, flipped

from limpet import SQLiteStateBackend
from limpet.backends.sqlite.driver import Connection, connect

HEADER_TEXTS = ("status", "metadata", "agent", "pipeline_name")


class Store(DamagedStore):
    """One SQLite file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "sound.db", folder / "runs.db", lambda path: SQLiteStateBackend(path, "normal"))

    def restore(self) -> None:
        for path in self.path.parent.glob("runs.db*"):
            path.unlink()
        shutil.copy(self._sound, self.path)

    def other(self) -> Connection:
        return connect(str(self.path), apsw.SQLITE_OPEN_READWRITE)

    def change(self, *statements: tuple[str, tuple[bytes | int | str, ...]]) -> None:
        """Change the store, which is sound before and stays changed."""
        connection = self.other()
        try:
            connection.pragma("synchronous", "off")
            for statement, bindings in statements:
                connection.execute(statement, bindings)
        finally:
            connection.close()

    def rows(self, query: str, *bindings: str) -> list[tuple[object, ...]]:
        connection = self.other()
        try:
            return connection.execute(query, bindings).fetchall()
        finally:
            connection.close()

    def bodies(self, state_id: str) -> list[tuple[int, int, bytes]]:
        query = "SELECT state, seq, body FROM records WHERE state = (SELECT key FROM states WHERE state_id = ?)"
        return self.rows(query, state_id)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("payloads"))


@pytest.fixture
def store(whole_store: Store) -> Store:
    whole_store.reset()
    return whole_store


PUT = "UPDATE records SET body = ? WHERE state = ? AND seq = ?"


@pytest.mark.parametrize("state_id", STATES)
def test_every_flipped_byte_of_a_record_is_detected_and_what_stands_before_it_is_used(
    store: Store, state_id: str
) -> None:
    outcomes: Counter[tuple[int, str]] = Counter()
    for key, seq, body in store.bodies(state_id):
        store.reset()
        for place in range(len(body)):
            for bit in BITS:
                store.change((PUT, (flipped(body, place, bit), key, seq)))
                resumes = (place, bit) in ((0, 0), (4, 0), (5, 0), (len(body) - 1, 0))
                recovers = resumes or (bit == 0 and place % 8 == 0)
                outcomes[seq, store.met(state_id, resumes=resumes, recovers=recovers)] += 1
    assert {"lost"} == {outcome for (seq, outcome) in outcomes if seq == 1}
    assert {"detected"} == {outcome for (seq, outcome) in outcomes if seq > 1}


@pytest.mark.parametrize("state_id", STATES)
def test_a_record_cut_to_any_length_is_detected(store: Store, state_id: str) -> None:
    for key, seq, body in store.bodies(state_id):
        store.reset()
        for length in range(len(body)):
            store.change((PUT, (body[:length], key, seq)))
            outcome = store.met(state_id, recovers=length % 32 == 0, resumes=length == 32)
            assert ("lost" if seq == 1 else "detected") == outcome


@pytest.mark.parametrize("state_id", STATES)
def test_a_removed_record_is_detected_or_was_never_acknowledged_as_far_as_anybody_can_tell(
    store: Store, state_id: str
) -> None:
    bodies = store.bodies(state_id)
    for key, seq, _ in bodies:
        store.change(("DELETE FROM records WHERE state = ? AND seq = ?", (key, seq)))
        assert ("lost" if seq == 1 else "detected") == store.met(state_id, resumes=True)


def test_all_records_of_a_finished_state_that_are_removed_from_any_on_are_missed(store: Store) -> None:
    for key, seq, _ in store.bodies("done"):
        store.change(("DELETE FROM records WHERE state = ? AND seq >= ?", (key, seq)))
        assert ("lost" if seq == 1 else "detected") == store.met("done", resumes=True)


@pytest.mark.parametrize("state_id", STATES)
def test_a_record_in_the_place_of_another_is_detected(store: Store, state_id: str) -> None:
    bodies = store.bodies(state_id)
    for key, seq, body in bodies:
        for _, other, _ in bodies:
            if seq != other:
                store.change((PUT, (body, key, other)))
                assert ("lost" if other == 1 else "detected") == store.met(state_id, resumes=other == seq + 1)


@pytest.mark.parametrize("state_id", STATES)
def test_swapped_records_are_detected(store: Store, state_id: str) -> None:
    bodies = store.bodies(state_id)
    for key, seq, body in bodies:
        for _, other, other_body in bodies[seq:]:
            store.change((PUT, (body, key, other)), (PUT, (other_body, key, seq)))
            assert ("lost" if seq == 1 else "detected") == store.met(state_id, resumes=other == seq + 1)


def test_records_of_another_state_are_never_taken_for_its_own(store: Store) -> None:
    foreign = {seq: body for _, seq, body in store.bodies("stopped")}
    for key, seq, _ in store.bodies("done"):
        if seq in foreign:
            store.change((PUT, (foreign[seq], key, seq)))
            assert ("lost" if seq == 1 else "detected") == store.met("done", resumes=True)
    store.change(*((PUT, (body, key, seq)) for key, seq, _ in store.bodies("done") if (body := foreign.get(seq))))
    assert "lost" == store.met("done")


@pytest.mark.parametrize("column", HEADER_TEXTS)
@pytest.mark.parametrize("state_id", STATES)
def test_every_flipped_byte_of_a_header_is_detected_and_the_journal_is_used(
    store: Store, state_id: str, column: str
) -> None:
    ((text,),) = store.rows(f"SELECT {column} FROM states WHERE state_id = ?", state_id)
    data = str(text).encode()
    for place in range(len(data)):
        for bit in BITS:
            other = flipped(data, place, bit).decode("utf-8", "replace").replace("\0", "0")
            store.change((f"UPDATE states SET {column} = ? WHERE state_id = ?", (other, state_id)))
            # The agent of a damaged header may be damaged as well, so it cannot be resumed by that alone.
            assert "detected" == store.met(state_id, recovers=bit == 0 and place % 8 == 0)


@pytest.mark.parametrize(
    "column", ["created_at", "updated_at", "timeline", "end_seq", "end_link", "checksum", "version"]
)
def test_another_number_in_a_header_is_detected(store: Store, column: str) -> None:
    for bit in range(16):
        change = f"UPDATE states SET {column} = {column} + {1 << bit} WHERE state_id = 'done'"
        store.change((change, ()))
        assert "detected" == store.met("done", resumes=bit == 3)
