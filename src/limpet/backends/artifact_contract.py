"""The contract of an artifact backend: where the content of artifacts lives.

A backend stores bytes that it does not look into under the SHA-256 of those bytes. It promises:

* **Durable when it returns.** What ``put`` stored survives the death of the process (and, where the backend says so,
  of the machine).
* **All or nothing.** Content is visible whole or not at all. What a killed process left half-written is never seen, and
  is cleared away in time.
* **Checked both ways.** ``put`` stores only bytes that have the size and the hash they are named after, else it raises
  ContentChanged. ``read`` gives the last piece only after the hash of the whole was found right, else it raises
  ArtifactCorrupted: no reader ever has all of a damaged content in hand. Putting content again replaces what is damaged
  in a way that can be seen without reading it, such as another length.
* **Stored once.** Putting what is there stores nothing again; it makes ``put_at`` greater, strictly.
* **Pinned with the put.** The pin that ``put`` is given is visible no later than the content, or its new ``put_at``.
* **Deleted only as seen.** ``delete`` deletes an artifact if its newest put is still the one named, in one step with
  that check: a put that comes in between wins.

How a backend keeps the bytes is its own matter: it may compress them. It fits an object store: every verb is a few
requests for one key, and nothing is ever changed in place. Ids are checked before they become paths. Every verb may be
called from any thread, and several processes may use the same artifacts. Foreign errors are translated here.
``limpet.testing.ArtifactBackendConformance`` is this page as tests; run it on a backend of your own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from limpet.model.artifacts import ArtifactInfo, Content, Pin


class ArtifactBackend(ABC):
    """Where artifacts live. See the module for what every method promises."""

    name: str
    """What the place is called in messages; a password never stands in it."""

    waits: bool
    """True where storing and reading wait for a disk or a network: an event loop then has it done on a thread."""

    @abstractmethod
    def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
        """Store content under its id; False if it was there already. Raises ContentChanged, StoreFull.

        With a pin, the collector keeps the artifact for as long as the holder of that lease may write.
        """

    @abstractmethod
    def read(self, artifact_id: str) -> Iterator[bytes]:
        """The content in pieces of at most a megabyte. Raises ArtifactMissing at once, ArtifactCorrupted on the way."""

    @abstractmethod
    def find(self, artifact_id: str) -> ArtifactInfo | None:
        """What is known of an artifact, or None. Its content is not read."""

    @abstractmethod
    def list_artifacts(self, after: str = "", limit: int = 1000) -> list[ArtifactInfo]:
        """Artifacts in the order of their ids, those behind ``after``."""

    @abstractmethod
    def delete(self, artifact_id: str, put_at: float) -> bool:
        """Delete an artifact whose newest put is the one at ``put_at``; False if it is not there, or was put since."""

    @abstractmethod
    def pins(self) -> Mapping[Pin, frozenset[str]]:
        """All pins, each with the ids of what it pins."""

    @abstractmethod
    def unpin(self, pins: Sequence[Pin]) -> None:
        """Forget these pins. Those that are not there are no error."""

    @abstractmethod
    def enlist(self, store_id: str, name: str) -> None:
        """Note, for good, that records of a store name artifacts here; its name is for people. Twice is harmless."""

    @abstractmethod
    def stores(self) -> Mapping[str, str]:
        """The ids of all enlisted stores, with their names."""

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
