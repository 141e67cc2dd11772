"""Code that changed since a run was recorded: a rehearsal names the line, a resume follows the address and tells."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import random
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from limpet import (
    Drift,
    DriftWarning,
    EventBus,
    EventNotice,
    ExecutionEvent,
    ExecutionState,
    Finding,
    Limpet,
    MemoryStateBackend,
    NotRecorded,
    RehearsalReport,
    ReplayMode,
    SQLiteStateBackend,
    StateBackend,
    StateStatus,
    agent,
    tool,
)
from limpet.testing import CrashingBackend

PROGRAM = Path(__file__).with_name("rehearsed_programs") / "pipeline.txt"
EXPECTED = [
    "fetch(kelp)",
    "parse(page)",
    "check(parsed)",
    "check(parse(checked)) think(refined)",
    "fetch(a) check(a)",
    "fetch(b) check(b)",
    "fetch(c)",
    "send(all)",
    "check(last)",
]


@dataclass(frozen=True)
class Change:
    """A change of the program: some lines and what stands in their place; ``# here`` marks the first divergence."""

    name: str
    before: str
    after: str
    finding: Finding
    address: str
    warns: str
    """What a resumed run says."""


CHANGES = [
    Change(
        "gains a call",
        '    checked = await check("parsed")\n',
        '    checked = await check("parsed")\n    await extra("new")  # here\n',
        Finding.MISSING,
        "pipeline::extra::tool_call",
        r"executes 'pipeline::extra::tool_call' although it is not recorded",
    ),
    Change(
        "gains a call at the beginning",
        "    page = await fetch(url)\n",
        '    await extra("new")  # here\n    page = await fetch(url)\n',
        Finding.MISSING,
        "pipeline::extra::tool_call",
        r"executes 'pipeline::extra::tool_call' although it is not recorded",
    ),
    Change(
        "loses a call",
        '    parsed = await parse("page")\n    checked = await check("parsed")\n',
        '    parsed = "parse(page)"\n    checked = await check("parsed")  # here\n',
        Finding.UNREACHED,
        "pipeline::parse::tool_call",
        r"ended 'pipeline::agent_call' although it no longer calls 'pipeline::parse::tool_call'",
    ),
    Change(
        "reorders two calls",
        '    parsed = await parse("page")\n    checked = await check("parsed")\n',
        '    checked = await check("parsed")  # here\n    parsed = await parse("page")\n',
        Finding.MOVED,
        "pipeline::check::tool_call",
        r"'pipeline::parse::tool_call' although it is now called behind what was recorded after it",
    ),
    Change(
        "renames an actor",
        '    parsed = await parse("page")\n',
        '    parsed = await parse.options(name="dissect")("page")  # here\n',
        Finding.MISSING,
        "pipeline::dissect::tool_call",
        r"executes 'pipeline::dissect::tool_call' although it is not recorded",
    ),
    Change(
        "changes an input",
        '    parsed = await parse("page")\n',
        '    parsed = await parse("another page")  # here\n',
        Finding.INPUT_DRIFTED,
        "pipeline::parse::tool_call",
        r"'pipeline::parse::tool_call' although its input changed",
    ),
    Change(
        "changes a version",
        '    parsed = await parse("page")\n',
        '    parsed = await parse.options(version="2")("page")  # here\n',
        Finding.VERSION_CHANGED,
        "pipeline::parse::tool_call",
        r"'pipeline::parse::tool_call' although its version was not set and is 2",
    ),
    Change(
        "gains a key",
        '    parsed = await parse("page")\n',
        '    parsed = await parse.options(key="k")("page")  # here\n',
        Finding.MISSING,
        "pipeline::parse[k]::tool_call",
        r"executes 'pipeline::parse\[k\]::tool_call' although it is not recorded",
    ),
]
INSIDE = [
    Change(
        "a nested agent gains a call",
        "    checked = await check(parsed)\n",
        '    await extra("new")  # here\n    checked = await check(parsed)\n',
        Finding.MISSING,
        "pipeline::refine::extra::tool_call",
        "",
    ),
    Change(
        "a nested agent loses a call",
        "    parsed = await parse(text)\n    checked = await check(parsed)\n",
        '    parsed = "parse(checked)"\n    checked = await check(parsed)  # here\n',
        Finding.UNREACHED,
        "pipeline::refine::parse::tool_call",
        "",
    ),
    Change(
        "a nested agent loses its last call",
        '    thought = await think("refined")\n    return f"{checked} {thought}"\n',
        '    thought = "think(refined)"\n    return f"{checked} {thought}"  # here\n',
        Finding.UNREACHED,
        "pipeline::refine::think::llm_call",
        "",
    ),
    Change(
        "a nested agent reorders two calls",
        '    checked = await check(parsed)\n    thought = await think("refined")\n',
        '    thought = await think("refined")  # here\n    checked = await check(parsed)\n',
        Finding.MOVED,
        "pipeline::refine::think::llm_call",
        "",
    ),
    Change(
        "a nested agent is renamed",
        '    refined = await refine("checked")\n',
        '    refined = await refine.options(name="polish")("checked")  # here\n',
        Finding.MISSING,
        "pipeline::polish::agent_call",
        "",
    ),
    Change(
        "a nested agent is given another input",
        '    refined = await refine("checked")\n',
        '    refined = await refine("something else")  # here\n',
        Finding.INPUT_DRIFTED,
        "pipeline::refine::agent_call",
        "",
    ),
    Change(
        "a branch gains a call",
        "        checked = await check(name)\n",
        "        await extra(name)  # here\n        checked = await check(name)\n",
        Finding.MISSING,
        "pipeline::branches::task[chain]::extra::tool_call",
        "",
    ),
    Change(
        "a branch loses its last call",
        "        checked = await check(name)\n        return",
        '        checked = f"check({name})"\n        return',
        Finding.UNREACHED,
        "pipeline::branches::task[chain]::check::tool_call",
        "",
    ),
    Change(
        "a branch changes an input",
        "        checked = await check(name)\n",
        "        checked = await check(name * 2)  # here\n",
        Finding.INPUT_DRIFTED,
        "pipeline::branches::task[chain]::check::tool_call",
        "",
    ),
]
LOST_AT_THE_END = Change(
    "loses its last call",
    '    last = await check("last")\n    return [page, parsed, checked, refined, *spread, sent, last]\n',
    '    return [page, parsed, checked, refined, *spread, sent, "check(last)"]  # here\n',
    Finding.UNREACHED,
    "pipeline::check#2::tool_call",
    "",
)


