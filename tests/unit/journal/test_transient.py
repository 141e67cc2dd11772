"""Errors that pass by themselves are told from those that do not, whatever an error does when it is asked."""

from __future__ import annotations

import errno
import http
import http.client
import json
import math
import socket
import ssl
import tarfile
import urllib.error
from datetime import timedelta
from email.message import Message
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.errors import BackendUnavailable, LimpetError, UsageError
from limpet.journal.transient import (
    LONGEST_ASKED_S,
    PROGRAMMING_ERRORS,
    http_status,
    is_a,
    is_transient,
    is_transient_status,
    members_of,
    retry_after_s,
)

NOW = 784_111_777.0
"""Sun, 06 Nov 1994 08:49:37 GMT, which is the date that the standard has as its example."""


def error_with(base: type[BaseException] = Exception, **attributes: Any) -> BaseException:
    error = base("no")
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def library_error(module: str, *names: str, base: type[BaseException] = Exception) -> BaseException:
    """An error of a library that is not installed: the names of its class and of those it derives from."""
    cls = base
    for name in reversed(names):
        cls = type(name, (cls,), {"__module__": module})
    return cls("no")


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.timedeltas()
    | st.builds(dict)
)
"""What an error may carry under any name."""


class TimeIsUp(LimpetError, TimeoutError):
    """An error of ours that says that time ran out."""


@pytest.mark.parametrize("kind", [TypeError, ValueError, KeyError, AttributeError, AssertionError])
def test_programming_errors_are_never_transient(kind: type[Exception]) -> None:
    assert kind in PROGRAMMING_ERRORS
    assert not is_transient(kind("no"))
    assert not is_transient(error_with(kind, status_code=503))


@pytest.mark.parametrize(
    "error",
    [
        json.JSONDecodeError("no", "", 0),
        UnicodeDecodeError("utf-8", b"", 0, 1, "no"),
        ZeroDivisionError("no"),
        ModuleNotFoundError("no"),
        RecursionError("no"),
        IndexError("no"),
        ssl.SSLCertVerificationError("no"),
    ],
)
def test_whatever_derives_from_a_programming_error_is_one(error: Exception) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("no"),
        ConnectionRefusedError("no"),
        ConnectionResetError("no"),
        BrokenPipeError("no"),
        OSError(errno.ENETUNREACH, "no"),
        OSError(errno.EHOSTUNREACH, "no"),
        OSError(errno.EAGAIN, "no"),
        socket.gaierror(socket.EAI_NONAME, "no"),
        ssl.SSLEOFError(8, "no"),
        http.client.IncompleteRead(b"half"),
        http.client.RemoteDisconnected("no"),
    ],
)
def test_errors_of_networks_are_transient(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        Exception("no"),
        RuntimeError("no"),
        OSError("no"),
        OSError(errno.ENOSPC, "no"),
        FileNotFoundError(errno.ENOENT, "no"),
        PermissionError(errno.EACCES, "no"),
        ssl.SSLError(1, "no"),
        MemoryError("no"),
        tarfile.ReadError("no"),
        error_with(OSError, errno="ECONNRESET"),
        error_with(OSError, errno=[errno.ECONNRESET]),
        error_with(errno=errno.ECONNRESET),
    ],
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_transient(error)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("httpx", ["ConnectTimeout", "TimeoutException", "TransportError", "RequestError", "HTTPError"]),
        ("httpx", ["ReadError", "NetworkError", "TransportError", "RequestError", "HTTPError"]),
        ("httpx", ["RemoteProtocolError", "ProtocolError", "TransportError", "RequestError", "HTTPError"]),
        ("httpx._exceptions", ["ConnectError", "NetworkError", "TransportError"]),
        ("httpcore", ["WriteError", "NetworkError"]),
        ("requests.exceptions", ["ConnectTimeout", "ConnectionError", "Timeout", "RequestException"]),
        ("requests.exceptions", ["ConnectionError", "RequestException"]),
        ("requests.exceptions", ["ReadTimeout", "Timeout", "RequestException"]),
        ("aiohttp.client_exceptions", ["ServerDisconnectedError", "ServerConnectionError", "ClientConnectionError"]),
        ("aiohttp.client_exceptions", ["ClientConnectorDNSError", "ClientConnectorError", "ClientConnectionError"]),
        ("aiohttp.client_exceptions", ["ServerTimeoutError"]),
        ("urllib3.exceptions", ["ReadTimeoutError", "TimeoutError", "HTTPError"]),
        ("urllib3.exceptions", ["ProtocolError", "HTTPError"]),
        ("urllib3.exceptions", ["NameResolutionError", "NewConnectionError", "HTTPError"]),
        ("openai", ["APITimeoutError", "APIConnectionError", "APIError"]),
        ("anthropic", ["APIConnectionError", "APIError"]),
        ("clients.of.somebody", ["OurApiDown", "APIConnectionError"]),
    ],
)
def test_errors_of_well_known_libraries_are_told_by_their_names(module: str, names: list[str]) -> None:
    assert is_transient(library_error(module, *names))
    assert is_transient(library_error(module, *names, base=OSError))
    assert is_transient(library_error("program", "Refined", base=type(library_error(module, *names))))


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("httpx", ["UnsupportedProtocol", "TransportError", "RequestError", "HTTPError"]),
        ("httpx", ["LocalProtocolError", "ProtocolError", "TransportError", "RequestError", "HTTPError"]),
        ("httpx", ["TooManyRedirects", "RequestError", "HTTPError"]),
        ("requests.exceptions", ["SSLError", "ConnectionError", "RequestException"]),
        ("xmlrpc.client", ["ProtocolError", "Error"]),
        ("program", ["TransportError"]),
        ("aiohttp.client_exceptions", ["ClientPayloadMissing", "ClientError"]),
    ],
)
def test_other_errors_of_libraries_are_not(module: str, names: list[str]) -> None:
    assert not is_transient(library_error(module, *names))


