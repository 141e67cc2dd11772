"""What the contract says of content: it comes back as it was put, it is checked, and it is stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from limpet.errors import ArtifactMissing, ContentChanged, InvalidArtifactId
from limpet.model.artifacts import CHUNK, Content, Pin, content_of
from limpet.testing.conformance.artifact_case import OURS, ArtifactCase, id_of, in_pieces, noise, prose
from limpet.testing.conformance.case import raised

SIZES = (0, 1, 1023, 1024, 1025, 100_000, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7)

NOT_IDS: tuple[str, ...] = (
    "",
    "kelp",
    "sha256:",
    "sha256:../../x",
    "sha256:" + "../" * 21 + "x",
    "sha256:" + "A" * 64,
    "sha256:" + "a" * 63,
    "sha256:" + "a" * 65,
    "sha256:" + "a" * 63 + "/",
    "sha256:" + "a" * 64 + "\n",
    "sha256:" + "\N{FULLWIDTH DIGIT ONE}" * 64,
    "md5:" + "a" * 64,
    "a" * 64,
)


class ContentConformance(ArtifactCase):
    """``put``, ``read`` and ``find``."""

    def test_content_comes_back_as_it_was_put_whatever_its_size(self) -> None:
        for size in SIZES:
            for data in (noise(size), prose(size)):
                artifact_id = self.put(data)
                assert data == self.read(artifact_id)
                assert size == self.info(artifact_id).size

    def test_content_is_read_in_pieces_of_at_most_a_megabyte(self) -> None:
        for data in (noise(3 * CHUNK + 1), prose(3 * CHUNK + 1)):
            lengths = [len(piece) for piece in self.backend.read(self.put(data))]
            assert len(data) == sum(lengths)
            assert max(lengths) <= CHUNK
            assert min(lengths) > 0

    def test_content_may_come_in_pieces_of_any_length(self) -> None:
        data = prose(200_000)
        pieces = (b"", data[:1], data[1:129], data[129:70_000], b"", data[70_000:], b"")
        assert self.backend.put(id_of(data), in_pieces(len(data), *pieces))
        assert data == self.read(id_of(data))

    def test_an_artifact_can_be_read_by_several_readers_at_once(self) -> None:
        data = noise(2 * CHUNK + 1)
        artifact_id = self.put(data)
        first, second = self.backend.read(artifact_id), self.backend.read(artifact_id)
        begun = [next(first), next(second)]
        assert [data, data] == [begun[0] + b"".join(first), begun[1] + b"".join(second)]

    def test_a_reader_that_stops_in_the_middle_leaves_nothing_open(self) -> None:
        artifact_id = self.put(noise(3 * CHUNK))
        for _ in range(50):
            next(self.backend.read(artifact_id))
        self.backend.read(artifact_id)
        assert noise(3 * CHUNK) == self.read(artifact_id)

    def test_what_is_not_there_is_missed_at_once(self) -> None:
        absent = id_of(b"absent")
        error = raised(ArtifactMissing, lambda: self.backend.read(absent))
        assert (self.backend.name, absent) == (error.artifacts, error.artifact_id)
        assert self.backend.find(absent) is None

    def test_what_cannot_be_an_id_is_refused_by_every_verb(self) -> None:
        self.put(b"content")
        for wrong in NOT_IDS:
            verbs: list[Callable[[], object]] = [
                lambda wrong=wrong: self.backend.put(wrong, content_of(b"content")),
                lambda wrong=wrong: self.backend.read(wrong),
                lambda wrong=wrong: self.backend.find(wrong),
                lambda wrong=wrong: self.backend.delete(wrong, 0.0),
            ]
            if wrong:
                verbs.append(lambda wrong=wrong: self.backend.list_artifacts(wrong))
            for verb in verbs:
                assert wrong == raised(InvalidArtifactId, verb).artifact_id
        assert 1 == len(self.backend.list_artifacts())

    def test_content_that_is_not_what_its_id_says_is_not_stored(self) -> None:
        data = noise(CHUNK + 10)
        artifact_id = id_of(data)
        wrong = (
            content_of(noise(CHUNK + 10, seed=1), "The sample"),
            content_of(prose(CHUNK + 10), "The sample"),
            in_pieces(len(data), data[:CHUNK], data[CHUNK:-1]),
            in_pieces(len(data), data, b"x"),
            in_pieces(len(data) - 1, data[:CHUNK], data[CHUNK:]),
            in_pieces(len(data) + 1, data),
            in_pieces(0, data),
            in_pieces(len(data)),
        )
        for content in wrong:
            error = raised(ContentChanged, lambda content=content: self.backend.put(artifact_id, content, OURS))
            assert "The sample" == error.what
            assert self.backend.find(artifact_id) is None
        assert [] == self.backend.list_artifacts()
        assert self.backend.put(artifact_id, content_of(data))
        assert data == self.read(artifact_id)

    def test_an_error_of_the_content_is_passed_on_and_nothing_is_stored(self) -> None:
        data = noise(3 * CHUNK)

        def chunks() -> Iterator[bytes]:
            yield data[:CHUNK]
            raise FileNotFoundError("the source has vanished")

        raised(FileNotFoundError, lambda: self.backend.put(id_of(data), Content(len(data), chunks)))
        assert self.backend.find(id_of(data)) is None

    def test_put_says_whether_content_is_new(self) -> None:
        content = content_of(b"content")
        assert self.backend.put(id_of(b"content"), content)
        assert not self.backend.put(id_of(b"content"), content)
        assert not self.backend.put(id_of(b"content"), content, OURS)
        assert [id_of(b"content")] == [info.artifact_id for info in self.backend.list_artifacts()]

    def test_content_that_is_there_is_not_read_again(self) -> None:
        artifact_id = self.put(b"content")

        def chunks() -> Iterator[bytes]:
            raise AssertionError("the content was read")

        assert not self.backend.put(artifact_id, Content(7, chunks))

    def test_a_put_is_noted_with_its_time(self) -> None:
        artifact_id = self.put(b"content")
        assert self.clock.now == self.info(artifact_id).put_at
        self.clock.turn(1234.5)
        self.put(b"content")
        assert self.clock.now == self.info(artifact_id).put_at

    def test_a_put_again_is_later_also_when_the_clock_stands_still_or_goes_back(self) -> None:
        artifact_id = self.put(b"content")
        seen = [self.info(artifact_id).put_at]
        for seconds in (0.0, 0.0, -1000.0, 0.0, 1e-7, 2000.0):
            self.clock.turn(seconds)
            self.put(b"content", Pin(OURS.store_id, "kelp", len(seen)))
            seen.append(self.info(artifact_id).put_at)
        assert sorted(set(seen)) == seen
        assert self.clock.now == seen[-1]