def named(change: Change) -> str:
    return change.name.replace(" ", "-")


class Versions:
    """The program as it was, and as it is after a change: modules of files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def original(self) -> ModuleType:
        return self._module("original", PROGRAM.read_text())

    def changed(self, change: Change) -> ModuleType:
        source = PROGRAM.read_text()
        assert 1 == source.count(change.before), change.name
        return self._module("changed", source.replace(change.before, change.after))

    def _module(self, name: str, source: str) -> ModuleType:
        file = self._folder / f"{name}.py"
        file.write_text(source)
        spec = importlib.util.spec_from_file_location(f"rehearsed_{name}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path)


def marked(module: ModuleType) -> tuple[str, int]:
    """The file and the line that are marked as the first divergence."""
    file = str(module.__file__)
    (line,) = (n for n, text in enumerate(Path(file).read_text().splitlines(), 1) if text.endswith("# here"))
    return file, line


def rehearsed(client: Limpet, module: ModuleType) -> RehearsalReport:
    module.executions.clear()
    report = asyncio.run(client.rehearse("x", agent=module.pipeline))["x"]
    assert isinstance(report, RehearsalReport)
    assert {} == module.executions, "a rehearsal has executed something"
    return report


def test_the_unchanged_program_is_reused_as_a_whole(backend: StateBackend, versions: Versions) -> None:
    client = Limpet(backend)
    original = versions.original()
    assert EXPECTED == client.run_sync(original.pipeline, "kelp", state_id="x")
    before = backend.read("x"), backend.find_state("x")
    report = rehearsed(client, original)
    assert report.is_ok
    assert report.first_divergence is None
    assert {Finding.REUSED} == {call.finding for call in report.calls}
    assert sorted(client.history("x").addresses()) == sorted(call.address for call in report.calls)
    assert before == (backend.read("x"), backend.find_state("x"))


@pytest.mark.parametrize("change", [*CHANGES, *INSIDE, LOST_AT_THE_END], ids=named)
def test_a_rehearsal_of_a_completed_run_names_the_line_at_which_the_code_parts(
    change: Change, versions: Versions
) -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(versions.original().pipeline, "kelp", state_id="x")
    changed = versions.changed(change)
    report = rehearsed(client, changed)
    first = report.first_divergence
    assert first is not None
    assert not report.is_ok
    assert (change.address, change.finding) == (first.address, first.finding)
    if "# here" in change.after:
        assert marked(changed) == (first.file, first.line)
        assert f"{first.file}:{first.line}: {first.address} {first.finding}" in str(report)
    assert change.address in report.found(change.finding)


@pytest.mark.parametrize("change", CHANGES, ids=named)
@pytest.mark.parametrize("kind", ["failed", "interrupted"])
def test_a_rehearsal_of_an_unfinished_run_names_the_line_just_so(kind: str, change: Change, versions: Versions) -> None:
    client = Limpet(MemoryStateBackend())
    unfinished(client, versions.original(), kind)
    changed = versions.changed(change)
    report = rehearsed(client, changed)
    first = report.first_divergence
    assert first is not None
    assert (change.address, change.finding) == (first.address, first.finding)
    assert marked(changed) == (first.file, first.line)


def test_every_drifted_input_is_told_with_its_place(versions: Versions) -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(versions.original().pipeline, "kelp", state_id="x")
    change = Change(
        "", '    refined = await refine("checked")\n', '    refined = await refine("other")\n', Finding.REUSED, "", ""
    )
    report = rehearsed(client, versions.changed(change))
    assert ["pipeline::refine::agent_call", "pipeline::refine::parse::tool_call"] == [
        each.address for each in report.divergences
    ]
    assert "input[0]: 'checked' -> 'other'" == report.divergences[0].detail


def test_a_call_of_several_lines_is_named_by_a_line_of_it(versions: Versions) -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(versions.original().pipeline, "kelp", state_id="x")
    after = '    parsed = await parse(  # here\n        "another "\n        "page"\n    )\n'
    changed = versions.changed(Change("", '    parsed = await parse("page")\n', after, Finding.REUSED, "", ""))
    first = rehearsed(client, changed).first_divergence
    assert first is not None
    assert marked(changed) == (first.file, first.line)


def unfinished(client: Limpet, module: ModuleType, kind: str) -> None:
    """A run that stops at its call of send."""
    module.stop[:] = [LookupError if kind == "failed" else asyncio.CancelledError]
    with pytest.raises(module.stop[0]):
        client.run_sync(module.pipeline, "kelp", state_id="x")
    module.stop.clear()
    gc.collect()


@pytest.mark.parametrize("kind", ["failed", "interrupted"])
def test_a_rehearsal_of_an_unfinished_run_says_where_it_would_go_on(
    backend: StateBackend, versions: Versions, kind: str
) -> None:
    client = Limpet(backend)
    original = versions.original()
    unfinished(client, original, kind)
    report = rehearsed(client, original)
    assert report.is_ok
    assert report.goes_on_at is not None
    assert "pipeline::send::tool_call" == report.goes_on_at.address
    assert (original.__file__, "    sent = await send(") == (
        report.goes_on_at.file,
        Path(str(original.__file__)).read_text().splitlines()[report.goes_on_at.line - 1][:22],
    )
    assert "would go on at pipeline::send::tool_call" in str(report)
    assert 0 == asyncio.run(client.rehearse("x", agent=original.pipeline)).exit_code


def test_code_that_fails_on_recorded_results_is_told(versions: Versions) -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(versions.original().pipeline, "kelp", state_id="x")
    change = Change(
        "", '    sent = await send("all")\n', '    sent = await send("all")\n    1 / 0\n', Finding.REUSED, "", ""
    )
    report = rehearsed(client, versions.changed(change))
    assert not report.is_ok
    assert "ZeroDivisionError" in str(report)


def resumed(client: Limpet, module: ModuleType) -> tuple[list[str], list[str]]:
    """The result of going on with the run, and what was told of drift on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DriftWarning)
        result = asyncio.run(client.resume("x", agent=module.pipeline))
    return result, [str(warning.message) for warning in caught if warning.category is DriftWarning]


