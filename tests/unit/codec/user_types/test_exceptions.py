"""An exception comes back with its type, its arguments, its notes, its cause, and where it was raised as text."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import ormsgpack
import pytest
from unit.codec import sample_types
from unit.codec.user_types import class_types as types

from limpet.codec.user_types.exceptions import lower_exception
from limpet.codec.user_types.not_kept import NotKept
from limpet.codec.values import decode, encode, encode_leniently
from limpet.errors import ValueNotReadable, ValueNotStorable


def again(value: Any) -> Any:
    return decode(encode(value))


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The exception after it was raised and caught."""
    try:
        if cause is not None:
            raise error from cause
        raise error
    except BaseException as caught:
        return caught


def caused(error: BaseException, *causes: BaseException) -> Any:
    """The exception with a chain of causes, none of which was raised."""
    last = error
    for cause in causes:
        BaseException.__setattr__(last, "__cause__", cause)  # Some are frozen.
        last = cause
    return error


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


def test_causes_come_back_to_the_last() -> None:
    copy = again(caused(ValueError("top"), sample_types.SeaError("reef", 3), KeyError("bottom")))
    assert sample_types.SeaError is type(copy.__cause__)
    assert ("reef", 3) == (copy.__cause__.place, copy.__cause__.depth)
    assert ("bottom",) == copy.__cause__.__cause__.args
    assert copy.__cause__.__cause__.__cause__ is None
    assert copy.__suppress_context__


@pytest.mark.parametrize("is_hidden", [True, False])
def test_whether_the_context_is_hidden_comes_back(is_hidden: bool) -> None:
    for error in (ValueError("x"), caused(ValueError("x"), KeyError("y"))):
        error.__suppress_context__ = is_hidden
        assert is_hidden is again(error).__suppress_context__


def test_notes_come_back_everywhere() -> None:
    inner, cause = ValueError("inner"), KeyError("cause")
    inner.add_note("on the inner one")
    cause.add_note("on the cause")
    group = caused(ExceptionGroup("outer", [inner]), cause)
    group.add_note("on the group")
    copy = again(group)
    assert ["on the group"] == copy.__notes__
    assert ["on the inner one"] == copy.exceptions[0].__notes__
    assert ["on the cause"] == copy.__cause__.__notes__


def test_groups_inside_groups_come_back_with_their_causes() -> None:
    inner = ExceptionGroup("inner", [caused(ValueError(1), KeyError(2)), TypeError(3)])
    copy = again(BaseExceptionGroup("outer", [inner, KeyboardInterrupt()]))
    assert BaseExceptionGroup is type(copy)
    assert ExceptionGroup is type(copy.exceptions[0])
    assert (2,) == copy.exceptions[0].exceptions[0].__cause__.args
    assert KeyboardInterrupt is type(copy.exceptions[1])


def test_where_it_was_raised_comes_back_as_text() -> None:
    error = raised(ValueError("x"), raised(KeyError("y")))
    copy = again(error)
    assert copy.__traceback__ is None
    assert "".join(traceback.format_tb(error.__traceback__)) == copy.recorded_traceback
    assert "raise error from cause" in copy.recorded_traceback
    assert "KeyError" not in copy.recorded_traceback
    assert "in raised" in copy.__cause__.recorded_traceback


def test_an_exception_that_was_not_raised_has_no_such_text() -> None:
    assert not hasattr(again(ValueError("x")), "recorded_traceback")
    assert encode(ValueError("x")) == encode(again(ValueError("x")))


def test_the_text_is_kept_when_the_exception_is_written_again() -> None:
    once = again(raised(ValueError("x")))
    assert once.recorded_traceback == again(once).recorded_traceback
    assert encode(once) == encode(again(once))


def test_a_new_traceback_takes_the_place_of_the_text() -> None:
    once = again(raised(ValueError("x")))
    vars(once)["recorded_traceback"] = "earlier"
    assert "earlier" == again(once).recorded_traceback
    assert "in raised" in again(raised(once)).recorded_traceback


def test_an_attribute_of_that_name_that_is_no_text_is_left_out() -> None:
    error = ValueError("x")
    vars(error)["recorded_traceback"] = object()
    assert not hasattr(again(error), "recorded_traceback")


