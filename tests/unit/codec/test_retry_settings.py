"""Configurations of retrying come back from JSON as they were, and other data is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import MappingProxyType, ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet.codec.retry_settings import from_plain, to_plain
from limpet.errors import UsageError, ValueNotReadable
from limpet.model import BackoffStrategy, EventType, RetryConfig

MODULE = ModuleType("program_of_retry_settings")
"""The user's module. Test modules themselves are not found among those that are imported."""


class Busy(Exception):
    """An exception of the user's module."""

    class Later(Exception):
        """One that is declared inside another."""


for cls in (Busy, Busy.Later):
    cls.__module__ = MODULE.__name__
MODULE.Busy = Busy  # pyright: ignore[reportAttributeAccessIssue]
MODULE.answer = 42  # pyright: ignore[reportAttributeAccessIssue]


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE.__name__, MODULE)


def test_where_there_is_nothing_nothing_is_written() -> None:
    assert {} == to_plain(None, {})
    assert (None, {}) == from_plain({})


def test_only_what_differs_from_the_default_is_written() -> None:
    assert {"default": {}} == to_plain(RetryConfig(), {})
    assert (RetryConfig(), {}) == from_plain({"default": {}})
    assert {"default": {"max_attempts": 5}} == to_plain(RetryConfig(max_attempts=5, initial_delay=1), {})
    off = RetryConfig(enabled=False)
    assert {"by_type": {"agent_call": {"enabled": False}}} == to_plain(None, {EventType.AGENT_CALL: off})


def test_everything_is_plain_json() -> None:
    config = RetryConfig(
        max_attempts=5,
        backoff_strategy=BackoffStrategy.LINEAR,
        initial_delay=0.5,
        max_delay=9.0,
        backoff_multiplier=3.0,
        jitter=False,
        retry_on_exceptions=(Busy, TimeoutError),
        exclude_exceptions=(Busy.Later,),
        retry_timeout=30.0,
        enabled=False,
    )
    plain = to_plain(config, {EventType.TOOL_CALL: config})
    fields = {
        "max_attempts": 5,
        "backoff_strategy": "linear",
        "initial_delay": 0.5,
        "max_delay": 9.0,
        "backoff_multiplier": 3.0,
        "jitter": False,
        "retry_on_exceptions": ["program_of_retry_settings:Busy", "builtins:TimeoutError"],
        "exclude_exceptions": ["program_of_retry_settings:Busy.Later"],
        "retry_timeout": 30.0,
        "enabled": False,
    }
    assert {"default": fields, "by_type": {"tool_call": fields}} == plain
    assert str is type(plain["default"]["backoff_strategy"])
    assert (config, {EventType.TOOL_CALL: config}) == from_plain(json.loads(json.dumps(plain)))


def test_equal_settings_are_the_same_text() -> None:
    one, other = RetryConfig(max_attempts=1), RetryConfig(max_attempts=2)
    there = {EventType.TOOL_CALL: one, EventType.AGENT_CALL: other}
    and_back = {EventType.AGENT_CALL: other, EventType.TOOL_CALL: one}
    assert json.dumps(to_plain(None, there)) == json.dumps(to_plain(None, and_back))


def test_any_mapping_is_read() -> None:
    data = MappingProxyType({"default": MappingProxyType({"max_attempts": 5, "retry_on_exceptions": ()})})
    assert (RetryConfig(max_attempts=5, retry_on_exceptions=()), {}) == from_plain(data)


CLASSES = st.sampled_from([Busy, Busy.Later, OSError, TimeoutError, json.JSONDecodeError, KeyboardInterrupt])
EXCEPTIONS = st.none() | st.lists(CLASSES).map(tuple)
CONFIGS = st.builds(
    RetryConfig,
    max_attempts=st.integers(1, 2**63 - 1),
    backoff_strategy=st.sampled_from(BackoffStrategy),
    initial_delay=st.floats(0, 1e308),
    max_delay=st.floats(0, 1e308),
    backoff_multiplier=st.floats(0, 1e308, exclude_min=True),
    jitter=st.booleans(),
    retry_on_exceptions=EXCEPTIONS,
    exclude_exceptions=EXCEPTIONS,
    retry_timeout=st.none() | st.floats(0, 1e308, exclude_min=True),
    enabled=st.booleans(),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.none() | CONFIGS, st.dictionaries(st.sampled_from(EventType), CONFIGS))