def test_what_only_says_where_it_happened_is_judged_by_its_reason() -> None:
    assert is_transient(urllib.error.URLError(ConnectionRefusedError("no")))
    assert not is_transient(urllib.error.URLError(ssl.SSLCertVerificationError("no")))
    assert not is_transient(urllib.error.URLError("unknown url type: kelp"))
    too_often = library_error("urllib3.exceptions", "MaxRetryError", "RequestError", "PoolError", "HTTPError")
    too_often.reason = library_error("urllib3.exceptions", "NewConnectionError")  # pyright: ignore[reportAttributeAccessIssue]
    assert is_transient(too_often)


def test_an_error_that_is_its_own_reason_is_not_transient() -> None:
    error = urllib.error.URLError("no")
    error.reason = error
    assert not is_transient(error)


def answered(base: type[BaseException] = Exception, **attributes: Any) -> BaseException:
    """An error of an HTTP client with these attributes."""
    error = library_error("httpx", "HTTPStatusError", base=base)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529, 599])
def test_a_status_of_a_server_in_trouble_is_transient(status: int) -> None:
    assert is_transient_status(status)
    assert is_transient(answered(status_code=status))
    assert is_transient(answered(response=SimpleNamespace(status_code=status)))
    assert is_transient(error_with(http_status=status))


@pytest.mark.parametrize("status", [100, 200, 301, 400, 401, 403, 404, 409, 422, 499])
def test_another_status_is_not_even_of_an_error_of_networks(status: int) -> None:
    assert not is_transient_status(status)
    assert not is_transient(answered(status_code=status))
    assert not is_transient(answered(TimeoutError, status_code=status))
    assert not is_transient(answered(ConnectionError, response=SimpleNamespace(status=status)))
    assert not is_transient(error_with(TimeoutError, http_status=status))


@pytest.mark.parametrize("name", ["status_code", "status", "code", "response"])
def test_a_number_of_an_error_that_is_none_of_http_is_no_status(name: str) -> None:
    number: Any = SimpleNamespace(status_code=503) if name == "response" else 503
    attributes: dict[str, Any] = {name: number}
    assert http_status(error_with(**attributes)) is None
    assert not is_transient(error_with(**attributes))
    assert is_transient(error_with(TimeoutError, **attributes))


