"""Every file of hostile bytes gives the error that is right for it, quickly, in little memory, and does no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile.decoding_program import VALUE
from hostile.processes import watched
from hostile.watch import Reading

INPUTS = Path(__file__).parent / "inputs"

# Where a value is given the bytes are a legal one, which may surprise whoever uses it, and has done nothing.
EXPECTED: dict[str, set[str]] = {
    "ValueNotReadable": {
        "address-that-is-none",
        "array-of-objects-inside-a-structure",
        "array-of-objects",
        "array-whose-dtype-is-an-expression",
        "array-with-a-field-outside-of-its-items",
        "array-with-a-negative-shape",
        "array-with-a-shape-of-terabytes",
        "array-with-a-shape-that-never-ends",
        "array-with-a-shape-that-overflows",
        "array-with-items-of-gigabytes",
        "attrs-class-os-system",
        "bytearray-of-a-huge-number",
        "class-builtins-eval",
        "class-builtins-object",
        "class-of-a-dotted-attribute",
        "class-of-a-module-that-is-not-imported",
        "class-of-another-family",
        "class-of-this-program",
        "class-os-system",
        "class-subprocess-popen",
        "class-that-is-a-function",
        "class-that-is-a-module",
        "class-whose-fields-never-end",
        "class-whose-name-is-a-list",
        "class-whose-name-is-a-range",
        "class-with-fields-of-a-network",
        "class-with-other-fields",
        "class-without-a-name",
        "complex-too-short",
        "counter-with-an-item-that-never-ends",
        "date-in-month-13",
        "datetime-that-is-none",
        "decimal-that-is-a-number",
        "decimal-that-is-none",
        "decimal-with-a-huge-exponent",
        "deep-causes",
        "deep-dtype-of-polars",
        "deep-extensions",
        "deep-list",
        "deep-map",
        "deep-parameters-of-a-model",
        "default-factory-builtins-exec",
        "default-factory-os-system",
        "deque-that-never-ends",
        "deque-with-a-huge-maxlen",
        "dict-with-a-list-as-key",
        "dict-with-an-item-that-never-ends",
        "empty",
        "enum-named-os-system",
        "enum-without-that-member",
        "exception-group-of-no-exceptions",
        "exception-group-that-never-ends",
        "exception-os-system",
        "exception-with-arguments-that-never-end",
        "exception-with-attributes-of-a-network",
        "exception-with-hostile-arguments",
        "extension-of-nothing",
        "field-left-out-of-a-class-that-has-none",
        "field-left-out-of-os-system",
        "flag-with-a-huge-value",
        "flipped-dtype-of-an-array",
        "flipped-dtype-of-polars",
        "flipped-inside-a-type-name",
        "flipped-tag-of-a-model",
        "flipped-word-of-pandas",
        "fraction-of-a-huge-decimal",
        "fraction-of-a-text",
        "fraction-with-zero-denominator",
        "generic-model-of-os-system",
        "huge-bytes-length",
        "huge-ext-length",
        "huge-list-length-inside-an-extension",
        "huge-list-length",
        "huge-list-lengths-nested",
        "huge-map-length",
        "huge-text-length",
        "literal-parameters-that-never-end",
        "map-with-a-number-as-key",
        "model-os-system",
        "model-whose-given-fields-never-end",
        "named-tuple-os-system",
        "network-whose-class-is-none",
        "network-with-host-bits",
        "pandas-categories-that-never-end",
        "pandas-columns-that-never-end",
        "pandas-frequency-that-is-an-expression",
        "pandas-levels-that-never-end",
        "pandas-table-of-unequal-columns",
        "pandas-word-that-is-none",
        "parameter-of-typing-that-is-a-function",
        "parameter-os-system",
        "path-of-another-kind",
        "pickle-for-a-class-of-the-program",
        "pickle-that-is-not-registered",
        "polars-arrays-of-gigabytes",
        "polars-columns-that-never-end",
        "polars-height-of-a-quadrillion",
        "polars-object-dtype",
        "polars-values-of-another-dtype",
        "range-without-a-step",
        "reference-that-is-a-path",
        "reference-without-a-backend",
        "reference-without-its-parts",
        "regex-nested-deeply",
        "regex-that-prints-while-it-is-compiled",
        "regex-too-long",
        "regex-whose-pattern-is-a-list",
        "regex-with-a-group-left-open",
        "regex-with-wide-ranges-that-ignore-case",
        "registered-name-that-is-a-list",
        "registered-name-unknown",
        "reserved-byte",
        "scalar-of-gigabytes",
        "secret-as-the-fields-of-a-class",
        "secret-that-is-gone-through",
        "set-of-a-network",
        "set-of-lists",
        "struct-os-system",
        "syntax-error-that-never-ends",
        "text-that-is-not-utf8",
        "timedelta-that-never-ends",
        "timestamp-of-msgpack",
        "truncated-array",
        "truncated-in-a-length",
        "truncated-model",
        "truncated-table-of-pandas",
        "truncated-text",
        "tuple-of-an-array-of-nothing",
        "tuple-that-never-ends",
        "unknown-tag-0",
        "unknown-tag-99",
        "unknown-tag-negative",
        "uuid-too-short",
        "zone-outside-the-database",
        "zone-that-is-a-folder",
        "zone-that-is-a-path",
        "zone-that-is-an-absolute-path",
        "zone-with-an-offset-of-years",
    },
    "StateCorrupted": {
        "frame-empty",
        "frame-flipped",
        "frame-nested-deeply",
        "frame-of-an-unknown-record",
        "frame-of-another-state",
        "frame-that-is-no-record",
        "frame-too-short",
        "frame-truncated",
        "frame-with-a-huge-length",
        "frame-with-an-unknown-status",
        "frame-with-another-number",
        "frame-with-text-that-is-not-utf8",
        "frame-without-a-record",
        "sealed-frame-flipped",
    },
    "UnsupportedVersion": {
        "frame-of-a-newer-version",
        "frame-of-version-0",
        "sealed-frame-of-a-newer-version",
    },
    "WrongKey": {
        "frame-sealed-read-without-a-key",
        "sealed-frame-flipped-and-mended",
        "sealed-frame-moved-to-another-number",
        "sealed-frame-of-another-key",
        "sealed-frame-too-short-and-mended",
        "sealed-frame-truncated-and-mended",
        "sealed-frame-with-another-nonce",
    },
    "NotEncrypted": {
        "sealed-frame-in-clear",
    },
    VALUE: {
        "array-of-nothing-of-any-length",
        "bytes-left-over",
        "deep-dtype-of-numpy",
        "exception-that-ends-the-program",
        "exception-with-a-cause-that-is-none",
        "flipped-first-bit-of-a-model",
        "frame-honest",
        "plain-text-that-names-os-system",
        "regex-that-would-backtrack-for-ever",
        "sealed-frame-honest",
    },
}
ROWS = [(name, outcome) for outcome, names in EXPECTED.items() for name in sorted(names)]


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reading]:
    """What each file came to, all read by one process that is watched."""
    return watched(dict[str, Reading], tmp_path_factory.mktemp("hostile"), "files", INPUTS)


@pytest.mark.parametrize(("name", "outcome"), ROWS)
def test_a_hostile_input_gives_the_right_error(name: str, outcome: str, readings: dict[str, Reading]) -> None:
    assert outcome == readings[name].outcome


@pytest.mark.parametrize("name", [name for name, _ in ROWS])
def test_a_hostile_input_takes_little_and_does_nothing(name: str, readings: dict[str, Reading]) -> None:
    assert [] == readings[name].faults()


def test_every_file_has_its_row_and_every_row_its_file() -> None:
    assert {name for name, _ in ROWS} == {file.stem for file in INPUTS.iterdir()}
    assert len(ROWS) == len({name for name, _ in ROWS})


def test_there_are_enough_of_them_and_they_are_small() -> None:
    assert len(ROWS) >= 60
    assert max(file.stat().st_size for file in INPUTS.iterdir()) <= 128 * 1024