@pytest.mark.parametrize("change", CHANGES, ids=named)
@pytest.mark.parametrize("kind", ["failed", "interrupted"])
def test_a_resumed_run_follows_the_address_and_tells_of_the_drift(
    kind: str, change: Change, versions: Versions
) -> None:
    client = Limpet(MemoryStateBackend())
    original = versions.original()
    unfinished(client, original, kind)
    changed = versions.changed(change)
    result, told = resumed(client, changed)
    assert any(re.search(change.warns, warning) for warning in told), told
    assert [*EXPECTED[:-2], "send(all)", "check(last)"] == result
    again = set(changed.executions) - {"send", "check"}
    assert again <= ({"extra"} if "extra" in change.after else {"parse"})
    assert bool(again) == (change.finding is Finding.MISSING)
    assert 1 == changed.executions["check"]
    assert StateStatus.COMPLETED is client.list_states()[0].status


@pytest.mark.parametrize("kind", ["failed", "interrupted"])
def test_a_lost_last_call_is_told_when_the_run_ends(kind: str) -> None:
    client = Limpet(MemoryStateBackend())
    calls = ["a", "b", "c"]
    stop: list[type[BaseException]] = [LookupError if kind == "failed" else asyncio.CancelledError]

    @tool
    async def step(name: str) -> str:
        return name

    @agent
    async def shrinks() -> list[str]:
        found = [await step(name) for name in calls]
        if stop:
            raise stop[0]
        return found

    with pytest.raises(stop[0]):
        client.run_sync(shrinks, state_id="x")
    stop.clear()
    calls.pop()
    with pytest.warns(DriftWarning, match=r"it no longer calls 'shrinks::step#3::tool_call'"):
        assert ["a", "b"] == asyncio.run(client.resume("x", agent=shrinks))


