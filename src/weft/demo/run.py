"""The course of the demo: start, a minute of queries coming and going, then the proof."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

from weft.demo.check import Judge, Life, Verdict
from weft.demo.display import Display
from weft.demo.generate import LATENESS, SCHEMAS, Generator
from weft.demo.ledger import Ledger
from weft.demo.observe import Figures, Observer
from weft.demo.peek import oldest_batch, record_of
from weft.demo.stop import StopSignal
from weft.demo.workload import Crowd, DemoQuery
from weft.engine import Engine, Query
from weft.engine.inputs.declare import files
from weft.errors import EngineStopped
from weft.spark.session import local_session

CHECKED = 3
_LOOK_EVERY = 0.5
_CROWD_EVERY = 1.0
_COUNT_FOR, _COUNT_ALL_FOR = 0.1, 5.0
_FIRST_BATCH_WITHIN = 300.0
_DRAIN_WITHIN = 120.0
_KEEP = timedelta(minutes=10)
"""How long files and results are kept when the demo runs for ever."""

_FOREVER_GROWTH = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; `duration` None is for ever."""

    duration: timedelta | None
    rate: int
    queries: int
    seed: int
    port: int = 0
    """Of the dashboard; 0 is any that is free."""


class Demo:
    """One run in one folder."""

    def __init__(self, folder: Path, options: Options, display: Display) -> None:
        self._options = options
        self._display = display
        self._asked: dict[str, tuple[DemoQuery, Query]] = {}
        self._crowd = Crowd(options.seed, most=options.queries, duration=options.duration or _FOREVER_GROWTH)
        self.generator = Generator(folder / "in", rate=options.rate, seed=options.seed)
        self._ledger = Ledger(self.generator.written)
        keep = _KEEP if options.duration is None else None
        spark = local_session(log=folder / "spark.log")
        try:
            self.engine = Engine(folder / "state", partitions=os.cpu_count(), spark=spark, keep_results=keep)
        except BaseException:
            spark.stop()
            raise
        self._observer = Observer(self.engine, self._ledger)

    def close(self) -> None:
        """Stop everything that was started."""
        self.generator.stop()
        self.engine.stop()
        self.engine.spark.stop()

    def start(self, stop: StopSignal) -> None:
        """Declare the streams, create the first queries and see the first batch through."""
        for name, schema in SCHEMAS.items():
            source = files(self.generator.folder_of(name), schema=schema)
            self.engine.stream(name, source, time="ts", lateness=LATENESS)
        self._come(timedelta(0))
        now = time.time()
        self.generator.write(now - 1, now)
        self.engine.start("1 second")
        self._wait_for_rows(stop, _FIRST_BATCH_WITHIN)

    def run(self, stop: StopSignal) -> None:
        """Let data and queries flow until the time is over or somebody stops it."""
        self.generator.start()
        with self._display.live() as show:
            began = crowd_at = time.monotonic()
            show(self.figures(timedelta(0)))
            while not stop.wait(_LOOK_EVERY):
                elapsed = timedelta(seconds=time.monotonic() - began)
                if self._options.duration is not None and elapsed >= self._options.duration:
                    break
                self._check_alive()
                if time.monotonic() - crowd_at >= _CROWD_EVERY:
                    self._go(timedelta(seconds=time.monotonic() - crowd_at))
                    self._come(elapsed)
                    crowd_at = time.monotonic()
                self._observer.poll()
                self._observer.count(seconds=_COUNT_FOR)
                show(self.figures(elapsed))
                self._forget()

    def figures(self, elapsed: timedelta) -> Figures:
        """The state of things for the view and the summary."""
        return self._observer.figures(elapsed, self._options.duration)

    def finish(self, stop: StopSignal) -> None:
        """Stop the generator and let the engine finish what is there."""
        self.generator.stop()
        self._wait_for_rows(stop, _DRAIN_WITHIN)
        self._observer.count(seconds=_COUNT_ALL_FOR)

    def verdicts(self) -> list[Verdict]:
        """Three random queries with results, each compared with itself run alone."""
        candidates = sorted(name for name, (_, query) in self._asked.items() if self._checkable(query))
        Random(self._options.seed).shuffle(candidates)
        found: list[Verdict] = []
        with Judge(self._ledger.arrivals) as judge:
            for name in candidates:
                asked, query = self._asked[name]
                rows = query.results().toArrow()
                if rows.num_rows:
                    found.append(judge.compare(asked, self._life(query), rows))
                if len(found) == CHECKED:
                    break
        return found

    def _life(self, query: Query) -> Life:
        record = record_of(self.engine, query)
        assert record is not None
        last = self._observer.next_batch if record.ended is None else record.ended
        return Life(record.created, last, record.start)

    def _checkable(self, query: Query) -> bool:
        """Whether all it saw and all it gave are still there."""
        record = record_of(self.engine, query)
        return record is not None and not record.error and record.created >= self._ledger.complete_from

    def _come(self, elapsed: timedelta) -> None:
        live = sum(query.state in ("pending", "live") for _, query in self._asked.values())
        arriving = self._crowd.arrivals(live, elapsed)
        if not arriving:
            return
        created = self.engine.create_many([(asked.name, asked.sql) for asked in arriving])
        for asked, query in zip(arriving, created, strict=True):
            self._asked[asked.name] = (asked, query)
            self._observer.add(asked, query)

    def _go(self, since_last: timedelta) -> None:
        live = [name for name, (_, query) in self._asked.items() if query.state == "live"]
        leaving = self._crowd.leavers(live, since_last)
        if leaving:
            self.engine.drop_many([self._asked[name][1] for name in leaving])

    def _forget(self) -> None:
        """For ever is bounded: old files go, and queries nobody can check any more."""
        kept = oldest_batch(self.engine)
        if self._options.duration is None and kept > self._ledger.kept_from:
            self._ledger.forget(kept)
            self._asked = {
                name: (asked, query)
                for name, (asked, query) in self._asked.items()
                if query.state in ("pending", "live") or self._checkable(query)
            }

    def _wait_for_rows(self, stop: StopSignal, seconds: float) -> None:
        """Until everything written so far is in committed batches."""
        deadline = time.monotonic() + seconds
        while self._observer.rows < self.generator.rows:
            self._check_alive()
            if time.monotonic() > deadline:
                raise EngineStopped(
                    f"no end of the batch after {seconds:.0f} seconds", hint="Is the machine busy? Try a lower --rate."
                )
            stop.pause(0.1)
            self._observer.poll()

    def _check_alive(self) -> None:
        if self.generator.error is not None:
            raise self.generator.error
        if self.engine.error is not None:
            raise self.engine.error
        if not self.engine.running:
            self.engine.wait()
            raise EngineStopped("the streaming query has ended")
