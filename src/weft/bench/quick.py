"""`make bench-quick`: weft beside plain Structured Streaming (and the spike, if its path is given) in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from weft.bench.alone import disagreements
from weft.bench.case import Case, Outcome, System, Variant
from weft.bench.data import Load, generate
from weft.bench.report import Line, summarize, to_json, to_table, verdicts
from weft.bench.run import run_child

_SHORT = 12
"""Event-seconds of the cases whose batches take longer: eight measured ones after the warm-up."""
_SPARK_SECONDS = ((1, 10), (5, 3), (20, 2), (1 << 30, 1))
"""Event-seconds of input for plain Spark by the largest number of queries: about a minute or three on two cores."""
_NARROWEST = 120
"""Columns of a terminal that the table needs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A benchmark run as asked for on the command line."""

    load: Load
    rounds: int
    limit: float
    cases: tuple[Case, ...]
    spike: Path | None
    json: Path


@dataclass(frozen=True, slots=True)
class Found:
    """Outcomes of all rounds, and which results were wrong."""

    outcomes: tuple[tuple[Case, Outcome], ...]
    wrong: tuple[str, ...]

    @property
    def lines(self) -> list[Line]:
        """One per case."""
        return summarize(self.outcomes)


def weft_cases(counts: Iterable[int], load: Load) -> Iterator[Case]:
    """weft by the number of queries; at some of them also its other ways to run."""
    for count in counts:
        yield Case(System.WEFT, count, 20 if count <= 100 else _SHORT, load=load)
        if count in (1, 100):
            yield Case(System.WEFT, count, _SHORT, variant=Variant.ROWS, load=load)
        if count in (1, 20, 100):
            yield Case(System.WEFT, count, 32, files=4, load=load)
        if count == 20:
            yield Case(System.WEFT, count, _SHORT, variant=Variant.DELIVERED, load=load)


def spark_cases(counts: Iterable[int], load: Load) -> Iterator[Case]:
    """Plain Structured Streaming; of small and large batches the better one counts, as for weft."""
    for count in counts:
        seconds = next(seconds for most, seconds in _SPARK_SECONDS if count <= most)
        yield Case(System.SPARK, count, seconds, load=load)
        if count in (1, 20):
            yield Case(System.SPARK, count, 16 if count == 1 else 4, files=4, load=load)


def trial_cases() -> tuple[Case, ...]:
    """A trial of every way to run, small enough for a test; the results of all of them are checked."""
    load = Load(rate=2_000, keys=500)
    return (
        Case(System.WEFT, 20, 6, variant=Variant.DELIVERED, load=load),
        Case(System.SPARK, 2, 4, variant=Variant.CHECKED, load=load),
        Case(System.WEFT, 2, 8, files=4, variant=Variant.ROWS, load=load),
    )


def alternate(*groups: Iterable[Case]) -> tuple[Case, ...]:
    """The groups' cases in turn, so that a slow minute of the machine does not hit one system alone."""
    return tuple(case for turn in zip_longest(*groups) for case in turn if case is not None)


def parse(arguments: Sequence[str]) -> Settings:
    """The settings that command-line arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m weft.bench.quick", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="repeat everything and take medians (default 1)")
    parser.add_argument("--json", type=Path, default=Path("bench-out/quick.json"), help="where the figures go")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds a case is measured at most (default 240)")
    parser.add_argument("--rate", type=int, default=Load().rate, help="rows per event-second and stream")
    parser.add_argument(
        "--weft", type=int, nargs="*", default=[1, 20, 100, 500, 1000], help="numbers of queries for weft"
    )
    parser.add_argument("--spark", type=int, nargs="*", default=[1, 5, 20], help="numbers of queries for plain Spark")
    parser.add_argument("--spike", type=Path, help="path of the spike, to run it for weft's numbers of queries too")
    parser.add_argument(
        "--quick-check", action="store_true", help="tiny sizes: does everything run, are results right?"
    )
    asked = parser.parse_args(arguments)
    load = Load(rate=asked.rate)
    spike = [Case(System.SPIKE, count, 20 if count <= 100 else _SHORT, load=load) for count in asked.weft]
    cases = alternate(
        weft_cases(asked.weft, load),
        spark_cases(asked.spark, load),
        spike if asked.spike else [],
    )
    if asked.quick_check:
        cases = trial_cases()
    return Settings(cases[0].load, asked.rounds, asked.limit, cases, asked.spike, asked.json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare with DuckDB, print and write; 1 if a result was wrong or a case failed."""
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    console = Console(width=max(_NARROWEST, Console().width))
    found = measure(settings, console)
    console.print(to_table(found.lines))
    _print_verdicts(console, found)
    settings.json.parent.mkdir(parents=True, exist_ok=True)
    settings.json.write_text(json.dumps(_document(settings, found), indent=1), encoding="utf-8")
    console.print(f"figures: {settings.json}")
    failed = any(outcome.rows_per_second == 0 for _, outcome in found.outcomes)
    return 1 if found.wrong or failed else 0


def measure(settings: Settings, console: Console) -> Found:
    """Run all cases in all rounds, one process each."""
    measured, wrong = list[tuple[Case, Outcome]](), list[str]()
    with tempfile.TemporaryDirectory(prefix="weft-bench-", ignore_cleanup_errors=True) as name:
        data = Path(name)
        generate(data, settings.load, max(case.seconds for case in settings.cases))
        for turn in range(settings.rounds):
            for case in settings.cases:
                spike = settings.spike if case.system is System.SPIKE else None
                outcome = run_child(case, data, limit=settings.limit, spike=spike)
                measured.append((case, outcome))
                what = f"round {turn + 1}: {case.label}, N = {case.queries}"
                console.print(f"{what}: {outcome.rows_per_second:,.0f} rows/s {outcome.note}", highlight=False)
                wrong += disagreements(case, outcome.digests, data)
    return Found(tuple(measured), tuple(wrong))


def _print_verdicts(console: Console, found: Found) -> None:
    for verdict in verdicts(found.lines):
        met = "met" if verdict.met else "MISSED"
        console.print(f"{verdict.what}: {verdict.measured:,.2f} (bar {verdict.bar:g}): {met}", highlight=False)
    for line in found.wrong:
        console.print(f"WRONG RESULT: {line}", highlight=False)
    if not found.wrong:
        compared = sum(len(outcome.digests) for _, outcome in found.outcomes)
        console.print(f"{compared} results compared, all equal to those of DuckDB alone", highlight=False)


def _document(settings: Settings, found: Found) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "rounds": settings.rounds,
        "limit_seconds": settings.limit,
        "lines": to_json(found.lines),
        "bars": [asdict(verdict) for verdict in verdicts(found.lines)],
        "wrong_results": found.wrong,
        "outcomes": [{"case": case.to_json(), "outcome": outcome.to_json()} for case, outcome in found.outcomes],
    }


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    versions = {name: version(name) for name in ("pyspark", "pyarrow", "numpy", "numba")}
    memory = psutil.virtual_memory().total
    return {"cores": os.cpu_count(), "memory": memory, "python": platform.python_version(), **versions}


if __name__ == "__main__":
    sys.exit(main())