@pytest.mark.parametrize("change", CHANGES, ids=named)
@pytest.mark.parametrize("kind", ["failed", "interrupted"])
def test_drift_as_an_error_stops_the_run_and_the_old_code_can_take_it_up_again(
    kind: str, change: Change, versions: Versions
) -> None:
    client = Limpet(MemoryStateBackend(), on_drift="error")
    original = versions.original()
    unfinished(client, original, kind)
    original.executions.clear()
    changed = versions.changed(change)
    with pytest.raises(Drift, match=r"State 'x' has drifted at 'pipeline::") as caught:
        asyncio.run(client.resume("x", agent=changed.pipeline))
    assert caught.value.what
    assert 0 == changed.executions["extra"]
    assert 0 == changed.executions["parse"]
    if change.finding is not Finding.UNREACHED:  # Which is known only at the end.
        assert {} == changed.executions
        assert EXPECTED == asyncio.run(client.resume("x", agent=versions.original().pipeline))


@pytest.mark.parametrize("change", CHANGES, ids=named)
def test_drift_can_be_ignored_and_the_bus_is_told_all_the_same(change: Change, versions: Versions) -> None:
    client = Limpet(MemoryStateBackend())
    unfinished(client, versions.original(), "interrupted")
    told: list[EventNotice] = []
    bus = EventBus()
    bus.subscribe(told.append)
    resumed = client.resume("x", agent=versions.changed(change).pipeline, on_drift="ignore", event_bus=bus)
    assert EXPECTED == asyncio.run(resumed)
    bus.flush()
    assert any(notice.drift for notice in told)