@pytest.mark.parametrize(
    "module",
    [
        *("httpx", "httpx2", "requests.exceptions", "aiohttp.client_exceptions", "urllib.error", "urllib3.exceptions"),
        *("openai", "anthropic", "botocore.exceptions", "google.api_core.exceptions"),
    ],
)
def test_a_status_of_whatever_derives_from_an_error_of_an_http_client_counts(module: str) -> None:
    base = type(library_error(module, "SomeError"))
    error = library_error("program", "Refined", base=base)
    error.status_code = 503  # pyright: ignore[reportAttributeAccessIssue]
    assert 503 == http_status(error)
    assert is_transient(error)


def test_the_status_of_an_answer_is_found_as_botocore_gives_it() -> None:
    error = library_error("botocore.exceptions", "ClientError")
    for response, expected in [({"ResponseMetadata": {"HTTPStatusCode": 503}}, 503), ({"ResponseMetadata": 3}, None)]:
        error.response = response  # pyright: ignore[reportAttributeAccessIssue]
        assert expected == http_status(error)


def test_errors_of_limpet_are_transient_only_where_time_ran_out() -> None:
    assert is_transient(TimeIsUp("no"))
    assert not is_transient(UsageError("no", "do"))
    assert not is_transient(BackendUnavailable("store", "no"))
    assert not is_transient(error_with(LimpetError, status_code=503))


def test_what_is_no_exception_of_a_program_is_not_transient() -> None:
    assert not is_transient(KeyboardInterrupt())
    assert not is_transient(SystemExit(503))
    assert not is_transient(BaseExceptionGroup("no", [TimeoutError(), KeyboardInterrupt()]))


def test_a_group_is_transient_if_all_its_members_are() -> None:
    assert is_transient(ExceptionGroup("no", [TimeoutError(), ExceptionGroup("no", [ConnectionError()])]))
    assert not is_transient(ExceptionGroup("no", [TimeoutError(), ExceptionGroup("no", [RuntimeError()])]))


def test_a_group_is_looked_through_however_deep_and_wide_it_is() -> None:
    member = TimeoutError()
    groups: list[Exception] = [member]
    for _ in range(5000):
        groups.append(ExceptionGroup("no", [groups[-1], groups[-1]]))
    assert [member] == members_of(groups[-1])
    assert is_transient(groups[-1])


class ComputedGroup(ExceptionGroup[Exception]):
    @property
    def exceptions(self) -> Any:
        raise RuntimeError


def test_a_group_that_hides_its_members_is_looked_through_all_the_same() -> None:
    member = TimeoutError()
    assert [member] == members_of(ComputedGroup("no", [member]))


@pytest.mark.parametrize(
    ("expected", "attributes"),
    [
        (404, {"status_code": 404}),
        (404, {"status": 404}),
        (404, {"code": 404}),
        (404, {"http_status": 404}),
        (404, {"response": SimpleNamespace(status_code=404)}),
        (404, {"response": SimpleNamespace(status=404)}),
        (404, {"status_code": http.HTTPStatus.NOT_FOUND}),
        (404, {"status_code": 404, "status": 503, "response": SimpleNamespace(status_code=500)}),
        (503, {"code": "rate_limited", "status": 503}),
        (100, {"code": 100}),
        (599, {"code": 599}),
        (None, {}),
        (None, {"code": 99}),
        (None, {"code": 600}),
        (None, {"code": 10**400}),
        (None, {"code": -404}),
        (None, {"code": True}),
        (None, {"code": 404.0}),
        (None, {"code": "404"}),
        (None, {"code": lambda: 404}),
        (None, {"status_code": None, "response": None}),
        (None, {"response": {"status_code": 404}}),
    ],
)
def test_an_http_status_is_found_where_libraries_put_it(expected: int | None, attributes: dict[str, Any]) -> None:
    assert expected == http_status(answered(**attributes))


