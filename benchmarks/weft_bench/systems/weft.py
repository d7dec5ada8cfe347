"""weft as a system of the benchmark: one engine reads for all queries. `python -m weft_bench.systems.weft`.

Settings: `deliver = all` reads the rows of all queries out, not only those of observed ones; `keep_results` says for
how long they are kept.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa

from weft.engine import Engine, Query
from weft.engine.inputs.declare import files
from weft.storage.journal import Manifest
from weft_bench.driver.messages import Answer, Delivered, Figures, Gone, Live, Order, Pulled, QueryOrder
from weft_bench.systems.inside_spark import bytes_shuffled, ordered_session, schema_of
from weft_bench.systems.speak import Line, describe, newest_counts, serve, standard_line

READER = "weft"
_PATIENCE = 1.0
"""Seconds without a batch after which it is asked whether the engine still runs."""
_LAST_WORDS = 10.0
_PHASES = ("compile", "run")
_LONGEST_RUN = 86_400.0
_KEPT = "20 seconds"
"""Rows are read out at once; what is older is freed, as in an engine that runs for long."""

_Acknowledgement = tuple[Callable[[], object], Callable[[], Answer]]
"""What to wait for, and what to say then."""


class WeftSystem:
    """An engine whose batches and requests are followed by threads, so that no command waits for another."""

    def __init__(self, engine: Engine, order: Order, line: Line) -> None:
        self._engine, self._line = engine, line
        self._all = order.settings.get("deliver") == "all"
        self._files = {stream.name: 0 for stream in order.streams}
        """Files of each stream that were read."""
        self._queries: dict[str, tuple[Query, QueryOrder]] = {}
        self._rows = self._handed = 0
        self._ended = threading.Event()
        self._requests: SimpleQueue[_Acknowledgement] = SimpleQueue()

        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True)
            for work in (self._follow, self._deliver, self._acknowledge)
        ]

    def start(self) -> None:
        """Begin to follow the engine."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Read out what is committed by now, unless that takes long, and say nothing more."""
        self._ended.set()
        self._engine.catalog.wake()
        following, delivering, _ = self._threads
        for thread in (following, delivering):
            thread.join(_LAST_WORDS)

    def create(self, queries: tuple[QueryOrder, ...]) -> None:
        """Create queries in one changelog."""
        created = self._engine.create_many([(query.name, query.text) for query in queries])
        names = tuple(query.name for query in queries)
        self._queries = self._queries | dict(zip(names, zip(created, queries, strict=True), strict=True))
        self._requests.put((created[-1].wait_live, lambda: Live(names, time.time())))

    def drop(self, names: tuple[str, ...]) -> None:
        """Drop queries in one changelog."""
        wait_gone = self._engine.catalog.drop([self._queries[name][0] for name in names])
        self._queries = {name: each for name, each in self._queries.items() if name not in names}
        self._requests.put((lambda: wait_gone(None), lambda: Gone(names, time.time())))

    def figures(self) -> Figures:
        """State is what live queries can still reach; results that are kept for readers are not counted.

        Rows go from one stage to the next in the files of the state, and only references through Spark's shuffle: both
        are bytes shuffled.
        """
        referred = bytes_shuffled(self._engine.spark)
        return Figures(
            bytes_shuffled=referred + self._handed,
            state_bytes=self._state_bytes(),
            result_rows=self._rows if self._all else None,
            note=f"bytes shuffled: {referred:,} through Spark, the rest in files; {self._rows:,} rows read out",
        )

    def _state_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._engine.catalog.state_files())

    # ---- what its threads do

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            if not self._ended.is_set():
                self._line.fail(describe(error))

    def _acknowledge(self) -> None:
        """Requests take effect in the order in which they came, so one thread waits for all of them."""
        while not self._ended.is_set():
            wait, answer = self._requests.get()
            wait()
            self._line.say(answer())

    def _follow(self) -> None:
        for batch in self._committed():
            at, manifest = time.time(), self._manifest(batch)
            for name, names in manifest.files:
                self._files[name] += len(names)
            seconds = next(
                (sum(s.seconds[phase] for phase in _PHASES) for s in self._engine.summaries if s.batch == batch), 0.0
            )
            self._line.say(Pulled(READER, dict(self._files), manifest.at - seconds, at))
            self._handed += sum(bucket.bytes for bucket in manifest.buckets)

    def _deliver(self) -> None:
        # What is not read out yet is kept, as it would be for a sink: a reader that is behind is slow, not broken.
        with self._engine.catalog.hold_results(0, seconds=_LONGEST_RUN) as lease:
            for batch in self._committed():
                lease.move(batch)
                for handle, query in list(self._queries.values()):
                    if query.observed or self._all:
                        self._read_out(handle, query, batch)

    def _read_out(self, handle: Query, query: QueryOrder, batch: int) -> None:
        tables = list(handle.tables(batch, batch + 1))
        at = time.time()
        self._manifest(batch)  # still there: nothing was freed before it was read
        self._rows += sum(table.num_rows for table in tables)
        if query.observed and tables:
            rows = pa.concat_tables(tables)
            self._line.say(Delivered(query.name, at, newest_counts(*(rows.column(name) for name in query.newest))))

    def _manifest(self, batch: int) -> Manifest:
        with (commits := self._engine.catalog.commits_from(batch)).lease:
            manifest = next(iter(commits.manifests), None)
        if manifest is None or manifest.batch != batch:
            raise RuntimeError(f"batch {batch} was freed before it was read out")
        return manifest

    def _committed(self) -> Iterator[int]:
        """The numbers of batches as they are committed, until the end and all that are committed then."""
        catalog, done, ended = self._engine.catalog, 0, False
        while not ended:
            catalog.commits_from(done, wait=0.0 if self._ended.is_set() else _PATIENCE).lease.release()
            last, ended = catalog.next_batch, self._ended.is_set()
            if last == done and not ended:
                self._check()
            yield from range(done, last)
            done = last

    def _check(self) -> None:
        if self._engine.error is not None:
            raise self._engine.error
        if not self._engine.running:
            raise RuntimeError("the engine does not run any more")


def _path(order: Order) -> Path:
    return Path(order.scratch) / "engine"


@contextmanager
def weft_system(order: Order, line: Line) -> Iterator[WeftSystem]:
    """An engine that reads the ordered streams, before any query is there."""
    spark = ordered_session(order)
    kept = order.settings.get("keep_results", _KEPT)
    try:
        with Engine(_path(order), partitions=order.cores, spark=spark, keep_results=kept) as engine:
            for stream in order.streams:
                Path(stream.folder).mkdir(parents=True, exist_ok=True)
                source = files(stream.folder, schema=schema_of(stream))
                lateness = timedelta(seconds=order.lateness)
                # The event time of a workload is its own, whatever the clock says.
                engine.stream(stream.name, source, time=stream.time, lateness=lateness, max_ahead=None)
                # A stream that no query reads waits, and the driver counts what is read from the beginning on.
                sql = f"SELECT {stream.time} FROM {stream.name} WHERE {stream.time} IS NULL"
                engine.create(sql, name=f"reads-{stream.name}")
            engine.start(f"{round(order.interval * 1000)} milliseconds")
            system = WeftSystem(engine, order, line)
            system.start()
            try:
                yield system
            finally:
                system.stop()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(serve(standard_line(), weft_system))
