"""Optional libraries are used where the program has imported them, and are never imported for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from limpet.codec.library_types.optional import kind_of
from limpet.codec.values import decode, encode
from limpet.errors import ValueNotReadable

PLAIN = """
import sys
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
import re

from limpet.cli.readable import read
from limpet.codec.values import decode, encode, encode_leniently
from limpet.errors import ValueNotReadable, ValueNotStorable

@dataclass
class Page:
    url: str

value = [1, "a", {"b": (2.5, {3}), 4: Page("p")}, deque([1], 3), Counter("x"), defaultdict(list), range(3)]
value += [datetime(2024, 1, 1, tzinfo=UTC), ip_address("::1"), re.compile("a"), ValueError("x")]
assert repr(value) == repr(decode(encode(value)))
encode_leniently([object(), lambda: 0])
for data in map(bytes.fromhex, sys.argv[1:]):
    read(data)
    try:
        decode(data)
    except ValueNotReadable as error:
        print(error.type_name, error.why)
try:
    encode([object()])
except ValueNotStorable:
    pass
print(sorted(sys.modules.keys() & {"numpy", "pandas", "polars", "pydantic", "attrs", "attr", "pyarrow"}))
"""


def test_a_program_without_the_libraries_gets_none_of_them() -> None:
    values: list[Any] = [np.zeros(2), np.float64(1), pd.DataFrame({"a": [1]}), pl.Series([1])]
    command = [sys.executable, "-c", PLAIN, *(encode(value).hex() for value in values)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)})
    assert "" == answer.stderr
    assert [
        "numpy:ndarray module 'numpy' is not imported in this program",
        "numpy:generic module 'numpy' is not imported in this program",
        "pandas:DataFrame module 'pandas' is not imported in this program",
        "polars:DataFrame module 'polars' is not imported in this program",
        "[]",
    ] == answer.stdout.splitlines()


@pytest.mark.parametrize(
    ("library", "value"),
    [("numpy", np.zeros(2)), ("pandas", pd.Timestamp("2024")), ("polars", pl.DataFrame({"a": [1]}))],
)
def test_the_module_to_import_is_named(library: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode([value])
    monkeypatch.delitem(sys.modules, library)
    with pytest.raises(ValueNotReadable, match=f"module '{library}' is not imported in this program"):
        decode(data)


BYTES = """
import sys
import numpy as np, pandas as pd, polars as pl
from collections import Counter, defaultdict
from limpet.codec.values import encode
words = {f"word {number}" for number in range(20)}
value = [
    Counter(sorted(words)), defaultdict(set, a=words), np.array(sorted(words)), np.longdouble(1) / 3,
    pd.DataFrame({"a": [words, 1], "b": pd.Categorical(["x", "y"])}), pl.DataFrame({"a": ["x"], "b": [None]}),
    pl.Series(sorted(words, key=hash), dtype=pl.Categorical).sort(),
]
print(encode(value).hex())
"""


def test_equal_values_have_equal_bytes_in_every_process() -> None:
    outputs = set[str]()
    for seed in ("0", "4711"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", BYTES]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert "" == answer.stderr
        outputs.add(answer.stdout)
    assert 1 == len(outputs)


def test_the_kind_of_a_class_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encode(np.float64(1))
    monkeypatch.setattr("limpet.codec.values.kind_of", None)
    assert 1.5 == decode(encode(np.float64(1.5)))


def test_a_class_of_no_library_has_no_kind() -> None:
    with pytest.raises(Exception, match="is not a kind of value that can be stored"):
        kind_of(object)
