"""Taking a snapshot of a request, an answer, headers or a URL of an HTTP client, for the record of an exception.

Whatever an object does when it is asked, nothing here raises, and nothing is read from the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from typing import Any, Final, cast

from limpet.codec.secrets import MASK
from limpet.codec.user_types.http_parts import RecordedHeaders, RecordedRequest, RecordedResponse, RecordedUrl

MOST_TEXT: Final = 16_384
"""So many characters are kept of the text of an answer."""

_MOST_HEADERS: Final = 100
_LONGEST_VALUE: Final = 4096

_CREDENTIALS: Final = re.compile(
    r"(?i)^key$|(?:^|[-_])(?:authorization|authentication|cookie2?|api-?_?key|access-?_?key|subscription-key|credentials?"
    r"|password|passwd|secret|signature|sig|auth|token|session)$"
)
"""Names whose values are secrets. ``x-ratelimit-remaining-tokens`` is none."""

_USER_INFO: Final = re.compile(r"^([a-z][a-z0-9+.-]*://)[^/@?#]*@", re.IGNORECASE)
_QUERY_ITEM: Final = re.compile(r"([?&;])([^=&;#]+)=([^&;#]*)")


def snapshot_of(part: object) -> object | None:
    """A snapshot of an object of an HTTP client; None for every other object, and where it cannot be read."""
    take = _way_for(type(part))
    if take is None:
        return None
    try:
        return take(part)
    except Exception:
        return None  # It is noted by its type, as what cannot be stored is.


def is_of_exchange(cls: type) -> bool:
    """Whether ``snapshot_of`` has something for the instances of a class."""
    return _way_for(cls) is not None


@cache
def _way_for(cls: type) -> Callable[[Any], object] | None:
    for base in cls.__mro__:
        package = base.__module__.partition(".")[0]
        for take, names in _CLASSES:
            if (package, base.__name__) in names:
                return take
    return None


def _url(url: Any) -> RecordedUrl:
    text = _USER_INFO.sub(rf"\1{MASK}@", str(url)[:_LONGEST_VALUE])
    return RecordedUrl(_QUERY_ITEM.sub(_masked_item, text))


def _masked_item(item: re.Match[str]) -> str:
    return f"{item[1]}{item[2]}={MASK if _CREDENTIALS.search(item[2]) else item[3]}"


def _headers(headers: Any) -> RecordedHeaders:
    items = getattr(headers, "multi_items", None) or headers.items
    pairs = islice(cast("Iterable[tuple[Any, Any]]", items()), _MOST_HEADERS)
    return RecordedHeaders(tuple(_header(_text(name), _text(value)) for name, value in pairs))


def _header(name: str, value: str) -> tuple[str, str]:
    return name, MASK if _CREDENTIALS.search(name) else value


def _text(value: Any) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return text[:_LONGEST_VALUE].encode("utf-8", "backslashreplace").decode()


def _request(request: Any) -> RecordedRequest:
    url = _read(request, "url") or _read(request, "real_url")
    headers = _read(request, "headers")
    method = _read(request, "method")
    return RecordedRequest(
        {
            "method": method if isinstance(method, str) else None,
            "url": None if url is None else str(_url(url)),
            "headers": None if headers is None else _tried(_headers, headers),
        }
    )


def _response(response: Any) -> RecordedResponse:
    kept: dict[str, Any] = {"of": type(response).__module__.partition(".")[0]}
    for name in ("status_code", "status"):
        status = _read(response, name)
        if isinstance(status, int):
            kept["status"] = int(status)
    for name in ("reason_phrase", "reason"):
        reason = _read(response, name)
        if isinstance(reason, str | bytes):
            kept["reason"] = _text(reason)
    headers, url, request = _read(response, "headers"), _read(response, "url"), _read(response, "request")
    kept["headers"] = None if headers is None else _tried(_headers, headers)
    kept["url"] = None if url is None else str(_url(url))
    kept["request"] = None if request is None else snapshot_of(request)
    return RecordedResponse(kept | _body(response))


def _body(response: Any) -> dict[str, Any]:
    """The beginning of the text. Only what the client has read already: to read more would wait for the network."""
    held: dict[str, Any] = getattr(response, "__dict__", {})
    content = held.get("_content", held.get("_body"))
    if type(content) is not bytes:
        return {}
    encoding = _read(response, "encoding")
    try:
        text = content[: 4 * MOST_TEXT].decode(encoding if isinstance(encoding, str) else "utf-8", "replace")
    except LookupError:
        encoding, text = "utf-8", content[: 4 * MOST_TEXT].decode("utf-8", "replace")
    # What was cut off in the middle of a character counts as more.
    more = len(text) > MOST_TEXT or len(content) > 4 * MOST_TEXT
    return {
        "text": _as_utf8(text[:MOST_TEXT]),
        "encoding": encoding if isinstance(encoding, str) else "utf-8",
        "more": max(1, len(content) - len(text[:MOST_TEXT].encode("utf-8", "replace"))) if more else 0,
    }


def _as_utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _tried(take: Callable[[Any], object], part: object) -> Any:
    try:
        return take(part)
    except Exception:
        return None


def _read(holder: Any, name: str) -> Any:
    """An attribute, or None where there is none or it cannot be read."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


_CLASSES: Final[tuple[tuple[Callable[[Any], object], frozenset[tuple[str, str]]], ...]] = (
    (
        _response,
        frozenset(
            {("httpx", "Response"), ("httpx2", "Response"), ("requests", "Response"), ("niquests", "Response")}
            | {("aiohttp", "ClientResponse")}
        ),
    ),
    (
        _request,
        frozenset(
            {("httpx", "Request"), ("httpx2", "Request"), ("requests", "PreparedRequest"), ("requests", "Request")}
            | {("niquests", "PreparedRequest"), ("aiohttp", "RequestInfo"), ("aiohttp", "ClientRequest")}
        ),
    ),
    (
        _headers,
        frozenset(
            {("httpx", "Headers"), ("httpx2", "Headers"), ("requests", "CaseInsensitiveDict"), ("http", "HTTPMessage")}
            | {("email", "Message")}
            | {("multidict", name) for name in ("CIMultiDict", "CIMultiDictProxy", "MultiDict", "MultiDictProxy")}
        ),
    ),
    (_url, frozenset({("httpx", "URL"), ("httpx2", "URL"), ("yarl", "URL")})),
)
"""The ways to take a snapshot, and the classes that each is for, by package and name."""
