"""What is marked as secret never reaches the disk, a message or an event; a replay that needs it says so."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from click.testing import CliRunner

from limpet import (
    EventNotice,
    ExecutionState,
    Limpet,
    MissingSecret,
    NotResumableWarning,
    Secret,
    SecretNeeded,
    SQLiteStateBackend,
    Tool,
    UsageError,
    agent,
    llm,
    register_type,
    tool,
    wait_for_message,
)
from limpet import ask as ask_person
from limpet.cli.main import commands
from limpet.codec import values
from limpet.codec.secret_annotations import hiding_of_type, secret_parameters
from limpet.codec.secrets import scrubbed, texts_of

KEY = "sk-kelp-0123456789"
PIN = 4711_0815_2342_1729
"""Long enough that its digits and its bytes do not lie in a store by chance."""


class Settings(pydantic.BaseModel):
    url: str
    api_key: pydantic.SecretStr
    raw: pydantic.SecretBytes | None = None
    token: Annotated[str, Secret] = ""


@dataclass
class Login:
    user: str
    password: Annotated[str, Secret]


@attrs.define
class Account:
    user: str
    pin: Annotated[int, Secret()] = 0


class Card(msgspec.Struct):
    holder: str
    number: Annotated[str | None, Secret] = None


class Pair(NamedTuple):
    name: str
    secret: Annotated[str, Secret]


@register_type(name="vault", version=1)
@dataclass
class Vault:
    place: str
    code: Annotated[str, Secret]


@dataclass
class Written:
    place: str
    code: Annotated[str, Secret]


def stored_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Limpet]:
    with SQLiteStateBackend(tmp_path / "runs.db") as backend:
        yield Limpet(backend)
        backend.close()
        assert KEY.encode() not in stored_bytes(tmp_path)
        assert str(PIN).encode() not in stored_bytes(tmp_path)
        assert PIN.to_bytes(8) not in stored_bytes(tmp_path)


SECRET_VALUES: list[Any] = [
    Settings(url="u", api_key=pydantic.SecretStr(KEY), raw=pydantic.SecretBytes(KEY.encode()), token=KEY),
    Login("ada", KEY),
    Account("ada", PIN),
    Card("ada", KEY),
    Pair("ada", KEY),
    Vault("here", KEY),
    {"nested": [Login("ada", KEY), {"deep": pydantic.SecretStr(KEY)}]},
    pydantic.SecretStr(KEY),
]


@pytest.mark.parametrize("value", SECRET_VALUES, ids=lambda value: type(value).__name__)
def test_a_value_with_a_secret_is_stored_without_it(value: Any, client: Limpet) -> None:
    @tool
    async def give() -> Any:
        return value

    @agent
    async def take() -> str:
        assert value is await give()
        return "done"

    assert "done" == client.run_sync(take, state_id="x")
    again = client.history("x").get_event_result("take::give::tool_call")
    assert KEY not in repr(again)


def test_what_is_not_secret_of_such_a_value_comes_back() -> None:
    again = values.decode(values.encode(SECRET_VALUES[0]))
    assert (Settings, "u") == (type(again), again.url)
    assert "<secret Settings.token, not stored>" == repr(again.token)
    with pytest.raises(SecretNeeded, match=r"Settings\.api_key"):
        again.api_key.get_secret_value()
    login = values.decode(values.encode(Login("ada", KEY)))
    assert "ada" == login.user
    with pytest.raises(SecretNeeded, match=r"Login\.password is needed, and secrets are not stored\. Give it again"):
        f"Bearer {login.password}"


USES: list[Callable[[Any], object]] = [
    str,
    len,
    bool,
    list,
    bytes,
    float,
    hash,
    lambda secret: secret + "x",
    lambda secret: "x" + secret,
    lambda secret: secret == KEY,
    lambda secret: "%s" % secret,  # noqa: UP031 - the old way is a use, too
    lambda secret: secret.encode(),
    lambda secret: secret[0],
    lambda secret: "s" in secret,
    lambda secret: setattr(secret, "x", 1),
]


@pytest.mark.parametrize("use", USES)
def test_a_secret_that_is_missing_cannot_be_used_by_mistake(use: Callable[[Any], object]) -> None:
    missing = MissingSecret("key")
    if use is hash:
        assert hash(missing) == hash(MissingSecret("key"))
        return
    with pytest.raises(SecretNeeded):
        use(missing)


def test_a_missing_secret_can_be_copied_compared_and_written_again() -> None:
    missing = MissingSecret("key")
    again = values.decode(values.encode({"a": missing}))["a"]
    assert [missing] * 4 == [copy.copy(missing), copy.deepcopy(missing), pickle.loads(pickle.dumps(missing)), again]
    assert missing != MissingSecret("other")
    assert missing != 3


@llm
async def ask(prompt: str, api_key: Annotated[str, Secret]) -> str:
    if "fail" in prompt:
        raise ValueError(f"the key {api_key} was refused", {"key": api_key, api_key: [api_key.encode()]})
    return prompt.upper()


@agent
async def talk(prompt: str, api_key: Annotated[str, Secret], *, retries: int = 0) -> str:
    return await ask(prompt, api_key) + await ask("and", api_key=api_key)


def test_arguments_that_are_marked_are_not_recorded(client: Limpet) -> None:
    assert "HELLOAND" == client.run_sync(talk, "hello", KEY, state_id="x")
    recorded = client.history("x")["talk::ask::llm_call"]
    assert recorded.input is not None
    assert ["hello", MissingSecret("ask(api_key)")] == values.decode(recorded.input)


def test_another_key_is_the_same_run_and_no_drift(client: Limpet) -> None:
    assert "HELLOAND" == client.run_sync(talk, "hello", KEY, state_id="x")
    assert "HELLOAND" == client.run_sync(talk, "hello", api_key="a new key", state_id="x")


def test_a_failure_is_recorded_and_told_without_the_secret(client: Limpet, tmp_path: Path) -> None:
    from limpet import EventBus

    seen: list[EventNotice] = []
    bus = EventBus()
    bus.subscribe(seen.append)
    with pytest.raises(ValueError, match=KEY):  # Whoever gave the key gets the exception as it was raised.
        client.run_sync(talk, "fail", KEY, state_id="x", event_bus=bus)
    failure = client.history("x")["talk::ask::llm_call"].error
    assert failure is not None
    assert "('the key ********** was refused', {'key': '**********'" in failure.message
    assert KEY not in failure.message + failure.traceback + repr(failure)
    assert failure.value is not None
    recorded = values.decode(failure.value)
    assert ("the key ********** was refused", {"key": "**********", "**********": [b"**********"]}) == recorded.args
    bus.flush()
    assert KEY not in repr(seen)
    shown = CliRunner().invoke(commands, ["show", "x", "--json", "--store", f"sqlite:///{tmp_path}/runs.db"])
    assert KEY not in shown.output
    assert "**********" in shown.output


def test_a_secret_that_came_with_a_result_is_not_told_either(client: Limpet) -> None:
    @tool
    async def log_in() -> Login:
        return Login("ada", KEY)

    @tool
    async def use(password: str) -> None:
        raise RuntimeError(f"wrong: {password}")

    @agent
    async def work() -> None:
        login = await log_in()
        await use.options(key="x")((await unmarked(login)) or "none")

    async def unmarked(login: Login) -> str:
        try:
            raise RuntimeError(login.password)
        except RuntimeError:
            return "none"

    @agent
    async def leak() -> None:
        login = await log_in()
        raise RuntimeError(f"could not log in with {login.password}")

    for each in (work, leak):
        with pytest.raises(RuntimeError):
            client.run_sync(each, state_id=each.name)
    error = client.history("leak")["leak::agent_call"].error
    assert error is not None
    assert "could not log in with **********" == error.message


def test_resuming_says_which_secret_is_needed_and_running_again_gives_it(client: Limpet) -> None:
    with pytest.raises(ValueError, match="refused"):
        client.run_sync(talk, "fail", KEY, state_id="x")
    with pytest.raises(SecretNeeded, match=r"talk\(api_key\)"):
        asyncio.run(client.resume("x", agent=talk))
    with pytest.raises(ValueError, match="refused"):
        client.run_sync(talk, "fail", KEY, state_id="x")


def test_secrets_of_the_storage_are_not_stored(client: Limpet) -> None:
    state = ExecutionState(state_backend=client.backend, state_id="x")
    state.storage.set("login", Login("ada", KEY))
    state.storage.set_artifact("login", Login("ada", KEY))
    assert (
        MissingSecret("Login.password")
        == state.storage.get("login").password
        == (state.storage.get_artifact("login").password)
    )


def test_a_large_value_with_a_secret_is_an_artifact_without_it(client: Limpet) -> None:
    state = ExecutionState(state_backend=client.backend, state_id="x")
    state.storage.set("logins", [Login("ada" * 100, KEY)] * 1000)
    assert {MissingSecret("Login.password")} == {login.password for login in state.storage.get("logins")}


def test_a_type_whose_own_encode_would_write_the_secret_is_refused_when_it_is_registered() -> None:
    with pytest.raises(UsageError, match=r"'code' is secret, and it cannot be told where"):
        register_type(Written, encode=lambda value: [value.place, value.code], decode=lambda parts: Written(*parts))
    with pytest.raises(UsageError, match=r"'code' is secret, and it cannot be told where"):
        register_type(Written, adapter="pickle")


@dataclass
class LoginFailed(Exception):
    user: str
    password: Annotated[str, Secret]


def test_an_exception_with_a_secret_is_recorded_without_it(client: Limpet) -> None:
    @tool
    async def log_in() -> None:
        raise LoginFailed("ada", KEY)

    @agent
    async def work() -> str:
        try:
            await log_in()
        except LoginFailed as error:
            raise RuntimeError("could not log in") from error
        return ""

    with pytest.raises(RuntimeError):
        client.run_sync(work, state_id="x")
    error = client.history("x")["work::log_in::tool_call"].error
    assert error is not None
    assert KEY not in error.message + error.traceback


def test_a_large_secret_does_not_become_an_artifact(client: Limpet) -> None:
    state = ExecutionState(state_backend=client.backend, state_id="x")
    state.storage.set("login", Login("ada", KEY * 10_000))
    state.storage.set(
        "settings", [Settings(url="u" * 100_000, api_key=pydantic.SecretStr(KEY * 10_000), token=KEY * 9_000)]
    )
    assert client.artifacts is not None
    assert [100_000] == [info.size for info in client.artifacts.list_artifacts()]


def test_marks_are_found_wherever_they_stand_in_an_annotation() -> None:
    def function(
        a: Annotated[str, Secret],
        b: Annotated[str, Secret] | None,
        c: list[Annotated[str, Secret]],
        d: str,
        e: Annotated[Unknown, Secret],  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
        f: Unknown,  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
        *rest: Annotated[str, Secret()],
        **named: Annotated[str, "Secret"],
    ) -> Annotated[str, Secret]:
        return ""

    assert {"a", "b", "c", "e", "rest"} == secret_parameters(function)
    assert not hiding_of_type(str)


def test_all_of_a_marked_rest_of_arguments_is_hidden(client: Limpet) -> None:
    @agent
    async def many(first: str, *rest: Annotated[str, Secret], **named: Annotated[str, Secret]) -> int:
        return len(rest) + len(named)

    assert 3 == client.run_sync(many, "a", KEY, KEY, other=KEY, state_id="x")


def test_a_method_can_have_secret_parameters(client: Limpet) -> None:
    class Client:
        @agent
        async def call(self, key: Annotated[str, Secret]) -> int:
            return len(key)

    with pytest.warns(NotResumableWarning):  # Its object is of a class that no other process has.
        assert len(KEY) == client.run_sync(Client().call, KEY, state_id="x")


def test_the_texts_of_a_secret_are_all_that_could_show_it() -> None:
    assert {"a'b"} == texts_of("a'b")
    assert "x\\ny" in texts_of("x\ny")
    assert {"k1", "k2", "3"} == texts_of({"a": "k1", "b": ["k2", 3, None, True, ""]})
    assert "\\xff" in texts_of(pydantic.SecretBytes(b"\xff"))
    assert set() == texts_of(MissingSecret("x"))
    assert "a ********** b" == scrubbed("a long-secret b", ["long", "long-secret"])


def test_the_command_line_shows_no_secret(tmp_path: Path) -> None:
    program = tmp_path / "pipeline_with_secrets.py"
    program.write_text(
        f"""
