"""What the contract says of long listings, of deleting many states, and of the room that states take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from limpet.model import Room, StateHeader, StateMetadata, StateStatus
from limpet.testing.conformance.case import BEGINNING, BackendCase, new_header


class RoomConformance(BackendCase):
    """``list_states`` page by page, ``delete_states`` and ``measure``."""

    def test_a_long_listing_is_read_page_by_page(self) -> None:
        # Three are created at each moment, so that pages end among them.
        for number in range(12):
            status = StateStatus.FAILED if number % 2 else StateStatus.COMPLETED
            metadata = StateMetadata(tags=["x"], pipeline_name=f"p{number % 3}", parent_state_id="kelp")
            created_at = BEGINNING + timedelta(seconds=number // 3)
            header = new_header(f"kelp-{number}", status=status, created_at=created_at, metadata=metadata)
            self.update(self.lease(header=header), releases=True)
        queries: tuple[dict[str, Any], ...] = (
            {},
            {"status": StateStatus.FAILED},
            {"pipeline_name": "p1"},
            {"tags": ["x"]},
            {"parent_state_id": "kelp"},
        )
        for query in queries:
            whole = self.backend.list_states(**query)
            pages: list[StateHeader] = []
            last: StateHeader | None = None
            while page := self.backend.list_states(**query, before=last, limit=2):
                pages += page
                last = page[-1]
            assert whole == pages
            assert len(whole) >= 4

    def test_a_page_begins_where_a_deleted_state_stood_and_misses_none(self) -> None:
        for state_id in ("a", "b", "c", "d"):
            created_at = BEGINNING + timedelta(seconds=state_id > "a")
            self.update(self.lease(header=new_header(state_id, created_at=created_at)), releases=True)
        (_, last) = self.backend.list_states(limit=2)
        assert "c" == last.state_id
        self.backend.delete_state("c")
        assert ["d", "b", "a"] == [header.state_id for header in self.backend.list_states(before=last)]
        self.lease(header=new_header("c", created_at=BEGINNING + timedelta(days=1)))
        assert ["d", "b", "a"] == [header.state_id for header in self.backend.list_states(before=last)]

    def test_many_states_are_deleted_at_once(self) -> None:
        leases = [self.lease(f"kelp-{number}", b"one") for number in range(5)]
        lost = leases[2]
        self.taken_over(lost)
        self.backend.delete_state("kelp-3", leases[3])
        assert [True, True, False, False, True] == self.backend.delete_states(leases)
        assert ["kelp-2"] == self.listed()
        assert [b"one"] == self.bodies("kelp-2")
        assert [] == self.backend.delete_states([])

    def test_a_parent_and_its_fork_are_deleted_at_once(self) -> None:
        kelp = self.lease("kelp", b"1", b"2", b"3")
        fork = self.fork("fork", "kelp", 2, b"own")
        other = self.fork("other", "kelp", 1, b"own")
        assert [True, True] == self.backend.delete_states([kelp, fork])
        assert [b"1", b"own"] == self.bodies("other")
        assert [True] == self.backend.delete_states([other])
        assert [] == self.listed()

    def test_a_state_takes_more_room_with_each_record(self) -> None:
        lease = self.lease("kelp", b"one")
        small = self._room("kelp")
        self.append(lease, 2, bytes(1000))
        large = self._room("kelp")
        assert small.key == large.key
        assert 1000 <= large.bytes - small.bytes <= 3000
        assert () == large.shared

    def test_room_is_measured_in_the_order_of_the_ids_and_is_none_for_what_is_not_there(self) -> None:
        self.lease("kelp", bytes(5000))
        self.lease("wrack", b"one")
        wrack, nothing, kelp = self.backend.measure(["wrack", "nowhere", "kelp"])
        assert nothing is None
        assert (self._room("wrack"), self._room("kelp")) == (wrack, kelp)
        assert [] == self.backend.measure([])

    def test_a_state_of_the_same_id_has_another_key(self) -> None:
        lease = self.lease("kelp", b"one")
        before = self._room("kelp")
        self.backend.delete_state("kelp", lease)
        self.lease("kelp", b"two")
        assert before.key != self._room("kelp").key

    def test_a_fork_names_what_it_keeps_of_others(self) -> None:
        self.lease("kelp", bytes(4000), bytes(4000), bytes(4000))
        self.fork("fork", "kelp", 2, bytes(4000))
        self.fork("again", "fork", 3)
        kelp, fork, again = self._room("kelp"), self._room("fork"), self._room("again")
        assert [(kelp.key, 2)] == [(each.key, each.last) for each in fork.shared]
        assert [(kelp.key, 2), (fork.key, 3)] == [(each.key, each.last) for each in again.shared]
        assert fork.shared[0].bytes == again.shared[0].bytes
        assert 8000 <= fork.shared[0].bytes < kelp.bytes
        assert fork.bytes < kelp.bytes - 4000
        assert again.bytes < 4000

    def test_what_a_fork_keeps_stays_as_large_when_its_owner_is_deleted(self) -> None:
        lease = self.lease("kelp", bytes(4000), bytes(4000), bytes(4000))
        self.fork("fork", "kelp", 2, b"own")
        before = self._room("fork")
        self.backend.delete_state("kelp", lease)
        assert before == self._room("fork")
        self.lease("kelp", b"another")
        assert before.shared[0].key != self._room("kelp").key

    def _room(self, state_id: str) -> Room:
        (room,) = self.backend.measure([state_id])
        assert room is not None
        return room
