"""How fast queries become live while data flow, and whether those that run notice: `weft-bench deployment`.

Files arrive at a fixed rate, some queries run; after a while without requests, queries are created at a fixed rate.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from weft.engine import Engine
from weft.engine.inputs.declare import files
from weft_bench.arrivals import Arrival, FileFeed, create_by_the_clock, files_waiting, wait_until_following
from weft_bench.data import SCHEMA, STREAMS, Load, generate
from weft_bench.measure import Batch
from weft_bench.weft_system import finished_batches
from weft_bench.workload import window_joins

_PATIENCE = 60.0
"""Seconds that warming up, and a query on its way to being live, may take."""
KEPT_THROUGHPUT = 0.9
ALLOWED_INTERVALS = 2.0


@dataclass(frozen=True, slots=True)
class Settings:
    """A run as asked for on the command line."""

    load: Load
    running: int
    per_second: float
    seconds: int
    interval: float
    json: Path


@dataclass(frozen=True, slots=True)
class Spread:
    """Some durations in figures, in seconds."""

    p50: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time: input rows processed per second and how long batches took."""

    rows_per_second: float
    batches: int
    batch_seconds: float
    longest_batch_seconds: float
    files_waiting: int
    """Files of each stream that had arrived but were not processed at its end."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run has shown."""

    interval: float
    created: int
    created_per_second: float
    to_live: Spread
    to_live_since_due: Spread
    create_call: Spread
    before: Phase
    during: Phase

    @property
    def in_time(self) -> bool:
        """p99 from call to live is below two batch intervals."""
        return self.to_live.p99 < ALLOWED_INTERVALS * self.interval

    @property
    def undisturbed(self) -> bool:
        """Running queries kept their throughput."""
        return self.during.rows_per_second >= KEPT_THROUGHPUT * self.before.rows_per_second


def spread(durations: Sequence[float]) -> Spread:
    """Percentiles by nearest rank: each is a duration that has been seen."""
    ordered = sorted(durations)
    return Spread(*(ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.99, 1.0)))


def phase(batches: Sequence[Batch], begin: float, end: float, *, files_waiting: int) -> Phase:
    """Figures of the batches triggered from `begin` to `end`: rows between two triggers by the time between them."""
    within = [batch for batch in batches if begin <= batch.started < end]
    seconds = [batch.seconds for batch in within]
    apart = within[-1].started - within[0].started if within else 0.0
    return Phase(
        rows_per_second=sum(batch.rows for batch in within[:-1]) / apart if apart else 0.0,
        batches=len(within),
        batch_seconds=median(seconds) if seconds else 0.0,
        longest_batch_seconds=max(seconds, default=0.0),
        files_waiting=files_waiting,
    )


def run(settings: Settings, folder: Path) -> Report:
    """Run an engine under `folder` with data and requests arriving by the clock."""
    total = int(_PATIENCE / settings.interval) + math.ceil(3 * settings.seconds / settings.interval)
    generate(folder / "staged", settings.load, total)
    texts = [
        query.weft_sql() for query in window_joins(settings.running + round(settings.per_second * settings.seconds))
    ]
    feed = FileFeed(folder / "staged", folder / "in", seconds=total, interval=settings.interval)
    with Engine(folder / "state", partitions=os.cpu_count() or 1) as engine, feed:
        for name in STREAMS:
            engine.stream(name, files(folder / "in" / name, schema=SCHEMA), time="ts", lateness="0 seconds")
        engine.create_many(texts[: settings.running])
        engine.start(f"{round(settings.interval * 1000)} milliseconds")
        wait_until_following(engine, feed, settings.load, patience=_PATIENCE)
        marks = [time.time()]
        time.sleep(settings.seconds)
        marks.append(time.time())
        waiting = [files_waiting(engine, feed, settings.load)]
        arrivals = create_by_the_clock(
            engine.create, texts[settings.running :], per_second=settings.per_second, patience=_PATIENCE
        )
        marks.append(max(time.time(), marks[1] + settings.seconds))
        waiting.append(files_waiting(engine, feed, settings.load))
        time.sleep(2 * settings.interval)  # the last batch of the phase has to be reported
        batches = finished_batches(engine)
        phases = [
            phase(batches, begin, end, files_waiting=count)
            for begin, end, count in zip(marks[:-1], marks[1:], waiting, strict=True)
        ]
        return _report(settings, arrivals, phases)


