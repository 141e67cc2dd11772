"""Every error is drawn in the tree, survives pickling between processes, and says what to do next."""

from __future__ import annotations

import inspect
import pickle
import re
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import limpet
from limpet import errors
from limpet.errors import ConfigurationProblem, LimpetError
from limpet.model.header import utc
from limpet.model.waits import Question

CLASSES: dict[str, type[BaseException]] = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__.startswith(errors.__name__)
}
TREE = {name: value for name, value in CLASSES.items() if issubclass(value, LimpetError)}
SPEAKING = {name: value for name, value in TREE.items() if value.__str__ is not Exception.__str__}

WHOLE_SENTENCES = {"problem": "The lamp is out.", "remedy": "Light it again."}
SAMPLES: dict[object, object] = {str: "sample", int: 3, float: 2.5, bool: True, bytes: b"sample", object: "sample"}
SAMPLES[Sequence[Any]] = [
    Question(state_id="kelp", address="a::ask::question", prompt="Sure?", type_name="bool", asked_at=utc(0.0), seq=3)
]
SAMPLES[ConfigurationProblem] = ConfigurationProblem("limpet.toml:3", "lamp", "lamp cannot be 3.")


def sample(hint: object, name: str = "") -> object:
    """A value that fits the annotation of an argument."""
    if name in WHOLE_SENTENCES:
        return WHOLE_SENTENCES[name]
    if hint in SAMPLES:
        return SAMPLES[hint]
    parts = [part for part in typing.get_args(hint) if part is not Ellipsis]
    origin = typing.get_origin(hint)
    if origin in {types.UnionType, typing.Union}:
        return sample(parts[0])
    if origin is tuple:
        return tuple(sample(part) for part in parts)
    raise TypeError(f"give SAMPLES a value for {name}: {hint!r}")


def build(error: type[BaseException]) -> BaseException:
    if not inspect.isfunction(error.__init__):
        return error()
    hints = typing.get_type_hints(error.__init__)
    parameters = list(inspect.signature(error.__init__).parameters)[1:]
    return error(*(sample(hints[name], name) for name in parameters))


def drawn_parents() -> dict[str, str | None]:
    """The tree in the docstring of the module: the name of each class, and of the one that it hangs on."""
    parents: dict[str, str | None] = {}
    branch: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        if found := re.match(r"(?P<lines>(?:│  |   )*(?:├─ |└─ )|(?=LimpetError$))(?P<name>\w+)", line):
            branch = [*branch[: len(found["lines"]) // 3], found["name"]]
            assert found["name"] not in parents, f"{found['name']} is drawn twice"
            parents[found["name"]] = branch[-2] if len(branch) > 1 else None
    return parents


def test_the_drawn_tree_is_the_real_one() -> None:
    # One that is also of a built-in type hangs on the one of ours.
    real = {name: [base for base in error.__bases__ if base in TREE.values()] for name, error in TREE.items()}
    named = {name: parents[0].__name__ if parents else None for name, parents in real.items()}
    assert named == drawn_parents()


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_has_a_docstring_of_its_own(name: str) -> None:
    assert (CLASSES[name].__dict__.get("__doc__") or "").rstrip("`").endswith((".", ")"))


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_is_exported(name: str) -> None:
    assert name in limpet.__all__
    assert CLASSES[name] is getattr(limpet, name)


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_survives_pickling(name: str) -> None:
    error = build(CLASSES[name])
    again = pickle.loads(pickle.dumps(error))
    assert type(error) is type(again)
    assert error.args == again.args
    assert str(error) == str(again)
    assert vars(error) == vars(again)


@pytest.mark.parametrize("name", SPEAKING)
def test_every_error_says_what_happened_and_then_what_to_do(name: str) -> None:
    text = str(build(SPEAKING[name]))
    sentences = re.split(r"(?<=[.?!])\s+", text)
    assert text.endswith(".")
    assert len(sentences) >= 2
    assert all(len(sentence) > 8 for sentence in sentences), sentences


def test_every_error_that_nothing_hangs_on_speaks() -> None:
    assert set() == {name for name, error in TREE.items() if not error.__subclasses__()} - set(SPEAKING)


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_stands_in_the_reference(name: str) -> None:
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text()
    assert f"`{name}`" in reference
