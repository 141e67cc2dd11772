"""The command line of this process as it may stand in clear text: what looks like a secret is masked.

Whether something is a secret can only be guessed from its looks, so every doubt ends in a mask: a command line that
says too little is a nuisance, one that says too much is a leak. Masked are, to the end of their argument, the values of
options, settings and headers that are named like a secret, and of ``-p`` and the like; what stands before the ``@`` of
a URL; and whatever looks like a key by itself.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from limpet.engine.environment.secret_shapes import is_password_name, is_secret_name, looks_like_key

MASK = "***"
MOST_ARGUMENTS = 50
MOST_CHARACTERS = 200
MOST_LOOKED_AT = 1_000
"""An argument that is longer is masked as a whole: where a secret ends in it would take long to find out."""
_CUT = "…"

_DASH: Final = "[-\u2013\u2014]"
_NAME: Final = r"[^\W\d_][\w.-]*+"
_DASHES: Final = re.compile(_DASH)
_OPTION: Final = re.compile(rf"{_DASH}{{1,2}}(?P<name>{_NAME})")
_LONG: Final = re.compile(rf"{_DASH}{{2}}{_NAME}")

_WHOLE_WORDS: Final = frozenset(
    ("pass", "passin", "passout", "password", "passwd", "passphrase", "passcode", "pin", "psk", "pwd")
)
"""Of the options with one dash that begin with ``-p`` those that are no ``-p`` with its value."""

_PASSWORD: Final = re.compile(rf"{_DASH}(?:[A-Za-z]{{0,2}}[pP]|[aAkKtTwW])")
"""An option of one letter, or the last of several, whose value is the next argument."""
_PASSWORD_AND_VALUE: Final = re.compile(rf"(?P<option>{_DASH}[pP][=:]?)\S.*", re.DOTALL)
_LONG_USER: Final = rf"{_DASH}{{2}}[\w-]*(?:user|login)[\w-]*"
_USER: Final = re.compile(rf"{_DASH}u|{_LONG_USER}", re.IGNORECASE)
_USER_AND_VALUE: Final = re.compile(rf"(?P<option>{_DASH}u[=:]?|{_LONG_USER}[=:])\S*:.*", re.IGNORECASE | re.DOTALL)

_NAMED: Final = re.compile(rf"(?P<name>{_NAME})(?:[\\\"']*\s*(?:=|:(?!//)|>|%3[AaDd])|[\\\"']+\s*,)")
_TOLD: Final = re.compile(rf"(?P<name>{_NAME})[\\\"']*\s+(?=\S)")
_INNER_OPTION: Final = re.compile(rf"(?<!\S)(?P<option>{_DASH}{{1,2}}{_NAME})\s+(?=\S)")
_INNER_PASSWORD: Final = re.compile(rf"(?<!\S){_DASH}[pP](?=\S)")
_INNER_USER: Final = re.compile(rf"(?<!\S){_DASH}[uU][\s=]*(?=\S*:)")
_SCHEME: Final = re.compile(r"bearer|basic|token|digest|negotiate|apikey", re.IGNORECASE)
_SCHEME_AND_VALUE: Final = re.compile(r"\bbearer\b|\A\s*(?:basic|digest|negotiate)\s(?=\s*\S{8})", re.IGNORECASE)
_BEFORE_AT: Final = re.compile(r"(?<=://)[^@].*@|[^\s:/@=]+:(?!//)[^\s@]\S*@", re.DOTALL)


def masked_command() -> list[str]:
    """The command line of this process, without secrets. The code behind ``-c`` is left out."""
    given = sys.orig_argv or sys.argv
    own = sys.argv[1:]
    if sys.argv[:1] == ["-c"]:
        given = [*given[:1], "-c", _CUT, *own]
    # What stands before the program's own arguments is Python's, whose options of one letter have no secrets.
    begun = len(given) - len(own) if given[len(given) - len(own) :] == own else 0
    return masked(given, first=begun)


def masked(arguments: Sequence[str], *, first: int = 0) -> list[str]:
    """Arguments with a mask in place of what looks like a secret, and with what is long cut off.

    Before the ``first`` one are those that are not the program's own: an option of one letter has no secret there.
    """
    whole = [*_masked(arguments[:first], has_short=False), *_masked(arguments[first:MOST_ARGUMENTS], has_short=True)]
    shown = [_cut(readable(each)) for each in whole[:MOST_ARGUMENTS]]
    return shown if len(arguments) <= MOST_ARGUMENTS else [*shown, _CUT]


def readable(text: str) -> str:
    """Text that JSON can hold: paths and arguments that are not UTF-8 have lone surrogates in them."""
    return text.encode("utf-8", "replace").decode()


def without_credentials(text: str) -> str:
    """A path, a branch or an address without what stands before the ``@`` of a URL."""
    return _BEFORE_AT.sub(f"{MASK}@", text)


def _masked(arguments: Sequence[str], *, has_short: bool) -> Iterator[str]:
    is_value = is_user = goes_on = False
    for argument in arguments:
        # One dash and some letters behind the option of a secret may be the secret; two dashes are the next option.
        if is_value and not _LONG.fullmatch(argument):
            is_sign = argument in ("=", ":", "=>", "==")
            yield argument if is_sign else MASK
            is_value = goes_on or is_sign or _SCHEME.fullmatch(argument) is not None
            continue
        yield MASK if is_user and ":" in argument else _masked_argument(argument, has_short)
        name = _name_of(argument)
        is_user = has_short and _USER.fullmatch(argument) is not None
        goes_on = is_secret_name(name) and name.lower().endswith("s")
        is_value = (
            is_secret_name(name)
            or _SCHEME_AND_VALUE.fullmatch(argument) is not None
            or (has_short and _PASSWORD.fullmatch(argument) is not None)
        )


def _name_of(argument: str) -> str:
    """The name of the option or the setting whose value is the next argument; empty where it is none."""
    option = _OPTION.fullmatch(argument)
    if option is not None:
        return option["name"]
    return argument[:-1] if argument.endswith(("=", ":")) else ""


def _masked_argument(argument: str, has_short: bool) -> str:
    if len(argument) > MOST_LOOKED_AT:
        return MASK
    option = _OPTION.fullmatch(argument)
    if has_short and (attached := _attached(argument)) is not None:
        return attached
    if option is not None:
        return MASK if looks_like_key(argument) else argument
    end = _beginning_of_secret(argument, has_short)
    if end is not None:
        before = without_credentials(argument[:end])
        return MASK if looks_like_key(before) else before + MASK
    argument = without_credentials(argument)
    if looks_like_key(argument) and not os.path.lexists(argument):
        before, _, value = argument.partition("=")
        return f"{before}={MASK}" if looks_like_key(value) and not looks_like_key(before) else MASK
    return argument


def _attached(argument: str) -> str | None:
    """An option of one letter with its secret behind it, masked; None where the argument is none."""
    found = _PASSWORD_AND_VALUE.fullmatch(argument)
    if found is not None and argument[1:].partition("=")[0].lower() not in _WHOLE_WORDS:
        return found["option"] + MASK
    found = _USER_AND_VALUE.fullmatch(argument)
    return None if found is None else found["option"] + MASK


def _beginning_of_secret(argument: str, has_short: bool) -> int | None:
    """Where in an argument the first secret begins that is told by what stands before it."""
    # One dash may be an option of one letter, with a setting right behind it: ``-ePASSWORD=…``.
    behind = 2 if _DASHES.match(argument) else -1
    named = [(found, found["name"][found.start() == behind - 1 :]) for found in _NAMED.finditer(argument)]
    ends = [found.end() for found, rest in named if is_secret_name(found["name"]) or is_secret_name(rest)]
    ends += [found.end() for found in _TOLD.finditer(argument) if is_password_name(found["name"])]
    ends += [found.end() for found in _SCHEME_AND_VALUE.finditer(argument)]
    if has_short:
        inner = _INNER_OPTION.finditer(argument)
        ends += [each.end() for each in inner if is_secret_name(each["option"]) or _PASSWORD.fullmatch(each["option"])]
        ends += [found.end() for each in (_INNER_PASSWORD, _INNER_USER) for found in each.finditer(argument)]
    return min(ends, default=None)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + _CUT
