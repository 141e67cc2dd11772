"""What is captured of a process: the command line without its secrets, and the packages that it has imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from limpet.engine.environment import packages, with_environment
from limpet.engine.environment.command_line import (
    MASK,
    MOST_ARGUMENTS,
    MOST_CHARACTERS,
    masked,
    masked_command,
    readable,
)
from limpet.engine.environment.secret_shapes import is_secret_name
from limpet.model import StateMetadata

NOT_TO_BE_SEEN = "hunter2"


@pytest.fixture(autouse=True)
def _packages_are_not_known_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_known", (0, {}))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--token", NOT_TO_BE_SEEN],
        ["-token", NOT_TO_BE_SEEN],
        ["--token", f"-{NOT_TO_BE_SEEN}"],
        ["--api-key", NOT_TO_BE_SEEN, "--verbose"],
        ["--apiKey", NOT_TO_BE_SEEN],
        ["--APIKey", NOT_TO_BE_SEEN],
        [f"--password={NOT_TO_BE_SEEN}"],
        [f"--db.password={NOT_TO_BE_SEEN} and {NOT_TO_BE_SEEN}"],
        ["--client-secret", NOT_TO_BE_SEEN],
        ["--clientsecretvalue", NOT_TO_BE_SEEN],
        [f"OPENAI_API_KEY={NOT_TO_BE_SEEN}"],
        [f"PGPASSWORD={NOT_TO_BE_SEEN}"],
        [f"AWS_SECRET_ACCESS_KEY={NOT_TO_BE_SEEN}"],
        ["--env", f"GITHUB_TOKEN={NOT_TO_BE_SEEN}"],
        ["--set", f"a=1,auth={NOT_TO_BE_SEEN},b=2"],
        ["--dsn", f"host=h password={NOT_TO_BE_SEEN}"],
        ["-H", f"Authorization: Bearer {NOT_TO_BE_SEEN}"],
        ["-H", "Authorization:", "Bearer", NOT_TO_BE_SEEN],
        ["-H", f"Bearer {NOT_TO_BE_SEEN}"],
        ["Bearer", NOT_TO_BE_SEEN],
        ["-H", f"X-Api-Key: {NOT_TO_BE_SEEN}"],
        ["password=", NOT_TO_BE_SEEN],
        [f'{{"topic": "kelp", "credentials": "{NOT_TO_BE_SEEN}"}}'],
        [f"{{'pwd': '{NOT_TO_BE_SEEN}'}}"],
        [f"https://example.org/?page=1&access_token={NOT_TO_BE_SEEN}&x=2"],
        [f"postgresql://diver:{NOT_TO_BE_SEEN}@db/runs"],
        [f"--store=postgresql://diver:{NOT_TO_BE_SEEN}@db/runs"],
        [f"postgresql://diver:p@ss/{NOT_TO_BE_SEEN}@db/runs"],
        [f"https://{NOT_TO_BE_SEEN}@example.org/"],
        [f"diver:{NOT_TO_BE_SEEN}@db"],
        ["--passphrase", "two words", f"--otp={NOT_TO_BE_SEEN}"],
        [f"sk-proj-{NOT_TO_BE_SEEN}-abcdef"],
        [f"ghp_{NOT_TO_BE_SEEN}abcdefgh"],
        [f"--with=github_pat_{NOT_TO_BE_SEEN}_abcd"],
        [f"xoxb-{NOT_TO_BE_SEEN}-1234567890"],
        [f"AKIA{NOT_TO_BE_SEEN.upper()}ABCDEF", f"AKIA{NOT_TO_BE_SEEN}ABCDEFG"],
        [f"eyJ{NOT_TO_BE_SEEN}In0xyz.eyJ{NOT_TO_BE_SEEN}In0xyz.abc"],
        [f"-----BEGIN PRIVATE KEY-----{NOT_TO_BE_SEEN}"],
        [f"{NOT_TO_BE_SEEN}AB34cd56EF78gh90"],
        [f"{NOT_TO_BE_SEEN}0123456789abcdef0123456789abcdef"],
        [f"{NOT_TO_BE_SEEN}-ABCDEF-0123-uvwxyz-456789-QRST"],
        [f"{NOT_TO_BE_SEEN}+/abcdefghijklmnop=="],
    ],
)
def test_a_secret_is_masked_however_it_is_spelt(arguments: list[str]) -> None:
    shown = masked(["research.py", *arguments, "kelp"])
    assert "research.py" == shown[0]
    assert MASK in "".join(shown)
    assert "kelp" == shown[-1]
    assert NOT_TO_BE_SEEN not in "".join(shown).lower()


@pytest.mark.parametrize(
    "arguments",
    [
        ["/usr/bin/python3.11", "-m", "research", "--topic", "kelp", "--verbose"],
        ["--max-tokens", "100", "--num_new_tokens=3", "--tokenizer", "bpe", "--author", "me", "--keywords", "kelp"],
        ["research.py:explore", "sqlite:///runs.db", "https://example.org/kelp?page=2#top", "a:b", "10:30"],
        ["--state-id", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "-n", "20260518", "12345678901234567890123456"],
        ["--out=report-of-the-kelp-forests-2024-05-03.csv", "someone@example.org", "--", "-x", ""],
        ["--auth", "--verbose"],
    ],
)
def test_what_is_no_secret_is_shown_as_it_was_typed(arguments: list[str]) -> None:
    assert arguments == masked(arguments)


def test_the_name_of_a_secret_stays_to_be_read() -> None:
    given = ["--token=a", "API_KEY=b", "https://h/?token=c", "postgresql://u:p@db/x", f"--id={'ab12' * 10}"]
    expected = ["--token=***", "API_KEY=***", "https://h/?token=***", "postgresql://***@db/x", "--id=***"]
    assert expected == masked(given)


def test_a_file_that_is_called_like_a_key_is_shown(tmp_path: Path) -> None:
    file = tmp_path / f"Kelp{'ab12' * 10}.csv"
    assert [MASK] == masked([str(file)])
    file.touch()
    assert [str(file)] == masked([str(file)])


@pytest.mark.parametrize(("name", "is_secret"), [("", False), ("key", True), ("monkeys", False), ("oauth2", True)])
def test_names_are_told_apart_by_their_words(name: str, is_secret: bool) -> None:
    assert is_secret is is_secret_name(name)


def test_long_command_lines_are_cut() -> None:
    shown = masked(["kelp " * 100, *["x"] * MOST_ARGUMENTS])
    assert MOST_ARGUMENTS + 1 == len(shown)
    assert (MOST_CHARACTERS + 1, "…") == (len(shown[0]), shown[0][-1])
    assert "…" == shown[-1]


def test_arguments_that_are_not_utf_8_can_be_stored() -> None:
    shown = masked([os.fsdecode(b"kelp\xff")])
    assert ["kelp?"] == shown
    assert "kelp?" in StateMetadata(environment={"command": shown}).to_json()


def test_the_code_of_a_program_on_the_command_line_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-Wdefault", "-c", "run('kelp', 'hunter2')", "x"])
    monkeypatch.setattr(sys, "argv", ["-c", "x"])
    assert ["python", "-c", "…", "x"] == masked_command()
    monkeypatch.setattr(sys, "argv", ["research.py", "x"])
    monkeypatch.setattr(sys, "orig_argv", [])
    assert ["research.py", "x"] == masked_command()


def installed(folder: Path, name: str, *records: str) -> None:
    made = folder / name
    made.mkdir(parents=True)
    (made / "RECORD").write_text("".join(f"{each},,\n" for each in records))


def loaded(monkeypatch: pytest.MonkeyPatch, name: str, file: Path | None) -> ModuleType:
    module = ModuleType(name)
    if file is not None:
        module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_packages_are_those_that_are_imported_by_their_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    installed(site, "Kelp_Forest-1.2.dist-info")
    installed(
        site, "beautifulkelp-4.0rc1.dist-info", "bk4/__init__.py", "kelp_one.py", "beautifulkelp-4.0rc1.dist-info/X"
    )
    installed(site, "kelp_parts-0.3.dist-info", "ocean/deep/parts/__init__.py")
    installed(site, "never_imported-9.dist-info", "never_imported/__init__.py")
    installed(site, "old_kelp-2.0-py3.11.egg-info", "old/__init__.py")
    monkeypatch.syspath_prepend(site)
    loaded(monkeypatch, "kelp_forest", site / "kelp_forest" / "__init__.py")
    loaded(monkeypatch, "kelp_forest.inner", site / "kelp_forest" / "inner.py")
    loaded(monkeypatch, "kelp_one", site / "kelp_one.py")
    loaded(monkeypatch, "ocean", None)
    loaded(monkeypatch, "ocean.deep", None)
    loaded(monkeypatch, "ocean.deep.parts", site / "ocean" / "deep" / "parts" / "__init__.py")
    loaded(monkeypatch, "old_kelp", site / "old_kelp.py")
    loaded(monkeypatch, "mine", tmp_path / "mine.py")
    loaded(monkeypatch, "nobodys", site / "nobodys.py")
    found = packages.imported_packages()
    ours = {name: version for name, version in found.items() if "kelp" in name.lower() or name.startswith("never")}
    assert {"Kelp_Forest": "1.2", "beautifulkelp": "4.0rc1", "kelp_parts": "0.3", "old_kelp": "2.0"} == ours
    assert {"msgspec", "pytest", "limpet"} <= set(found)
    assert not {"mine", "nobodys", "json"} & set(found)
    assert sorted(found, key=str.lower) == list(found)


def test_packages_are_looked_for_again_when_more_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "later_kelp-1.0.dist-info")
    monkeypatch.syspath_prepend(tmp_path)
    assert "later_kelp" not in packages.imported_packages()
    assert packages.imported_packages() is packages.imported_packages()
    loaded(monkeypatch, "later_kelp", tmp_path / "later_kelp.py")
    assert "1.0" == packages.imported_packages()["later_kelp"]


def test_there_is_a_bound_to_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(packages.MOST_PACKAGES + 10):
        installed(tmp_path, f"kelp{number}-{'1' * 100}.dist-info")
        loaded(monkeypatch, f"kelp{number}", tmp_path / f"kelp{number}.py")
    monkeypatch.syspath_prepend(tmp_path)
    found = packages.imported_packages()
    assert packages.MOST_PACKAGES == len(found)
    assert {80} == {len(version) for name, version in found.items() if name.startswith("kelp")}


def test_a_module_that_loads_itself_when_it_is_used_is_left_asleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sleeping_kelp.py").write_text("raise ZeroDivisionError")
    monkeypatch.syspath_prepend(tmp_path)
    spec = importlib.util.find_spec("sleeping_kelp")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sleeping_kelp", module)
    spec.loader.exec_module(module)
    assert "pytest" in packages.imported_packages()


def test_what_is_no_module_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "not_even_a_module", "kelp")
    assert "not_even_a_module" not in packages.imported_packages()


def test_versions_are_known_by_any_spelling_of_the_name() -> None:
    assert packages.version_of("typing-extensions") == packages.version_of("Typing_Extensions")
    assert packages.version_of("typing-extensions")
    assert packages.version_of("never-heard-of") is None


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("off", set()),
        (" OFF ", set()),
        ("minimal", {"python", "platform", "limpet"}),
        ("ful", {"python", "platform", "limpet"}),
    ],
)
def test_less_is_captured_where_that_is_wanted(
    setting: str, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMPET_CAPTURE", setting)
    assert expected == set(with_environment(StateMetadata()).environment)


def test_everything_is_captured_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    always = {"python", "platform", "limpet", "host", "command", "packages", "started_in"}
    for setting in ("", "full"):
        monkeypatch.setenv("LIMPET_CAPTURE", setting)
        assert always == set(with_environment(StateMetadata()).environment) - {"git"}


def test_what_was_captured_before_or_is_given_counts() -> None:
    before = StateMetadata(environment={"host": "reef", "python": "3.9"})
    given = StateMetadata(tags=["a"], environment={"host": "kelp"})
    kept = with_environment(given, before)
    assert {"host": "kelp", "python": "3.9"} == kept.environment
    assert ["a"] == kept.tags
    assert {"host": "kelp"} == given.environment
    assert {"host": "reef", "python": "3.9"} == before.environment
    assert "kelp" == with_environment(given).environment["host"]


def test_what_is_captured_is_plain_and_not_shared() -> None:
    first, second = with_environment(StateMetadata()), with_environment(StateMetadata())
    assert StateMetadata.from_json(first.to_json()) == StateMetadata(environment=first.environment)
    first.environment["host"] = "changed"
    assert "changed" != second.environment["host"]


def test_a_fact_that_cannot_be_found_out_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> str:
        raise OSError("the folder is gone")

    monkeypatch.setattr(os, "getcwd", fails)
    monkeypatch.setattr(packages, "imported_packages", fails)
    assert {"started_in", "packages", "git"}.isdisjoint(with_environment(StateMetadata()).environment)


def test_text_that_json_can_hold_is_left_as_it_is() -> None:
    assert "Tang – 海藻" == readable("Tang – 海藻")