def test_the_setting_can_be_given_for_one_run(versions: Versions) -> None:
    change = next(change for change in CHANGES if change.finding is Finding.INPUT_DRIFTED)
    client = Limpet(MemoryStateBackend(), on_drift="ignore")
    unfinished(client, versions.original(), "interrupted")
    changed = versions.changed(change)
    with pytest.raises(Drift, match="its input changed"):
        client.run_sync(changed.pipeline, "kelp", state_id="x", on_drift="error")
    assert EXPECTED == client.run_sync(changed.pipeline, "kelp", state_id="x")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="loudly"):
        Limpet(MemoryStateBackend(), on_drift="loudly")


@tool
async def double(number: int) -> int:
    return number * 2


async def doubles(state: ExecutionState, *numbers: int) -> list[int]:
    return [(await ExecutionEvent(double)(number, None, state)).result for number in numbers]


def test_the_explicit_form_has_the_same_settings(backend: StateBackend) -> None:
    asyncio.run(doubles(ExecutionState(state_backend=backend, state_id="x"), 1, 2))

    def loaded(**options: Any) -> ExecutionState:
        return ExecutionState.load_from_state_id("x", backend, **options)

    with pytest.warns(DriftWarning, match="its input changed"):
        assert [2, 4] == asyncio.run(doubles(loaded(), 1, 3))
    with pytest.raises(Drift, match=r"double#2::tool_call.*its input changed"):
        asyncio.run(doubles(loaded(on_drift="error"), 1, 3))
    assert [2, 4] == asyncio.run(doubles(loaded(on_drift="ignore"), 1, 3))


def test_a_state_made_with_the_setting_holds_its_own_events_to_it(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="x", on_drift="error")
    assert [2, 4] == asyncio.run(doubles(state, 1, 2))


def test_the_explicit_form_rehearses_and_reports(backend: StateBackend) -> None:
    asyncio.run(doubles(ExecutionState(state_backend=backend, state_id="x"), 1, 2))
    before = backend.read("x"), backend.find_state("x")

    def rehearsing() -> ExecutionState:
        return ExecutionState.load_from_state_id("x", backend, replay_mode=ReplayMode.REHEARSAL)

    same = rehearsing()
    assert [2, 4] == asyncio.run(doubles(same, 1, 2))
    assert same.rehearsal is not None
    assert same.rehearsal.is_ok
    drifted = rehearsing()
    assert [2, 4] == asyncio.run(doubles(drifted, 1, 3))
    assert drifted.rehearsal is not None
    first = drifted.rehearsal.first_divergence
    assert first is not None
    assert ("double#2::tool_call", Finding.INPUT_DRIFTED, __file__) == (first.address, first.finding, first.file)
    longer = rehearsing()
    with pytest.raises(NotRecorded, match="double#3"):
        asyncio.run(doubles(longer, 1, 2, 3))
    assert before == (backend.read("x"), backend.find_state("x"))


timing = random.Random()


@pytest.fixture(autouse=True)
def fresh() -> None:
    timing.seed(0)
    broken.clear()


async def pause() -> None:
    for _ in range(timing.randrange(4)):
        await asyncio.sleep(0)


@tool
async def slow(name: str) -> str:
    await pause()
    return name


@tool
def plain(name: str) -> str:
    return name


@tool
def plain_with_calls(name: str) -> str:
    return slow.call(name) + plain.call(name)


@tool
async def large(data: str) -> int:
    await pause()
    return len(data)


@tool
async def never(name: str) -> str:
    await asyncio.Event().wait()
    return name


@tool
async def breaks(name: str) -> str:
    await pause()
    raise LookupError(name)


