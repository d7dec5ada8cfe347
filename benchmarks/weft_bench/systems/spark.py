"""Plain Structured Streaming as a system of the benchmark. `python -m weft_bench.systems.spark`.

Setting `mode`: "each" (a streaming query for each query, the default) or "shared" (see `spark_shared`).
`no_data_batches = true` lets windows end without waiting for the next rows, at the price of a batch each time.

As a good engineer would run it: as many shuffle partitions as cores, the in-memory state store, append mode, results
to the sink that costs nothing. Filters and unneeded columns do not reach the state: Spark itself sees to that.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft_bench.driver.messages import Delivered, Figures, Gone, Live, Order, Pulled, QueryOrder
from weft_bench.systems.inside_spark import PassedFiles, bytes_shuffled
from weft_bench.systems.spark_parts import (
    ForBatch,
    deliver,
    is_initializing,
    make_views,
    open_session,
    short_error,
    start_query,
    state_bytes,
    stop_all,
)
from weft_bench.systems.spark_shared import shared_system
from weft_bench.systems.speak import Line, System, describe, serve, standard_line

_POLL = 0.05
"""Seconds between two looks at the checkpoints; when a batch ended is seen from its files, to the millisecond."""
_PATIENCE = 1


@dataclass(slots=True)
class _Running:
    """A query with its streaming query, how far it has come, and which batch is the next to end."""

    order: QueryOrder
    query: StreamingQuery
    checkpoint: Path
    passed: PassedFiles
    before: dict[str, int]
    live: bool = False
    next_batch: int = 0


class EachSystem:
    """A streaming query for each query, all in one application; their checkpoints show what they have done.

    Asking a hundred queries for their progress all the time would take time from them.
    """

    def __init__(self, spark: SparkSession, order: Order, line: Line) -> None:
        self._spark, self._order, self._line = spark, order, line
        self._running: dict[str, _Running] = {}
        self._started = self._rows = 0
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to look after streaming queries."""
        for work in (self._follow, self._watch):
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True).start()

    def stop(self) -> None:
        """Stop all streaming queries."""
        self._ended.set()
        stop_all([each.query for each in self._running.values()])

    def create(self, queries: tuple[QueryOrder, ...]) -> None:
        """Start streaming queries, all or none, over what comes from now on."""
        before = make_views(self._spark, self._order)
        started: dict[str, _Running] = {}
        try:
            for query in queries:
                started[query.name] = self._start(query, before)
        except BaseException:
            stop_all([each.query for each in started.values()])
            raise
        self._running = self._running | started

    def _start(self, query: QueryOrder, before: dict[str, int]) -> _Running:
        if query.name in self._running:
            raise ValueError(f'query "{query.name}" exists')
        checkpoint = Path(self._order.scratch) / "checkpoints" / str(self._started)
        self._started += 1
        each = self._delivering(query) if query.observed else None
        result = self._spark.sql(query.text)
        streaming = start_query(result, checkpoint=checkpoint, interval=self._order.interval, each=each)
        passed = PassedFiles(checkpoint, self._order.streams, before=before)
        return _Running(query, streaming, checkpoint, passed, before)

    def _delivering(self, query: QueryOrder) -> ForBatch:
        def each(rows: DataFrame, batch: int) -> None:
            try:
                newest = deliver(rows, query)
            except Exception as error:
                raise short_error(error, query.name) from None
            self._rows += int(sum(count for _, count in newest))
            if newest:
                self._line.say(Delivered(query.name, time.time(), newest))

        return each

    def drop(self, names: tuple[str, ...]) -> None:
        """Stop streaming queries."""
        leaving = [self._running[name] for name in names]
        self._running = {name: each for name, each in self._running.items() if name not in names}
        stop_all([each.query for each in leaving])
        self._line.say(Gone(names, time.time()))

    def figures(self) -> Figures:
        """State is in memory here."""
        running = list(self._running.values())
        return Figures(
            bytes_shuffled=bytes_shuffled(self._spark),
            state_bytes=state_bytes(each.query for each in running),
            result_rows=self._rows if all(each.order.observed for each in running) else None,
            note=f"{self._rows:,} rows of observed queries were delivered",
        )

    # ---- what its threads do

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            if not self._ended.is_set():
                self._line.fail(describe(error))

    def _watch(self) -> None:
        """Notice a streaming query that failed."""
        streams = self._spark.streams
        while not self._ended.is_set():
            try:
                ended = bool(streams.awaitAnyTermination(_PATIENCE))
            except StreamingQueryException:
                ended = True
            if ended:  # dropped queries end too
                streams.resetTerminated()
                for name, each in self._running.items():
                    if not each.query.isActive and name in self._running:
                        raise RuntimeError(f"query {name} ended: {each.query.exception()}")

    def _follow(self) -> None:
        while not self._ended.wait(_POLL):
            for name, each in self._running.items():
                if not each.live and not is_initializing(each.query):
                    each.live, now = True, time.time()
                    self._line.say(Live((name,), now))
                    self._line.say(Pulled(name, each.before, now, now))
                self._report_batches(name, each)

    def _report_batches(self, name: str, each: _Running) -> None:
        while (ended := _ended_at(each.checkpoint / "commits" / str(each.next_batch))) is not None:
            passed = each.passed.after(each.next_batch)
            each.next_batch += 1
            self._line.say(Pulled(name, passed.files, passed.began, ended))


def _ended_at(commit: Path) -> float | None:
    try:
        return os.stat(commit).st_mtime
    except FileNotFoundError:
        return None


@contextmanager
def spark_system(order: Order, line: Line) -> Iterator[System]:
    """The system in the mode that is ordered."""
    with open_session(order) as spark:
        if order.settings.get("mode", "each") == "shared":
            with shared_system(spark, order, line) as shared:
                yield shared
            return
        system = EachSystem(spark, order, line)
        system.start()
        try:
            yield system
        finally:
            system.stop()


if __name__ == "__main__":
    sys.exit(serve(standard_line(), spark_system))
