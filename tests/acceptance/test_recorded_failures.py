"""Every recorded failure is raised again, whatever exception it was, with what programs look at."""

from __future__ import annotations

import asyncio
import copy
import errno
import os
import pickle
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Annotated, Any, cast

import attrs
import httpx
import pytest
import requests
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from limpet import AttributeNotKept, Limpet, LimpetError, RetryConfig, Secret, SecretNeeded, agent, tool

executions: Counter[str] = Counter()
raising: list[Callable[[], BaseException]] = []
caught: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    raising.clear()
    caught.clear()


@tool(retry_config=RetryConfig(enabled=False))
async def fails() -> None:
    executions["fails"] += 1
    raise raising[0]()


@agent
async def catches() -> None:
    try:
        await fails()
    except Exception as error:
        caught.append(error)
    if len(caught) < 3:
        raise RuntimeError("a bug that comes later")


def replayed(make: Callable[[], BaseException]) -> Any:
    """The exception as a replay raises it again."""
    raising.append(make)
    client = Limpet("memory://")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            client.run_sync(catches, state_id="kelp")
    client.run_sync(catches, state_id="kelp")
    assert 1 == executions["fails"]
    assert str(caught[0]) == str(caught[1]) == str(caught[2])
    return caught[2]


class Order(BaseModel):
    amount: int
    address: str

    @field_validator("address")
    @classmethod
    def _known(cls, address: str) -> str:
        if address == "nowhere":
            raise ValueError("there is no such place")
        return address


def invalid(model: type[BaseModel], **fields: Any) -> Callable[[], BaseException]:
    def make() -> BaseException:
        try:
            model(**fields)
        except ValidationError as error:
            return error
        raise AssertionError("it is valid")

    return make


def test_a_validation_error_of_pydantic_comes_back_with_all_its_errors() -> None:
    error = replayed(invalid(Order, amount="many", address="nowhere"))
    assert ValidationError is type(error)
    assert (2, "Order", ()) == (error.error_count(), error.title, error.args)
    assert [("int_parsing", ("amount",), "many"), ("value_error", ("address",), "nowhere")] == [
        (each["type"], each["loc"], each["input"]) for each in error.errors()
    ]
    assert "there is no such place" == str(error.errors()[1]["ctx"]["error"])


def test_a_validation_error_that_hides_its_inputs_does_not_record_them() -> None:
    class Hidden(BaseModel):
        model_config = ConfigDict(hide_input_in_errors=True)

        pin: int

    raising.append(invalid(Hidden, pin="s3cret-pin"))
    client = Limpet("memory://")
    with pytest.raises(RuntimeError):
        client.run_sync(catches, state_id="kelp")
    failure = client.history("kelp")["catches::fails::tool_call"].error
    assert failure is not None
    assert failure.value is not None
    assert b"s3cret-pin" not in failure.value
    with pytest.raises(RuntimeError):
        client.run_sync(catches, state_id="kelp")
    assert ValidationError is type(caught[1])
    assert str(caught[0]) == str(caught[1])


class Answer(Exception):
    """A class that is declared where everybody finds it, with an initialiser that takes other arguments."""

    def __init__(self, status: int, *, detail: str) -> None:
        super().__init__(f"status {status}")
        self.status, self.detail = status, detail


class Slotted(LookupError):
    __slots__ = ("place", "unset")

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True, slots=True)
class FrozenSlots(Exception):
    code: int


@attrs.frozen
class Attrs(Exception):
    code: int


