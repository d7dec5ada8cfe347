"""Join-then-aggregate with a large fan-out against full materialization: `weft-bench join-aggregate`.

500 keys, tumbling windows of a second. `aggregated` is SELECT a.f0, COUNT(*), SUM(a.f1), SUM(a.f1 * b.f2) … GROUP BY
a.f0 over the join, which weft computes without building pairs. `materialized` is the same join without GROUP BY in
weft, its rows read out as Arrow tables after every batch and aggregated by DuckDB. A batch is timed from the moment
its files appear until its aggregates are in the reader's hands. Both run in turn, each round in a process of its own.
Of n rows per second and stream, n² / 500 pairs come per second of input. The fewest rows with 100,000 pairs are shown
too: there a batch of one second costs little more than a batch costs at all.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from weft_bench.alone import disagreements
from weft_bench.case import Case, Kind, Outcome, System, Variant
from weft_bench.data import Load, generate
from weft_bench.run import run_child
from weft_bench.workload import FAN_OUT_WINDOW

KEYS = 500
WANTED_PAIRS = 100_000
"""Result rows of the join per second of input, at least."""
BAR = 20.0
LONGER = 5
"""How many times as much input the aggregate gets."""
FLAT = 1.2
"""How much more memory the last third of the measured time may take than the first, in the median."""


def pairs_per_second(rate: int, keys: int = KEYS) -> float:
    """Pairs of a window, by its seconds: every row meets those of the other stream with its key."""
    return rate * rate * FAN_OUT_WINDOW / keys


def rate_for(pairs: float, keys: int = KEYS) -> int:
    """The fewest rows per second and stream with so many pairs per second."""
    return math.ceil(math.sqrt(pairs * keys / FAN_OUT_WINDOW))


@dataclass(frozen=True, slots=True)
class Settings:
    """A run as asked for on the command line."""

    rates: tuple[int, ...]
    """Rows per second and stream; the ratio has to be shown at the last of them."""
    seconds: int
    files: int
    rounds: int
    limit: float
    json: Path

    def case(self, variant: Variant, rate: int) -> Case:
        """One of both ways; the faster one gets more input, so that there is time to watch its memory."""
        times = LONGER if variant is Variant.PLAIN else 1
        return Case(System.WEFT, 1, times * self.seconds, self.files, variant, Load(rate, KEYS), Kind.FAN_OUT)


@dataclass(frozen=True, slots=True)
class Course:
    """Memory of a process tree while it was measured, in bytes."""

    start: int
    peak: int
    growth: float
    """The median of the last third over that of the first."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way over all rounds: medians of the speed, the memory of the round that grew most."""

    batch_seconds: float
    rows_per_second: float
    batches: int
    memory: Course
    note: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a run has shown at one rate."""

    rate: int
    files: int
    pairs_per_second: float
    aggregated: Way
    materialized: Way
    equal: bool
    """Whether all rounds of both ways have given the aggregates that DuckDB alone gives."""

    @property
    def ratio(self) -> float:
        """How many times as fast the aggregate is."""
        slow = self.materialized.rows_per_second
        return self.aggregated.rows_per_second / slow if slow else 0.0

    @property
    def bars(self) -> dict[str, bool]:
        """What had to be shown, and whether it was."""
        return {
            "both ways give the aggregates that DuckDB alone gives": self.equal,
            f"at least {WANTED_PAIRS:,} pairs per second of input": self.pairs_per_second >= WANTED_PAIRS,
            f"at least {BAR:g} × as fast as full materialization": self.ratio >= BAR,
            f"memory of the aggregate flat (growth at most {FLAT:g} ×)": self.aggregated.memory.growth <= FLAT,
        }


def course(outcome: Outcome) -> Course:
    """The memory of the measured time; of too short a time, of all of it."""
    begin, end = outcome.span
    sizes = [size for at, size in outcome.memory if begin <= at <= end]
    if len(sizes) < 3:
        sizes = [size for _, size in outcome.memory] or [0]
    third = max(1, len(sizes) // 3)
    before = median(sizes[:third])
    return Course(sizes[0], max(sizes), median(sizes[-third:]) / before if before else 1.0)


def summarize(outcomes: Sequence[Outcome]) -> Way:
    """One way over its rounds."""
    return Way(
        batch_seconds=median(outcome.batch_seconds for outcome in outcomes),
        rows_per_second=median(outcome.rows_per_second for outcome in outcomes),
        batches=sum(outcome.batches for outcome in outcomes),
        memory=max((course(outcome) for outcome in outcomes), key=lambda each: each.growth),
        note="; ".join(dict.fromkeys(outcome.note for outcome in outcomes if outcome.note)),
    )


def run(settings: Settings, rate: int, folder: Path, *, console: Console) -> Report:
    """Run both ways in turn over the same files."""
    aggregated, materialized = (settings.case(variant, rate) for variant in (Variant.PLAIN, Variant.MATERIALIZED))
    generate(folder, aggregated.load, aggregated.seconds)
    found: dict[Case, list[Outcome]] = {aggregated: [], materialized: []}
    equal = True
    for turn in range(settings.rounds):
        for case, outcomes in found.items():
            outcome = run_child(case, folder, limit=settings.limit)
            outcomes.append(outcome)
            what = f"{rate:,} rows/s, round {turn + 1}: {case.label}"
            console.print(f"{what}: {outcome.batch_seconds * 1000:,.0f} ms per batch {outcome.note}")
            wrong = disagreements(case, outcome.digests, folder)
            equal = equal and bool(outcome.digests) and not wrong
            for line in wrong:
                console.print(f"WRONG RESULT: {line}")
    return Report(
        rate=rate,
        files=settings.files,
        pairs_per_second=pairs_per_second(rate),
        aggregated=summarize(found[aggregated]),
        materialized=summarize(found[materialized]),
        equal=equal,
    )


def to_table(report: Report) -> Table:
    """For the terminal."""
    per_batch = report.pairs_per_second * report.files
    table = Table(
        title=f"{report.rate:,} rows per second and stream: {report.pairs_per_second:,.0f} pairs per second of input; "
        f"{report.files} s of input, {per_batch:,.0f} pairs a batch"
    )
    for heading in ("way", "batch ms", "rows/s", "batches", "start MB", "peak MB", "growth"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for name, way in (("aggregated", report.aggregated), ("materialized", report.materialized)):
        table.add_row(
            name,
            f"{way.batch_seconds * 1000:,.0f}",
            f"{way.rows_per_second:,.0f}",
            str(way.batches),
            f"{way.memory.start / (1 << 20):,.0f}",
            f"{way.memory.peak / (1 << 20):,.0f}",
            f"{way.memory.growth:.2f}",
        )
    return table


def to_json(report: Report) -> dict[str, Any]:
    """For programs."""
    return asdict(report) | {"ratio": report.ratio, "bars": report.bars}


def parse(arguments: Sequence[str]) -> Settings:
    """The settings that command-line arguments ask for."""
    parser = argparse.ArgumentParser(prog="weft-bench join-aggregate", description=__doc__)
    rates = (rate_for(WANTED_PAIRS), 50_000, 100_000)
    parser.add_argument(
        "--rates",
        type=int,
        nargs="+",
        default=rates,
        help="rows per second and stream; the last has to meet the bar",
    )
    parser.add_argument("--seconds", type=int, default=16, help="event-seconds of input to materialize (default 16)")
    parser.add_argument("--files", type=int, default=1, help="event-seconds of input per batch (default 1)")
    parser.add_argument("--rounds", type=int, default=2, help="how often each way is run (default 2)")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds a round may take (default 240)")
    parser.add_argument("--json", type=Path, default=Path("bench-out/join_aggregate.json"), help="where figures go")
    parser.add_argument("--quick-check", action="store_true", help="tiny sizes: does everything run?")
    asked = parser.parse_args(arguments)
    if asked.quick_check:
        return Settings(rates[:1], seconds=3, files=1, rounds=1, limit=120.0, json=asked.json)
    seconds = asked.seconds // asked.files * asked.files
    return Settings(tuple(asked.rates), seconds, asked.files, asked.rounds, asked.limit, asked.json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 if a bar was missed at the last rate or a result was wrong at any."""
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    console = Console(width=max(120, Console().width), highlight=False)
    console.print(__doc__, markup=False)
    reports = []
    for rate in settings.rates:
        with tempfile.TemporaryDirectory(prefix="weft-bench-", ignore_cleanup_errors=True) as name:
            reports.append(run(settings, rate, Path(name), console=console))
    for report in reports:
        console.print(to_table(report))
        console.print(f"aggregated over materialized: {report.ratio:,.1f} ×")
        for what, met in report.bars.items():
            console.print(f"{what}: {'met' if met else 'MISSED'}")
    settings.json.parent.mkdir(parents=True, exist_ok=True)
    settings.json.write_text(json.dumps([to_json(report) for report in reports], indent=1), encoding="utf-8")
    console.print(f"figures: {settings.json}")
    return 0 if all(report.equal for report in reports) and all(reports[-1].bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
