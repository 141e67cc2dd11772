"""Which errors are worth trying again, and how long a server asks to be left alone.

All of it is read off the exception object. What an error says of itself may be anything, and may raise when it is
asked for: nothing here does. Classes of libraries are told by their names, so that no library is imported.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final, cast

from limpet.errors import LimpetError

PROGRAMMING_ERRORS: Final = (
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    NameError,
    ImportError,
    SyntaxError,
    NotImplementedError,
    RecursionError,
    ArithmeticError,
)
"""The same code with the same input raises them again."""

LONGEST_ASKED_S: Final = 366 * 24 * 3600.0
"""A server that asks for more than a year means something else: a point in time, for one."""

_TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, *range(500, 600)})

_NETWORK_ERRNOS: Final = frozenset(
    number
    for name in (
        *("ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETRESET"),
        *("ENETUNREACH", "ENOBUFS", "ENOTCONN", "EADDRNOTAVAIL", "EAGAIN", "EPIPE", "ESHUTDOWN", "ETIMEDOUT"),
    )
    if (number := getattr(errno, name, None)) is not None
)

# The packages of HTTP clients, and of services whose errors carry the status of an answer.
_HTTP_CLIENTS: Final = frozenset(
    {
        *("aiohttp", "httpcore", "httpx", "httpx2", "niquests", "pycurl", "requests", "tornado", "urllib", "urllib3"),
        *("anthropic", "cohere", "groq", "litellm", "mistralai", "ollama", "openai", "pydantic_ai", "replicate"),
        *("azure", "botocore", "elastic_transport", "elasticsearch", "github", "google", "googleapiclient", "grpc"),
        *("huggingface_hub", "notion_client", "qdrant_client", "slack_sdk", "stripe", "together", "twilio"),
    }
)

# Names that mean the same wherever a class is declared: many libraries and clients have classes of these names.
_TRANSIENT_NAMES: Final = frozenset(
    {
        *("gaierror", "herror", "SSLEOFError", "SSLZeroReturnError", "IncompleteRead", "RemoteDisconnected"),
        *("APIConnectionError", "APITimeoutError", "ConnectError", "ConnectTimeout", "ConnectTimeoutError"),
        *("ConnectionError", "ReadTimeout", "ReadTimeoutError", "RemoteProtocolError", "Timeout", "TimeoutError"),
        *("TimeoutException", "ClientConnectionError", "ClientPayloadError", "NewConnectionError", "PoolTimeout"),
        *("ServerDisconnectedError", "ServerTimeoutError", "WriteTimeout"),
    }
)

# Names that mean it in these packages, and may mean anything elsewhere: ``tarfile`` has a ReadError, too.
_TRANSIENT_IN: Final = {
    "httpcore": frozenset({"NetworkError", "ProxyError"}),
    "httpx": frozenset({"TransportError"}),
    "urllib3": frozenset({"ProtocolError", "ProxyError"}),
}

# Classes that derive from one of the above, and are of another kind: a wrong address or a wrong certificate.
_LASTING_IN: Final = {
    "httpx": frozenset({"LocalProtocolError", "UnsupportedProtocol"}),
    "requests": frozenset({"SSLError"}),
}

# Classes that only say where it happened, and have what happened as their ``reason``.
_WRAPPING_IN: Final = {"urllib": frozenset({"URLError"}), "urllib3": frozenset({"MaxRetryError"})}

_NOWHERE: Final[frozenset[str]] = frozenset()
_DEEPEST: Final = 10
_MOST_HEADERS: Final = 1000
_LONGEST_TEXT: Final = 64
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HTTP_DATE: Final = re.compile(r"[A-Za-z]{3}, (\d\d) ([A-Za-z]{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)


def is_a(error: BaseException, *classes: type) -> bool:
    """Whether an ``except`` with these classes takes the error. As there, neither error nor metaclass is asked."""
    return any(type.__subclasscheck__(each, type(error)) for each in classes)


def members_of(error: BaseException) -> list[BaseException]:
    """What an exception group consists of, through all groups inside it; of any other error, the error itself."""
    found: list[BaseException] = []
    seen: set[int] = set()
    to_look_at = [error]
    while to_look_at:
        each = to_look_at.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if is_a(each, BaseExceptionGroup):
            to_look_at += _exceptions_in(each)
        else:
            found.append(each)
    return found


# What a subclass or a metaclass has under these names is passed over.
_exceptions_in = cast(
    "Callable[[BaseException], tuple[BaseException, ...]]", vars(BaseExceptionGroup)["exceptions"].__get__
)
_bases_of = cast("Callable[[type], tuple[type, ...]]", vars(type)["__mro__"].__get__)


def is_transient(error: BaseException) -> bool:
    """Whether an error is of the kind that passes by itself: of networks, time limits, and servers in trouble.

    A programming error is not, nor is one of Limpet itself, unless that says that time ran out. Otherwise an HTTP
    status decides where the error is one of HTTP, and then the class and the ``errno``. A group is if all its members
    are.
    """
    return all(_is_transient(each, 0) for each in members_of(error))


def _is_transient(error: BaseException, depth: int) -> bool:
    if not is_a(error, Exception) or is_a(error, *PROGRAMMING_ERRORS):
        return False
    if is_a(error, LimpetError):
        return is_a(error, TimeoutError)
    status = http_status(error)
    if status is not None:
        return is_transient_status(status)
    if is_a(error, TimeoutError, ConnectionError):
        return True
    by_name = _is_transient_by_name(error, depth)
    if by_name is not None:
        return by_name
    number = _read(error, "errno") if is_a(error, OSError) else None
    return type(number) is int and number in _NETWORK_ERRNOS


def _is_transient_by_name(error: BaseException, depth: int) -> bool | None:
    """What the name of the class says, or of the nearest one that it derives from; None where none says anything."""
    for package, name in _names(type(error)):
        if name in _LASTING_IN.get(package, _NOWHERE):
            return False
        if name in _TRANSIENT_NAMES or name in _TRANSIENT_IN.get(package, _NOWHERE):
            return True
        if name in _WRAPPING_IN.get(package, _NOWHERE):
            reason = _read(error, "reason")
            is_error = issubclass(cast("type[object]", type(reason)), BaseException)
            return is_error and depth < _DEEPEST and _is_transient(reason, depth + 1)
    return None


def _names(cls: type) -> Iterator[tuple[str, str]]:
    for each in _bases_of(cls):
        module, name = _read(each, "__module__"), _read(each, "__name__")
        if type(module) is str and type(name) is str:
            yield module.partition(".")[0], name


def is_transient_status(status: int) -> bool:
    """Whether a server that answers so may answer otherwise a little later."""
    return status in _TRANSIENT_STATUSES


def http_status(error: BaseException) -> int | None:
    """The HTTP status that an error carries, or its response does; None where there is none.

    A number under some name is a status only where the class is, or derives from, one of an HTTP client's: exit codes
    and protocols of databases have the same names. Any other error says so itself, by the name ``http_status``.
    """
    status = _as_status(_read(error, "http_status"))
    if status is not None or not _is_of_http_client(type(error)):
        return status
    for name in ("status_code", "status", "code"):
        status = _as_status(_read(error, name))
        if status is not None:
            return status
    response = _read(error, "response")
    if type(response) is dict:
        return _status_in(cast("dict[Any, Any]", response))
    for name in ("status_code", "status"):
        status = _as_status(_read(response, name))
        if status is not None:
            return status
    return None


def _is_of_http_client(cls: type) -> bool:
    return any(package in _HTTP_CLIENTS for package, _ in _names(cls))


def _status_in(response: dict[Any, Any]) -> int | None:
    """The status in an answer as botocore gives it."""
    about = response.get("ResponseMetadata")
    return _as_status(cast("dict[Any, Any]", about).get("HTTPStatusCode")) if type(about) is dict else None


def _as_status(value: Any) -> int | None:
    if not issubclass(cast("type[object]", type(value)), int) or type(value) is bool:
        return None
    number = int.__index__(value)
    return number if 100 <= number <= 599 else None


def retry_after_s(error: BaseException, now: float) -> float | None:
    """How many seconds from now a server asks to be left alone: by ``retry_after`` of the error, or by the header.

    ``now`` is in seconds since 1970 UTC: the header may name a point in time. Never negative, and None where nothing is
    said, or nothing that can be meant.
    """
    asked = _seconds(_read(error, "retry_after"), now)
    for holder in (error, _read(error, "response")):
        if asked is None:
            asked = _seconds(_header(_read(holder, "headers"), "retry-after"), now)
    return asked


def _seconds(value: Any, now: float) -> float | None:
    try:
        seconds = _number(value, now)
    except (ValueError, OverflowError):
        return None
    if seconds is None or not math.isfinite(seconds) or seconds > LONGEST_ASKED_S:
        return None
    return max(0.0, seconds)


def _number(value: Any, now: float) -> float | None:
    cls = cast("type[object]", type(value))
    if issubclass(cls, timedelta):
        return timedelta.total_seconds(value)
    if issubclass(cls, float):
        return float.__float__(value)
    if issubclass(cls, int) and cls is not bool:
        return float(int.__index__(value))
    if issubclass(cls, bytes):
        value = bytes.decode(value, "latin-1")
    elif not issubclass(cls, str):
        return None
    text = str.strip(value)
    if len(text) > _LONGEST_TEXT or not text.isascii() or "_" in text:
        return None  # Python reads more as a number than a server means by one.
    date = _HTTP_DATE.fullmatch(text)
    return float(text) if date is None else _moment(date) - now


def _moment(date: re.Match[str]) -> float:
    # Not strptime, which reads the names of months in the language that the program is set to.
    day, month, year, hour, minute, second = date.groups()
    number = _MONTHS.index(month.title()) + 1
    return datetime(int(year), number, int(day), int(hour), int(minute), int(second), tzinfo=UTC).timestamp()


def _header(headers: Any, name: str) -> Any:
    """The value of a header, whatever its case, out of anything that has items."""
    items = _read(headers, "items")
    try:
        found = cast("Iterable[tuple[Any, Any]]", items())
        for key, value in islice(found, _MOST_HEADERS):
            text = key.decode("latin-1") if isinstance(key, bytes) else key
            if isinstance(text, str) and text.lower() == name:
                return value
    except Exception:
        # It is no mapping, or one that does not let itself be read: then it says nothing.
        return None
    return None


def _read(holder: Any, name: str) -> Any:
    """An attribute, or None where there is none or it cannot be read."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None
