"""Plain Structured Streaming with a source shared by hand: one streaming query, whose batches all queries look through.

Setting `shared_text` is the SQL of the one streaming query: of joins, the one with the widest window and with all rows
that any query wants. The text of a query is SQL over its rows, which are called `shared`. Whoever has no such text is
told that it cannot be shared by hand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft_bench.driver.messages import Delivered, Figures, Gone, Live, Order, Pulled, QueryOrder
from weft_bench.systems.inside_spark import PassedFiles, bytes_shuffled
from weft_bench.systems.spark_parts import deliver, discard, make_views, short_error, start_query, state_bytes, stop_all
from weft_bench.systems.speak import Line, describe

READER = VIEW = "shared"
_PATIENCE = 1


class SharedSystem:
    """One streaming query; queries come and go between two of its batches."""

    def __init__(self, spark: SparkSession, order: Order, line: Line) -> None:
        self._spark, self._order, self._line = spark, order, line
        self._text = order.settings.get("shared_text", "")
        self._lock = threading.Lock()
        self._queries: dict[str, QueryOrder] = {}
        self._in_batch = False
        self._unsaid: list[tuple[type[Live | Gone], tuple[str, ...]]] = []
        """Requests that wait for the end of a batch."""
        self._rows = 0
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(order.cores, "queries")
        self._streaming: StreamingQuery | None = None
        self._passed: PassedFiles | None = None

    def start(self) -> None:
        """Start the one streaming query, if there is one."""
        if not self._text:
            return
        before = make_views(self._spark, self._order)
        checkpoint = Path(self._order.scratch) / "checkpoint"
        self._passed = PassedFiles(checkpoint, self._order.streams, before=before)
        result = self._spark.sql(self._text)
        result.createOrReplaceTempView(VIEW)  # only for the types: what a query says is checked when it is created
        self._streaming = start_query(result, checkpoint=checkpoint, interval=self._order.interval, each=self._run)
        threading.Thread(target=self._watch, name="watch", args=(self._streaming,), daemon=True).start()

    def stop(self) -> None:
        """Stop the streaming query."""
        self._ended.set()
        if self._streaming is not None:
            stop_all([self._streaming])
        self._pool.shutdown(wait=False, cancel_futures=True)

    def create(self, queries: tuple[QueryOrder, ...]) -> None:
        """Let queries look through the batches from the next one on."""
        if self._streaming is None:
            raise ValueError("cannot be shared by hand: the workload has no text for it")
        for query in queries:
            if query.name in self._queries:
                raise ValueError(f'query "{query.name}" exists')
            self._spark.sql(query.text)
        with self._lock:
            self._queries = self._queries | {query.name: query for query in queries}
        self._acknowledge(Live, tuple(query.name for query in queries))

    def drop(self, names: tuple[str, ...]) -> None:
        """Leave queries out from the next batch on."""
        with self._lock:
            left = {name: query for name, query in self._queries.items() if name not in names}
            if len(left) + len(names) != len(self._queries):
                raise KeyError(f"not all of these are queries: {', '.join(names)}")
            self._queries = left
        self._acknowledge(Gone, names)

    def _acknowledge(self, kind: type[Live | Gone], names: tuple[str, ...]) -> None:
        with self._lock:
            if self._in_batch:
                self._unsaid.append((kind, names))
                return
        self._line.say(kind(names, time.time()))

    def figures(self) -> Figures:
        """State is in memory here."""
        return Figures(
            bytes_shuffled=bytes_shuffled(self._spark),
            state_bytes=state_bytes([self._streaming] if self._streaming is not None else []),
            result_rows=self._rows if all(query.observed for query in self._queries.values()) else None,
            note=f"{self._rows:,} rows of observed queries were delivered",
        )

    # ---- batches

    def _run(self, rows: DataFrame, batch: int) -> None:
        assert self._passed is not None
        with self._lock:
            queries, self._in_batch = list(self._queries.values()), True
        try:
            self._run_queries(rows, queries)
        except Exception as error:
            raise short_error(error, READER) from None
        passed, now = self._passed.after(batch), time.time()
        self._line.say(Pulled(READER, passed.files, passed.began, now))
        with self._lock:
            unsaid, self._unsaid, self._in_batch = self._unsaid, [], False
        for kind, names in unsaid:
            self._line.say(kind(names, now))

    def _run_queries(self, rows: DataFrame, queries: list[QueryOrder]) -> None:
        """One action for each query over the rows of the batch, which are joined only once."""
        if not queries:
            discard(rows)  # the state must not miss them
            return
        rows.createOrReplaceTempView(VIEW)
        if len(queries) == 1:
            self._run_query(rows.sparkSession, queries[0])
            return
        rows.persist()
        try:
            rows.count()  # kept before several look at them: nobody shall join them a second time
            list(self._pool.map(lambda query: self._run_query(rows.sparkSession, query), queries))
        finally:
            rows.unpersist()

    def _run_query(self, session: SparkSession, query: QueryOrder) -> None:
        result = session.sql(query.text)
        if not query.observed:
            discard(result)
            return
        newest = deliver(result, query)
        self._rows += int(sum(count for _, count in newest))
        if newest:
            self._line.say(Delivered(query.name, time.time(), newest))

    def _watch(self, streaming: StreamingQuery) -> None:
        """Notice that the streaming query failed."""
        try:
            while not streaming.awaitTermination(_PATIENCE):
                pass
            error = "the streaming query ended"
        except Exception as raised:
            error = describe(raised)
        if not self._ended.is_set():
            self._line.fail(error)


@contextmanager
def shared_system(spark: SparkSession, order: Order, line: Line) -> Iterator[SharedSystem]:
    """The system, reading."""
    system = SharedSystem(spark, order, line)
    system.start()
    try:
        yield system
    finally:
        system.stop()
