"""What the contract says of where a journal ends, of headers that are written anew, and of records in a new format."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from limpet.backends.contract import Append, StateUpdate
from limpet.errors import LeaseLost, PositionTaken
from limpet.model import End, StateMetadata, StateStatus
from limpet.testing.conformance.case import BEGINNING, BackendCase, new_header, raised


class HeaderConformance(BackendCase):
    """``StateHeader.end``, ``StateUpdate.header`` and ``rewrite``."""

    def test_a_new_state_has_the_end_of_its_claim(self) -> None:
        header = msgspec.structs.replace(new_header("kelp"), end=End(2, 4_000_000_000))
        self.lease("kelp", b"one", b"two", header=header)
        assert End(2, 4_000_000_000) == self.header().end
        assert End(2, 4_000_000_000) == self.opened_again().list_states()[0].end
        self.lease("wrack")
        assert self.header("wrack").end is None

    def test_the_end_changes_with_an_update_and_stays_with_records_alone(self) -> None:
        lease = self.lease("kelp", b"one")
        update = StateUpdate(at=self.clock.now, status=StateStatus.FAILED, end=End(2, 7))
        assert self.append(lease, 2, b"two", update=update) is None
        assert self.append(lease, 3, b"three") is None
        assert (End(2, 7), 3) == (self.header().end, self.header().position)
        assert self.update(lease, metadata=StateMetadata(tags=["x"])) is None
        assert End(2, 7) == self.header().end
        assert End(2, 7) == self.opened_again().list_states(tags=["x"])[0].end

    def test_a_sound_header_is_not_damaged(self) -> None:
        self.lease("kelp", b"one")
        assert self.header().damage is None
        assert [] == [flaw for flaw in self.backend.examine("kelp") if not flaw.is_harmless]
        assert [] == [flaw for flaw in self.backend.examine_store() if not flaw.is_harmless]

    def test_a_header_is_written_anew_as_a_whole(self) -> None:
        old = new_header("kelp", metadata=StateMetadata(tags=["old"], pipeline_name="old"), agent="m:old", timeline=1)
        lease = self.lease("kelp", b"one", b"two", header=old)
        self.fork("fork", "kelp", 1)
        metadata = StateMetadata(tags=["new"], pipeline_name="new", parent_state_id="parent", custom_data={"k": 1})
        new = msgspec.structs.replace(
            new_header("kelp", status=StateStatus.PAUSED, metadata=metadata, agent="m:new", timeline=2),
            created_at=BEGINNING - timedelta(days=30),
            updated_at=BEGINNING - timedelta(days=20),
            end=End(2, 9),
        )
        assert self.append(lease, 1, update=StateUpdate(at=self.clock.now, header=new)) is None
        holder = self.header().holder
        assert msgspec.structs.replace(new, position=2, holder=holder) == self.header()
        assert (["kelp"], []) == (self.listed(tags=["new"]), self.listed(tags=["old"]))
        assert (["kelp"], []) == (self.listed(parent_state_id="parent"), self.listed(pipeline_name="old"))
        assert ["fork", "kelp"] == self.listed()
        assert self.header() == self.opened_again().find_state("kelp")

    def test_a_header_that_is_written_anew_keeps_what_the_state_shares(self) -> None:
        self.lease("kelp", b"1", b"2")
        fork = self.fork("fork", "kelp", 2, b"own")
        bases = self.header("fork").bases
        assert self.append(fork, 1, update=StateUpdate(at=self.clock.now, header=new_header("other"))) is None
        assert ("fork", bases, 3) == (
            self.header("fork").state_id,
            self.header("fork").bases,
            self.header("fork").position,
        )
        assert [b"1", b"2", b"own"] == self.bodies("fork")

    def test_records_are_rewritten_in_their_places(self) -> None:
        kelp = self.lease("kelp", b"1", b"2", b"3")
        fork = self.fork("fork", "kelp", 2, b"own 3")
        update = StateUpdate(at=self.clock.now, end=End(3, 33))
        self.backend.rewrite(
            [Append(kelp, 1, (b"one", b"two, and longer", b""), update), Append(fork, 3, (b"own three",))]
        )
        assert [(1, b"one"), (2, b"two, and longer"), (3, b"")] == self.backend.read("kelp")
        assert [(1, b"one"), (2, b"two, and longer"), (3, b"own three")] == self.backend.read("fork")
        assert (End(3, 33), BEGINNING) == (self.header().end, self.header().updated_at)
        assert self.append(kelp, 4, b"four") is None
        assert self.append(fork, 4, b"own four") is None
        again = self.opened_again()
        assert [b"one", b"two, and longer", b"", b"four"] == [body for _, body in again.read("kelp")]
        assert [b"one", b"two, and longer", b"own three", b"own four"] == [body for _, body in again.read("fork")]

    def test_some_records_are_rewritten_and_the_others_stay(self) -> None:
        lease = self.lease("kelp", b"1", b"2", b"3", b"4")
        self.backend.rewrite([Append(lease, 2, (b"two", b"three"))])
        assert [b"1", b"two", b"three", b"4"] == self.bodies()
        self.backend.rewrite([])
        assert [b"1", b"two", b"three", b"4"] == self.bodies()

    def test_records_that_others_share_are_not_rewritten_without_them(self) -> None:
        kelp = self.lease("kelp", b"1", b"2", b"3", b"4")
        fork = self.fork("fork", "kelp", 2, b"own 3")
        raised(PositionTaken, lambda: self.backend.rewrite([Append(kelp, 2, (b"two", b"three"))]))
        assert [b"1", b"2", b"3", b"4"] == self.bodies("kelp")
        self.backend.rewrite([Append(kelp, 3, (b"three", b"four"))])
        assert [b"1", b"2", b"three", b"four"] == self.bodies("kelp")
        self.backend.delete_state("fork", fork)
        self.backend.rewrite([Append(kelp, 1, (b"one", b"two"))])
        assert [b"one", b"two", b"three", b"four"] == self.bodies("kelp")

    def test_a_rewriting_that_is_refused_changes_nothing(self) -> None:
        kelp, lost = self.lease("kelp", b"1", b"2"), self.lease("lost", b"1")
        fork = self.fork("fork", "kelp", 2, b"3")
        self.taken_over(lost)
        good = Append(kelp, 1, (b"one", b"two"))
        raised(LeaseLost, lambda: self.backend.rewrite([good, Append(lost, 1, (b"one",))]))
        for refused in (
            Append(kelp, 2, (b"two", b"three")),
            Append(kelp, 0, (b"zero",)),
            Append(fork, 2, (b"not its own",)),
            Append(fork, 4, (b"four",)),
        ):
            raised(PositionTaken, lambda refused=refused: self.backend.rewrite([good, refused]))
        assert ([b"1", b"2"], [b"1"]) == (self.bodies("kelp"), self.bodies("lost"))
        assert [b"1", b"2", b"3"] == self.bodies("fork")
