"""Complex ad-hoc queries that come and go while data flow, as in the thesis' figure 4.14: `weft-bench churn`.

Two streams are generated at a fixed rate, event time by the clock, one file per stream and second; batches run every
second. Selections, window joins, aggregates and aggregates over joins are created and dropped in waves: sharp
increases, a gradual decrease and increase, then fluctuation; all the while some of the oldest are replaced by new
ones. Latency is measured at the commit of each batch: how long ago its newest row was generated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from weft.engine import Engine, Query
from weft.engine.inputs.declare import files
from weft_bench.arrivals import LiveFeed, files_waiting, wait_until_following
from weft_bench.data import SCHEMA, STREAMS, Load
from weft_bench.deployment import Spread, spread
from weft_bench.waves import (
    ALLOWED_GROWTH,
    Commit,
    ComplexQuery,
    Latency,
    complex_queries,
    latency_of,
    next_step,
    throughput_of,
    wanted_queries,
)

_PATIENCE = 90.0
"""Seconds that warming up may take."""
_KEPT = "10 seconds"
_POLL = 0.01
_SEED = 11
_TICK = 0.7
"""Seconds between two steps of the waves: requests shall meet batches in all their phases."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A run as asked for on the command line."""

    load: Load
    seconds: float
    most: int
    turnover: float
    interval: float
    bound: float
    out: Path


@dataclass(frozen=True, slots=True)
class Report:
    """What a run has shown; moments in seconds from its beginning."""

    rate: int
    seconds: float
    created: int
    dropped: int
    failed: tuple[str, ...]
    most_queries: int
    rows_per_second: float
    latency: Latency
    deployment: Spread
    files_waiting: int
    commits: tuple[Commit, ...]
    deployments: tuple[tuple[float, float], ...]
    """When queries were asked for, and how long it took until they were live."""

    @property
    def bars(self) -> dict[str, bool]:
        """What had to be shown, and whether it was."""
        bound = (
            f"latency stays bounded (no batch above {self.latency.bound:g} s, "
            f"median of the last third at most {ALLOWED_GROWTH:g} × that of the middle third)"
        )
        return {bound: self.latency.is_bounded, "no query failed": not self.failed}