@agent
async def inner(name: str) -> list[str]:
    await pause()
    first = await slow(name)
    return [first, *await asyncio.gather(slow(f"{name}1"), slow(f"{name}2"))]


async def chain(name: str) -> list[Any]:
    await pause()
    return [await slow(f"{name}1"), await plain(f"{name}2"), await inner(name)]


@agent
async def direct() -> list[Any]:
    found: list[Any] = [await slow("begin")]
    found += await asyncio.gather(slow("a"), plain("b"), slow("c"), inner("d"), large("e" * 100_000))
    return [*found, await slow("between"), *await asyncio.gather(plain_with_calls("f"), slow("g")), await slow("end")]


@agent
async def in_tasks() -> list[Any]:
    background = asyncio.create_task(chain("background"))
    found: list[Any] = [await slow("begin"), await inner("x"), await large("y" * 100_000)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(chain(name)) for name in "abc"]
        found.append(await slow("beside"))
    return [*found, *(task.result() for task in tasks), await background, await slow("end")]


@agent
async def called_and_awaited_later() -> list[Any]:
    calls = [slow(name) for name in "abc"]
    try:
        before = await slow("d")
        return [before, *[await call for call in reversed(calls)], await slow("end")]
    finally:
        for call in calls:
            call.close()


@agent
async def catches() -> list[Any]:
    found: list[Any] = [await slow("begin")]
    for name in "ab":
        try:
            await breaks(name)
        except LookupError as error:
            found.append(str(error))
        found.append(await slow(name))
    return [*found, *await asyncio.gather(breaks("c"), slow("d"), return_exceptions=True)][:5]


@agent
async def times_out() -> list[Any]:
    found: list[Any] = [await slow("begin")]
    for name in "abc":
        try:
            await asyncio.wait_for(never(name), 0.001)
        except TimeoutError:
            found.append(await slow(f"instead of {name}"))
    return [*found, *await asyncio.gather(slow("c"), slow("d")), await slow("end")]


def run_until_stopped(backend: StateBackend, actor: Any, stop_at: int) -> None:
    crashing = CrashingBackend(backend, stop_at=stop_at)
    try:
        Limpet(crashing).run_sync(actor, state_id="x")
    except BaseException:
        if not crashing.is_stopped:
            raise


UNCHANGED = [direct, in_tasks, called_and_awaited_later, catches, times_out]


@contextmanager
def tidied() -> Iterator[None]:
    """The tasks that crashes left behind are reported when they are collected: here, not in the middle of a test."""
    try:
        yield
    finally:
        gc.collect()


@pytest.mark.parametrize("unchanged", UNCHANGED, ids=lambda each: each.name)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_unchanged_program_never_drifts_wherever_it_is_stopped_and_however_it_is_timed(
    unchanged: Any, kind: str, tmp_path: Path
) -> None:
    expected = Limpet(MemoryStateBackend()).run_sync(unchanged)
    with tidied():
        for stop_at in range(2, 40, 2 if kind == "memory" else 8):
            in_memory = kind == "memory"
            made = MemoryStateBackend() if in_memory else SQLiteStateBackend(tmp_path / f"{stop_at}.db", "normal")
            with made as backend:
                for attempt in (1, 2):
                    timing.seed(stop_at * attempt)
                    run_until_stopped(backend, unchanged, stop_at + attempt)
                timing.seed(stop_at * 3)
                assert expected == Limpet(backend).run_sync(unchanged, state_id="x", on_drift="error")


broken: set[str] = set()


@tool
async def flaky(name: str) -> str:
    await pause()
    if name in broken:
        raise LookupError(name)
    return name


@pytest.mark.parametrize("names", ["a", "b", "c", "ab", "abc"])
def test_an_unchanged_program_that_failed_and_is_tried_again_does_not_drift(names: str) -> None:
    @agent
    async def tries() -> list[str]:
        return [await flaky(name) for name in "abcd"]

    client = Limpet(MemoryStateBackend())
    for name in names:
        broken.add(name)
        with pytest.raises(LookupError):
            client.run_sync(tries, state_id="x")
        broken.clear()
    assert [*"abcd"] == client.run_sync(tries, state_id="x")
    assert asyncio.run(client.rehearse("x", agent=tries)).is_ok