def test_any_settings_come_back_as_they_were(
    default: RetryConfig | None, by_type: dict[EventType, RetryConfig]
) -> None:
    plain = json.loads(json.dumps(to_plain(default, by_type)))
    found_default, found_by_type = from_plain(plain)
    assert (default, by_type) == (found_default, found_by_type)
    assert all(type(kind) is EventType for kind in found_by_type)


def test_a_class_that_cannot_be_found_again_is_refused_before_it_is_stored() -> None:
    class Hidden(Exception):
        pass

    for config in (RetryConfig(retry_on_exceptions=(Hidden,)), RetryConfig(exclude_exceptions=(OSError, Hidden))):
        with pytest.raises(UsageError, match=r"Hidden.*Declare it at the top of a module"):
            to_plain(config, {})
        with pytest.raises(UsageError):
            to_plain(None, {EventType.LLM_CALL: config})


def test_a_class_whose_name_means_another_one_is_refused() -> None:
    impostor = type("Busy", (Exception,), {"__module__": MODULE.__name__})
    with pytest.raises(UsageError, match="top of a module"):
        to_plain(RetryConfig(retry_on_exceptions=(impostor,)), {})


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def nested_dicts(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"default": value}
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        list,
        lambda: "default",
        lambda: 5,
        lambda: {"other": {}},
        lambda: {1: {}},
        lambda: {"x" * 10**6: {}},
        lambda: {"default": None},
        lambda: {"default": []},
        lambda: {"default": "linear"},
        lambda: {"default": {"attempts": 5}},
        lambda: {"default": {None: 5}},
        lambda: {"default": {"max_attempts": 0}},
        lambda: {"default": {"max_attempts": "5"}},
        lambda: {"default": {"max_attempts": 10**5000}},
        lambda: {"default": {"initial_delay": 10**400}},
        lambda: {"default": {"initial_delay": {}}},
        lambda: {"default": {"backoff_strategy": "__class__"}},
        lambda: {"default": {"backoff_strategy": []}},
        lambda: {"default": {"jitter": 1}},
        lambda: {"default": {"enabled": "no"}},
        lambda: {"default": {"max_attempts": nested(100_000)}},
        lambda: {"default": {"retry_on_exceptions": nested(100_000)}},
        lambda: nested_dicts(100_000),
        lambda: {"by_type": None},
        lambda: {"by_type": []},
        lambda: {"by_type": {"tool": {}}},
        lambda: {"by_type": {5: {}}},
        lambda: {"by_type": {"tool_call": None}},
        lambda: {"default": {"retry_on_exceptions": None}},
        lambda: {"default": {"retry_on_exceptions": "builtins:OSError"}},
        lambda: {"default": {"retry_on_exceptions": {"builtins:OSError": 1}}},
        lambda: {"default": {"exclude_exceptions": [5]}},
        lambda: {"default": {"exclude_exceptions": [None]}},
        lambda: {"default": {"exclude_exceptions": [["builtins:OSError"]]}},
        lambda: {"default": {"exclude_exceptions": [OSError]}},
    ],
)
def test_data_of_another_form_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueNotReadable) as caught:
        from_plain(make())
    assert "RetryConfig" == caught.value.type_name
    assert 500 > len(str(caught.value))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ":",
        "builtins",
        "builtins:",
        "builtins:object",
        "builtins:eval",
        "builtins:NoSuchError",
        "builtins:OSError.errno",
        "program_of_retry_settings:answer",
        "program_of_retry_settings:Busy.Never",
        "a_module_that_nobody_imported:Error",
        "." * 1000,
        "\udc80:\udc80",
    ],
)
@pytest.mark.parametrize("field", ["retry_on_exceptions", "exclude_exceptions"])
def test_a_name_that_means_no_imported_exception_type_is_refused(field: str, name: str) -> None:
    with pytest.raises(ValueNotReadable) as caught:
        from_plain({"by_type": {"llm_call": {field: [name]}}})
    assert name == caught.value.type_name
    assert "a_module_that_nobody_imported" not in sys.modules


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["builtins:OSError", "linear"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["default", "by_type", "tool_call", *RetryConfig.__struct_fields__]) | st.text(), inner
        )
    ),
    max_leaves=10,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(JUNK | st.fixed_dictionaries({"default": st.dictionaries(st.sampled_from(RetryConfig.__struct_fields__), JUNK)}))
def test_whatever_the_data_is_it_is_read_or_refused(data: Any) -> None:
    try:
        default, by_type = from_plain(data)
    except ValueNotReadable:
        return
    assert (default, by_type) == from_plain(to_plain(default, by_type))
