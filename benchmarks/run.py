"""Measures everything and prints one table: ratios, with the bar beside each.

Machines differ and are noisy, so nothing is held against seconds: contenders take turns on the same machine, and the
median of the ratios counts. Temporary files go where TMPDIR says; that should be a real disk, not memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from time import perf_counter

import cleanup
import concurrent_runs_full
import diffs
import file_store
import fork
import growth
import import_time
import inbox
import interrupt
import listing
import one_run_full
import one_run_normal
import parts
import policies
import rehearsal
import replay
import serving
import slow_disk
import trials
import values
from findings import Finding, table

MEASUREMENTS = {
    "one-run-full": one_run_full.measure,
    "one-run-normal": one_run_normal.measure,
    "slow-disk": slow_disk.measure,
    "policies": policies.measure,
    "concurrent-runs-full": concurrent_runs_full.measure,
    "replay": replay.measure,
    "growth": growth.measure,
    "import": import_time.measure,
    "parts": parts.measure,
    "values": values.measure,
    "fork": fork.measure,
    "rehearsal": rehearsal.measure,
    "diff": diffs.measure,
    "file-store": file_store.measure,
    "listing": listing.measure,
    "inbox": inbox.measure,
    "interrupt": interrupt.measure,
    "serving": serving.measure,
    "cleanup": cleanup.measure,
}


def main() -> int:
    options = _options()
    missing = [name for name in ("limpet", "dbos") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{' and '.join(missing)} cannot be imported here. `make bench` sees to everything.", file=sys.stderr)
        return 2
    try:
        findings = _measure(options.only or list(MEASUREMENTS))
    except trials.ContenderFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([finding.as_json() for finding in findings], indent=2))
    else:
        print(table(findings))
    return int(options.strict and not all(finding.is_met for finding in findings))


def _measure(names: list[str]) -> list[Finding]:
    findings: list[Finding] = []
    for name in names:
        trials.say(f"{name} ")
        began = perf_counter()
        findings += MEASUREMENTS[name]()
        trials.say(f" {perf_counter() - began:.0f} s\n")
    return findings


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=MEASUREMENTS, help="measure only this; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bar is missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