def test_a_call_that_was_tried_again_beside_others_has_not_moved() -> None:
    @agent
    async def tries() -> list[str]:
        found = await asyncio.gather(flaky("a"), slow("b"), slow("c"), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return [*(str(each) for each in found), await flaky("d"), await flaky("e")]

    client = Limpet(MemoryStateBackend())
    for seed in range(6):
        for name in ("a", "d", "e"):
            timing.seed(seed)
            broken.add(name)
            with pytest.raises(LookupError):
                client.run_sync(tries, state_id=f"x{seed}")
            broken.clear()
        assert [*"abcde"] == client.run_sync(tries, state_id=f"x{seed}")
    checked = asyncio.run(client.rehearse(agent=tries))
    assert checked.is_ok, str(checked)


@pytest.mark.parametrize("unchanged", [each for each in UNCHANGED if each is not times_out], ids=lambda each: each.name)
def test_an_unchanged_program_rehearses_well_however_it_is_timed(unchanged: Any) -> None:
    client = Limpet(MemoryStateBackend())
    for seed in range(10):
        timing.seed(seed)
        client.run_sync(unchanged, state_id=f"x{seed}")
    timing.seed(100)
    for _ in range(3):
        checked = asyncio.run(client.rehearse(agent=unchanged))
        assert checked.is_ok, str(checked)
        assert (0, 10) == (checked.exit_code, len(checked))


def test_an_unchanged_program_whose_call_was_cancelled_rehearses_well() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(times_out, state_id="x")
    checked = asyncio.run(client.rehearse("x", agent=times_out))
    assert checked.is_ok, str(checked)


def test_a_run_that_was_stopped_anywhere_rehearses_well() -> None:
    with tidied():
        for stop_at in range(2, 30):
            timing.seed(stop_at)
            backend = MemoryStateBackend()
            run_until_stopped(backend, in_tasks, stop_at)
            if backend.find_state("x") is not None:
                timing.seed(stop_at + 1)
                checked = asyncio.run(Limpet(backend).rehearse("x", agent=in_tasks))
                assert checked.is_ok, str(checked)


def test_many_states_are_rehearsed_with_one_summary(versions: Versions) -> None:
    client = Limpet(MemoryStateBackend())
    original = versions.original()
    for number in range(3):
        client.run_sync(original.pipeline, "kelp", state_id=f"x{number}")
    told: list[tuple[int, int, str]] = []
    checked = asyncio.run(
        client.rehearse(
            ["x1", "missing", "x0"],
            agent=versions.changed(CHANGES[0]).pipeline,
            on_progress=lambda *at: told.append(at),
        )
    )
    assert [(1, 3, "x1"), (2, 3, "missing"), (3, 3, "x0")] == told
    assert (1, ["x1", "missing", "x0"]) == (checked.exit_code, checked.failed)
    assert "3 states rehearsed: 0 went through, 3 did not." == str(checked).splitlines()[-1]


def test_a_task_group_that_a_new_call_ends_has_not_failed_by_itself() -> None:
    @agent
    async def grouped() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(inside(is_changed["now"])) for _ in range(2)]
        return sum(task.result() for task in tasks)

    @tool
    async def one() -> int:
        return 1

    @tool
    async def another() -> int:
        return 1

    async def inside(has_another: bool) -> int:
        return await one() + (await another() if has_another else 0)

    is_changed = {"now": False}
    client = Limpet("memory://")
    client.run_sync(grouped, state_id="x")
    is_changed["now"] = True
    report = asyncio.run(client.rehearse("x"))["x"]
    assert isinstance(report, RehearsalReport)
    assert report.error is None
    assert report.first_divergence is not None
    assert "grouped::task[inside]::another::tool_call" == report.first_divergence.address
