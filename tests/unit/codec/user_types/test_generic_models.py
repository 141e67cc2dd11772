"""Generic models come back as the class that they are, also where that class was not made before."""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Dict, Generic, List, Literal, Optional, Tuple, TypeVar, Union, cast  # noqa: UP035 - users'

import ormsgpack
import pytest
from pydantic import BaseModel, Field, RootModel
from unit.codec.sample_types import Animal, Page, T
from unit.codec.user_types import class_types as types
from unit.codec.user_types.class_types import Anchor, Couple, Crate, Planet

from limpet.codec.user_types.parameters import MAX_DEPTH
from limpet.codec.values import decode, encode
from limpet.errors import ValueNotReadable, ValueNotStorable

HERE = types.__name__


def again(value: Any) -> Any:
    return decode(encode(value))


def naming(parameters: Any, name: str = f"{HERE}:Crate", fields: Any = None) -> bytes:
    """A generic model that names those parameters."""
    parts = [name, {"item": 1} if fields is None else fields, None, ["item"], {}, parameters]
    return ormsgpack.packb(ormsgpack.Ext(20, ormsgpack.packb(parts)))


PARAMETERS: list[Any] = [
    int,
    None,
    Any,
    datetime,
    Planet,
    Animal,
    Page,
    list[int],
    list,
    List,  # noqa: UP006 - it is another class than with list
    List[int],  # noqa: UP006 - it is another class than with list[int]
    Dict[str, List[int]],  # noqa: UP006 - it is another class than with dict[str, list[int]]
    Tuple[int, ...],  # noqa: UP006 - it is another class than with tuple[int, ...]
    dict[str, list[tuple[int, ...]]],
    tuple[()],
    type[int],
    Sequence[int],
    typing.Sequence[int],
    Mapping[str, Any],
    int | None,
    int | str | None,
    Union[str, bytes],  # noqa: UP007 - it is another class than with |
    Optional[Animal],  # noqa: UP045 - it is another class than with |
    Literal[1, "one", b"one", None, True],
    Literal[Planet.EARTH],
    Crate[int],
    Crate[Crate[list[int] | None]],
    list[Crate[Couple[int, str]]],
    RootModel[list[int]],
    T,
]


@pytest.mark.parametrize("parameter", PARAMETERS, ids=str)
def test_a_model_of_any_parameter_comes_back_as_that_class(parameter: Any) -> None:
    cls = Crate[parameter]
    copy = again([cls.model_construct(item=3)])[0]
    assert cls is type(copy)
    assert (3, {"item"}) == (copy.item, copy.model_fields_set)


def test_models_with_several_parameters_come_back() -> None:
    for value in (Couple[int, str](one=1, other="x"), Couple[int, cast(Any, types.U)].model_construct(one=1, other=2)):
        assert (value, type(value)) == (again(value), type(again(value)))


def test_root_models_and_subclasses_of_generic_models_come_back() -> None:
    for value in (
        RootModel[list[int]]([1, 2]),
        types.Lined(item=3, note="x"),
        Crate(item=3),
        Crate[Any](item="\ud800"),
    ):
        assert (value, type(value)) == (again(value), type(again(value)))


SCRIPT = """
import sys
from typing import Generic, Literal, TypeVar
from pydantic import BaseModel
from limpet.codec.values import decode, encode

T = TypeVar("T")

class Inner(BaseModel):
    x: int

class Box(BaseModel, Generic[T]):
    item: T

def make():
    inner = Box[Inner | None](item=None)
    return [Box[int](item=1), Box[list[int]](item=[1]), Box[Inner](item=Inner(x=1)), Box[Box[Inner | None]](item=inner)]

if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(encode(make()).hex())
    else:
        values = decode(bytes.fromhex(sys.argv[1]))
        print(*(type(value).__name__ for value in values), sep="; ")
        print(values == make(), [type(value) for value in values] == [type(value) for value in make()])
"""


def test_a_process_that_never_made_the_class_reads_it(tmp_path: Any) -> None:
    (tmp_path / "boxes.py").write_text(SCRIPT)

    def run(*arguments: str) -> str:
        command = [sys.executable, "boxes.py", *arguments]
        environment = {"PYTHONPATH": ":".join(sys.path)}
        answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert "" == answer.stderr
        return answer.stdout.strip()

    expected = "Box[int]; Box[list[int]]; Box[Inner]; Box[Box[Union[Inner, NoneType]]]\nTrue True"
    assert expected == run(run())


