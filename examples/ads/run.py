"""A run of the demo: the first batch, a period in which queries come and go, and the check with DuckDB."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median

from examples.ads.check import Judge, Life, Verdict, conclusion
from examples.ads.generate import LATENESS_SECONDS, SCHEMAS, Generator
from examples.ads.workload import Crowd, DemoQuery
from weft import Engine, Query, files
from weft.errors import EngineStopped
from weft.service.embedded import dashboard
from weft.spark.session import local_session
from weft.storage.journal import Manifest

_say = partial(print, flush=True)
_CHECKED = 3
_LOOK_EVERY, _LINE_EVERY = 0.5, 5.0
_PATIENCE = 300.0
_KEEP_SECONDS = 600  # how long files and results are kept with --forever
_SETTLING = 10  # after this many batches the watermark no longer depends on removed files


def run_demo(folder: Path, options: argparse.Namespace) -> int:
    """Run the demo in an empty folder; return 0 if the checked queries agree with DuckDB, else 1."""
    logging.basicConfig(filename=folder / "weft.log", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    _say(f"weft demo: up to {options.queries} queries come and go over two generated streams, purchases and ads")
    _say("starting Spark …")
    with ExitStack() as stack:
        spark = local_session(log=folder / "spark.log")  # a session of the engine would log to the terminal
        stack.callback(spark.stop)
        keep = None if options.seconds else f"{_KEEP_SECONDS} seconds"
        engine = stack.enter_context(Engine(folder / "state", spark=spark, keep_results=keep))
        stop = stop_on_signals()  # after the start of Spark, whose own handler would cancel the running batch
        demo = Demo(engine, folder / "in", options)
        _say("running the first batch (the very first compiles the kernels) …")
        demo.start()
        with dashboard(engine, options.port) as address:
            _say(f"dashboard: {address} (Ctrl-C ends the demo with a summary)")
            demo.run(stop)
        _say("finishing what has arrived, then running three queries alone in DuckDB …")
        demo.wait_for_rows()
        verdicts = demo.verdicts()
        _say("\n".join([demo.summary(), *map(str, verdicts), conclusion(verdicts)]))
    return 0 if all(verdict.agrees for verdict in verdicts) else 1


def stop_on_signals() -> threading.Event:
    """Return an event that the first SIGINT or SIGTERM sets; the second signal interrupts the program."""
    stop = threading.Event()

    def handle(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return stop


def batches_inside(engine: Engine, first: int) -> list[Manifest]:
    """Return the batches from `first` on from the engine's internals: public summaries do not name the files read."""
    with (commits := engine.catalog.commits_from(first)).lease:
        return list(commits.manifests)


@dataclass(slots=True)
class Asked:
    """A query of the demo; `life` is None before its first batch, and `live` is true until its end is known."""

    query: DemoQuery
    handle: Query
    life: Life | None = None
    live: bool = True

    def look(self) -> None:
        """Update `life` and `live` from the internal record of the query, which alone has the numbers of batches."""
        if self.live and (record := self.handle.record) is not None:
            self.life, self.live = Life(record.created, record.ended, record.start), record.ended is None


