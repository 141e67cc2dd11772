"""Every setting is in the reference, as the model describes it, and has a name in the environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet.config.model import SETTINGS
from limpet.config.reference import BEGIN, END, with_reference
from limpet.config.variables import VARIABLES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_reference_is_that_of_the_model() -> None:
    page = PAGE.read_text()
    assert (1, 1) == (page.count(BEGIN), page.count(END))
    assert with_reference(page) == page, "run `make docs`"


def test_a_page_that_differs_is_seen() -> None:
    page = PAGE.read_text()
    assert with_reference(page.replace("| `durability` |", "| `durable` |")) != page.replace(
        "| `durability` |", "| `durable` |"
    )


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_says_what_it_does(key: str) -> None:
    assert SETTINGS[key].about.endswith(".")
    assert SETTINGS[key].kind.allowed


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert sorted(SETTINGS) == sorted(VARIABLES.values())
