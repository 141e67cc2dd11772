"""Secrets on a command line are masked in every form: a table, and all that can be made of it."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from limpet.engine.environment.command_line import MASK, masked, masked_command, without_credentials

SECRETS = (
    "hunter2",
    "correct horse battery staple",
    "p@ss/w0rd:x",
    "8080",
    "0x1f",
    "-dash",
    "naïve",
    "'quoted'",
    "a=b",
)

NAMES = (
    *("password", "db-password", "passwd", "pwd", "passphrase", "pass", "passcode", "userpass"),
    *("token", "access-token", "refresh-token", "auth-token", "bearer-token", "tokens"),
    *("api-key", "apikey", "x-api-key", "private-key", "secret-key", "key", "sshkey"),
    *(
        "secret",
        "client-secret",
        "secrets",
        "auth",
        "basic-auth",
        "authorization",
        "credential",
        "credentials",
        "creds",
    ),
    *("creds", "cookie", "session-id", "otp", "pin", "dsn", "jwt", "signature", "connection-string"),
)

NAMED_FORMS = (
    ["--{name}", "{secret}"],
    ["-{name}", "{secret}"],
    ["\u2013\u2013{name}", "{secret}"],
    ["--{name}={secret}"],
    ["-{name}={secret}"],
    ["--{name}:{secret}"],
    ["--{name}", "=", "{secret}"],
    ["--{name}=", "{secret}"],
    ["/{name}:{secret}"],
    ["{name}={secret}"],
    ["{name} = {secret}"],
    ["{name}:", "{secret}"],
    ["export {name}={secret}"],
    ["--env", "{name}={secret}"],
    ["-e{name}={secret}"],
    ["--set", "a=1,{name}={secret},b=2"],
    ["https://h/x?{name}={secret}&page=2"],
    ["https://h/x?page=2&{name}={secret}#top"],
    ["https://h/x#{name}={secret}"],
    ['{{"a": 1, "{name}": "{secret}"}}'],
    ["{{'{name}': '{secret}'}}"],
    ['{{\\"{name}\\":\\"{secret}\\"}}'],
    ['["{name}", "{secret}"]'],
    ["<{name}>{secret}</{name}>"],
    ["{name}%3D{secret}"],
    ["-H", "X-{name}: {secret}"],
    ["deploy --{name} {secret} now"],
    ["--run", "deploy --{name} '{secret}'"],
    ["A=1\n{name}={secret}\nB=2"],
)
"""How a secret stands behind its name."""

OTHER_FORMS = (
    ["-p", "{secret}"],
    ["-P", "{secret}"],
    ["-p{secret}"],
    ["-p={secret}"],
    ["-P{secret}"],
    ["-vp", "{secret}"],
    ["-t", "{secret}"],
    ["mysql -u root -p {secret}"],
    ["mysql -uroot -p{secret} kelp"],
    ["-u", "diver:{secret}"],
    ["-udiver:{secret}"],
    ["-u=diver:{secret}"],
    ["--user", "diver:{secret}"],
    ["--user=diver:{secret}"],
    ["--proxy-user=diver:{secret}"],
    ["--run", "curl -u diver:{secret} https://h"],
    ["https://diver:{secret}@h/x"],
    ["https://{secret}@h/x"],
    ["postgres://diver:{secret}@h/db"],
    ["postgresql+asyncpg://diver:{secret}@h:5432/db"],
    ["DATABASE_URL=postgres://diver:{secret}@h/db"],
    ["--store=mysql://diver:{secret}@h/db?x=1"],
    ["redis://:{secret}@h:6379/0"],
    ["amqp://diver:{secret}@h//"],
    ["git+https://diver:{secret}@github.com/org/repo.git@main"],
    ["https://oauth2:{secret}@gitlab.com/org/repo.git"],
    ["diver:{secret}@h"],
    ["-H", "Authorization: Bearer {secret}"],
    ["-H", "Authorization:", "Bearer", "{secret}"],
    ["-H", "Authorization:", "Basic", "{secret}"],
    ["Bearer {secret}"],
    ["Bearer", "{secret}"],
)
"""How a secret is given without a name of its own."""

KEYS = (
    *(
        "sk-abc123def",
        "sk-proj-abcDEF123456",
        "sk-ant-api03-abcdef",
        "sk_live_abcdef123",
        "ghp_abcdef123456",
        "gho_abc123",
    ),
    *("github_pat_11ABCDEF_xyz", "glpat-abcdef12", "xoxb-123456-abc", "xoxp-12345-x", "AKIAIOSFODNN7EXAMPLE"),
    *("ASIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "AIzaSyA1234567890abc", "npm_abcdefghijkl1"),
    *(
        "hvs.abcdefgh12",
        "SG.abcdefghij.klm",
        "shpat_abcdef12",
        "whsec_abcdef12",
        "AGE-SECRET-KEY-1QQ",
        "hf_abcdefghijkl",
    ),
    *("https://hooks.slack.com/services/T0/B0/x", "123456789:AAabcdefghijklmnopqrstuvwxyz01234", "-----BEGIN KEY-----"),
)
"""Secrets that are known by their looks."""

KEY_FORMS = (["{key}"], ["--with", "{key}"], ["--with={key}"], ["with {key} please"], ["A={key}"], ['{{"a": "{key}"}}'])


def spellings(name: str) -> Iterator[str]:
    """A name as programs write it: with other dashes, in capitals, and as one word with humps."""
    yield from {name, name.replace("-", "_"), name.replace("-", "_").upper(), name.replace("-", "."), name.title()}
    first, *rest = name.split("-")
    yield first + "".join(map(str.title, rest))


def given(form: list[str], **parts: str) -> list[str]:
    return ["research.py", "topic=kelp", *(word.format(**parts) for word in form), "--verbose"]


def leaks(arguments: list[str], secret: str) -> bool:
    shown = masked(arguments)
    inside = "\0".join(shown[2:-1])
    assert ["research.py", "topic=kelp"] == shown[:2]
    assert "--verbose" == shown[-1]
    assert MASK in inside, arguments
    return secret in inside


def named_cases() -> Iterator[tuple[list[str], str]]:
    for form, name, secret in itertools.product(NAMED_FORMS, NAMES, SECRETS):
        for spelling in spellings(name):
            yield given(form, name=spelling, secret=secret), secret


def other_cases() -> Iterator[tuple[list[str], str]]:
    for form, secret in itertools.product(OTHER_FORMS, SECRETS):
        if not (" " in secret and ("{secret} " in form[-1] or form[-1].startswith("diver:"))):
            yield given(form, secret=secret), secret


def key_cases() -> Iterator[tuple[list[str], str]]:
    for form, key in itertools.product(KEY_FORMS, KEYS):
        yield given(form, key=key), key


@pytest.mark.parametrize("cases", [named_cases, other_cases, key_cases])
def test_no_form_of_a_secret_is_shown(cases: Callable[[], Iterator[Any]], capsys: pytest.CaptureFixture[str]) -> None:
    made = list(cases())
    assert [] == [arguments for arguments, secret in made if leaks(arguments, secret)][:10]
    with capsys.disabled():
        sys.stdout.write(f"\n{len(made)} command lines of {cases.__name__}\n")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--port", "80", "--path=/x"], ["--port", "80", "--path=/x"]),
        (["-n", "3", "-o", "out.csv", "-v"], ["-n", "3", "-o", "out.csv", "-v"]),
        (["git@github.com:org/repo.git"], ["git@github.com:org/repo.git"]),
        (["ssh://git@github.com/org/repo"], [f"ssh://{MASK}@github.com/org/repo"]),
        (["git+https://github.com/org/repo@main"], [f"git+https://{MASK}@main"]),
        (["-u", "root", "--user", "diver"], ["-u", "root", "--user", "diver"]),
        (["-phunter2", "kelp"], [f"-p{MASK}", "kelp"]),
        (["-psecret", "kelp"], [f"-p{MASK}", MASK]),
        (["-password", "hunter2", "kelp"], ["-password", MASK, "kelp"]),
        (["-p", "8080", "--verbose"], ["-p", MASK, "--verbose"]),
        (["--tokens", "a", "b", "--next", "c"], ["--tokens", MASK, MASK, "--next", "c"]),
        (["-H", "Authorization: Bearer x"], ["-H", f"Authorization:{MASK}"]),
        (["topic=the kelp forests, and who lives there"], ["topic=the kelp forests, and who lives there"]),
        (["x" * 3_000], [MASK]),
    ],
)
def test_the_rest_of_a_command_line_stays_to_be_read(arguments: list[str], shown: list[str]) -> None:
    assert shown == masked(arguments)


def test_options_of_python_itself_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-P", "-W", "error", "-u", "research.py", "-p", "hunter2"])
    monkeypatch.setattr(sys, "argv", ["research.py", "-p", "hunter2"])
    assert ["python", "-P", "-W", "error", "-u", "research.py", "-p", MASK] == masked_command()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://diver:hunter2@github.com/org/repo.git", f"https://{MASK}@github.com/org/repo.git"),
        ("https://hunter2@github.com/org/repo.git", f"https://{MASK}@github.com/org/repo.git"),
        ("git@github.com:org/repo.git", "git@github.com:org/repo.git"),
        ("feature/kelp", "feature/kelp"),
    ],
)
def test_addresses_are_shown_without_credentials(text: str, shown: str) -> None:
    assert shown == without_credentials(text)


@pytest.mark.parametrize(
    "text", ["a" * 2_000, "a-" * 1_000, "a=" * 1_000, '"' * 2_000, " " * 2_000, "://" * 600, "x:y@" * 500]
)
def test_long_arguments_cost_little(text: str) -> None:
    began = time.perf_counter()
    masked([(text * 1_000)[:1_000]] * 20)
    assert time.perf_counter() - began < 5
