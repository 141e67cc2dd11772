"""The whole suite for artifacts, with what is said of deleting, pins and stores, of threads, reopening and closing."""

from __future__ import annotations

from contextlib import suppress

from limpet.errors import ArtifactMissing
from limpet.model.artifacts import CHUNK, ArtifactInfo, Pin, content_of
from limpet.testing.conformance.artifact_case import OURS, THEIRS, THREADS, id_of, noise, prose
from limpet.testing.conformance.artifact_contents import ContentConformance
from limpet.testing.conformance.case import raised


class ArtifactBackendConformance(ContentConformance):
    """Every sentence of ``limpet.backends.artifact_contract`` as a test that pytest collects from a subclass::

        class TestMyArtifacts(ArtifactBackendConformance):
            @pytest.fixture(autouse=True)
            def _folder(self, tmp_path):
                self.folder = tmp_path

            def make_backend(self, clock):
                return MyArtifacts(self.folder / "artifacts", clock=clock)

            def reopen(self, backend, clock):
                return MyArtifacts(self.folder / "artifacts", clock=clock)

    ``clock`` says when something is put, in seconds since 1970; the suite turns it.
    ``pytest.register_assert_rewrite("limpet.testing.conformance")`` in a conftest makes failures tell more.
    """

    def test_a_backend_says_what_it_is_called_and_whether_it_waits(self) -> None:
        assert self.backend.name != ""
        assert self.backend.waits in (True, False)

    def test_nothing_is_there_at_first(self) -> None:
        assert ([], {}, {}) == (self.backend.list_artifacts(), self.backend.pins(), self.backend.stores())
        self.backend.unpin([OURS])
        assert not self.backend.delete(id_of(b"content"), 0.0)

    def test_an_artifact_is_deleted_as_it_was_seen(self) -> None:
        artifact_id, other = self.put(b"content"), self.put(b"other")
        assert self.backend.delete(artifact_id, self.info(artifact_id).put_at)
        assert self.backend.find(artifact_id) is None
        assert [other] == [info.artifact_id for info in self.backend.list_artifacts()]
        raised(ArtifactMissing, lambda: self.backend.read(artifact_id))

    def test_an_artifact_that_was_put_since_is_not_deleted(self) -> None:
        artifact_id = self.put(b"content")
        seen = self.info(artifact_id).put_at
        self.put(b"content")
        assert not self.backend.delete(artifact_id, seen)
        assert not self.backend.delete(artifact_id, seen - 1.0)
        assert b"content" == self.read(artifact_id)
        assert self.backend.delete(artifact_id, self.info(artifact_id).put_at)

    def test_deleting_twice_deletes_once(self) -> None:
        artifact_id = self.put(b"content")
        seen = self.info(artifact_id).put_at
        assert [True, False] == [self.backend.delete(artifact_id, seen) for _ in range(2)]

    def test_content_that_was_deleted_and_put_anew_is_not_deleted_as_seen_before(self) -> None:
        artifact_id = self.put(b"content")
        self.clock.turn(5.0)
        self.put(b"content")
        seen = self.info(artifact_id).put_at
        assert self.backend.delete(artifact_id, seen)
        for seconds in (0.0, -5.0):
            self.clock.turn(seconds)
            assert self.put(b"content") == artifact_id
            assert not self.backend.delete(artifact_id, seen)
            assert self.backend.delete(artifact_id, self.info(artifact_id).put_at)

    def test_artifacts_are_listed_in_the_order_of_their_ids_page_by_page(self) -> None:
        contents = [b"%d" % number for number in range(25)]
        for data in contents:
            self.clock.turn(1.0)
            self.put(data)
        expected = sorted(map(id_of, contents))
        assert expected == [info.artifact_id for info in self.backend.list_artifacts()]
        for size in (1, 7, 25, 26):
            pages: list[str] = []
            while page := self.backend.list_artifacts(pages[-1] if pages else "", size):
                assert len(page) <= size
                pages += [info.artifact_id for info in page]
            assert expected == pages
        assert [] == self.backend.list_artifacts(limit=0)

    def test_a_listing_begins_behind_an_id_that_need_not_be_there(self) -> None:
        ids = sorted(map(self.put, (b"a", b"b", b"c", b"d")))
        self.backend.delete(ids[1], self.info(ids[1]).put_at)
        assert ids[2:] == [info.artifact_id for info in self.backend.list_artifacts(ids[1])]
        assert [] == self.backend.list_artifacts("sha256:" + "f" * 64)
        assert [ids[0]] == [info.artifact_id for info in self.backend.list_artifacts("sha256:" + "0" * 64, 1)]

    def test_a_listing_shows_what_is_found_by_id(self) -> None:
        ids = [self.put(data) for data in (b"", noise(5000), prose(300_000))]
        assert {self.info(artifact_id) for artifact_id in ids} == set(self.backend.list_artifacts())

    def test_a_put_pins_what_it_puts_whether_it_is_new_or_not(self) -> None:
        first = self.put(b"first", OURS)
        self.put(b"first", THEIRS)
        second = self.put(prose(CHUNK), OURS)
        self.put(b"unpinned")
        assert {OURS: {first, second}, THEIRS: {first}} == dict(self.backend.pins())

    def test_pinning_twice_is_pinning_once(self) -> None:
        artifact_id = self.put(b"first", OURS)
        self.put(b"first", OURS)
        assert {OURS: {artifact_id}} == dict(self.backend.pins())

    def test_pins_that_are_forgotten_leave_the_others(self) -> None:
        longest = Pin(OURS.store_id, "k" * 200, 2**63 - 1)
        next_fence = Pin(OURS.store_id, OURS.state_id, OURS.fence + 1)
        for pin in (OURS, THEIRS, longest, next_fence):
            self.put(b"content", pin)
        self.backend.unpin([OURS, Pin(OURS.store_id, "unknown", 1), longest])
        assert {THEIRS, next_fence} == set(self.backend.pins())
        self.put(b"content", OURS)
        assert {OURS, THEIRS, next_fence} == set(self.backend.pins())
        self.backend.unpin([])

    def test_deleting_an_artifact_is_no_matter_of_pins(self) -> None:
        artifact_id = self.put(b"content", OURS)
        assert self.backend.delete(artifact_id, self.info(artifact_id).put_at)
        self.put(b"content")
        assert {OURS: {artifact_id}} == dict(self.backend.pins())

    def test_stores_are_enlisted_with_their_names(self) -> None:
        for _ in range(2):
            self.backend.enlist(OURS.store_id, "sqlite:////a ü/runs.db")
        self.backend.enlist(THEIRS.store_id, "\udcff")
        found = dict(self.backend.stores())
        assert "sqlite:////a ü/runs.db" == found.pop(OURS.store_id)
        assert [THEIRS.store_id] == list(found)

    def test_a_store_that_is_called_otherwise_now_is_enlisted_under_its_new_name(self) -> None:
        self.backend.enlist(OURS.store_id, "old")
        self.backend.enlist(OURS.store_id, "new")
        assert {OURS.store_id: "new"} == dict(self.backend.stores())

    def test_everything_is_there_when_the_place_is_opened_again(self) -> None:
        contents = [b"", b"small", noise(2 * CHUNK), prose(2 * CHUNK)]
        ids = [self.put(data, OURS) for data in contents]
        self.backend.enlist(OURS.store_id, "ours")
        listed = self.backend.list_artifacts()
        again = self.opened_again()
        assert contents == [b"".join(again.read(artifact_id)) for artifact_id in ids]
        assert listed == again.list_artifacts()
        assert ({OURS: set(ids)}, {OURS.store_id: "ours"}) == (dict(again.pins()), dict(again.stores()))

    def test_what_one_backend_does_another_on_the_place_sees_at_once(self) -> None:
        again = self.opened_again()
        artifact_id = self.put(b"content", OURS)
        info = self.info(artifact_id)
        assert info == again.find(artifact_id)
        assert not again.put(artifact_id, content_of(b"content"), THEIRS)
        assert {OURS, THEIRS} == set(self.backend.pins())
        assert not self.backend.delete(artifact_id, info.put_at)
        assert again.delete(artifact_id, self.info(artifact_id).put_at)
        assert self.backend.find(artifact_id) is None

    def test_of_many_threads_that_put_the_same_exactly_one_stores_it(self) -> None:
        for data in (noise(1000), prose(3 * CHUNK)):
            answers = self.from_threads(
                lambda number, data=data: self.backend.put(
                    id_of(data), content_of(data), Pin(OURS.store_id, "kelp", number)
                )
            )
            assert 1 == sum(answers)
            assert data == self.read(id_of(data))
        assert THREADS == len(self.backend.pins())

    def test_what_many_threads_put_at_once_is_all_there(self) -> None:
        def put(number: int) -> list[str]:
            return [self.put(noise(20_000 * (seed % 4 + 1), number * 100 + seed), OURS) for seed in range(10)]

        ids = [artifact_id for some in self.from_threads(put) for artifact_id in some]
        assert sorted(ids) == [info.artifact_id for info in self.backend.list_artifacts()]
        assert ids == [id_of(self.read(artifact_id)) for artifact_id in ids]
        assert {OURS: set(ids)} == dict(self.backend.pins())

    def test_puts_of_many_threads_each_make_the_time_greater(self) -> None:
        artifact_id = self.put(b"content")

        def put(_: int) -> list[float]:
            before = self.info(artifact_id).put_at
            seen: list[float] = []
            for _ in range(20):
                self.put(b"content")
                seen.append(self.info(artifact_id).put_at)
            assert sorted({before, *seen}) == [before, *seen]
            return seen

        self.from_threads(put)
        assert self.info(artifact_id).put_at > self.clock.now

    def test_threads_that_put_and_delete_the_same_agree_on_what_happened(self) -> None:
        data = noise(3000)

        def work(number: int) -> tuple[int, list[float]]:
            stored, deleted = 0, list[float]()
            for _ in range(40):
                if number % 2:
                    info = self.backend.find(id_of(data))
                    if info is not None and self.backend.delete(id_of(data), info.put_at):
                        deleted.append(info.put_at)
                else:
                    stored += self.backend.put(id_of(data), content_of(data), OURS)
                    self._must_be_whole_if_there(data)
            return stored, deleted

        answers = self.from_threads(work)
        stored = sum(count for count, _ in answers)
        deleted = [put_at for _, some in answers for put_at in some]
        # Every delete took away one put that was the newest then, and no two the same.
        assert len(deleted) == len(set(deleted))
        assert stored - len(deleted) == len(self.backend.list_artifacts())
        self.put(data)
        assert data == self.read(id_of(data))

    def _must_be_whole_if_there(self, data: bytes) -> None:
        with suppress(ArtifactMissing):
            assert data == self.read(id_of(data))

    def test_a_stale_delete_never_removes_what_was_put_after_it_looked(self) -> None:
        """One thread puts and keeps looking; the others delete with times that they saw before its last put."""
        artifact_id = self.put(b"content")

        def work(number: int) -> int:
            if number:
                return sum(self.backend.delete(artifact_id, stale) for _ in range(60))
            missing = 0
            for _ in range(30):
                self.put(b"content")
                missing += self.backend.find(artifact_id) is None
            return missing

        stale = self.info(artifact_id).put_at
        self.put(b"content")
        assert [0] * THREADS == self.from_threads(work)

    def test_closing_twice_is_harmless(self) -> None:
        self.put(b"content")
        self.backend.close()
        self.backend.close()

    def test_a_backend_closes_at_the_end_of_its_with_block(self) -> None:
        with self.backend as backend:
            assert [] == backend.list_artifacts()
        backend.close()

    def test_an_artifact_is_data_that_can_be_compared(self) -> None:
        artifact_id = self.put(b"content")
        assert ArtifactInfo(artifact_id, 7, self.clock.now) == self.info(artifact_id)