@pytest.mark.parametrize(
    ("expected", "asked"),
    [
        (5.0, 5),
        (1.5, 1.5),
        (0.0, 0),
        (0.0, -3),
        (5.0, "5"),
        (1.5, " 1.5 "),
        (5.0, b"5"),
        (0.0, "-3"),
        (90.0, timedelta(minutes=1, seconds=30)),
        (0.0, timedelta(seconds=-1)),
        (10.0, "Sun, 06 Nov 1994 08:49:47 GMT"),
        (0.0, "Sun, 06 Nov 1994 08:00:00 GMT"),
        (LONGEST_ASKED_S, LONGEST_ASKED_S),
        (None, LONGEST_ASKED_S + 1),
        (None, "\u0661\u0662"),
        (None, "1_000"),
        (None, "Sun, 06 Nov 1996 08:49:47 GMT"),
        (None, None),
        (None, True),
        (None, ""),
        (None, "soon"),
        (None, "nan"),
        (None, "inf"),
        (None, math.nan),
        (None, -math.inf),
        (None, 10**400),
        (None, timedelta.max),
        (None, "1" * 10**6),
        (None, [5]),
        (None, "Sunday, 06-Nov-94 08:49:37 GMT"),
        (None, "Sun, 31 Feb 1994 08:49:37 GMT"),
        (None, "Sun, 06 Kel 1994 08:49:37 GMT"),
        (None, "Sun, 06 Nov 0000 08:49:37 GMT"),
        (None, "Sun, 06 Nov 1994 24:61:61 GMT"),
    ],
)
def test_the_time_that_a_server_asks_for_is_read_in_every_form(expected: float | None, asked: Any) -> None:
    assert expected == retry_after_s(error_with(retry_after=asked), NOW)
    assert expected == retry_after_s(error_with(headers={"Retry-After": asked}), NOW)


def mail_headers() -> Message:
    message = Message()
    message["Retry-After"] = "7"
    return message


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "7"},
        {"retry-after": 7},
        {"Content-Type": "text/plain", "RETRY-AFTER": "7"},
        {b"retry-after": b"7"},
        {None: 1, 5: 2, "Retry-After": "7"},
        mail_headers(),
    ],
)
def test_the_header_is_found_in_any_case_on_the_error_and_on_its_response(headers: Any) -> None:
    assert 7.0 == retry_after_s(error_with(headers=headers), NOW)
    assert 7.0 == retry_after_s(error_with(response=SimpleNamespace(headers=headers)), NOW)
    assert 7.0 == retry_after_s(error_with(headers={}, response=SimpleNamespace(headers=headers)), NOW)


def test_what_the_error_says_itself_goes_before_its_headers() -> None:
    headers = {"Retry-After": "7"}
    assert 3.0 == retry_after_s(error_with(retry_after=3, headers=headers), NOW)
    assert 0.0 == retry_after_s(error_with(retry_after=0, headers=headers), NOW)
    assert 7.0 == retry_after_s(error_with(retry_after="soon", headers=headers), NOW)


class EndlessHeaders:
    def items(self) -> Any:
        return ((str(number), "5") for number in count())


class BrokenHeaders:
    def items(self) -> Any:
        raise OSError


@pytest.mark.parametrize(
    "headers", [None, {}, [("Retry-After", "7")], "Retry-After: 7", EndlessHeaders(), BrokenHeaders()]
)
def test_headers_that_cannot_be_read_say_nothing(headers: Any) -> None:
    assert retry_after_s(error_with(headers=headers), NOW) is None


def test_a_time_is_not_counted_from_a_clock_that_says_nothing() -> None:
    assert retry_after_s(error_with(retry_after="Sun, 06 Nov 1994 08:49:47 GMT"), math.nan) is None


class Hostile(OSError):
    """Whatever it is asked for, it raises; its class is computed as well."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileClass(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise RuntimeError


def test_nothing_is_raised_whatever_an_error_does_when_it_is_asked() -> None:
    # Made here, since whoever looks for tests would ask the class, too.
    class OfHostileClass(Exception, metaclass=HostileClass):
        pass

    for error in (Hostile("no"), OfHostileClass("no")):
        assert is_transient(error) is False
        assert http_status(error) is None
        assert retry_after_s(error, NOW) is None
        assert is_a(error, OfHostileClass) is (type(error) is OfHostileClass)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["status_code", "code", "errno", "reason", "retry_after", "headers"]), VALUES))
def test_nothing_is_raised_whatever_an_error_carries(attributes: dict[str, Any]) -> None:
    error = error_with(OSError, **attributes)
    assert is_transient(error) in (True, False)
    assert http_status(error) in (None, *range(100, 600))
    asked = retry_after_s(error, NOW)
    assert asked is None or 0 <= asked <= LONGEST_ASKED_S
