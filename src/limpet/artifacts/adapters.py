"""Adapters: how a value of one type becomes the content of an artifact, and a value again.

An adapter is named in every reference that it made. A name in stored data is looked up among the adapters of this
program and nowhere else.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

import msgspec

from limpet.errors import UsageError, ValueNotReadable
from limpet.model.artifacts import ArtifactReference, Content
from limpet.processes import new_lock

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


class Source(msgspec.Struct, frozen=True):
    """The content of an artifact for an adapter to read. Every reading is verified."""

    reference: ArtifactReference
    chunks: Callable[[], Iterator[bytes]]
    """Reads the content in pieces, from its beginning each time; it knows nothing of encryption any more."""

    def read(self) -> bytes:
        """The whole content."""
        return b"".join(self.chunks())


class ArtifactAdapter(ABC):
    """How values of some types are stored as artifacts. ``register_adapter`` makes one known.

    The content must be the same for equal values in every process, since it is what the artifact is named after.
    """

    name: ClassVar[str]
    """Part of what is stored: never give it to another format."""
    type_names: ClassVar[tuple[str, ...]] = ()
    """The types whose values are stored this way by themselves, exactly these, as 'module:qualified.name'."""

    def accepts(self, value: Any) -> bool:
        """Whether this value can come back equal. One that cannot is stored in the codec's own form."""
        return True

    @abstractmethod
    def size(self, value: Any) -> int:
        """About how many bytes the content has, found out quickly."""

    @abstractmethod
    def content(self, value: Any) -> Content:
        """The content, in pieces that are made when they are asked for."""

    @abstractmethod
    def read(self, source: Source) -> Any:
        """The value. Raises what it likes where the content is none of its own; nothing in it may be executed."""

    def details(self, value: Any) -> str:
        """What the reference says besides the content, such as the name of a file; given to ``read`` with it."""
        return ""

    def preview(self, value: Any) -> str:
        """A line for people: shape, columns, the first words."""
        return type(value).__name__


_by_name: Final[dict[str, ArtifactAdapter]] = {}
_by_type_name: Final[dict[str, ArtifactAdapter]] = {}
_by_type: Final[dict[type, ArtifactAdapter | None]] = {}
_lock: Final = new_lock()


def register_adapter(adapter: ArtifactAdapter) -> None:
    """Make an adapter known to this program. Raises UsageError where its name or one of its types is taken."""
    if not _NAME.fullmatch(adapter.name):
        raise UsageError(
            f"{adapter.name!r} cannot be the name of an adapter.", "Use lower case letters, digits and the signs - _ ."
        )
    with _lock:
        standing = _by_name.get(adapter.name)
        if standing is not None and _kind(standing) != _kind(adapter):
            raise UsageError(f"Another adapter is called {adapter.name!r}.", "Give this one a name of its own.")
        for name in adapter.type_names:
            other = _by_type_name.get(name)
            if other is not None and other.name != adapter.name:
                raise UsageError(
                    f"Values of type {name} have the adapter {other.name!r} already.",
                    "Name yours where you store a value: `set_artifact(key, value, adapter=…)`.",
                )
        _by_name[adapter.name] = adapter
        _by_type_name.update(dict.fromkeys(adapter.type_names, adapter))
        _by_type.clear()


def _kind(adapter: ArtifactAdapter) -> tuple[str, str]:
    # By name: a module that is loaded again makes the same class anew.
    return type(adapter).__module__, type(adapter).__qualname__


def adapter_of(value: object) -> ArtifactAdapter | None:
    """The adapter that values of this type are stored with by themselves; None: the codec's own form."""
    cls = type(value)
    try:
        return _by_type[cls]
    except KeyError:
        adapter = _by_type[cls] = _find(cls)
        return adapter


def _find(cls: type) -> ArtifactAdapter | None:
    adapter = _by_type_name.get(f"{cls.__module__}:{cls.__qualname__}")
    # A class may say of itself what it likes: it counts only if it is what stands under that name.
    module = sys.modules.get(cls.__module__)
    return adapter if adapter is not None and vars(module).get(cls.__qualname__, cls) is cls else None


def adapter_named(name: str) -> ArtifactAdapter:
    """The adapter of a name that a person gave. Raises UsageError."""
    adapter = _by_name.get(name)
    if adapter is None:
        known = ", ".join(sorted(_by_name))
        raise UsageError(
            f"No adapter is called {name!r}.", f"Known are {known}; make others known with `register_adapter`."
        )
    return adapter


def adapter_recorded(name: str) -> ArtifactAdapter:
    """The adapter of a name that stands in stored data. Raises ValueNotReadable."""
    adapter = _by_name.get(name)
    if adapter is None:
        raise ValueNotReadable("artifact", f"it was stored with the adapter {name!r}, which is not registered here")
    return adapter
