"""What is kept of the requests and answers of HTTP clients that an exception refers to: what programs look at.

None of the clients is imported here. Their classes are told by their names; a small plain snapshot is written, with a
bound for the text and a mask in place of credentials, and a stand-in with the same attribute names comes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, cast
from urllib.parse import urlsplit

from limpet.codec.kinds import Kind, Lower, listed, mapped
from limpet.errors import AttributeNotKept


class RecordedUrl(str):
    """The URL of a recorded request, with its parts."""

    __slots__ = ()

    @property
    def scheme(self) -> str:
        """Such as ``https``."""
        return urlsplit(str(self)).scheme

    @property
    def host(self) -> str:
        """The name of the host, without the port."""
        return urlsplit(str(self)).hostname or ""

    @property
    def port(self) -> int | None:
        """The port, where the URL names one."""
        return urlsplit(str(self)).port

    @property
    def path(self) -> str:
        """The path."""
        return urlsplit(str(self)).path


class RecordedHeaders(Mapping[str, str]):
    """The headers of a recorded request or answer; their names are found in any case."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: tuple[tuple[str, str], ...]) -> None:
        self._pairs = pairs

    def __getitem__(self, name: str) -> str:
        values = self.getall(name)
        if not values:
            raise KeyError(name)
        return ", ".join(values)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.lower() for name, _ in self._pairs))

    def __len__(self) -> int:
        return len({name.lower() for name, _ in self._pairs})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.getall(name))

    def __repr__(self) -> str:
        return f"RecordedHeaders({dict(self)!r})"

    def __getattr__(self, name: str) -> Any:
        _refuse(name, "a recorded set of headers")

    def getall(self, name: str) -> list[str]:
        """All values under a name."""
        return [value for each, value in self._pairs if each.lower() == name.lower()]

    get_list = get_all = getall

    def multi_items(self) -> list[tuple[str, str]]:
        """Every name with its value, in order, with the names as they were written."""
        return list(self._pairs)


class _Recorded:
    """A stand-in that has what was kept under the names that programs use."""

    __slots__ = ("_kept",)

    WHAT = "object"

    def __init__(self, kept: dict[str, Any]) -> None:
        self._kept = kept

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._kept == cast("_Recorded", other)._kept

    def __hash__(self) -> int:
        return hash((type(self), self._kept.get("url")))

    def __reduce__(self) -> Any:
        return type(self), (self._kept,)

    def __getattr__(self, name: str) -> Any:
        _refuse(name, f"a recorded {self.WHAT}")

    def _get(self, name: str, shown: str = "") -> Any:
        value = self._kept.get(name)
        if value is None:
            _refuse(shown or name, f"a recorded {self.WHAT}")
        return value

    @property
    def url(self) -> RecordedUrl:
        """The URL, with a mask in place of passwords in it."""
        return RecordedUrl(self._get("url"))

    @property
    def headers(self) -> RecordedHeaders:
        """The headers, with a mask in place of credentials and cookies."""
        return self._get("headers")


class RecordedRequest(_Recorded):
    """Stands for the request of a recorded exception: ``method``, ``url`` and ``headers``."""

    __slots__ = ()
    WHAT = "request"

    @property
    def method(self) -> str:
        """Such as ``GET``."""
        return self._get("method")

    @property
    def real_url(self) -> RecordedUrl:
        """The URL, as aiohttp calls it."""
        return self.url

    def __repr__(self) -> str:
        return f"<recorded request {self._kept.get('method')} {self._kept.get('url')}>"