class Holding(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.connection = threading.Lock()


class Speaking(Exception):
    """Its text is made of what cannot be stored."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self.lock = lock

    def __str__(self) -> str:
        return f"the lock is {self.lock.locked()}"


def test_a_class_whose_initialiser_takes_other_arguments_comes_back_as_it_was() -> None:
    error = replayed(lambda: Answer(503, detail="busy"))
    assert (Answer, 503, "busy", "status 503") == (type(error), error.status, error.detail, str(error))


def test_slots_come_back() -> None:
    error = replayed(lambda: Slotted("reef"))
    assert (Slotted, "reef", ("reef",)) == (type(error), error.place, error.args)
    assert not hasattr(error, "unset")


@pytest.mark.parametrize("make", [lambda: FrozenSlots(3), lambda: Attrs(3)])
def test_frozen_fields_come_back(make: Callable[[], BaseException]) -> None:
    error = replayed(make)
    assert (type(make()), 3) == (type(error), error.code)


def test_an_attribute_that_cannot_be_stored_says_so_when_it_is_used() -> None:
    error = replayed(lambda: Holding("kelp"))
    assert (Holding, "kelp") == (type(error), error.name)
    with pytest.raises(AttributeNotKept, match=r"'connection' of .*Holding was not recorded .*a _thread\.lock"):
        error.connection.acquire()
    with pytest.raises(AttributeError):
        bool(error.connection)
    assert "not recorded" in repr(error.connection)
    assert error.connection == pickle.loads(pickle.dumps(error.connection))


class Batch(Exception):
    def __init__(self, *failed: Any) -> None:
        super().__init__("of a batch", *failed)
        self.failed = {"first": failed[0], "all": [failed, "and no more"]}


@pytest.mark.parametrize("kind", [Batch, ValueError])
def test_what_could_not_be_stored_says_so_also_inside_an_attribute(kind: type[Exception]) -> None:
    error = replayed(lambda: kind(threading.Lock()))
    with pytest.raises(AttributeNotKept, match=f"'args' of .*{kind.__name__} was not recorded"):
        error.args[-1].acquire()
    if kind is Batch:
        assert "and no more" == error.failed["all"][1]
        for lock in (error.failed["first"], error.failed["all"][0][0]):
            with pytest.raises(AttributeNotKept, match=r"'failed' of .*Batch was not recorded"):
                lock.acquire()


class Abstract(ABC, Exception):
    """As the errors of grpc are."""

    @abstractmethod
    def code(self) -> int: ...

    @abstractmethod
    def time_remaining(self) -> float: ...


class Terminated(Abstract, Speaking):
    """A class of exceptions can be called although something of it is abstract."""

    def code(self) -> int:
        return int(self.lock.locked())


@pytest.mark.parametrize("kind", [Speaking, Terminated])
def test_one_that_cannot_say_any_more_what_it_said_says_it_all_the_same(kind: type[Speaking]) -> None:
    error = replayed(lambda: kind(threading.Lock()))
    assert isinstance(error, kind)
    assert "the lock is False" == str(error)
    assert f"{kind.__name__}: the lock is False" in repr(error)
    if isinstance(error, Terminated):
        with pytest.raises(AttributeNotKept):
            error.code()


class Declared(ConnectionError):
    """A class that others derive from inside functions."""


def local() -> BaseException:
    class Local(Declared, ValueError):
        def __init__(self, place: str) -> None:
            super().__init__(f"lost at {place}")
            self.place = place

        @property
        def depth(self) -> int:
            return 3

    return Local("reef")


def test_a_class_that_nobody_finds_is_stood_in_for_by_one_that_derives_from_the_same() -> None:
    error = replayed(local)
    assert (True, True) == (isinstance(error, Declared), isinstance(error, ValueError))
    assert ("lost at reef", "reef", ("lost at reef",)) == (str(error), error.place, error.args)
    assert f"<recorded {__name__}.local.<locals>.Local: lost at reef>" == repr(error)
    with pytest.raises(AttributeNotKept, match=r"'depth' of .*Local was not recorded"):
        _ = error.depth
    assert not hasattr(error, "surface")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(error), repr(error), "reef") == (str(again), repr(again), again.place)
        assert isinstance(again, Declared)


def test_a_stand_in_that_fails_an_agent_is_recorded_as_what_it_stands_for() -> None:
    @agent
    async def inner() -> None:
        await fails()

    @agent
    async def outer() -> list[str]:
        try:
            await inner()
        except Declared as error:
            caught.append(error)
        if len(caught) < 3:
            raise RuntimeError("a bug that comes later")
        return [repr(error) for error in caught[1:]]

    raising.append(local)
    client = Limpet("memory://")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            client.run_sync(outer, state_id="kelp")
    first, second = client.run_sync(outer, state_id="kelp")
    assert first == second
    assert 1 == executions["fails"]


def circle() -> BaseException:
    error, cause = ValueError("top"), KeyError("below")
    error.__cause__, cause.__cause__ = cause, error
    return error


def own_attribute() -> BaseException:
    error = Answer(1, detail="x")
    error.detail = [error]  # pyright: ignore[reportAttributeAccessIssue]
    return error


def deep() -> BaseException:
    error: BaseException = ValueError(0)
    for number in range(1, 3000):
        above = Answer(number, detail="")
        above.__cause__ = error
        error = above
    return error


def test_a_circle_of_causes_is_cut_off_where_it_begins_again() -> None:
    error = replayed(circle)
    assert (ValueError, ("top",)) == (type(error), error.args)
    assert (KeyError, ("below",), None) == (type(error.__cause__), error.__cause__.args, error.__cause__.__cause__)


@pytest.mark.parametrize("make", [own_attribute, deep])
def test_what_refers_to_itself_or_has_thousands_of_causes_comes_back(make: Callable[[], BaseException]) -> None:
    assert Answer is type(replayed(make))


def test_members_of_a_group_come_back_whatever_they_are() -> None:
    members = cast("list[Exception]", [local(), Holding("kelp"), invalid(Order)()])
    error = replayed(lambda: ExceptionGroup("both", members))
    assert ExceptionGroup is type(error)
    kinds = (Declared, Holding, ValidationError)
    assert [True] * 3 == [isinstance(each, kind) for each, kind in zip(error.exceptions, kinds, strict=True)]
    told: list[str] = []
    try:
        raise error
    except* Declared as group:
        told += [str(each) for each in group.exceptions]
    except* Exception:
        told.append("the others")
    assert ["lost at reef", "the others"] == told


class Undecodable(UnicodeDecodeError):
    def __init__(self) -> None:
        super().__init__("utf-8", b"\xff", 0, 1, "no text")
        self.args = ("only one",)


def test_a_built_in_class_whose_arguments_do_not_fit_comes_back_as_its_class() -> None:
    error = replayed(Undecodable)
    assert isinstance(error, Undecodable)
    assert "no text" in str(error)


class Proxy:
    """What ``openai`` has in the place of a class that is gone: it gives itself for every name that it is asked for."""

    def __getattr__(self, name: str) -> Proxy:
        return self


Completion = Proxy()


class CutOff(Exception):
    completion: Completion  # pyright: ignore[reportInvalidTypeForm]  # as in openai.LengthFinishReasonError


class Unsure(Exception):
    def __bool__(self) -> bool:
        raise RuntimeError("neither")


@pytest.mark.parametrize("kind", [CutOff, Unsure])
def test_a_failure_is_recorded_whatever_its_class_does_when_it_is_looked_at(kind: type[Exception]) -> None:
    error = replayed(kind)
    assert isinstance(error, kind)
    assert str(kind()) == str(error)


class SecretHolding(Exception):
    password: Annotated[str, Secret]

    def __init__(self, password: str) -> None:
        super().__init__(password)
        self.password = password


def test_what_is_marked_as_secret_is_not_recorded_and_the_failure_comes_back() -> None:
    raising.append(lambda: SecretHolding("hunter2"))
    client = Limpet("memory://")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            client.run_sync(catches, state_id="kelp")
    assert 1 == executions["fails"]
    assert SecretHolding is type(caught[1])
    assert "hunter2" not in repr(caught[1].args)
    with pytest.raises(SecretNeeded):
        str(caught[1].password)


class Noticing(Exception):
    """A class that notices when it is derived from."""

    derived: list[str] = []  # noqa: RUF012

    def __init_subclass__(cls) -> None:
        Noticing.derived.append(cls.__name__)


def noticed() -> BaseException:
    return type("Refined", (Noticing, TimeoutError), {})("no")


def test_no_class_notices_that_a_stand_in_is_made() -> None:
    error = replayed(noticed)
    assert ["Refined"] == Noticing.derived
    assert isinstance(error, TimeoutError)


PROGRAM = """
import sys
from pathlib import Path

from limpet import RetryConfig, agent, tool

if Path("old").exists():

    class Moved(ConnectionError):
        pass


@tool(retry_config=RetryConfig(enabled=False))
def ask() -> None:
    with Path("asked").open("a") as asked:
        asked.write("x")
    raise Moved("the service is down")


@agent
def run() -> str:
    try:
        ask.call()
    except ConnectionError as error:
        answer = f"{error!r}: {error}"
    if Path("old").exists():
        raise RuntimeError("a bug")
    return answer
"""


def test_a_class_that_is_gone_is_stood_in_for_in_a_later_process(tmp_path: Path) -> None:
    def limpet(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "limpet.cli.main", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "old").touch()
    assert 0 != limpet("run", "program:run", "--id", "kelp").returncode
    (tmp_path / "old").unlink()
    resumed = limpet("resume", "kelp")
    assert "<recorded program.Moved: the service is down>: the service is down" == resumed.stdout.strip(), (
        resumed.stderr
    )
    assert "x" == (tmp_path / "asked").read_text()


BODY = b'{"error": {"code": "overloaded"}, "key": "k-1234567"}'


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = BODY if "long" not in self.path else b"kelp " * 20_000
        self.send_response(503, "Busy")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.send_header("Set-Cookie", "session=c00kie")
        self.send_header("X-RateLimit-Remaining-Tokens", "7")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def by_httpx(url: str) -> BaseException:
    try:
        httpx.get(url, headers={"Authorization": "Bearer t0ken"}, trust_env=False).raise_for_status()
    except httpx.HTTPStatusError as error:
        return error
    raise AssertionError("it was answered")


def by_requests(url: str) -> BaseException:
    session = requests.Session()
    session.trust_env = False
    try:
        session.get(url, headers={"Authorization": "Bearer t0ken"}, timeout=10).raise_for_status()
    except requests.HTTPError as error:
        return error
    raise AssertionError("it was answered")


CLIENTS = pytest.mark.parametrize(
    ("fetch", "kind"), [(by_httpx, httpx.HTTPStatusError), (by_requests, requests.HTTPError)]
)


def caught_again(url: str, fetch: Callable[[str], BaseException]) -> Any:
    """The error of a client, as it is caught in a replay; nothing secret stands in its record."""
    raising.append(lambda: fetch(url))
    client = Limpet("memory://")
    with pytest.raises(RuntimeError):
        client.run_sync(catches, state_id="kelp")
    with pytest.raises(RuntimeError):
        client.run_sync(catches, state_id="kelp")
    assert 1 == executions["fails"]
    failure = client.history("kelp")["catches::fails::tool_call"].error
    assert failure is not None
    assert failure.value is not None
    for secret in (b"t0ken", b"c00kie"):
        assert secret not in failure.value
    assert len(failure.value) < 30_000
    assert str(caught[0]) == str(caught[1])
    return caught[1]


@CLIENTS
def test_an_error_of_an_http_client_comes_back_with_the_answer(
    server: str, fetch: Callable[[str], BaseException], kind: type
) -> None:
    error = caught_again(f"{server}/pages/1?page=2", fetch)
    response, request = error.response, error.request
    assert kind is type(error)
    assert (503, "Busy") == (
        response.status_code,
        response.reason if kind is requests.HTTPError else response.reason_phrase,
    )
    assert ("application/json", "0", "7") == (
        response.headers["content-type"],
        response.headers.get("Retry-After"),
        response.headers["x-ratelimit-remaining-tokens"],
    )
    assert "**********" == response.headers["set-cookie"] == request.headers["authorization"]
    assert BODY.decode() == response.text
    assert BODY == response.content
    assert "overloaded" == response.json()["error"]["code"]
    assert ("GET", f"{server}/pages/1?page=2") == (request.method, str(request.url))
    assert (kind is requests.HTTPError) is not bool(response)
    with pytest.raises(AttributeNotKept, match=r"'elapsed' of a recorded response was not recorded"):
        _ = response.elapsed
    with pytest.raises(AttributeNotKept, match=r"'content' of a recorded request"):
        _ = request.content


@CLIENTS
def test_of_a_long_answer_the_beginning_is_kept(server: str, fetch: Callable[[str], BaseException], kind: type) -> None:
    response = caught_again(f"{server}/long", fetch).response
    assert response.text.startswith("kelp kelp kelp")
    assert response.text.endswith("… [83616 more were not recorded]")
    with pytest.raises(AttributeNotKept):
        response.json()
    with pytest.raises(AttributeNotKept):
        _ = response.content


def test_a_mask_stands_for_credentials_in_a_url() -> None:
    def refused() -> BaseException:
        request = httpx.Request("GET", "https://me:pa55@api.example/v1?api_key=k3y&page=2")
        return httpx.HTTPStatusError("refused", request=request, response=httpx.Response(401, request=request))

    error = replayed(refused)
    assert "https://**********@api.example/v1?api_key=**********&page=2" == str(error.request.url)
    assert ("api.example", "/v1", "https") == (error.request.url.host, error.request.url.path, error.request.url.scheme)
    assert ("", 401, True) == (error.response.text, error.response.status_code, error.response.is_client_error)


def test_an_answer_that_was_not_read_has_no_text() -> None:
    def streamed() -> BaseException:
        request = httpx.Request("GET", "https://api.example/v1")
        response = httpx.Response(500, request=request, stream=httpx.ByteStream(b"never read"))
        return httpx.HTTPStatusError("failed", request=request, response=response)

    error = replayed(streamed)
    assert 500 == error.response.status_code
    with pytest.raises(AttributeNotKept, match="'text' of a recorded response"):
        _ = error.response.text


def likeness_of(package: str) -> type[Exception]:
    """A class with the shape that the errors of openai and anthropic have."""

    class APIStatusError(Exception):
        def __init__(self, message: str, *, response: httpx.Response, body: object) -> None:
            super().__init__(message)
            self.message = message
            self.request = response.request
            self.response = response
            self.status_code = response.status_code
            self.request_id = response.headers.get("x-request-id")
            self.body = body

    APIStatusError.__module__, APIStatusError.__qualname__ = package, "APIStatusError"
    return APIStatusError


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_an_error_of_a_model_provider_comes_back_with_its_body(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls: Any = likeness_of(package)
    module = type(sys)(package)
    cast("Any", module).APIStatusError = cls
    monkeypatch.setitem(sys.modules, package, module)

    def overloaded() -> BaseException:
        request = httpx.Request("POST", "https://api.example/v1/messages", headers={"x-api-key": "k3y"})
        response = httpx.Response(400, request=request, headers={"x-request-id": "r-1"}, json={"type": "invalid"})
        return cls("invalid", response=response, body={"type": "invalid"})

    error = replayed(overloaded)
    assert (cls, 400, "r-1", {"type": "invalid"}) == (type(error), error.status_code, error.request_id, error.body)
    assert ("**********", 400) == (error.request.headers["x-api-key"], error.response.status_code)
    assert "invalid" == error.response.json()["type"]


def test_an_error_that_says_that_something_was_not_kept_is_one_of_limpet() -> None:
    assert issubclass(AttributeNotKept, LimpetError)
    assert issubclass(AttributeNotKept, AttributeError)
    with pytest.raises(AttributeNotKept, match="into an attribute of plain data"):
        raise AttributeNotKept("request", "app.Failure", "it was a socket")


def test_a_run_that_is_resumed_elsewhere_goes_on_with_the_stand_ins() -> None:
    raising.append(local)
    client = Limpet("memory://")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            client.run_sync(catches, state_id="kelp")
    asyncio.run(client.resume("kelp", agent=catches))
    assert [True, True, True] == [isinstance(error, Declared) for error in caught]


class DiskFull(OSError):
    def __init__(self, path: str) -> None:
        super().__init__(f"no space is left for {path}")
        self.errno, self.filename = errno.ENOSPC, path


def in_a_file(error: Exception, **fields: Any) -> Callable[[], BaseException]:
    def make() -> BaseException:
        for name, value in fields.items():
            setattr(error, name, value)
        return error

    return make


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (lambda: DiskFull("/kelp"), {"errno": errno.ENOSPC, "filename": "/kelp", "strerror": None}),
        (in_a_file(OSError(2, "no kelp"), filename="/kelp"), {"errno": 2, "filename": "/kelp", "filename2": None}),
        (in_a_file(SyntaxError("no kelp"), filename="kelp.py", lineno=7), {"filename": "kelp.py", "lineno": 7}),
        (
            in_a_file(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no kelp"), reason="no kelp in /kelp"),
            {"reason": "no kelp in /kelp", "object": b"\xff", "end": 1},
        ),
    ],
)
def test_fields_of_built_in_classes_are_kept_that_were_set_later(
    make: Callable[[], BaseException], fields: dict[str, Any]
) -> None:
    error = replayed(make)
    assert isinstance(error, type(make()))
    assert fields == {name: getattr(error, name) for name in fields}


class Refusals(ExceptionGroup[Exception]):
    """Made as the documentation of Python does it: from other arguments than those of every group."""

    exit_code: int

    def __new__(cls, errors: list[Exception], exit_code: int) -> Refusals:
        self = super().__new__(cls, f"exit code: {exit_code}", errors)
        self.exit_code = exit_code
        return self

    def derive(self, excs: Any) -> Refusals:
        return cast("Any", Refusals)(excs, self.exit_code)


def local_group() -> BaseException:
    class Local(ExceptionGroup[Exception]):
        pass

    return Local("both", [ValueError("north"), LookupError("south")])


@pytest.mark.parametrize(
    "make", [lambda: cast("Any", Refusals)([ValueError("north"), LookupError("south")], 3), local_group]
)
def test_a_group_of_a_class_of_its_own_is_a_group_on_replay(make: Callable[[], BaseException]) -> None:
    group = replayed(make)
    taken: list[str] = []
    try:
        raise group
    except* ValueError as part:
        taken += [f"value {error}" for error in part.exceptions]
    except* LookupError as part:
        taken += [f"lookup {error}" for error in part.exceptions]
    assert ["value north", "lookup south"] == taken
    assert getattr(make(), "exit_code", None) == getattr(group, "exit_code", None)