def test_the_text_can_be_left_out() -> None:
    def lower(part: Any) -> Any:
        return part

    error = raised(ValueError("x"))
    assert ["builtins:ValueError", ["x"], {}, {}] == lower_exception(error, lower, with_traceback=False)
    assert lower_exception(error, lower, with_traceback=True)[6].startswith("  File ")
    hidden = raised(ValueError("x"), None)
    hidden.__suppress_context__ = True
    assert [None, True, None] == lower_exception(hidden, lower, with_traceback=False)[4:]


def own_cause() -> BaseException:
    error = ValueError("x")
    return caused(error, KeyError("y"), error)


def member_of_its_cause() -> BaseException:
    error = ValueError("x")
    return caused(error, ExceptionGroup("g", [KeyError("y"), error]))


def circle_of_others() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    return caused(KeyError("top"), one, other, one)


@pytest.mark.parametrize("make", [own_cause, member_of_its_cause, circle_of_others])
def test_an_exception_that_is_its_own_cause_is_refused(make: Callable[[], BaseException]) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode([1, make()], "result")
    assert caught.value.place.startswith("result[1]")
    assert caught.value.why in ("contains itself", "is its own cause")


def test_a_cause_that_is_shared_is_no_circle() -> None:
    cause = KeyError("shared")
    group = ExceptionGroup("g", [caused(ValueError(1), cause), caused(ValueError(2), cause)])
    copy = again(caused(group, cause))
    assert [("shared",)] * 3 == [each.__cause__.args for each in (copy, *copy.exceptions)]


def test_a_cause_that_cannot_be_stored_is_named() -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode(caused(ValueError("x"), KeyError(object())), "result")
    assert "result.__cause__.args[0]" == caught.value.place


def test_a_cause_that_cannot_be_stored_is_noted_or_left_out() -> None:
    copy = decode(encode_leniently(caused(ValueError("x"), KeyError(object()))))
    assert (NotKept("args", "builtins.KeyError", "builtins.object"),) == copy.__cause__.args
    copy = decode(encode_leniently(caused(ValueError("x"), sample_types.UntrueDecodeError("y"))))
    assert (None, True) == (copy.__cause__, copy.__suppress_context__)


@pytest.mark.parametrize("error", [types.AttrsError(3), types.FrozenError(3), types.SlottedError(3)])
def test_exceptions_with_fields_come_back(error: Any) -> None:
    copy = again(caused(error, ValueError("x")))
    assert (type(error), 3, ("x",)) == (type(copy), copy.code, copy.__cause__.args)


def test_an_exception_that_has_another_shape_now_is_refused() -> None:
    with pytest.raises(ValueNotReadable, match=r"recorded with the fields none and now has code"):
        decode(written(21, [f"{types.__name__}:AttrsError", [3], {}, {}]))


def test_records_of_four_parts_are_read() -> None:
    copy = decode(written(21, ["builtins:ValueError", ["x"], {"colour": "red"}, {}]))
    assert (("x",), "red", None, False) == (copy.args, copy.colour, copy.__cause__, copy.__suppress_context__)


@pytest.mark.parametrize("parts", [[None], [None, True]])
def test_parts_that_are_missing_are_refused(parts: list[Any]) -> None:
    with pytest.raises(ValueNotReadable, match="damaged"):
        decode(written(21, ["builtins:ValueError", ["x"], {}, {}, *parts]))


def test_a_cause_that_is_no_exception_is_left_out() -> None:
    copy = decode(written(21, ["builtins:ValueError", ["x"], {}, {}, 3, 4, 5, "from a later version"]))
    assert (None, True, "5") == (copy.__cause__, copy.__suppress_context__, copy.recorded_traceback)


WRITE = """
from limpet.codec.values import encode
try:
    try:
        {}["kelp"]
    except KeyError as cause:
        raise ValueError("no kelp") from cause
except ValueError as error:
    error.add_note("seen at the reef")
    print(encode(error).hex())
"""


def test_an_exception_is_read_in_another_process() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", WRITE],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "" == answer.stderr
    copy = decode(bytes.fromhex(answer.stdout))
    assert ("no kelp", ["seen at the reef"], ("kelp",)) == (str(copy), copy.__notes__, copy.__cause__.args)
    assert 'File "<string>", line 7' in copy.recorded_traceback
