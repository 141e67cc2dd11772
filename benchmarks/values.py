"""What storing a value of the user's own classes costs, against what their library takes to write and read it as JSON.

The value is what a model call is asked for: about 1 KB, six models, a member of an enum, a moment and some lists. JSON
keeps less of it (not which class a part has, nor which fields were given), so it is a measure and not a rival. What we
pay is paid by part, not by byte: a second line has a value of the same size that is made of many small ones.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from statistics import median
from time import perf_counter

import msgspec
import trials
from findings import Finding, at_most
from pydantic import BaseModel

from limpet.codec.values import decode, encode

ROUNDS = 7
BATCHES = 40
TIMES = 200
SENTENCE = "A limpet grips the rock and takes nothing from it; what it holds is still there after the storm."


class Depth(StrEnum):
    QUICK = "quick"
    THOROUGH = "thorough"


class Usage(BaseModel):
    input_tokens: int
    output_tokens: int
    is_cached: bool = False


class Claim(BaseModel):
    text: str
    confidence: float
    sources: list[str]


class Report(BaseModel):
    topic: str
    depth: Depth
    written_at: datetime
    claims: list[Claim]
    scores: dict[str, float]
    usage: Usage


class Step(BaseModel):
    name: str
    depth: Depth
    began_at: datetime
    took_s: tuple[float, float]


class Log(BaseModel):
    steps: list[Step]


@dataclasses.dataclass
class Page:
    url: str
    lines: list[str]
    score: float
    is_cached: bool


REPORT = Report(
    topic="kelp forests and the rocks that they hold on to, off cold coasts",
    depth=Depth.THOROUGH,
    written_at=datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
    claims=[
        Claim(text=SENTENCE, confidence=0.9, sources=[f"https://example.org/kelp/{number}", "https://example.org/rock"])
        for number in range(4)
    ],
    scores={"recall": 0.8, "precision": 0.7},
    usage=Usage(input_tokens=1200, output_tokens=300),
)
LOG = Log(
    steps=[
        Step(name=f"step {number}", depth=Depth.QUICK, began_at=REPORT.written_at, took_s=(0.5, number / 7))
        for number in range(10)
    ]
)
PAGE = Page("https://example.org/kelp", [SENTENCE] * 10, 0.5, False)


def measure() -> list[Finding]:
    names = ("report", "report_json", "log", "log_json", "page", "page_json", "page_msgspec")
    answers = trials.take_turns(ROUNDS, {name: ("values", name) for name in names})
    costs = {name: [answer["seconds"] * 1e6 for answer in given] for name, given in answers.items()}
    shown = {name: f"{median(given):.1f} µs" for name, given in costs.items()}
    page = f"a dataclass: {shown['page']} to {shown['page_json']} with json, {shown['page_msgspec']} with msgspec"
    report = f"{shown['report']} to {shown['report_json']}; {page}"
    log = f"{shown['log']} to {shown['log_json']}, 11 models with 10 moments, enum members and tuples each"
    return [
        at_most("model round trip / pydantic JSON", 3, costs["report"], costs["report_json"], report),
        at_most("the same of many small parts", 3, costs["log"], costs["log_json"], log),
    ]


def report() -> trials.Answer:
    assert decode(encode(REPORT)) == REPORT
    return _fastest(lambda: decode(encode(REPORT)))


def report_json() -> trials.Answer:
    size = len(REPORT.model_dump_json())
    assert 1000 <= size <= 1100, f"The value is no longer 1 KB: {size} bytes."
    return _fastest(lambda: Report.model_validate_json(REPORT.model_dump_json()))


def log() -> trials.Answer:
    assert decode(encode(LOG)) == LOG
    return _fastest(lambda: decode(encode(LOG)))


def log_json() -> trials.Answer:
    return _fastest(lambda: Log.model_validate_json(LOG.model_dump_json()))


def page() -> trials.Answer:
    return _fastest(lambda: decode(encode(PAGE)))


def page_json() -> trials.Answer:
    return _fastest(lambda: Page(**json.loads(json.dumps(dataclasses.asdict(PAGE)))))


def page_msgspec() -> trials.Answer:
    read = msgspec.json.Decoder(Page).decode
    write = msgspec.json.Encoder().encode
    return _fastest(lambda: read(write(PAGE)))


def _fastest(round_trip: Callable[[], object]) -> trials.Answer:
    """What one round trip costs when nothing else happens on the machine: that of the fastest batch."""
    fastest = float("inf")
    for _ in range(BATCHES):
        began = perf_counter()
        for _ in range(TIMES):
            round_trip()
        fastest = min(fastest, perf_counter() - began)
    return {"seconds": fastest / TIMES}


if __name__ == "__main__":
    contenders = (report, report_json, log, log_json, page, page_json, page_msgspec)
    trials.answer({contender.__name__: contender for contender in contenders})
