"""What looks like a secret in text that a person typed: how it is named, and how it is written. Pure tables and rules.

It can only be guessed, so every doubt counts as a secret.
"""

from __future__ import annotations

import re
from typing import Final

# fmt: off
_SECRET_WORDS: Final = frozenset((
    "auth", "authentication", "authorization", "bearer", "connstr", "cookie", "cookies", "cred", "creds", "dsn", "hmac",
    "jwt", "key", "keys", "otp", "pass", "passcode", "pat", "pem", "pin", "psk", "psw", "pw", "pwd", "salt", "session",
    "sessionid", "sid", "sig", "signature", "token", "tokens", "webhook",
))
_SECRET_ENDINGS: Final = ("auth", "key", "pass", "pw", "pwd", "token")
_SECRET_PARTS: Final = (
    "accesskey", "apikey", "connectionstring", "credential", "kennwort", "passphrase", "passwd", "password", "passwort",
    "privatekey", "pswd", "secret", "senha", "contrase", "contrasena", "пароль", "密码", "パスワード",
)
_LIKE_PASSWORD: Final = ("apikey", "passphrase", "passwd", "password", "secret")
# fmt: on
_AMOUNT_OF_TOKENS: Final = re.compile(r"(?:max|min|num|n|total)[_-](?:\w+[_-])?tokens?", re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")

_KEY_BEGINNINGS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|gh[a-z]|github_pat|glpat|xox[a-z]|xapp|whsec|shp[a-z]{2})[-_]\w[\w-]{4,}"
    r"|(?:pk|rk|hf|npm|pypi|dop_v1|gsk|r8|tvly|lin_api|ntn|nvapi|xai|pplx)[-_]\w[\w-]{10,}"
    r"|(?:hv[sb]|SG|ya29)\.[\w-]{8,}"
    r"|AGE-SECRET-KEY-|dapi[0-9a-f]{20,}|\d{8,10}:[\w-]{30,}"
    r")"
    r"|(?:AKIA|ASIA|AIza|eyJ|EAA)[\w-]{8,}|-----BEGIN|[A-Za-z0-9+/_-]{20,}={1,2}(?!\w)"
    r"|hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/"
)
_RUN: Final = re.compile(r"[A-Za-z0-9]{20,}|[\w+-]{32,}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_secret_name(name: str) -> bool:
    """Whether what has this name is to be kept to oneself."""
    if _AMOUNT_OF_TOKENS.fullmatch(name):
        return False
    words = _words(name)
    if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    return any(part in "".join(words) for part in _SECRET_PARTS)


def is_password_name(name: str) -> bool:
    """Whether a word can hardly stand for anything else, so that what follows it in a sentence is one."""
    whole = "".join(_words(name))
    return any(part in whole for part in _LIKE_PASSWORD)


def looks_like_key(text: str) -> bool:
    """Whether there is something in a text that nobody would have thought up."""
    if _KEY_BEGINNINGS.search(text):
        return True
    return any(_is_random(run) for run in _RUN.findall(_UUID.sub("", text)))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _is_random(run: str) -> bool:
    """Whether a run of letters and digits is no word, no name and no number."""
    digits = sum(each.isdigit() for each in run)
    if digits == len(run) or digits < 3:
        return False
    is_mixed = any(each.islower() for each in run) and any(each.isupper() for each in run)
    return is_mixed or (len(run) >= 32 and run.isalnum())
