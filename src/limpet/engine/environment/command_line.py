"""The command line of this process as it may stand in clear text: what looks like a secret is masked.

Whether something is a secret can only be guessed from its looks, so every doubt ends in a mask: a command line that
says too little is a nuisance, one that says too much is a leak. Masked are, to the end of their argument, the values of
options, settings and headers that are named like a secret; what stands before the ``@`` of a URL; and whatever looks
like a key by itself.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence

MASK = "***"
MOST_ARGUMENTS = 50
MOST_CHARACTERS = 200
_CUT = "…"

# fmt: off
_SECRET_WORDS = frozenset((
    "auth", "authentication", "authorization", "bearer", "cookie", "cookies", "cred", "creds", "dsn", "jwt", "key",
    "keys", "otp", "pass", "passcode", "pin", "psk", "pw", "pwd", "salt", "sig", "signature", "token", "tokens",
))
# fmt: on
_SECRET_ENDINGS = ("auth", "key", "pwd", "token")
_SECRET_PARTS = ("accesskey", "apikey", "credential", "passphrase", "passwd", "password", "privatekey", "secret")
_AMOUNT_OF_TOKENS = re.compile(r"(?:max|min|num|n|total)[_-](?:\w+[_-])?tokens?", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")
_NAMED = re.compile(r"(?P<name>[A-Za-z][\w.-]*)[\"']?\s*(?:=|:(?!//))")
_BEARER = re.compile(r"\bbearer\b", re.IGNORECASE)
_BEFORE_AT = re.compile(r"(?:(?<=://)|[^\s:/@=]+:(?!//))[^\s@]\S*@")

_KEY_BEGINNINGS = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|hf|npm|pypi|dop_v1|gsk|r8|tvly)[-_]\w[\w-]{10,}"
    r"|(?:AKIA|ASIA|AIza|eyJ|ya29\.)[\w-]{10,}|-----BEGIN|[A-Za-z0-9+/_-]{20,}={1,2}(?!\w)"
)
_RUN = re.compile(r"[A-Za-z0-9]{20,}|[\w+-]{32,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def masked_command() -> list[str]:
    """The command line of this process, without secrets. The code behind ``-c`` is left out."""
    given = sys.orig_argv or sys.argv
    if sys.argv[:1] == ["-c"]:
        given = [*given[:1], "-c", _CUT, *sys.argv[1:]]
    return masked(given)


def masked(arguments: Sequence[str]) -> list[str]:
    """Arguments with a mask in place of what looks like a secret, and with what is long cut off."""
    shown = [_cut(readable(each)) for each in _masked(arguments[:MOST_ARGUMENTS])]
    return shown if len(arguments) <= MOST_ARGUMENTS else [*shown, _CUT]


def readable(text: str) -> str:
    """Text that JSON can hold: paths and arguments that are not UTF-8 have lone surrogates in them."""
    return text.encode("utf-8", "replace").decode()


def is_secret_name(name: str) -> bool:
    """Whether what has this name is to be kept to oneself."""
    if _AMOUNT_OF_TOKENS.fullmatch(name):
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    return any(part in "".join(words) for part in _SECRET_PARTS)


def looks_like_key(text: str) -> bool:
    """Whether there is something in a text that nobody would have thought up."""
    if _KEY_BEGINNINGS.search(text):
        return True
    return any(_is_random(run) for run in _RUN.findall(_UUID.sub("", text)))


def _masked(arguments: Sequence[str]) -> Iterator[str]:
    is_value = False
    for argument in arguments:
        option = _OPTION.fullmatch(argument)
        # One dash and some letters behind the option of a secret may be the secret; two dashes are the next option.
        if is_value and not (option and argument.startswith("--")):
            yield MASK
            is_value = _BEARER.fullmatch(argument) is not None
        elif option:
            yield argument
            is_value = is_secret_name(option["name"])
        else:
            yield _masked_argument(argument)
            is_left_open = argument.endswith(("=", ":")) and is_secret_name(argument[:-1])
            is_value = is_left_open or _BEARER.fullmatch(argument) is not None


def _masked_argument(argument: str) -> str:
    for named in _NAMED.finditer(argument):
        if is_secret_name(named["name"]):
            return _masked_urls(argument[: named.end()]) + MASK
    if bearer := _BEARER.search(argument):
        argument = f"{argument[: bearer.end()]} {MASK}"
    argument = _masked_urls(argument)
    if looks_like_key(argument) and not os.path.lexists(argument):
        before, _, value = argument.partition("=")
        return f"{before}={MASK}" if looks_like_key(value) and not looks_like_key(before) else MASK
    return argument


def _masked_urls(text: str) -> str:
    return _BEFORE_AT.sub(f"{MASK}@", text)


def _is_random(run: str) -> bool:
    """Whether a run of letters and digits is no word, no name and no number."""
    digits = sum(each.isdigit() for each in run)
    if digits == len(run) or digits < 3:
        return False
    is_mixed = any(each.islower() for each in run) and any(each.isupper() for each in run)
    return is_mixed or (len(run) >= 32 and run.isalnum())


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + _CUT
