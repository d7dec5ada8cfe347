"""`make bench-quick`: weft beside plain Structured Streaming (and the spike, if its path is given) in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from weft_bench.alone import disagreements
from weft_bench.case import Case, Kind, Outcome, System
from weft_bench.cases import (
    AGGREGATE_LOAD,
    SHORT,
    alternate,
    spark_aggregates,
    spark_joins,
    trial_cases,
    weft_aggregates,
    weft_joins,
)
from weft_bench.data import Load, generate
from weft_bench.report import Line, summarize, to_json, to_tables, verdicts
from weft_bench.run import run_child

_AGGREGATE_QUERIES = (1, 20, 100, 1000)
_NARROWEST = 120
"""Columns of a terminal that the table needs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A benchmark run as asked for on the command line."""

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


def parse(arguments: Sequence[str]) -> Settings:
    """The settings that command-line arguments ask for."""
    parser = argparse.ArgumentParser(prog="weft-bench quick", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="repeat everything and take medians (default 1)")
    parser.add_argument("--json", type=Path, default=Path("bench-out/quick.json"), help="where the figures go")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds a case is measured at most (default 240)")
    parser.add_argument("--only", choices=[Kind.JOINS.value, Kind.AGGREGATES.value], help="one part of it")
    parser.add_argument(
        "--rate", type=int, help="rows per event-second and stream (default 200,000 for joins, 400,000 for aggregates)"
    )
    parser.add_argument(
        "--weft",
        type=int,
        nargs="*",
        default=[1, 20, 100, 500, 1000],
        help="numbers of queries for weft",
    )
    parser.add_argument("--spark", type=int, nargs="*", default=[1, 5, 20], help="the same for plain Spark")
    parser.add_argument("--spike", type=Path, help="path of the spike, to run it for weft's numbers of queries too")
    parser.add_argument(
        "--quick-check", action="store_true", help="tiny sizes: does everything run, are results right?"
    )
    asked = parser.parse_args(arguments)
    cases = trial_cases() if asked.quick_check else (*_joins(asked), *_aggregates(asked))
    kinds = [Kind(asked.only)] if asked.only else list(Kind)
    chosen = tuple(case for case in cases if case.kind in kinds)
    return Settings(asked.rounds, asked.limit, chosen, asked.spike, asked.json)


def _joins(asked: argparse.Namespace) -> tuple[Case, ...]:
    load = Load() if asked.rate is None else Load(rate=asked.rate)
    spike = [Case(System.SPIKE, count, 20 if count <= 100 else SHORT, load=load) for count in asked.weft]
    return alternate(
        weft_joins(asked.weft, load),
        spark_joins(asked.spark, load),
        spike if asked.spike else [],
    )


def _aggregates(asked: argparse.Namespace) -> tuple[Case, ...]:
    load = AGGREGATE_LOAD if asked.rate is None else replace(AGGREGATE_LOAD, rate=asked.rate)
    weft = [count for count in asked.weft if count in _AGGREGATE_QUERIES]
    spark = [count for count in asked.spark if count in _AGGREGATE_QUERIES]
    return alternate(weft_aggregates(weft, load), spark_aggregates(spark, load))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare with DuckDB, print and write; 1 if a result was wrong or a case failed."""
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    console = Console(width=max(_NARROWEST, Console().width))
    found = measure(settings, console)
    for table in to_tables(found.lines):
        console.print(table)
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
        _generate(data, settings.cases)
        for turn in range(settings.rounds):
            for case in settings.cases:
                spike = settings.spike if case.system is System.SPIKE else None
                outcome = run_child(case, data / case.kind, limit=settings.limit, spike=spike)
                measured.append((case, outcome))
                what = f"round {turn + 1}: {case.kind}, {case.label}, N = {case.queries}"
                console.print(f"{what}: {outcome.rows_per_second:,.0f} rows/s {outcome.note}", highlight=False)
                wrong += disagreements(case, outcome.digests, data / case.kind)
    return Found(tuple(measured), tuple(wrong))


def _generate(folder: Path, cases: Sequence[Case]) -> None:
    """One set of files for each kind of queries; all cases of a kind have the same load."""
    for kind, load in {case.kind: case.load for case in cases}.items():
        seconds = max(case.seconds for case in cases if case.kind is kind)
        generate(folder / kind, load, seconds, streams=kind.streams)


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
