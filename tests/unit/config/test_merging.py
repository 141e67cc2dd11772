"""Sources are put together: the later one counts, what is wrong is told, and nothing else suffers from it."""

from __future__ import annotations

from typing import Any

import pytest

from limpet.config.kinds import SIZE, NotAllowed
from limpet.config.merging import Merged, Source, in_tables, in_variables, merged, store_of
from limpet.config.model import SETTINGS, settings_from
from limpet.config.reloading import Change, differences, with_fixed
from limpet.config.variables import ours, variable_of
from limpet.errors import ConfigurationProblem
from limpet.model import BackoffStrategy, Capture, OnDrift


def put_together(
    file: dict[str, Any] | None = None,
    variables: dict[str, str] | None = None,
    arguments: dict[str, Any] | None = None,
) -> tuple[Merged, tuple[ConfigurationProblem, ...]]:
    return merged(
        [
            *in_tables(file or {}, Source.FILE, lambda place: "file " + ".".join(map(str, place))),
            *in_variables(ours(variables or {})),
            *in_tables(arguments or {}, Source.ARGUMENT, lambda _: "argument"),
        ]
    )


def test_the_later_source_counts() -> None:
    file = {"on_drift": "error", "timeout_s": 5, "retry": {"max_attempts": 4, "jitter": False}}
    variables = {"LIMPET_ON_DRIFT": "ignore", "LIMPET_RETRY__MAX_ATTEMPTS": "6"}
    found, problems = put_together(file, variables, {"retry": {"max_attempts": 9}})
    assert () == problems
    assert (OnDrift.IGNORE, 5.0) == (found.settings.on_drift, found.settings.timeout_s)
    assert (9, False) == (found.settings.retry.max_attempts, found.settings.retry.jitter)
    wheres = {key: found.origins[key].where for key in ("on_drift", "timeout_s", "retry.max_attempts", "capture")}
    assert {
        "on_drift": "LIMPET_ON_DRIFT",
        "timeout_s": "file timeout_s",
        "retry.max_attempts": "argument",
        "capture": "default",
    } == wheres


def test_all_problems_are_told_and_neighbours_stay() -> None:
    file = {"on_drft": "error", "timeout_s": -1, "lease_ttl_s": 7, "retry": {"max_atempts": 3, "jitter": True}}
    found, problems = put_together(file | {"budget": 3}, {"LIMPET_STOR": "x", "LIMPET_TIMEOUT_S": "soon"})
    assert {
        ("file on_drft", "on_drft"),
        ("file retry.max_atempts", "retry.max_atempts"),
        ("file budget", "budget"),
        ("LIMPET_STOR", ""),
        ("file timeout_s", "timeout_s"),
        ("LIMPET_TIMEOUT_S", "timeout_s"),
    } == {(each.where, each.key) for each in problems}
    assert (7.0, True) == (found.settings.lease_ttl_s, found.settings.retry.jitter)
    told = {each.where: each.what for each in problems}
    assert "'on_drft' is no setting. Nearest: 'on_drift'." == told["file on_drft"]
    assert "Nearest: 'retry.max_attempts'." in told["file retry.max_atempts"]
    assert "Nearest: LIMPET_STORE." in told["LIMPET_STOR"]
    assert "timeout_s cannot be -1. Allowed is a number of seconds above 0, or 'none'." == told["file timeout_s"]
    assert "[budget]" in told["file budget"]


RIGHT: list[tuple[str, Any, str, Any]] = [
    ("persistence", False, "no", False),
    ("durability", "normal", "normal", "normal"),
    ("compression", "zstd", "zstd", "zstd"),
    ("artifact_threshold", "64 KiB", "65536", 65536),
    ("on_drift", "error", "ERROR", OnDrift.ERROR),
    ("lease_ttl_s", 5, "5", 5.0),
    ("capture", "off", "off", Capture.OFF),
    ("timeout_s", "none", "none", None),
    ("retry.backoff_strategy", "linear", "linear", BackoffStrategy.LINEAR),
    ("retry.tool_call.retry_on_exceptions", ["OSError", "json:JSONDecodeError"], "OSError, json:JSONDecodeError", None),
    ("budget.cost", 0, "0", 0.0),
    ("secrets.key_variable", "MY_KEYS", "MY_KEYS", "MY_KEYS"),
    ("store", "file://states", "file://states", "file://states"),
]


