"""The kinds of the ``ipaddress`` types, each written as its packed number, the length of its prefix and its scope."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any, Final

from limpet.codec.kinds import Kind, Lower
from limpet.errors import ValueNotReadable

_ADDRESSES: Final = (IPv4Address, IPv6Address)
_NETWORKS: Final = (IPv4Network, IPv6Network)
_CLASSES: Final = {cls.__name__: cls for cls in (*_ADDRESSES, *_NETWORKS, IPv4Interface, IPv6Interface)}


def _lower(value: Any, lower: Lower) -> Any:
    cls: type = value.__class__
    number: Any = value.network_address if cls in _NETWORKS else value
    network: Any = value if cls in _NETWORKS else None if cls in _ADDRESSES else value.network
    prefix = None if network is None else network.prefixlen
    return [cls.__name__, number.packed, prefix, lower(getattr(number, "scope_id", None))]


def _build(parts: Any) -> Any:
    name, packed, prefix, scope = parts
    cls: Any = _CLASSES[name]
    if type(packed) is not bytes or (scope is not None and type(scope) is not str):
        raise ValueNotReadable(f"ipaddress:{name}", "its bytes are damaged (it has no number)")
    # A scope is taken only from text; the text of the number itself is our own.
    number = packed if scope is None else f"{IPv6Address(packed)}%{scope}"
    if cls in _ADDRESSES:
        return cls(number)
    if type(prefix) is not int:
        raise ValueNotReadable(f"ipaddress:{name}", "its bytes are damaged (it has no prefix)")
    return cls((number, prefix))


_NETWORK = Kind(31, _lower, _build)
NETWORK_KINDS: Final[dict[type, Kind]] = dict.fromkeys(_CLASSES.values(), _NETWORK)
"""By exact type."""