class RecordedResponse(_Recorded):
    """Stands for the answer of a server: status, reason, headers, text and JSON, and the request where it was known."""

    __slots__ = ()
    WHAT = "response"

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        return self._get("status", "status_code")

    @property
    def status(self) -> int:
        """The HTTP status, as aiohttp calls it."""
        return self._get("status")

    @property
    def reason_phrase(self) -> str:
        """The words that the server put behind the status."""
        return self._get("reason", "reason_phrase")

    @property
    def reason(self) -> str:
        """The same, as requests and aiohttp call it."""
        return self._get("reason")

    @property
    def request(self) -> RecordedRequest:
        """The request that this answered."""
        return self._get("request")

    @property
    def encoding(self) -> str:
        """What the text was encoded in."""
        return self._get("encoding")

    @property
    def text(self) -> str:
        """The beginning of the text; of one that is cut, how much is missing stands at its end."""
        text, more = self._get("text"), self._kept.get("more", 0)
        return f"{text} … [{more} more were not recorded]" if more else text

    @property
    def content(self) -> bytes:
        """The bytes, where the whole text is known and was UTF-8."""
        if self._kept.get("more") or self.encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "ascii"):
            _refuse("content", "a recorded response")
        return self._get("text", "content").encode()

    def json(self, **options: Any) -> Any:
        """The text, read as JSON. Raises AttributeNotKept where it was too long to be kept."""
        if self._kept.get("more"):
            _refuse("json", "a recorded response")
        return json.loads(self._get("text", "json"), **options)

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def is_client_error(self) -> bool:
        """Whether the status is 4xx."""
        return 400 <= self.status < 500

    @property
    def is_server_error(self) -> bool:
        """Whether the status is 5xx."""
        return 500 <= self.status < 600

    @property
    def is_error(self) -> bool:
        """Whether the status is 4xx or 5xx."""
        return 400 <= self.status < 600

    @property
    def ok(self) -> bool:
        """Whether the status is below 400, as requests calls it."""
        return self.status < 400

    def __bool__(self) -> bool:
        # An answer of requests is false where it is an error; those of the others are objects like any.
        return self.ok if self._kept.get("of") == "requests" else True

    def __repr__(self) -> str:
        return f"<recorded response [{self._kept.get('status')} {self._kept.get('reason') or ''}]>"


def _refuse(name: str, of: str) -> NoReturn:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)  # Asked for by copying and introspection.
    raise AttributeNotKept(name, of, "of a response its status, reason, headers, text and request are kept")


_SHAPES: Final[dict[str, tuple[Callable[[Any], Any], tuple[type, ...]]]] = {
    "url": (str, (str,)),
    "method": (str, (str,)),
    "reason": (str, (str,)),
    "text": (str, (str,)),
    "encoding": (str, (str,)),
    "of": (str, (str,)),
    "status": (int, (int,)),
    "more": (int, (int,)),
    "headers": (lambda value: value, (RecordedHeaders,)),
    "request": (lambda value: value, (RecordedRequest,)),
}
"""What may stand under each name, of what is read."""


def _lower(value: Any, lower: Lower) -> list[Any]:
    if isinstance(value, RecordedUrl):
        return ["url", lower(str(value))]
    if isinstance(value, RecordedHeaders):
        return ["headers", lower([list(pair) for pair in value.multi_items()])]
    kept = cast("dict[str, Any]", object.__getattribute__(value, "_kept"))
    return [value.WHAT, lower(dict(kept))]


def _build(parts: Any) -> Any:
    word, kept = parts
    match word:
        case "url":
            return RecordedUrl(_text(kept))
        case "headers":
            pairs = [tuple(_text(each) for each in listed(pair)) for pair in listed(kept)]
            if any(len(pair) != 2 for pair in pairs):
                raise TypeError("a header is no pair")
            return RecordedHeaders(cast("tuple[tuple[str, str], ...]", tuple(pairs)))
        case "request" | "response":
            fields = mapped(kept)
            for name, value in fields.items():
                if value is not None and type(value) not in _SHAPES[name][1]:
                    raise TypeError(f"its {name} is none")
            return (RecordedRequest if word == "request" else RecordedResponse)(fields)
        case _:
            raise TypeError("it is no part of an exchange by HTTP")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a part of it is no text")
    return value


HTTP: Final = Kind(41, _lower, _build)
"""Parts: ``url`` and text; ``headers`` and arrays of name and value; ``request`` or ``response`` and a map."""

STAND_INS: Final = (RecordedUrl, RecordedHeaders, RecordedRequest, RecordedResponse)