def local_parameter() -> Any:
    class Local(BaseModel):
        pass

    return Local


LocalVariable = TypeVar("LocalVariable")
Hidden = TypeVar("Hidden")
hidden = Hidden
del Hidden


def deep_parameter() -> Any:
    parameter: Any = int
    for _ in range(MAX_DEPTH + 2):
        parameter = list[parameter]
    return parameter


@pytest.mark.parametrize(
    "parameter",
    [
        Annotated[int, Field(gt=3)],
        local_parameter(),
        list[local_parameter()],
        typing.NewType("Fathoms", int),
        typing.Callable[[int], str],
        deep_parameter(),
        Crate[deep_parameter()],
        hidden,
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_described_is_refused(parameter: Any) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode([Crate[parameter].model_construct(item=3)], "result")
    assert "result[0]" == caught.value.place


def test_a_literal_that_cannot_be_described_is_refused() -> None:
    class Odd(int):
        pass

    with pytest.raises(ValueNotStorable):
        encode(Crate[Literal[Odd(3)]].model_construct(item=3))


def test_brackets_of_a_class_s_own_are_refused() -> None:
    with pytest.raises(ValueNotStorable, match="cannot be found again by its parameters"):
        encode(types.OwnBrackets[int](item=3))


def local_generic() -> Any:
    class Local(BaseModel, Generic[T]):
        item: T

    return Local[int](item=3)


def test_a_generic_model_that_is_declared_in_a_function_is_refused() -> None:
    with pytest.raises(ValueNotStorable, match="cannot be found again"):
        encode(local_generic())


@pytest.mark.parametrize(
    "parameters",
    [
        5,
        [5],
        [[]],
        [["class"]],
        [["class", "os:system"]],
        [["class", "antigravity:Thing"]],
        [["class", 5]],
        [["class", "builtins:int"], ["class", "builtins:int"]],
        [["class", "subprocess:Popen"]],
        [["eval", "1"]],
        [["variable", "builtins:int"]],
        [["variable", "nowhere:T"]],
        [["or", []]],
        [["or", [["none"], ["none"]]]],
        [["union", [["class", "builtins:int"]]]],
        [["literal", []]],
        [["literal", [["member", f"{HERE}:Planet", "MARS"]]]],
        [["literal", [["member", f"{HERE}:Crate", "MARS"]]]],
        [["typing", "no_type_check"]],
        [["typing", "List", 5]],
        [["of", f"{HERE}:Planet", [["literal", ["EARTH"]]]]],
        [["of", f"{HERE}:OwnBrackets", [["class", "builtins:int"]]]],
        [["of", "builtins:int", [["class", "builtins:int"]]]],
        [["model", f"{HERE}:Anchor", [["class", "builtins:int"]]]],
        [["model", f"{HERE}:Cat", [["class", "builtins:int"]]]],
        [["model", f"{HERE}:Crate"]],
    ],
    ids=str,
)
def test_parameters_that_name_something_else_are_refused(parameters: Any) -> None:
    before = set(sys.modules)
    with pytest.raises(ValueNotReadable):
        decode(naming(parameters))
    assert before == set(sys.modules)


def test_parameters_without_end_are_refused() -> None:
    parameter: Any = ["class", "builtins:int"]
    for _ in range(100):
        parameter = ["of", "builtins:list", [parameter]]
    with pytest.raises(ValueNotReadable, match=f"inside more than {MAX_DEPTH} others"):
        decode(naming([parameter]))


def test_a_class_that_is_no_longer_generic_is_named() -> None:
    with pytest.raises(ValueNotReadable, match="recorded as a generic pydantic model") as caught:
        decode(naming([["class", "builtins:int"]], f"{HERE}:Anchor"))
    assert f"{HERE}:Anchor" == caught.value.type_name
    assert Anchor is types.Anchor


def test_a_generic_model_that_has_changed_is_refused_with_both_shapes() -> None:
    with pytest.raises(ValueNotReadable, match="recorded with the fields size and now has item"):
        decode(naming([["class", "builtins:int"]], fields={"size": 1}))
