"""What the contract says of headers: how they change, how states are found, listed and deleted."""

from __future__ import annotations

from datetime import timedelta

from limpet.backends.contract import StateUpdate
from limpet.errors import LeaseHeld, LeaseLost
from limpet.model import StateMetadata, StateStatus
from limpet.model.header import utc
from limpet.testing.conformance.case import BEGINNING, OURS, BackendCase, granted, new_header, raised


class StateConformance(BackendCase):
    """Header updates, ``find_state``, ``list_states`` and ``delete_state``."""

    def test_a_state_that_does_not_exist_is_not_found(self) -> None:
        assert self.backend.find_state("nowhere") is None

    def test_a_header_shows_the_holder_only_as_long_as_the_lease_lasts(self) -> None:
        self.lease()
        assert OURS == self.header().holder
        self.clock.turn(60.0)
        assert self.header().holder is None

    def test_records_alone_do_not_change_when_a_state_was_updated(self) -> None:
        lease = self.lease()
        self.append(lease, 1, b"one")
        assert BEGINNING == self.header().updated_at

    def test_a_status_changes_with_the_time_of_the_change(self) -> None:
        lease = self.lease()
        assert self.append(lease, 1, b"one", update=StateUpdate(at=1_750_000_000.25, status=StateStatus.FAILED)) is None
        header = self.header()
        assert (StateStatus.FAILED, utc(1_750_000_000.25)) == (header.status, header.updated_at)
        assert (BEGINNING, 1, OURS) == (header.created_at, header.position, header.holder)

    def test_metadata_is_replaced_and_leaves_the_status(self) -> None:
        lease = self.lease(header=new_header("kelp", metadata=StateMetadata(tags=["old"], pipeline_name="old")))
        metadata = StateMetadata(tags=["new", "newer", "new"], pipeline_name="new", custom_data={"k": [1.5, True]})
        assert self.update(lease, metadata=metadata) is None
        header = self.header()
        assert (StateStatus.RUNNING, metadata) == (header.status, header.metadata)
        assert utc(self.clock.now) == header.updated_at
        assert ([], ["kelp"]) == (self.listed(tags=["old"]), self.listed(tags=["new", "newer"]))
        assert ([], ["kelp"]) == (self.listed(pipeline_name="old"), self.listed(pipeline_name="new"))

    def test_giving_a_lease_back_is_no_change_of_the_state(self) -> None:
        lease = self.lease()
        assert self.update(lease, releases=True) is None
        header = self.header()
        assert (BEGINNING, None, StateStatus.RUNNING) == (header.updated_at, header.holder, header.status)

    def test_a_new_state_has_the_timeline_of_its_claim(self) -> None:
        self.lease("first")
        grant = self.acquire("kelp", bodies=(b"one",), header=new_header("kelp", timeline=1))
        assert (0, 1, 1) == (self.header("first").timeline, grant.header.timeline, self.header().timeline)
        self.update(granted(grant), releases=True)
        assert 1 == self.acquire(header=new_header("kelp", timeline=7)).header.timeline

    def test_a_timeline_begins_with_an_append_and_is_left_by_others(self) -> None:
        lease = self.lease("kelp", b"one")
        update = StateUpdate(at=self.clock.now, timeline=2)
        assert self.append(lease, 2, b"two", update=update) is None
        assert self.append(lease, 3, b"three", update=StateUpdate(at=0.0, status=StateStatus.PAUSED)) is None
        assert (2, 3, StateStatus.PAUSED) == (self.header().timeline, self.header().position, self.header().status)
        assert self.update(lease, timeline=0) is None
        assert 0 == self.header().timeline

    def test_a_timeline_alone_does_not_change_when_a_state_was_updated(self) -> None:
        assert self.update(self.lease("kelp", b"one"), timeline=1) is None
        assert (1, BEGINNING) == (self.header().timeline, self.header().updated_at)

    def test_a_lost_lease_may_not_begin_a_timeline(self) -> None:
        lost = self.lease("kelp", b"one")
        self.taken_over(lost)
        assert isinstance(self.update(lost, timeline=1), LeaseLost)
        assert 0 == self.header().timeline

    def test_stored_metadata_does_not_change_with_the_callers_objects(self) -> None:
        tags = ["a"]
        data: dict[str, object] = {"list": [1]}
        self.lease(header=new_header("kelp", metadata=StateMetadata(tags=tags, custom_data=data)))
        tags.append("b")
        data["list"] = "changed"
        self.header().metadata.tags.append("c")
        assert (["a"], {"list": [1]}) == (self.header().metadata.tags, self.header().metadata.custom_data)

    def test_states_are_listed_the_newest_created_first(self) -> None:
        for name, minutes in (("middle", 1), ("newest", 2), ("oldest", 0)):
            self.lease(header=new_header(name, created_at=BEGINNING + timedelta(minutes=minutes)))
        assert ["newest", "middle", "oldest"] == self.listed()
        assert ["newest", "middle"] == self.listed(limit=2)
        assert [] == self.listed(limit=0)

    def test_of_states_created_in_the_same_moment_the_one_stored_last_is_listed_first(self) -> None:
        for name in ("first", "second", "third"):
            self.lease(name)
        assert ["third", "second", "first"] == self.listed()

    def test_an_empty_store_lists_nothing(self) -> None:
        assert [] == self.listed()
        assert [] == self.listed(tags=["x"], status=StateStatus.RUNNING, pipeline_name="p")

    def test_a_listed_header_is_the_one_that_is_found(self) -> None:
        metadata = StateMetadata(tags=["x"], pipeline_name="p")
        self.lease("kelp", b"one", b"two", header=new_header("kelp", metadata=metadata, agent="m:a"))
        expected = [self.header()]
        assert expected == self.backend.list_states()
        assert expected == self.backend.list_states(status=StateStatus.RUNNING)
        assert expected == self.backend.list_states(pipeline_name="p")
        assert expected == self.backend.list_states(tags=["x"])

    def test_a_listing_keeps_to_the_status_asked_for(self) -> None:
        for name, status in (("a", StateStatus.FAILED), ("b", StateStatus.RUNNING), ("c", StateStatus.FAILED)):
            self.lease(header=new_header(name, status=status))
        assert ["c", "a"] == self.listed(status=StateStatus.FAILED)
        assert ["c"] == self.listed(status=StateStatus.FAILED, limit=1)
        assert [] == self.listed(status=StateStatus.PAUSED)

    def test_a_listing_follows_a_change_of_status(self) -> None:
        self.update(self.lease(), status=StateStatus.AWAITING)
        assert ([], ["kelp"]) == (self.listed(status=StateStatus.RUNNING), self.listed(status=StateStatus.AWAITING))

    def test_a_listing_keeps_to_the_states_that_have_every_tag_asked_for(self) -> None:
        for name, tags in (("none", []), ("x", ["x"]), ("both", ["y", "x"]), ("y", ["y"]), ("three", ["x", "z", "y"])):
            self.lease(header=new_header(name, metadata=StateMetadata(tags=tags)))
        assert ["three", "both", "x"] == self.listed(tags=["x"])
        assert ["three", "both"] == self.listed(tags=["x", "y"])
        assert ["three", "both"] == self.listed(tags=["y", "x", "x"])
        assert ["three"] == self.listed(tags=["x", "y"], limit=1)
        assert [] == self.listed(tags=["X"])
        assert ["three", "y", "both", "x", "none"] == self.listed(tags=[])

    def test_a_listing_keeps_to_the_pipeline_asked_for(self) -> None:
        for name, pipeline in (("a", "kelp"), ("b", ""), ("c", "kelp-2")):
            self.lease(header=new_header(name, metadata=StateMetadata(pipeline_name=pipeline)))
        assert ["a"] == self.listed(pipeline_name="kelp")
        assert ["b"] == self.listed(pipeline_name="")

    def test_what_is_asked_of_a_listing_holds_together(self) -> None:
        for number in range(8):
            tags = ["x"] if number & 1 else ["y"]
            status = StateStatus.FAILED if number & 2 else StateStatus.RUNNING
            metadata = StateMetadata(tags=tags, pipeline_name="p" if number & 4 else "q")
            self.lease(header=new_header(str(number), status=status, metadata=metadata))
        assert ["7"] == self.listed(tags=["x"], status=StateStatus.FAILED, pipeline_name="p")
        assert ["6", "4"] == self.listed(tags=["y"], pipeline_name="p")
        assert ["5", "1"] == self.listed(tags=["x"], status=StateStatus.RUNNING)
        assert ["3", "2"] == self.listed(status=StateStatus.FAILED, pipeline_name="q")

    def test_a_listing_keeps_to_the_parent_asked_for_the_newest_created_first(self) -> None:
        for name, parent, minutes in (("b", "kelp", 1), ("c", "kelp", 2), ("other", "wrack", 4), ("a", "kelp", 0)):
            created_at = BEGINNING + timedelta(minutes=minutes)
            self.lease(header=new_header(name, created_at=created_at, metadata=StateMetadata(parent_state_id=parent)))
        self.lease("kelp")
        assert ["c", "b", "a"] == self.listed(parent_state_id="kelp")
        assert ["c", "b"] == self.listed(parent_state_id="kelp", limit=2)
        assert ([], []) == (self.listed(parent_state_id="kelp", limit=0), self.listed(parent_state_id="a"))
        assert [self.header("other")] == self.backend.list_states(parent_state_id="wrack")

    def test_of_states_of_one_parent_created_in_the_same_moment_the_one_stored_last_is_listed_first(self) -> None:
        for name in ("first", "second"):
            self.lease(header=new_header(name, metadata=StateMetadata(parent_state_id="kelp")))
        assert ["second", "first"] == self.listed(parent_state_id="kelp")

    def test_a_parent_is_asked_for_together_with_everything_else(self) -> None:
        for number in range(16):
            tags = ["x", "y"] if number & 1 else ["y"]
            status = StateStatus.FAILED if number & 2 else StateStatus.RUNNING
            pipeline, parent = "p" if number & 4 else "q", "kelp" if number & 8 else "wrack"
            metadata = StateMetadata(tags=tags, pipeline_name=pipeline, parent_state_id=parent)
            self.lease(header=new_header(str(number), status=status, metadata=metadata))
        assert ["15", "13", "11", "9"] == self.listed(parent_state_id="kelp", tags=["y", "x"])
        assert ["15", "14", "11", "10"] == self.listed(parent_state_id="kelp", status=StateStatus.FAILED)
        assert ["7", "6", "5", "4"] == self.listed(parent_state_id="wrack", pipeline_name="p")
        every = self.listed(parent_state_id="wrack", tags=["x"], status=StateStatus.RUNNING, pipeline_name="q")
        assert ["1"] == every
        assert [] == self.listed(parent_state_id="wrack", tags=["x", "z"])

    def test_a_listing_follows_a_change_of_the_parent(self) -> None:
        lease = self.lease(header=new_header("kelp", metadata=StateMetadata(parent_state_id="old")))
        self.update(lease, metadata=StateMetadata(parent_state_id="new"))
        assert ([], ["kelp"]) == (self.listed(parent_state_id="old"), self.listed(parent_state_id="new"))
        self.update(lease, metadata=StateMetadata())
        assert [] == self.listed(parent_state_id="new")

    def test_text_that_looks_like_a_query_is_only_text(self) -> None:
        awkward = "'); DROP TABLE states; -- %_\"\\"
        self.lease(header=new_header("kelp", metadata=StateMetadata(tags=[awkward], pipeline_name=awkward)))
        self.lease("wrack")
        assert ["kelp"] == self.listed(tags=[awkward])
        assert ["kelp"] == self.listed(tags=[awkward, awkward], pipeline_name=awkward)
        assert [] == self.listed(tags=["%"])
        assert self.backend.find_state(awkward) is None

    def test_a_deleted_state_is_gone_with_its_records(self) -> None:
        lease = self.lease("kelp", b"one", header=new_header("kelp", metadata=StateMetadata(tags=["x"])))
        self.lease("wrack", b"w1")
        assert self.backend.delete_state("kelp", lease) is True
        assert self.backend.find_state("kelp") is None
        assert ([], ["wrack"], []) == (self.bodies("kelp"), self.listed(), self.listed(tags=["x"]))
        assert isinstance(self.append(lease, 2, b"late"), LeaseLost)
        assert isinstance(self.update(lease, status=StateStatus.FAILED), LeaseLost)
        assert [b"w1"] == self.bodies("wrack")

    def test_deleting_a_state_that_does_not_exist_says_so(self) -> None:
        lease = self.lease()
        assert self.backend.delete_state("nowhere") is False
        self.backend.delete_state("kelp", lease)
        assert self.backend.delete_state("kelp", lease) is False

    def test_a_state_of_the_id_of_a_deleted_one_begins_empty(self) -> None:
        lease = self.lease("kelp", b"one", b"two")
        self.backend.delete_state("kelp", lease)
        grant = self.acquire(bodies=(b"new",))
        assert grant.is_new
        assert [(1, b"new")] == self.backend.read("kelp")

    def test_a_held_state_is_not_deleted_without_its_lease(self) -> None:
        self.lease("kelp", b"one")
        self.clock.turn(20.0)
        error = raised(LeaseHeld, lambda: self.backend.delete_state("kelp"))
        assert ("kelp", str(OURS), 40.0) == (error.state_id, error.holder, error.expires_in_s)
        assert [b"one"] == self.bodies()

    def test_a_state_whose_lease_ran_out_or_was_given_back_is_deleted_without_one(self) -> None:
        self.lease("kelp")
        self.clock.turn(60.0)
        self.update(self.lease("wrack"), releases=True)
        assert (True, True) == (self.backend.delete_state("kelp"), self.backend.delete_state("wrack"))
        assert [] == self.listed()

    def test_a_lost_lease_deletes_nothing(self) -> None:
        lost = self.lease("kelp", b"one")
        self.taken_over(lost)
        error = raised(LeaseLost, lambda: self.backend.delete_state("kelp", lost))
        assert ("kelp", lost.fence) == (error.state_id, error.fence)
        assert [b"one"] == self.bodies()

    def test_the_lease_of_another_state_deletes_nothing(self) -> None:
        self.lease("kelp")
        other = self.lease("wrack")
        raised(LeaseLost, lambda: self.backend.delete_state("kelp", other))
        assert ["wrack", "kelp"] == self.listed()
