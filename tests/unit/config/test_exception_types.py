"""Exception types are found by their names, and nothing of the working folder is run for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from limpet.config.exception_types import exception_types, is_installed
from limpet.config.kinds import NotAllowed


def test_types_are_found_by_their_names() -> None:
    found = exception_types(["TimeoutError", "json:JSONDecodeError", "msgspec:ValidationError"])
    assert ["TimeoutError", "JSONDecodeError", "ValidationError"] == [cls.__name__ for cls in found]


def test_a_module_of_python_is_imported_when_it_is_needed() -> None:
    program = (
        "import sys; from limpet.config.exception_types import checked_name, exception_types\n"
        "name = checked_name('wave:Error'); assert 'wave' not in sys.modules\n"
        "print(exception_types([name])[0].__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "wave\n" == done.stdout


def test_a_module_of_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kelp_errors.py").write_text("raise SystemExit('this was run')")
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("kelp_errors")
    with pytest.raises(NotAllowed, match="neither imported in this program nor installed"):
        exception_types(["kelp_errors:Torn"])


@pytest.mark.parametrize("name", ["json:loads", "json:JSONDecoder", "json:Gone", "json.gone:Gone", "nowhere:Gone"])
def test_what_is_no_exception_type_is_refused(name: str) -> None:
    with pytest.raises(NotAllowed, match=r"json|nowhere"):
        exception_types([name])
