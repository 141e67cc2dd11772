"""An exception that failed an event is always read again, and reading it runs nothing that its bytes name."""

from __future__ import annotations

import http.client
import sys
import urllib.error
from email.message import Message
from io import BytesIO
from typing import Any, cast

import ormsgpack
import pytest

from limpet.codec.user_types.http_parts import RecordedHeaders, RecordedResponse
from limpet.codec.user_types.http_snapshots import MOST_TEXT, snapshot_of
from limpet.codec.user_types.stand_in_exceptions import make_stand_in, names_from
from limpet.codec.values import decode, encode_failure
from limpet.errors import AttributeNotKept, ValueNotReadable

ran: list[str] = []


class Loud(type):
    """A metaclass that notices everything that is done to its classes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        ran.append("call")
        return super().__call__(*args, **kwargs)

    def __subclasscheck__(cls, subclass: type) -> bool:
        ran.append("subclass check")
        return super().__subclasscheck__(subclass)

    def __getattribute__(cls, name: str) -> Any:
        ran.append(name)
        return super().__getattribute__(name)


class Watched(Exception, metaclass=Loud):
    def __init__(self, *args: Any) -> None:
        ran.append("init")
        super().__init__(*args)

    def __init_subclass__(cls) -> None:
        ran.append("derived")

    def __str__(self) -> str:
        ran.append("str")
        return "watched"

    def __setattr__(self, name: str, value: Any) -> None:
        ran.append("set")
        super().__setattr__(name, value)


class NoException:
    def __init_subclass__(cls) -> None:
        ran.append("derived")


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


def written(*names: str, **changes: Any) -> bytes:
    parts = {
        "names": list(names),
        "message": "lost at the reef",
        "args": ["reef"],
        "attributes": {"place": "reef"},
        "members": {},
        "says_message": False,
        "cause": None,
        "is_context_hidden": False,
        "traceback": None,
    }
    return ormsgpack.packb(ormsgpack.Ext(40, ormsgpack.packb(list((parts | changes).values()))))


def here(name: str) -> str:
    return f"{__name__}:{name}"


@pytest.mark.parametrize("says_message", [False, True])
def test_nothing_of_a_class_runs_when_one_of_it_is_read(says_message: bool) -> None:
    error = decode(written(here("Watched"), "builtins:Exception", says_message=says_message))
    assert [] == ran
    assert (True, ("reef",), "reef") == (type(error) is Watched, error.args, error.place)


@pytest.mark.parametrize("name", ["NoException", "fresh", "written", "ran", "nowhere"])
def test_what_is_no_exception_is_passed_over(name: str) -> None:
    error: Any = decode(written(here(name), here("Watched"), "builtins:LookupError", "builtins:Exception"))
    assert [] == [each for each in ran if each == "derived"]
    assert (True, False) == (isinstance(error, LookupError), isinstance(error, NoException))
    assert ("lost at the reef", "reef") == (str(error), error.place)


def test_no_module_is_imported() -> None:
    assert "this" not in sys.modules
    assert isinstance(decode(written("this:Zen", "builtins:ValueError")), ValueError)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "name", ["", ":", "a\x00b:c\x00d", "x" * 10_000, "builtins:object", "builtins:type", "a:b.<c>"]
)
def test_a_name_that_is_none_gives_a_plain_stand_in(name: str) -> None:
    error = decode(written(name))
    assert isinstance(error, Exception)
    assert "lost at the reef" == str(error)


@pytest.mark.parametrize(
    "changes",
    [
        *({"names": names} for names in ([], "x", [3], {}, None)),
        *({"message": message} for message in (3, None, [])),
        *({"args": args} for args in ("x", None, {}, 3)),
        *({"attributes": attributes} for attributes in ([], None, "x")),
    ],
)
def test_parts_that_are_none_are_refused(changes: dict[str, Any]) -> None:
    data = written("builtins:ValueError", **changes) if "names" not in changes else written(**changes)
    with pytest.raises(ValueNotReadable):
        decode(data)


def test_a_group_without_exceptions_is_stood_in_for() -> None:
    error = decode(written("builtins:ExceptionGroup", "builtins:Exception", args=["both", [3]]))
    assert (False, "lost at the reef") == (isinstance(error, BaseExceptionGroup), str(error))


def test_a_stand_in_fills_the_fields_of_built_in_classes() -> None:
    error = cast("OSError", make_stand_in(["gone:Refused", "builtins:ConnectionError"], "refused", (111, "refused")))
    assert (111, "refused", True) == (error.errno, error.strerror, isinstance(error, ConnectionError))


@pytest.mark.parametrize(
    ("type_name", "expected"),
    [
        ("KeyError", KeyError),
        (f"{__name__}.Watched", Exception),
        ("http.client.IncompleteRead", http.client.HTTPException),
    ],
)
def test_where_only_the_name_of_its_type_is_known_a_failure_is_stood_in_for(
    type_name: str, expected: type[BaseException]
) -> None:
    error = make_stand_in(names_from(type_name), "no", ("no",))
    assert isinstance(error, expected)
    assert f"<recorded {type_name}: no>" == repr(error).replace("builtins.", "")


def test_an_error_of_urllib_comes_back_with_its_headers() -> None:
    headers = Message()
    headers["Retry-After"] = "3"
    error = urllib.error.HTTPError("http://reef.example", 503, "Busy", headers, BytesIO(b"kelp"))
    copy = decode(encode_failure(error, str(error)))
    assert isinstance(copy, urllib.error.HTTPError)
    assert (503, "Busy", "3", str(error)) == (copy.code, copy.reason, copy.headers["retry-after"], str(copy))
    with pytest.raises(AttributeNotKept, match=r"'file' of urllib\.error\.HTTPError"):
        copy.read()


class Response:
    __module__ = "httpx"

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


@pytest.mark.parametrize(
    ("content", "encoding", "expected"),
    [
        (b"kelp", "utf-8", "kelp"),
        ("Täng".encode("latin-1"), "latin-1", "Täng"),
        (b"\xff", "utf-8", "�"),
        (b"kelp", "no-such-encoding", "kelp"),
        (b"k" * (MOST_TEXT + 3), "utf-8", f"{'k' * MOST_TEXT} … [3 more were not recorded]"),
    ],
)
def test_the_text_of_an_answer_is_what_was_read(content: bytes, encoding: str, expected: str) -> None:
    taken = cast("RecordedResponse", snapshot_of(Response(_content=content, encoding=encoding, status_code=503)))
    assert expected == taken.text


def test_an_object_that_does_not_let_itself_be_read_harms_nobody() -> None:
    class Refusing(Response):
        def __init__(self) -> None:
            pass

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError

    assert snapshot_of(Refusing()) is None
    assert snapshot_of(object()) is None


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "api-key", "X-Auth-Token"),
        *("X-Amz-Security-Token", "X-Goog-Api-Key", "x-api_key", "X-Hub-Signature"),
    ],
)
def test_credentials_in_headers_are_masked(name: str) -> None:
    taken = cast("RecordedResponse", snapshot_of(Response(headers={name: "s3cret"}, status_code=401)))
    assert "**********" == taken.headers[name]


@pytest.mark.parametrize("name", ["X-RateLimit-Remaining-Tokens", "Retry-After", "Content-Type", "WWW-Authenticate"])
def test_other_headers_are_kept(name: str) -> None:
    taken = cast("RecordedResponse", snapshot_of(Response(headers={name: "7"}, status_code=401)))
    assert "7" == taken.headers[name.lower()]


def test_headers_are_a_mapping_that_knows_no_case_and_several_values() -> None:
    headers = RecordedHeaders((("Link", "a"), ("link", "b"), ("Age", "1")))
    assert ({"link": "a, b", "age": "1"}, 2, ["a", "b"]) == (dict(headers), len(headers), headers.get_list("LINK"))
    assert (True, False, None) == ("LINK" in headers, "Etag" in headers, headers.get("Etag"))
    with pytest.raises(KeyError):
        _ = headers["Etag"]
    with pytest.raises(AttributeNotKept):
        _ = headers.encoding
