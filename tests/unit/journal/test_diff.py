from __future__ import annotations

from collections.abc import Iterable, Iterator

from limpet.journal.diff import Alignment, Pair
from limpet.model import EventRecord, ExecutionStatus, Failure, Record, StorageRecord

E = ExecutionStatus


def event(
    address: str, result: bytes = b"r", status: ExecutionStatus = E.COMPLETED, took: float = 1.0, **more: object
) -> EventRecord:
    fields: dict[str, object] = {"result": result if status is E.COMPLETED else None, "duration_s": took, **more}
    return EventRecord(1, address, status, 0.0, **fields)  # pyright: ignore[reportArgumentType]  # made up for tests


def aligned(before: Iterable[Record], after: Iterable[Record]) -> tuple[Alignment, list[Pair]]:
    alignment = Alignment()
    return alignment, list(alignment.pairs(before, after))


def told(before: Iterable[Record], after: Iterable[Record]) -> list[tuple[str, str]]:
    kinds = {(True, True): "changed", (True, False): "removed", (False, True): "new"}
    return [
        (kinds[old is not None, new is not None], (old or new or event("")).address)
        for old, new in aligned(before, after)[1]
    ]


A, B, C = (f"run::{name}::tool_call" for name in "abc")
FAILED = event(A, status=E.FAILED, error=Failure("ValueError", "no", ""))


def test_equal_journals_do_not_differ() -> None:
    alignment, pairs = aligned([event(A), event(B)], [event(A), event(B, took=5.0)])
    assert [] == pairs
    assert (2, 2) == (alignment.before.totals().events, alignment.after.totals().events)
    assert (2.0, 6.0) == (alignment.before.totals().duration_s, alignment.after.totals().duration_s)


def test_events_are_changed_new_and_removed() -> None:
    found = told([event(A), event(B)], [event(A, b"other"), event(C)])
    assert [("changed", A), ("removed", B), ("new", C)] == found


def test_an_event_is_found_whatever_its_place() -> None:
    assert [] == told([event(A), event(B), event(C)], [event(C), event(A), event(B)])


def test_any_of_result_input_status_version_and_failure_is_a_change() -> None:
    for other in (
        event(A, b"other"),
        event(A, input=b"i"),
        event(A, version="2"),
        event(A, fingerprint=b"f"),
        FAILED,
    ):
        assert [("changed", A)] == told([event(A)], [other])
    assert [("changed", A)] == told([FAILED], [event(A, status=E.FAILED, error=Failure("ValueError", "yes", ""))])
    assert [] == told([FAILED], [event(A, status=E.FAILED, error=Failure("ValueError", "no", "elsewhere"))])


def test_the_newest_outcome_counts_and_retries_are_counted() -> None:
    alignment, pairs = aligned([FAILED, event(A)], [event(A)])
    assert [] == pairs
    assert (1, 1, 1) == (
        alignment.before.totals().retries,
        alignment.before.totals().failures,
        alignment.before.totals().events,
    )
    alignment, pairs = aligned([FAILED, event(B), FAILED, event(A)], [event(B)])
    assert [(A, None)] == [(old and old.address, new) for old, new in pairs]
    assert 2 == alignment.before.totals().retries


def test_a_call_that_has_not_ended_is_an_event_too() -> None:
    started = event(A, status=E.STARTED)
    assert [("removed", A)] == told([started], [])
    assert [("new", A)] == told([], [started])
    assert [("changed", A)] == told([started], [event(A)])
    assert [] == told([started], [started])
    assert [] == told([started, event(A)], [started, event(A)])


def test_the_storage_is_that_at_the_end() -> None:
    def store(key: str, value: bytes | None) -> StorageRecord:
        return StorageRecord(1, key, 0.0, value)

    alignment, _ = aligned([store("k", b"1"), store("gone", b"1"), store("gone", None)], [store("k", b"2")])
    assert ({(False, "k"): b"1"}, {(False, "k"): b"2"}) == (alignment.before.storage, alignment.after.storage)


def test_artifacts_are_looked_at_where_they_differ() -> None:
    alignment, _ = aligned(
        [event(A, artifacts=("x",)), event(B, artifacts=("y",))],
        [event(A, artifacts=("x",)), event(C, artifacts=("z",))],
    )
    assert ({"y"}, {"z"}) == (alignment.before.artifacts, alignment.after.artifacts)


def test_what_both_have_is_not_kept_in_memory() -> None:
    most = 0
    alignment = Alignment()

    def many(shift: int) -> Iterator[Record]:
        nonlocal most
        for number in range(2000):
            most = max(most, len(alignment.before.waiting) + len(alignment.after.waiting))
            yield event(f"run::step#{number + shift}::tool_call")

    pairs = list(alignment.pairs(many(0), many(5)))
    assert 10 == len(pairs)
    assert most <= 12