from dataclasses import dataclass
from typing import Annotated
from limpet import Secret, agent, tool

@dataclass
class Login:
    user: str
    password: Annotated[str, Secret]

@tool
def use(key: Annotated[str, Secret], fail: bool) -> Login:
    if fail:
        raise ValueError("refused: " + key)
    return Login("ada", key)

@agent
def work(fail: bool) -> Login:
    return use.call("{KEY}", fail)
"""
    )
    for arguments in (["fail=false"], ["fail=false", "--json"], ["fail=true"], ["fail=true", "--json", "-v"]):
        store = f"sqlite:///{tmp_path}/runs.db"
        ran = CliRunner().invoke(commands, ["run", f"{program}:work", *arguments, "--store", store])
        assert KEY not in ran.output, arguments
        assert ("ada" in ran.output) == ("fail=false" in arguments)
        assert ("refused: **********" in ran.output) == ("fail=true" in arguments)


def not_there(function: Callable[..., Any]) -> Any:
    """The function, with annotations that name a Secret which is not there."""
    function.__annotations__ = dict.fromkeys(function.__annotations__, "Annotated[str, missing.Secret]")
    return function


class Unreadable(TypedDict):
    user: str
    key: "Annotated[str, missing.Secret]"  # noqa: F821, UP037 # pyright: ignore[reportUndefinedVariable]


@dataclass
class UnreadableLogin:
    user: str
    key: "Annotated[str, missing.Secret]"  # noqa: F821, UP037 # pyright: ignore[reportUndefinedVariable]


def test_annotations_that_name_a_secret_which_cannot_be_found_are_refused_at_declaration() -> None:
    async def take(key: str) -> None: ...
    async def give() -> str: ...
    async def log_in(login: UnreadableLogin) -> None: ...
    async def log_in_with(logins: list[Unreadable]) -> None: ...
    async def handle(input: Any, context: Any, state: Any) -> None: ...

    declarations: list[tuple[str, Callable[[], object]]] = [
        ("actor 'take', 'key' is annotated", lambda: tool(not_there(take))),
        ("actor 'give', result is annotated", lambda: agent(not_there(give))),
        (r"'UnreadableLogin\.key' is annotated", lambda: tool(log_in)),
        (r"'Unreadable\.key' is annotated", lambda: tool(log_in_with)),
        (r"'Unreadable\.key' is annotated", lambda: Tool(name="t", handler=handle, input_model=Unreadable)),
        (r"'Unreadable\.key' is annotated", lambda: Tool(name="t", handler=handle, output_model=Unreadable)),
        ("'key', which is annotated", lambda: register_type(UnreadableLogin, name="unreadable", adapter="pickle")),
    ]
    for problem, declare in declarations:
        with pytest.raises(UsageError, match=f"{problem}.*'Secret' cannot be found.*not for type checkers only"):
            declare()


def test_text_that_is_no_annotation_is_refused_where_it_names_a_secret() -> None:
    async def take(key: str, other: str) -> None: ...

    take.__annotations__ = {"key": "Annotated[str, Secret", "other": "no annotation at all"}
    with pytest.raises(UsageError, match="'key' is annotated as"):
        tool(take)
    take.__annotations__ = {"key": str, "other": "no annotation at all"}
    assert frozenset() == tool(take).secret_parameters


def test_names_for_type_checkers_only_are_no_reason_to_refuse() -> None:
    @tool
    async def take(a: Missing, b: list[missing.Type], c: "Missing | None" = None) -> Missing: ...  # noqa: F821, UP037 # pyright: ignore[reportUndefinedVariable]

    assert frozenset() == take.secret_parameters


def test_a_wrapper_that_hides_whose_annotations_count_is_refused() -> None:
    def hiding(function: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        wrapper.__annotations__ = {}
        return wrapper

    async def call(key: Annotated[str, Secret]) -> None: ...
    async def call_openly(key: str) -> None: ...

    with pytest.raises(
        UsageError, match=r"passes on what it is given to 'call', whose parameter 'key'.*functools\.wraps"
    ):
        tool(hiding(call))
    assert frozenset() == tool(hiding(call_openly)).secret_parameters


def test_no_secret_can_be_asked_for_or_sent(client: Limpet) -> None:
    @agent
    async def work(wanted: str) -> None:
        kind: Any = WANTED[wanted]
        await (ask_person("the key?", kind) if wanted != "message" else wait_for_message("key", kind))

    for wanted in WANTED:
        with pytest.raises(UsageError, match="comes to the run through the store, and no secret is stored"):
            client.run_sync(work, wanted, state_id=wanted)


class LoginDict(TypedDict):
    user: str
    password: Annotated[str, Secret]


WANTED: dict[str, Any] = {
    "text": Annotated[str, Secret],
    "class": Login,
    "list": list[LoginDict],
    "model": pydantic.SecretStr,
    "message": Login,
}


def test_a_result_that_is_marked_is_not_recorded_and_not_there_in_a_replay(client: Limpet) -> None:
    is_broken = True

    @tool
    async def fetch_key() -> Annotated[str, Secret]:
        return KEY

    @agent
    async def work() -> int:
        key = await fetch_key()
        if is_broken:
            raise RuntimeError(f"the key {key} was refused")
        return len(key)

    with pytest.raises(RuntimeError, match=KEY):
        client.run_sync(work, state_id="x")
    history = client.history("x")
    assert MissingSecret("fetch_key(), its result") == history.get_event_result("work::fetch_key::tool_call")
    error = history["work::agent_call"].error
    assert error is not None
    assert "the key ********** was refused" == error.message
    is_broken = False
    with pytest.raises(SecretNeeded, match=r"fetch_key\(\), its result"):
        client.run_sync(work, state_id="x")


def test_what_is_not_secret_of_a_typed_dict_comes_back(client: Limpet) -> None:
    tries = 0

    @tool
    async def log_in(known: list[LoginDict]) -> dict[str, LoginDict]:
        return {each["user"]: each for each in known}

    @agent
    async def work() -> str:
        nonlocal tries
        tries += 1
        found = await log_in([{"user": "ada", "password": KEY}])
        if tries == 1:
            raise RuntimeError(f"not with {found}")
        return found["ada"]["user"]

    with pytest.raises(RuntimeError):
        client.run_sync(work, state_id="x")
    assert "ada" == client.run_sync(work, state_id="x")
    recorded = client.history("x")["work::log_in::tool_call"]
    assert recorded.input is not None
    assert [[{"user": "ada", "password": MissingSecret("log_in(known)['password']")}]] == values.decode(recorded.input)


def test_a_validation_holds_a_marked_result_to_what_is_recorded_without_showing_it(client: Limpet) -> None:
    keys = iter([KEY, KEY + "-2"])

    @tool
    async def fetch_key() -> Annotated[str, Secret]:
        return next(keys)

    @agent
    async def work() -> None:
        await fetch_key()

    client.run_sync(work, state_id="x")
    report = asyncio.run(client.validate("x", agent=work))
    assert report.is_ok
    assert KEY not in str(report)


def test_a_postcondition_that_repeats_a_marked_result_is_recorded_without_it(client: Limpet) -> None:
    def is_good(result: str) -> bool:
        raise ValueError(f"{result} is not good")

    @tool(postconditions=[is_good])
    async def fetch_key() -> Annotated[str, Secret]:
        return KEY

    @agent
    async def work() -> None:
        await fetch_key()

    with pytest.raises(ValueError, match=KEY):
        client.run_sync(work, state_id="x")


def test_secrets_that_are_no_text_are_masked_in_what_is_raised(client: Limpet) -> None:
    key = b"\xff\x00sk-kelp-0123456789\xfe"

    @tool
    async def use(pin: Annotated[int, Secret], key: Annotated[bytes, Secret]) -> None:
        raise ValueError("refused", pin, key, {pin: bytearray(key)}, f"{key!r} {(repr(key),)}")

    @agent
    async def work() -> None:
        await use(PIN, key)

    with pytest.raises(ValueError, match="refused"):
        client.run_sync(work, state_id="x")
    failure = client.history("x")["work::use::tool_call"].error
    assert failure is not None
    assert failure.value is not None
    recorded = values.decode(failure.value)
    assert ("refused", "**********", b"**********") == recorded.args[:3]


def test_a_failure_is_told_without_a_secret_that_came_inside_an_artifact(client: Limpet) -> None:
    @tool
    async def log_in() -> list[Login]:
        return [Login("ada" * 100, KEY)] * 1000

    @agent
    async def work() -> None:
        login, *_ = await log_in()
        raise RuntimeError(f"not with {login.password}")

    with pytest.raises(RuntimeError):
        client.run_sync(work, state_id="x")


def test_an_alias_in_a_function_without_source_is_known(client: Limpet) -> None:
    program = """
from __future__ import annotations
from typing import Annotated, Optional
from limpet import Secret, agent

def declared():
    Key = Optional[Annotated[str, Secret]]

    @agent
    async def work(key: list[Key]) -> Key:
        return key[0]

    return work
"""
    space: dict[str, Any] = {"__name__": "typed_in"}
    exec(program, space)
    assert KEY == client.run_sync(space["declared"](), [KEY], state_id="x")


def test_the_command_line_shows_no_marked_result(tmp_path: Path) -> None:
    program = tmp_path / "pipeline_with_a_secret_result.py"
    program.write_text(
        f"""
from typing import Annotated
from limpet import Secret, agent

@agent
def work(fail: bool = False) -> Annotated[str, Secret]:
    return "{KEY}"
"""
    )
    store = ["--store", f"sqlite:///{tmp_path}/runs.db"]
    for arguments in (["run", f"{program}:work", "--id", "x"], ["resume", "x"], ["show", "x"], ["list"]):
        for more in ([], ["--json"]):
            ran = CliRunner().invoke(commands, [*arguments, *more, *store])
            assert 0 == ran.exit_code, ran.output
            assert KEY not in ran.output, arguments
    program.unlink()
    assert KEY.encode() not in stored_bytes(tmp_path)
