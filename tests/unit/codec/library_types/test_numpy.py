"""Arrays and scalars of numpy come back with their dtype, shape, order and content, or are refused."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from limpet.codec.kinds import Opaque
from limpet.codec.library_types.numpy_dtypes import description
from limpet.codec.values import decode, encode, encode_leniently
from limpet.errors import ValueNotReadable, ValueNotStorable

ALIGNED = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True)
NESTED = np.dtype([("a", ">i4"), ("b", "f8", (2, 2)), ("c", [("d", "U3"), ("e", ALIGNED, 2)])])
PLACED = np.dtype(
    {"names": ["a", "b"], "formats": ["i4", "U2"], "titles": ["first", None], "offsets": [4, 8], "itemsize": 32}
)
UNION = np.dtype({"names": ["whole", "half"], "formats": ["u4", "u2"], "offsets": [0, 0], "itemsize": 4})


def again(value: Any) -> Any:
    return decode(encode(value))


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


def refused(data: bytes) -> ValueNotReadable:
    with pytest.raises(ValueNotReadable) as caught:
        decode(data)
    return caught.value


def dtype_form(dtype: Any) -> Any:
    return dtype, type(dtype), dtype.type, description(np, dtype)


ARRAYS: list[Any] = [
    np.arange(6).reshape(2, 3),
    np.array(5),
    np.array([]),
    np.zeros((0, 3), "i1"),
    np.zeros((3, 0, 2), ">i4"),
    np.arange(24.0).reshape(2, 3, 4)[:, ::-2],
    np.arange(10)[::-3],
    np.broadcast_to(np.arange(3), (2, 3)),
    np.array([True, False]),
    np.array([np.nan, np.inf, -0.0, 5e-324]),
    np.array([1.5, np.nan], "f2"),
    np.array([1.5, np.nan], ">f4"),
    np.array([1 + 2j, complex(np.nan, -0.0)]),
    np.array([1j], ">c8"),
    np.array(["a", "bcd\0x", "\U0010ffff"]),
    np.array(["ab"], ">U5"),
    np.array([b"a\0b", b"\xff"]),
    np.array(["2020-01-01", "NaT"], "M8[D]"),
    np.array([1, 2], "M8[25us]"),
    np.array(["NaT"], "M8"),
    np.array([1, -1], ">m8[ns]"),
    np.array([b"abc"], "V7"),
    np.arange(4).astype(np.longlong),
    np.arange(4).astype(np.ulonglong),
    np.array([1, 2], ">q"),
    np.zeros(2, [("a", "S0"), ("b", "i4")]),
    np.zeros(2, [("a", "S0")])["a"],
    np.zeros((2, 2), np.dtype([])),
    np.ones(3, NESTED),
    np.ones((2, 2), ALIGNED),
    np.ones(2, PLACED),
    np.ones(2, UNION),
    np.ones(3, [("a", "i4"), ("b", "f8"), ("c", "i1")])[["a", "c"]],
    np.ones(2, [("lone \ud800", "i4")]),
]


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{value.dtype} {value.shape}".encode("ascii", "replace"))
def test_an_array_comes_back(value: Any) -> None:
    copy = again({"a": [value]})["a"][0]
    assert np.ndarray is type(copy)
    assert dtype_form(value.dtype) == dtype_form(copy.dtype)
    assert value.shape == copy.shape
    assert repr(value.tolist()) == repr(copy.tolist())
    assert encode(value) == encode(copy)
    assert (True, True) == (copy.flags.writeable, copy.flags.owndata)


@pytest.mark.parametrize("char", "gG")
@pytest.mark.parametrize("order", "<>")
def test_a_long_double_comes_back_exactly(char: str, order: str) -> None:
    value = (np.array([1, 2, -0.0], char) / 3).astype(order + char)
    copy = again(value)
    assert dtype_form(value.dtype) == dtype_form(copy.dtype)
    assert value.tolist() == copy.tolist()
    assert encode(value) == encode(copy)


def test_the_order_of_an_array_is_kept() -> None:
    value = np.arange(24.0).reshape(2, 3, 4)
    assert again(np.asfortranarray(value)).flags.f_contiguous
    assert again(value).flags.c_contiguous
    assert again(value.T).flags.f_contiguous
    assert value.tolist() == again(np.asfortranarray(value)).tolist() == again(value).tolist()
    assert value.T.tolist() == again(value.T).tolist()


def test_bytes_between_fields_are_no_part_of_an_array() -> None:
    one, other = np.zeros(2, NESTED), np.frombuffer(bytearray(b"\xff") * 2 * NESTED.itemsize, NESTED)
    for name in ("a", "b"):
        other[name] = 0
    for name in ("a", "b", "c"):
        other["c"]["e"][name] = 0
    other["c"]["d"] = ""
    assert repr(one) == repr(other)
    assert one.tobytes() != other.tobytes()
    assert encode(one) == encode(other)
    assert encode(one[0]) == encode(other[0])


SCALARS: list[Any] = [
    np.float64(1.5),
    np.float64("nan"),
    np.float32(-0.0),
    np.float16(0.1),
    np.longdouble(1) / 3,
    np.complex64(1j),
    np.clongdouble(1j) / 3,
    np.bool_(True),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.longlong(5),
    np.ulonglong(5),
    np.str_("a\0\0"),
    np.str_("lone \ud800"),
    np.str_(""),
    np.bytes_(b"\xff\0\0"),
    np.datetime64("NaT"),
    np.datetime64("2020", "D"),
    np.datetime64("NaT", "ns"),
    np.timedelta64(5, "25s"),
    np.void(b"abc"),
    np.void(b""),
    np.ones(1, NESTED)[0],
    np.ones(1, ALIGNED)[0],
]


@pytest.mark.parametrize("value", SCALARS, ids=ascii)
def test_a_scalar_comes_back_as_itself(value: Any) -> None:
    copy = again([value])[0]
    assert type(value) is type(copy)
    assert encode(value) == encode(copy)
    if isinstance(value, (str, bytes)):
        assert (len(value), list(value)) == (len(copy), list(copy))
    else:
        assert dtype_form(value.dtype) == dtype_form(copy.dtype)
        assert repr(value.tolist()) == repr(copy.tolist())


def test_scalars_may_be_keys_and_elements() -> None:
    value = {np.int64(1): {np.str_("a")}, np.str_("b"): (np.float64(2),)}
    copy = again(value)
    assert value == copy
    assert [np.int64, np.str_] == list(map(type, copy))


class OwnArray(np.ndarray):
    pass


class OwnFloat(np.float64):
    pass


OTHER_ARRAY = "is another kind of array than numpy.ndarray; store its plain arrays (numpy.asarray)"
NO_KIND = "is not a kind of value that can be stored"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.array([object()]), "has the dtype object, whose items are objects"),
        (np.zeros(1, [("a", "O")]), "has the dtype [('a', 'O')], whose items are objects"),
        (np.array(["a"], np.dtypes.StringDType()), "has the dtype StringDType(), whose items are objects"),
        (np.zeros(1, np.dtype("i4", metadata={"a": 1})), "has the dtype int32, whose metadata would be lost"),
        (
            np.zeros(1, np.dtype((np.record, [("a", "i4")]))),
            "has the dtype (numpy.record, [('a', '<i4')]), which could not be built again",
        ),
        (
            np.zeros(1, np.dtype({"names": ["a"], "formats": ["i4"], "titles": [5]})),
            "has the dtype [((5, 'a'), '<i4')], which could not be built again",
        ),
        (np.ma.array([1]), OTHER_ARRAY),
        (np.rec.array([(1,)], dtype=[("a", "i4")]), OTHER_ARRAY),
        (np.zeros(2).view(OwnArray), OTHER_ARRAY),
        (np.rec.array([(1,)], dtype=[("a", "i4")])[0], NO_KIND),
        (OwnFloat(1), NO_KIND),
        (np.dtype("i4"), NO_KIND),
        (np.random.default_rng(), NO_KIND),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_could_not_be_rebuilt_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode({"data": [value]}, "result")
    assert ("result['data'][0]", why) == (caught.value.place, caught.value.why)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_matrix_is_refused() -> None:
    with pytest.raises(ValueNotStorable, match="is another kind of array"):
        encode(np.matrix([1]))


def test_a_note_stands_for_an_array_of_objects() -> None:
    assert [Opaque("numpy.ndarray"), 1] == decode(encode_leniently([np.array([object()]), 1]))


def fields(*rows: Any, size: Any = 8, is_aligned: Any = False) -> Any:
    return ["fields", list(rows), size, is_aligned]


@pytest.mark.parametrize(
    "parts",
    [
        5,
        [],
        ["<f8", [1], "C"],
        ["<f8", [2**40], "C", b""],
        ["<f8", [2**62, 2**62], "C", b""],
        ["<f8", [2], "C", bytes(8)],
        ["<f8", [-1], "C", b""],
        ["<f8", [1.0], "C", bytes(8)],
        ["<f8", [True], "C", bytes(8)],
        ["<f8", 1, "C", bytes(8)],
        ["<f8", [1] * 65, "C", bytes(8)],
        ["<f8", [1], "K", bytes(8)],
        ["<f8", [1], "C", "x" * 8],
        ["|O", [1], "C", bytes(8)],
        ["O", [1], "C", bytes(8)],
        ["object", [1], "C", bytes(8)],
        ["f8,O", [1], "C", bytes(16)],
        ["<f8\n", [1], "C", bytes(8)],
        ["|T16", [1], "C", bytes(16)],
        ["<U1000000000", [1], "C", b""],
        ["|V2147483648", [0], "C", b""],
        ["|V0", [2**63], "C", b""],
        [5, [1], "C", bytes(8)],
        [["array", "<f8", [2]], [1], "C", bytes(16)],
        [["unknown", "<f8"], [1], "C", bytes(8)],
        [["as", "<i8", "O"], [1], "C", bytes(8)],
        [["as", "<i8", "i"], [1], "C", bytes(8)],
        [["as", "<i8", "ll"], [1], "C", bytes(8)],
        [["long double", "<f16", "g", 1], [1], "C", bytes(16)],
        [fields(["a", None, 4, "|V2147483647"]), [1], "C", bytes(8)],
        [fields(["a", None, -4, "<f8"]), [1], "C", bytes(8)],
        [fields(["a", None, 2**31, "<f8"], size=2**31 + 8), [0], "C", b""],
        [fields(size=2**31), [0], "C", b""],
        [fields(["a", None, 0, "|O"]), [1], "C", bytes(8)],
        [fields(["a", None, 0, "<f4"], ["a", None, 4, "<f4"]), [1], "C", bytes(8)],
        [fields([5, None, 0, "<f8"]), [1], "C", bytes(8)],
        [fields(["a", 5, 0, "<f8"]), [1], "C", bytes(8)],
        [fields(["a", None, "0", "<f8"]), [1], "C", bytes(8)],
        [fields(["a", None, 0]), [1], "C", bytes(8)],
        [fields(["a", None, 0, ["array", "<f8", [2**20, 2**20]]]), [1], "C", bytes(8)],
        [fields(["a", None, 0, ["array", "<f8", 5]]), [1], "C", bytes(8)],
        [fields(["a", None, 1, "<f4"], is_aligned=True), [1], "C", bytes(8)],
    ],
    ids=ascii,
)
def test_damaged_arrays_are_refused(parts: Any) -> None:
    assert refused(written(32, parts)).why.startswith(("its bytes are damaged", "the type", "this machine"))


@pytest.mark.parametrize(
    "parts",
    [
        5,
        ["<f8"],
        ["<f8", bytes(7)],
        ["text", b"a"],
        ["bytes", "a"],
        ["text", 5],
        ["<U1", b"\xff" * 4],
        ["|O", bytes(8)],
    ],
)
def test_damaged_scalars_are_refused(parts: Any) -> None:
    assert refused(written(33, parts))


def test_a_shape_without_bytes_allocates_nothing() -> None:
    assert (2**40, 0) == decode(written(32, ["<f8", [2**40, 0], "C", b""])).shape
    assert (2**60,) == decode(written(32, ["|V0", [2**60], "C", b""])).shape


def test_fields_that_overlap_many_times_are_read_quickly() -> None:
    rows = [[f"f{number}", None, 0, "|V100000"] for number in range(20_000)]
    copy = decode(written(32, [fields(*rows, size=100_000), [2], "C", struct.pack("<Q", 1) * 25_000]))
    assert 20_000 == len(copy.dtype.names)
    assert 1 == copy.view("<u8")[0]


DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.nested_dtypes(max_itemsize=64, max_leaves=5).filter(
        lambda dtype: not dtype.hasobject and dtype.subdtype is None
    ),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_side=3, min_side=0))))
def test_any_array_comes_back(value: Any) -> None:
    copy = again(value)
    assert dtype_form(value.dtype) == dtype_form(copy.dtype)
    assert value.shape == copy.shape
    assert repr(value) == repr(copy)
    assert encode(value) == encode(copy)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([encode(value) for value in (*ARRAYS, *SCALARS)]), st.data())
def test_changed_encodings_are_read_or_refused(data: bytes, drawn: st.DataObject) -> None:
    changed = bytearray(data)
    changed[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    with suppress(ValueNotReadable):
        decode(bytes(changed))