@pytest.mark.parametrize(("key", "given", "text", "value"), RIGHT)
def test_a_value_is_read_from_a_file_and_from_text(key: str, given: Any, text: str, value: Any) -> None:
    value = ("OSError", "json:JSONDecodeError") if key.endswith("retry_on_exceptions") else value
    table: dict[str, Any] = {key.rpartition(".")[2]: given}
    for name in reversed(key.split(".")[:-1]):
        table = {name: table}
    for found, problems in (put_together(table), put_together({}, {variable_of(key): text})):
        assert () == problems
        assert value == found.values[key]
        assert type(value) is type(found.values[key])


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("persistence", "true"),
        ("persistence", 1),
        ("durability", "off"),
        ("artifact_threshold", "64 parsec"),
        ("artifact_threshold", -1),
        ("artifact_threshold", True),
        ("lease_ttl_s", 0),
        ("lease_ttl_s", float("nan")),
        ("lease_ttl_s", float("inf")),
        ("timeout_s", True),
        ("retry.max_attempts", 0),
        ("retry.max_attempts", 2.5),
        ("retry.max_attempts", 10**50),
        ("retry.retry_on_exceptions", "OSError"),
        ("retry.retry_on_exceptions", ["OSEror"]),
        ("retry.retry_on_exceptions", ["json:loads"]),
        ("retry.retry_on_exceptions", ["json:JSONDecoder"]),
        ("retry.retry_on_exceptions", ["no name"]),
        ("store", "redis://x"),
        ("store", 3),
        ("secrets.key_variable", "no name"),
        ("capture", "ful"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_allowed(key: str, given: Any) -> None:
    table: dict[str, Any] = {key.rpartition(".")[2]: given}
    for name in reversed(key.split(".")[:-1]):
        table = {name: table}
    found, (problem,) = put_together(table)
    assert (f"file {key}", key) == (problem.where, problem.key)
    assert SETTINGS[key].kind.allowed in problem.what
    assert SETTINGS[key].default == found.values[key]


def test_a_misspelt_capture_in_the_environment_captures_less() -> None:
    found, problems = put_together({}, {"LIMPET_CAPTURE": "fulll"})
    assert (Capture.MINIMAL, ()) == (found.settings.capture, problems)


def test_no_password_of_a_url_is_told() -> None:
    _, (problem,) = put_together({"store": f"postgres://kelp:{'s' * 90}ecret@db/x"})
    assert "sss" not in problem.what
    assert "***@" in problem.what


def test_the_variable_with_the_keys_is_no_unknown_one() -> None:
    file = {"secrets": {"key_variable": "LIMPET_PROD_KEYS"}}
    assert () == put_together(file, {"LIMPET_PROD_KEYS": "x"})[1]
    assert 1 == len(put_together({}, {"LIMPET_PROD_KEYS": "x"})[1])
    assert () == put_together({}, {"LIMPET_KEY": "x", "LIMPET_DEMO_FOLDER": "x", "LIMPET_TIMEOUT_S": ""})[1]


@pytest.mark.parametrize(
    ("file", "variables", "store"),
    [
        ({"persistence": False}, {}, "memory://"),
        ({"persistence": False, "store": "sqlite:///a.db"}, {}, "memory://"),
        ({"persistence": False}, {"LIMPET_STORE": "sqlite:///a.db"}, "sqlite:///a.db"),
        ({"store": "sqlite:///a.db"}, {"LIMPET_PERSISTENCE": "false"}, "memory://"),
        ({"store": "sqlite:///a.db"}, {}, "sqlite:///a.db"),
    ],
)
def test_without_persistence_the_memory_is_the_store(file: Any, variables: Any, store: str) -> None:
    assert store == store_of(put_together(file, variables)[0])


def test_a_key_with_a_dot_inside_quotes_is_no_setting() -> None:
    assert 1 == len(put_together({"retry.max_attempts": 3})[1])


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("12", 12), ("1 kB", 1000), ("1.5KiB", 1536), ("2 MiB", 2 << 20), ("1gb", 10**9)]
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert count == SIZE.read(text)


@pytest.mark.parametrize("text", ["", "KiB", "1 K i B", "-1", "1e3", "9999999999 GiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed):
        SIZE.read(text)


def test_a_difference_is_told_and_what_is_fixed_stays() -> None:
    before, _ = put_together({"timeout_s": 5, "durability": "full"})
    after, _ = put_together({"timeout_s": 6, "durability": "normal", "secrets": {"key_variable": "X"}})
    reloaded = differences(before, after)
    assert (Change("timeout_s", 5.0, 6.0),) == reloaded.changed
    assert ["durability", "secrets.key_variable"] == [each.key for each in reloaded.fixed]
    kept = with_fixed(before, after)
    assert (6.0, "full") == (kept.settings.timeout_s, kept.settings.durability)
    assert "file durability" == kept.origins["durability"].where
    assert "default" == kept.origins["secrets.key_variable"].where


def test_only_what_hangs_on_an_open_store_is_fixed() -> None:
    fixed = {"store", "persistence", "durability", "compression", "secrets.key_variable"}
    assert fixed == {key for key, setting in SETTINGS.items() if setting.is_fixed}


def test_settings_without_values_are_the_defaults() -> None:
    assert SETTINGS["lease_ttl_s"].default == settings_from({}).lease_ttl_s
