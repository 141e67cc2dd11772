"""The line of every key is found, however a file is written."""

from __future__ import annotations

import tomllib

import pytest

from limpet.config.lines import Place, line_numbers, line_of

TEXT = '''# A comment with a [header] and a = sign
version = 1
store = "sqlite:///a#b.db"  # [not.a.table]

[retry]
max_attempts = 5
"initial_delay" = 0.5
tool_call.max_attempts = 2
llm_call = { max_attempts = 3, deep = { on = true } }
retry_on_exceptions = [
    "OSError", # the first
    "a:b",
]

[ retry . 'agent_call' ]
note = """
[fake]
max_attempts = 7
\\""" = 1"""
literal = \'\'\'
[fake]
\'\'\'
enabled = false

[[rule]]
name = "one"
[[rule]]
name = "two"
[rule.inner]
x = 2024-01-01T00:00:00Z
'''

EXPECTED: dict[Place, int] = {
    ("version",): 2,
    ("store",): 3,
    ("retry",): 5,
    ("retry", "max_attempts"): 6,
    ("retry", "initial_delay"): 7,
    ("retry", "tool_call"): 8,
    ("retry", "tool_call", "max_attempts"): 8,
    ("retry", "llm_call", "max_attempts"): 9,
    ("retry", "llm_call", "deep", "on"): 9,
    ("retry", "retry_on_exceptions"): 10,
    ("retry", "retry_on_exceptions", 0): 11,
    ("retry", "retry_on_exceptions", 1): 12,
    ("retry", "agent_call"): 15,
    ("retry", "agent_call", "note"): 16,
    ("retry", "agent_call", "literal"): 20,
    ("retry", "agent_call", "enabled"): 23,
    ("rule",): 25,
    ("rule", 0): 25,
    ("rule", 0, "name"): 26,
    ("rule", 1): 27,
    ("rule", 1, "name"): 28,
    ("rule", 1, "inner"): 29,
    ("rule", 1, "inner", "x"): 30,
}


def places(value: object, place: Place = ()) -> list[Place]:
    """Every place of what has been parsed."""
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [each for name, part in inside for each in ((*place, name), *places(part, (*place, name)))]


def test_every_place_has_its_line() -> None:
    found = line_numbers(TEXT)
    assert EXPECTED == {place: found[place] for place in EXPECTED}
    assert sorted(map(str, places(tomllib.loads(TEXT)))) == sorted(map(str, found))


def test_lines_that_end_as_on_windows_are_counted_once() -> None:
    assert line_numbers(TEXT) == line_numbers(TEXT.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("text", "place", "line"),
    [
        ('\n"quoted.key" = 1', ("quoted.key",), 2),
        ('"\\u0061" = 1', ("a",), 1),
        ("a.b.c = 1\na.b.d = 2", ("a", "b", "d"), 2),
        ("a = [[1, [2]],\n[3]]\nb = 1", ("b",), 3),
        ('a = """x"""""\nb = 1', ("b",), 2),
        ("a = ['#', '[x]']\nb = 1", ("b",), 2),
        ("a = 1", ("gone", "inside"), 1),
        ("\n[table]\na = 1", ("table", "gone"), 2),
        ("\n[a.b]\nx = 1\n[a]\ny = 1", ("a",), 4),
        ("\na = 1\n=", ("a",), 2),
    ],
)
def test_a_place_or_what_encloses_it_is_found(text: str, place: Place, line: int) -> None:
    assert line == line_of(place, line_numbers(text))