class Waves:
    """Creates and drops queries by the clock."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.created: list[tuple[float, Query]] = []
        self.dropped = 0
        self._engine, self._settings = engine, settings
        self._running: list[Query] = []
        self._texts: Iterator[ComplexQuery] = complex_queries(_SEED)

    def begin(self) -> None:
        """Create the queries that run from the beginning."""
        first = wanted_queries(0.0, self._settings.most)
        self._running = self._engine.create_many([query.weft_sql() for query in islice(self._texts, first)])

    def ride(self) -> None:
        """Let queries come and go until the end of the run."""
        begin = time.monotonic()
        while (elapsed := time.monotonic() - begin) < self._settings.seconds:
            self._step(elapsed / self._settings.seconds)
            time.sleep(max(0.0, (int(elapsed / _TICK) + 1) * _TICK - (time.monotonic() - begin)))

    def _step(self, share: float) -> None:
        wanted = wanted_queries(share, self._settings.most)
        step = next_step(len(self._running), wanted, turnover=self._settings.turnover)
        leaving, self._running = self._running[: step.leave], self._running[step.leave :]
        if leaving:
            self._engine.drop_many(leaving)
            self.dropped += len(leaving)
        for query in islice(self._texts, step.come):
            asked = time.time()
            created = self._engine.create(query.weft_sql())
            self.created.append((asked, created))
            self._running.append(created)


@contextmanager
def watched(engine: Engine) -> Iterator[list[Commit]]:
    """The batches that an engine commits inside the block, as they become visible."""
    commits, stop = list[Commit](), threading.Event()
    before = max((summary.batch for summary in list(engine.summaries)), default=-1)

    def watch() -> None:
        seen = before
        while not stop.wait(_POLL):
            now = time.time()
            for summary in [summary for summary in list(engine.summaries) if summary.batch > seen]:
                seen = summary.batch
                times = [totals.max_time for totals in summary.streams.values() if totals.max_time is not None]
                if times:
                    commits.append(Commit(now, max(times) / 1_000_000, summary.rows, summary.queries))

    thread = threading.Thread(target=watch, name="watch-commits", daemon=True)
    thread.start()
    try:
        yield commits
    finally:
        stop.set()
        thread.join()


def run(settings: Settings, folder: Path) -> Report:
    """Run an engine under `folder` with data, and queries coming and going, by the clock."""
    feed = LiveFeed(folder / "in", settings.load, interval=settings.interval)
    with Engine(folder / "state", partitions=os.cpu_count() or 1, keep_results=_KEPT) as engine, feed:
        for name in STREAMS:
            engine.stream(name, files(folder / "in" / name, schema=SCHEMA), time="ts", lateness="0 seconds")
            engine.create(f"SELECT ts FROM {name} WHERE ts IS NULL")  # so that it is read from the beginning on
        waves = Waves(engine, settings)
        waves.begin()
        engine.start(f"{round(settings.interval * 1000)} milliseconds")
        wait_until_following(engine, feed, settings.load, patience=_PATIENCE)
        with watched(engine) as commits:
            begin = time.time()
            waves.ride()
            end = time.time()
        waiting = files_waiting(engine, feed, settings.load)
        failed = tuple(name for summary in list(engine.summaries) for name in summary.failed)
        if engine.error is not None:
            raise engine.error
    return _report(settings, waves, commits, begin=begin, end=end, failed=failed, waiting=waiting)


def _report(
    settings: Settings,
    waves: Waves,
    commits: Sequence[Commit],
    *,
    begin: float,
    end: float,
    failed: tuple[str, ...],
    waiting: int,
) -> Report:
    during = [commit for commit in commits if begin <= commit.at < end]
    deployments = [
        (asked - begin, latency.total_seconds())
        for asked, query in waves.created
        if (latency := query.deployment_latency) is not None
    ]
    apart = during[-1].at - during[0].at if during else 0.0
    return Report(
        rate=round(settings.load.rate / settings.interval),
        seconds=end - begin,
        created=len(waves.created),
        dropped=waves.dropped,
        failed=failed,
        most_queries=max((commit.queries for commit in during), default=0),
        rows_per_second=sum(commit.rows for commit in during[1:]) / apart if apart else 0.0,
        latency=latency_of(during, begin, end, bound=settings.bound),
        deployment=spread([latency for _, latency in deployments] or [0.0]),
        files_waiting=waiting,
        commits=tuple(Commit(c.at - begin, c.newest - begin, c.rows, c.queries) for c in during),
        deployments=tuple(deployments),
    )


def to_text(report: Report) -> str:
    """For the terminal."""
    latency = report.latency
    return (
        f"{report.seconds:.0f} s, {report.rate:,} rows per second and stream: {report.rows_per_second:,.0f} rows/s "
        f"processed, {report.files_waiting} files of each stream waiting at the end\n"
        f"{report.created} queries created, {report.dropped} dropped, at most {report.most_queries} live\n"
        f"event-time latency: median {latency.median:.2f} s, middle third {latency.middle:.2f} s, "
        f"last third {latency.last:.2f} s, max {latency.largest:.2f} s\n"
        f"deployment latency: p50 {report.deployment.p50:.2f} s, p99 {report.deployment.p99:.2f} s, "
        f"max {report.deployment.largest:.2f} s"
    )


def to_json(report: Report) -> dict[str, Any]:
    """For programs; durations in seconds."""
    return asdict(report) | {"bars": report.bars}


def draw(report: Report, path: Path) -> None:
    """Throughput, latency and number of queries over the same time, as in figure 4.14."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (upper, middle, lower) = pyplot.subplots(3, 1, figsize=(10, 9), sharex=True)
    speeds = throughput_of(report.commits)
    moments = [commit.at for commit in report.commits]
    upper.plot([at for at, _ in speeds], [speed / 1000 for _, speed in speeds])
    upper.axhline(len(STREAMS) * report.rate / 1000, color="grey", linestyle=":", label="generated")
    upper.set_ylabel("input, thousand rows/s")
    middle.plot(moments, [commit.latency for commit in report.commits], label="event-time latency")
    asked, took = [asked for asked, _ in report.deployments], [took for _, took in report.deployments]
    middle.plot(asked, took, ".", markersize=3, color="grey", label="deployment latency")
    middle.set_ylabel("seconds")
    lower.step(moments, [commit.queries for commit in report.commits], where="post")
    lower.set_ylabel("live queries")
    lower.set_xlabel("seconds")
    for axes in (upper, middle, lower):
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
    upper.legend()
    middle.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def parse(arguments: Sequence[str]) -> Settings:
    """The settings that command-line arguments ask for."""
    parser = argparse.ArgumentParser(prog="weft-bench churn", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="length of the run (default 180)")
    parser.add_argument("--rate", type=int, default=50_000, help="rows per second and stream (default 50,000)")
    parser.add_argument("--most", type=int, default=100, help="live queries at the highest wave (default 100)")
    parser.add_argument("--turnover", type=float, default=0.03, help=f"share replaced every {_TICK} s (default 0.03)")
    parser.add_argument("--bound", type=float, default=5.0, help="largest latency allowed, in seconds (default 5)")
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="where churn.json and churn.png go")
    parser.add_argument("--quick-check", action="store_true", help="tiny sizes: does everything run?")
    asked = parser.parse_args(arguments)
    interval = 1.0
    if asked.quick_check:
        return Settings(Load(500, 100), 12.0, 9, 0.1, interval, asked.bound, asked.out)
    load = Load(rate=round(asked.rate * interval))
    return Settings(load, asked.seconds, asked.most, asked.turnover, interval, asked.bound, asked.out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, draw and write; 1 if a bar was missed."""
    settings = parse(sys.argv[1:] if arguments is None else arguments)
    console = Console(highlight=False, soft_wrap=True)
    console.print(__doc__, markup=False)
    with tempfile.TemporaryDirectory(prefix="weft-bench-", ignore_cleanup_errors=True) as name:
        report = run(settings, Path(name))
    console.print(to_text(report))
    for what, met in report.bars.items():
        console.print(f"{what}: {'met' if met else 'MISSED'}")
    settings.out.mkdir(parents=True, exist_ok=True)
    figures, picture = settings.out / "churn.json", settings.out / "churn.png"
    figures.write_text(json.dumps(to_json(report), indent=1), encoding="utf-8")
    draw(report, picture)
    console.print(f"figures: {figures}, {picture}")
    return 0 if all(report.bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