class Demo:
    """One run of the demo: its queries, and the statistics of the batches so far."""

    def __init__(self, engine: Engine, folder: Path, options: argparse.Namespace) -> None:
        self._engine, self._options = engine, options
        self._generator = Generator(folder, rate=options.rate, seed=options.seed, start=time.time() - 1)
        self._crowd = Crowd(options.seed, most=options.queries, seconds=options.seconds or 60)
        self._asked: list[Asked] = []
        self._batch_of: dict[str, dict[Path, int]] = {stream: {} for stream in SCHEMAS}
        self._complete_from = 0  # queries from this batch on can be checked: no file that they need was removed
        self._seconds = 0.0
        self._batches = self._rows_alone = 0
        self._rows: Counter[str] = Counter()

    def start(self) -> None:
        """Declare the streams, create the first queries and wait for the first batch."""
        for name, schema in SCHEMAS.items():
            source = files(self._generator.folder / name, schema=schema)
            self._engine.stream(name, source, time="ts", lateness=f"{LATENESS_SECONDS} seconds")
        self._come_and_go(0.0)
        self._generator.write(time.time())
        self._engine.start("1 second")
        self.wait_for_rows()

    def run(self, stop: threading.Event) -> None:
        """Generate data, create and drop queries until the time is over or `stop` is set."""
        began, next_line, rows_before = time.monotonic(), _LINE_EVERY, self._rows.total()
        while not stop.wait(_LOOK_EVERY) and (not self._options.seconds or self._seconds < self._options.seconds):
            self._generator.write(time.time())
            before, self._seconds = self._seconds, time.monotonic() - began
            self._come_and_go(self._seconds - before)
            self._look()
            if self._seconds >= next_line:
                rate = (self._rows.total() - rows_before) / _LINE_EVERY
                _say(
                    f"{self._seconds:5.0f} s  batch {self._batches - 1}  {rate:,.0f} rows/s  "
                    f"{len(self._live())} live queries  batch latency {self._latencies()[-1]:.2f} s"
                )
                next_line, rows_before = next_line + _LINE_EVERY, self._rows.total()
            if not self._options.seconds:
                self._forget()

    def wait_for_rows(self) -> None:
        """Wait until all rows written for live queries are in committed batches."""
        deadline, written = time.monotonic() + _PATIENCE, self._generator.rows
        while any(self._rows[name] < written[name] for entry in self._live() for name in entry.query.streams):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the batch has not ended after {_PATIENCE:.0f} seconds; try a lower --rate")
            time.sleep(0.1)
            self._look()

    def verdicts(self) -> list[Verdict]:
        """Compare the results of up to three random queries with those of DuckDB running each alone."""
        judge, verdicts = Judge(self._batch_of), list[Verdict]()
        for entry in Random(self._options.seed).sample(self._asked, len(self._asked)):
            handle, life = entry.handle, entry.life
            if len(verdicts) == _CHECKED or life is None or handle.error:
                continue
            is_kept = life.first >= max(self._complete_from, handle.results_from)  # all its files and results
            if is_kept and (rows := handle.results().toArrow()).num_rows:
                verdicts.append(judge.compare(entry.query, life, rows))
        return verdicts

    def summary(self) -> str:
        """Return a description of the whole run."""
        rows, live, created, latencies = self._rows.total(), len(self._live()), self._crowd.made, self._latencies()
        return f"""\
weft demo: {self._seconds:.0f} s, {self._batches} batches
  rows read      {rows:,}; {self._rows_alone:,} if each query ran alone, {self._rows_alone / rows:.1f} × as many
  queries        {created} came, {created - live} left, {live} live at the end
  batch latency  {median(latencies):.2f} s, at most {max(latencies):.2f} s
"""

    def _live(self) -> list[Asked]:
        return [entry for entry in self._asked if entry.live]

    def _latencies(self) -> list[float]:
        """Return the seconds that each batch took, without the first batch, which compiles the kernels."""
        batches = [batch.seconds for batch in list(self._engine.summaries) if batch.batch]
        return [seconds["compile"] + seconds["run"] + seconds["commit"] for seconds in batches] or [0.0]

    def _come_and_go(self, seconds: float) -> None:
        for entry in self._live():
            if entry.life and self._crowd.leaves(seconds):
                entry.handle.drop()
        arriving = self._crowd.arrivals(len(self._live()), self._seconds)
        created = self._engine.create_many([(query.name, query.sql) for query in arriving]) if arriving else []
        self._asked += map(Asked, arriving, created)

    def _look(self) -> None:
        """Count the rows of the batches committed since the last look, and update the lives of the queries."""
        if not self._engine.running:
            self._engine.wait()  # raises the failure of the engine, if any
            raise EngineStopped("the engine has ended")
        batches = batches_inside(self._engine, self._batches)
        for entry in self._asked:  # after reading the batches, which may be the first of some queries
            entry.look()
        for batch in batches:
            rows = {stream: totals.rows for stream, totals in batch.streams}
            self._rows.update(rows)
            readers = [entry.query for entry in self._asked if entry.life and entry.life.saw(batch.batch)]
            self._rows_alone += sum(rows.get(stream, 0) for query in readers for stream in query.streams)
            for stream, names in batch.files:
                self._batch_of[stream] |= {self._generator.folder / stream / name: batch.batch for name in names}
            self._batches = batch.batch + 1

    def _forget(self) -> None:
        """Bound the disk and memory of an endless run: remove old files and queries that can no longer be checked."""
        oldest = time.time() - _KEEP_SECONDS
        first = next((batch.batch for batch in list(self._engine.summaries) if batch.at > oldest), 0)
        for batch_of in self._batch_of.values():
            for path in [path for path, batch in batch_of.items() if batch < first]:
                path.unlink(missing_ok=True)
                del batch_of[path]
                self._complete_from = first + _SETTLING
        self._asked = [
            entry for entry in self._asked if entry.live or (entry.life and entry.life.first >= self._complete_from)
        ]
