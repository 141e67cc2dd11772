"""Compiled regular expressions and network addresses come back, and nothing slow or loud is compiled from data."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.codec.sample_types import Text

from limpet.codec.python_types.expressions import MAX_LENGTH, MAX_WIDE_RANGES
from limpet.codec.values import decode, encode
from limpet.errors import ValueNotReadable, ValueNotStorable


def again(value: Any) -> Any:
    return decode(encode(value))


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


def refused(data: bytes) -> str:
    with pytest.raises(ValueNotReadable) as caught:
        decode(data)
    return caught.value.why


EXPRESSIONS: list[re.Pattern[Any]] = [
    re.compile(""),
    re.compile(r"(?P<name>\w+)\s*=\s*(.*)", re.MULTILINE | re.DOTALL | re.VERBOSE),
    re.compile("(?i)kelp"),
    re.compile("straße", re.IGNORECASE),
    re.compile("[\u0430-\u044f]", re.IGNORECASE),
    re.compile(r"\w", re.ASCII),
    re.compile("lone \ud800"),
    re.compile(rb"\x00[\xf0-\xff]"),
    re.compile(b"(?i)[a-z]\xff-\\x00"),
    re.compile(rb"\w", re.LOCALE),
]


@pytest.mark.parametrize("value", EXPRESSIONS, ids=repr)
def test_an_expression_comes_back(value: re.Pattern[Any]) -> None:
    copy = again([value])[0]
    assert value == copy
    assert (type(value.pattern), value.pattern, value.flags) == (type(copy.pattern), copy.pattern, copy.flags)


def test_an_expression_that_prints_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    loud = re.compile("kelp", re.DEBUG)
    capfd.readouterr()
    with pytest.raises(ValueNotStorable, match="has flags that cannot be stored"):
        encode(loud)
    assert "it has flags that cannot be stored" == refused(written(29, ["kelp", int(re.DEBUG)]))
    assert ("", "") == capfd.readouterr()


def test_an_expression_of_something_else_is_refused() -> None:
    with pytest.raises(ValueNotStorable, match="has a pattern of type Text"):
        encode(re.compile(Text("kelp")))


SLOW = "(?i)" + "[a-\uffff]" * (MAX_WIDE_RANGES + 1)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("x" * (MAX_LENGTH + 1), f"has a pattern of more than {MAX_LENGTH} characters"),
        (SLOW, f"ignores case and has more than {MAX_WIDE_RANGES} ranges beyond ASCII, which is slow to compile"),
        (SLOW.replace("\uffff", "\\uffff"), "ignores case and has more than 16 ranges"),
    ],
    ids=["long", "wide", "escaped"],
)
def test_what_is_slow_to_compile_is_refused_both_ways(pattern: str, why: str) -> None:
    with pytest.raises(ValueNotStorable, match=re.escape(why)):
        encode(re.compile(pattern))
    assert refused(written(29, [pattern, 32])).startswith(f"it {why}")


@pytest.mark.parametrize(
    "parts",
    [5, [], ["a"], [5, 0], ["a", "b"], ["a", True], ["a", 1 << 20], ["(", 32], ["(" * 20000, 32], ["a", 4], [b"a", 32]],
)
def test_damaged_expressions_are_refused(parts: Any) -> None:
    assert refused(written(29, parts))


ADDRESSES: list[Any] = [
    IPv4Address("127.0.0.1"),
    IPv6Address("::1"),
    IPv6Address("::ffff:1.2.3.4"),
    IPv6Address("fe80::1%eth0"),
    IPv4Network("10.0.0.0/8"),
    IPv4Network("1.2.3.4/32"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("fe80::%eth0/64"),
    IPv4Interface("10.1.2.3/8"),
    IPv4Interface("10.1.2.3/255.255.0.0"),
    IPv6Interface("2001:db8::1/32"),
    IPv6Interface("fe80::1%lone \ud800/64"),
]


@pytest.mark.parametrize("value", ADDRESSES, ids=ascii)
def test_an_address_comes_back(value: Any) -> None:
    copy = again({"at": value})["at"]
    assert (type(value), value, repr(value), hash(value)) == (type(copy), copy, repr(copy), hash(copy))
    assert encode(value) == encode(copy)
    if isinstance(value, (IPv4Interface, IPv6Interface)):
        assert repr(value.network) == repr(copy.network)


class OwnAddress(IPv4Address):
    pass


def test_a_class_derived_from_an_address_is_refused() -> None:
    with pytest.raises(ValueNotStorable, match="OwnAddress is not a kind of value that can be stored"):
        encode(OwnAddress("1.2.3.4"))


@pytest.mark.parametrize(
    "parts",
    [
        ["IPv4Address", b"\x01", None, None],
        ["IPv4Address", 5, None, None],
        ["IPv4Address", "1.2.3.4", None, None],
        ["IPv4Address", bytes(4), None, "eth0"],
        ["IPv6Address", bytes(16), None, "a%b"],
        ["IPv6Address", bytes(16), None, 5],
        ["IPv4Network", bytes(4), None, None],
        ["IPv4Network", bytes(4), 33, None],
        ["IPv4Network", b"\x01\x02\x03\x04", 8, None],
        ["IPv4Network", bytes(4), "8", None],
        ["object", bytes(4), None, None],
        ["IPv4Address"],
        5,
    ],
)
def test_damaged_addresses_are_refused(parts: Any) -> None:
    assert refused(written(31, parts))


@given(st.ip_addresses(), st.integers(0, 32))
def test_any_address_comes_back(address: Any, prefix: int) -> None:
    interface = (IPv4Interface if address.version == 4 else IPv6Interface)((address.packed, prefix))
    value = [address, interface, interface.network]
    assert value == again(value)
    assert list(map(type, value)) == list(map(type, again(value)))