def _report(settings: Settings, arrivals: Sequence[Arrival], phases: Sequence[Phase]) -> Report:
    took = arrivals[-1].returned - arrivals[0].due
    return Report(
        interval=settings.interval,
        created=len(arrivals),
        created_per_second=len(arrivals) / max(took, settings.seconds),
        to_live=spread([arrival.latency for arrival in arrivals]),
        to_live_since_due=spread([arrival.latency_since_due for arrival in arrivals]),
        create_call=spread([arrival.call for arrival in arrivals]),
        before=phases[0],
        during=phases[1],
    )


def to_tables(report: Report) -> list[Table]:
    """For the terminal."""
    latencies = Table(title=f"{report.created} queries created, {report.created_per_second:.0f} per second")
    for heading in ("in ms", "p50", "p99", "max"):
        latencies.add_column(heading, justify="left" if heading == "in ms" else "right")
    for what, each in (
        ("call to live", report.to_live),
        ("due time to live", report.to_live_since_due),
        ("create() call", report.create_call),
    ):
        latencies.add_row(what, *(f"{figure * 1000:,.1f}" for figure in (each.p50, each.p99, each.largest)))
    speeds = Table(title=f"batches every {report.interval:g} s")
    for heading in ("phase", "rows/s", "batches", "batch ms", "longest ms", "files waiting"):
        speeds.add_column(heading, justify="left" if heading == "phase" else "right")
    for name, each_phase in (("before", report.before), ("during", report.during)):
        speeds.add_row(
            name,
            f"{each_phase.rows_per_second:,.0f}",
            str(each_phase.batches),
            f"{each_phase.batch_seconds * 1000:,.0f}",
            f"{each_phase.longest_batch_seconds * 1000:,.0f}",
            str(each_phase.files_waiting),
        )
    return [latencies, speeds]


def to_json(report: Report) -> dict[str, Any]:
    """For programs; durations in seconds."""
    return asdict(report) | {"in_time": report.in_time, "undisturbed": report.undisturbed}


def parse(arguments: Sequence[str]) -> Settings:
    """The settings that command-line arguments ask for."""
    parser = argparse.ArgumentParser(prog="weft-bench deployment", description=__doc__)
    parser.add_argument("--rate", type=int, default=50_000, help="rows per second and stream (default 50,000)")
    parser.add_argument("--running", type=int, default=20, help="queries that run from the beginning (default 20)")
    parser.add_argument("--per-second", type=float, default=100.0, help="create calls per second (default 100)")
    parser.add_argument("--seconds", type=int, default=10, help="length of each phase (default 10)")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between batches (default 1)")
    parser.add_argument("--json", type=Path, default=Path("bench-out/deployment.json"), help="where the figures go")
    parser.add_argument("--quick-check", action="store_true", help="tiny sizes: does everything run?")
    asked = parser.parse_args(arguments)
    if asked.quick_check:
        return Settings(Load(500, 100), running=2, per_second=10.0, seconds=4, interval=1.0, json=asked.json)
    load = Load(rate=round(asked.rate * asked.interval))
    return Settings(load, asked.running, asked.per_second, asked.seconds, asked.interval, asked.json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 if a bar was missed."""
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    with tempfile.TemporaryDirectory(prefix="weft-bench-", ignore_cleanup_errors=True) as name:
        report = run(settings, Path(name))
    console = Console()
    for table in to_tables(report):
        console.print(table)
    met = {True: "met", False: "MISSED"}
    console.print(f"p99 from call to live below {ALLOWED_INTERVALS:g} batch intervals: {met[report.in_time]}")
    console.print(f"at least {KEPT_THROUGHPUT:.0%} of the throughput kept: {met[report.undisturbed]}")
    settings.json.parent.mkdir(parents=True, exist_ok=True)
    settings.json.write_text(json.dumps(to_json(report), indent=1), encoding="utf-8")
    console.print(f"figures: {settings.json}")
    return 0 if report.in_time and report.undisturbed else 1


if __name__ == "__main__":
    sys.exit(main())
