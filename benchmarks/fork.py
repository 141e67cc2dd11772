"""What a fork costs: the call, the bytes, the way to a result against DBOS, and what its descendants pay for it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import trials
from findings import AT_MOST, Finding, at_least, at_most

ROUNDS = 7
PEER_ROUNDS = 3
RESUME_ROUNDS = 11
LENGTH = 250


def measure() -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="bench-forks-") as folder:
        return [*_calls(folder), *_descendants(folder), _to_result(folder)]


def _calls(folder: str) -> list[Finding]:
    store = _made(folder, "limpet_forks", "make", "10000", "1000", "100")
    answers = trials.take_turns(
        ROUNDS,
        {
            "long": ("limpet_forks", "call", "long", "9000"),
            "short": ("limpet_forks", "call", "short", "90"),
            "commit": ("bare_sqlite", "stdlib", "full", "300", str(LENGTH)),
        },
        {"long": store, "short": store},
    )
    size = trials.take_turns(1, {"size": ("limpet_forks", "size", "long", "9000")}, {"size": store})["size"]
    long, short, mean, first = (
        [answer[key] for answer in answers[name]]
        for name, key in (("long", "median_s"), ("short", "median_s"), ("long", "mean_s"), ("long", "first_s"))
    )
    commit = [1 / answer["rate"] for answer in answers["commit"]]
    calls = f"{_shown(long)} to {_shown(short)}; the first of a process {_shown(first)}"
    return [
        at_most("fork at 9,000 of 10,000 / 90 of 100", 2, long, short, calls),
        # Means on both sides: the checkpoints that SQLite makes are part of what a commit costs.
        at_most("fork call / a commit", 5, mean, commit, f"{_shown(mean)} to {_shown(commit)}"),
        Finding(
            name="bytes added by a fork",
            ratios=[answer["bytes"] / 1000 for answer in size],
            direction=AT_MOST,
            bar=10,
            detail="at 9,000 of 10,000, the file of the store after it was closed",
            unit="kB",
        ),
    ]


def _descendants(folder: str) -> list[Finding]:
    store = _made(folder, "limpet_forks", "make_generations", "10000", "9000")
    answers = trials.take_turns(
        RESUME_ROUNDS,
        {"fork": ("limpet_forks", "go_on", "3"), "original": ("limpet_forks", "go_on", "0")},
        {"fork": store, "original": store},
    )
    fork, original = ([answer["seconds"] for answer in answers[name]] for name in ("fork", "original"))
    # It is to cost no more, by the event. A tenth is left for noise: the two run in different processes.
    detail = f"{_shown(fork)} to {_shown(original)}, 9,999 of 10,000 events recorded"
    return [at_most("resume a fork of a fork of a fork / the original", 1.1, fork, original, detail)]


def _to_result(folder: str) -> Finding:
    stores = {
        "ours": _made(folder, "limpet_forks", "make", "20", "1000", "20"),
        "plain": _made(folder, "peer_dbos", "make", "1000", form="plain"),
        "async": _made(folder, "peer_dbos", "make", "1000", form="async"),
    }
    answers = trials.take_turns(
        PEER_ROUNDS,
        {
            "ours": ("limpet_forks", "to_result", "middle", "900", "100"),
            "plain": ("peer_dbos", "fork", "plain", "1000", "900"),
            "async": ("peer_dbos", "fork", "async", "1000", "900"),
        },
        stores,
    )
    ours = answers["ours"]
    peer = [
        min(pair, key=lambda answer: answer["result_s"])
        for pair in zip(answers["plain"], answers["async"], strict=True)
    ]
    took, peer_took = ([answer["result_s"] for answer in given] for given in (ours, peer))
    call, peer_call = (_shown([answer["call_s"] for answer in given]) for given in (ours, peer))
    rates, peer_rates = ([1 / seconds for seconds in given] for given in (took, peer_took))
    detail = f"{_shown(took)} to {_shown(peer_took)}, 100 steps left of 1,000; the call alone {call} to {peer_call}"
    return at_least("fork to result / DBOS", 20, rates, peer_rates, detail)


def _made(folder: str, script: str, function: str, *arguments: str, form: str = "") -> Path:
    """A store that was made by a contender, in a folder of its own."""
    path = Path(folder) / "-".join((script, function, form, *arguments)) / "store.db"
    path.parent.mkdir()
    trials.ask((script, function, *([form] if form else []), str(path), *arguments))
    trials.say(".")
    return path


def _shown(seconds: list[float]) -> str:
    middle = median(seconds)
    return f"{middle:.2f} s" if middle >= 1 else f"{middle * 1e3:.2f} ms"
