"""What Limpet logs is harmless to read, whatever is in it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from limpet.logs import logger, make_harmless

TEXT = "a\x1b[31m\n2026-05-03 ERROR forged\u202e"
SHOWN = r"a\x1b[31m\n2026-05-03 ERROR forged\u202e"


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    log = logger("limpet.test")
    log.addHandler(handler)
    log.propagate = False
    yield written
    log.removeHandler(handler)
    log.propagate = True


def test_names_and_messages_are_shown_with_escapes_in_one_line(lines: io.StringIO) -> None:
    logger("limpet.test").warning("State %s failed %d times: %s", TEXT, 2, ValueError(TEXT))
    assert f"State {SHOWN} failed 2 times: {SHOWN}\n" == lines.getvalue()


def test_tracebacks_are_shown_with_escapes(lines: io.StringIO) -> None:
    try:
        raise ValueError(TEXT)
    except ValueError:
        logger("limpet.test").exception("It raised.")
    assert "ValueError: a\\x1b[31m\n2026" in lines.getvalue()
    assert {"\x1b", "\u202e"}.isdisjoint(lines.getvalue())


def test_records_with_nothing_harmful_stay_as_they_are() -> None:
    record = logging.LogRecord("limpet.test", logging.INFO, __file__, 1, "State %s: %d", ("kelp", 2), None)
    assert make_harmless(record)
    assert ("State %s: %d", ("kelp", 2), None) == (record.msg, record.args, record.exc_text)


def test_arguments_that_have_no_text_are_left_to_the_handlers() -> None:
    record = logging.LogRecord("limpet.test", logging.INFO, __file__, 1, "%s", (Unspeakable(),), None)
    assert make_harmless(record)


def test_a_logger_that_is_asked_for_twice_has_one_filter() -> None:
    assert [make_harmless] == logger("limpet.test").filters == logger("limpet.test").filters
