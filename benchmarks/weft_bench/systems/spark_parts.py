"""What both ways of running queries on plain Structured Streaming are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from weft_bench.driver.messages import Order, QueryOrder
from weft_bench.systems.inside_spark import ordered_session, schema_of
from weft_bench.systems.speak import BUCKET, describe

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_NUMBERED = re.compile(r"(\d+)\.parquet")
_AT_ONCE = 8
"""Streaming queries that are stopped at the same time."""

ForBatch = Callable[[DataFrame, int], None]


@contextmanager
def open_session(order: Order) -> Iterator[SparkSession]:
    """The session weft runs on, with what is best for plain streaming queries."""
    spark: SparkSession = ordered_session(order)
    settings = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        # The driver takes files away that every query has passed; one that only just starts may have listed them.
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": str(order.cores),
        "spark.sql.shuffle.partitions": str(order.cores),
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.noDataMicroBatches.enabled": order.settings.get("no_data_batches", "false"),
        # Every query lists its folders each time: a hundred idle ones would have no time left for anything else.
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.stopTimeout": "20s",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield spark
    finally:
        spark.stop()


def make_views(spark: SparkSession, order: Order) -> dict[str, int]:
    """Let the names of streams mean their files from now on; gives how many there were before, which are left out.

    A file source begins with all files it finds. What came before a query is not for it, and would hold it up.
    """
    before = {}
    for stream in order.streams:
        folder = Path(stream.folder)
        folder.mkdir(parents=True, exist_ok=True)
        before[stream.name] = files_so_far(folder)
        reader = spark.readStream.schema(schema_of(stream))
        if before[stream.name]:
            reader = reader.option("pathGlobFilter", from_number(before[stream.name]))
        rows = reader.parquet(stream.folder).withWatermark(stream.time, f"{order.lateness} seconds")
        rows.createOrReplaceTempView(stream.name)
    return before


def files_so_far(folder: Path) -> int:
    """How many numbered files have come into a folder, those that are gone again too."""
    found = (_NUMBERED.fullmatch(path.name) for path in folder.iterdir())
    return max((int(name.group(1)) + 1 for name in found if name is not None), default=0)


def from_number(first: int, digits: int = 8) -> str:
    """A pattern for the names of files with that number or a larger one: `00000000.parquet`, `00000001.parquet` …"""
    number = f"{first:0{digits}d}"
    larger = [
        f"{number[:place]}[{int(digit) + 1}-9]{'?' * (digits - place - 1)}"
        for place, digit in enumerate(number)
        if digit != "9"
    ]
    return f"{{{','.join([number, *larger])}}}.parquet"


def start_query(result: DataFrame, *, checkpoint: Path, interval: float, each: ForBatch | None) -> StreamingQuery:
    """Start a streaming query whose batches go to `each`, or nowhere."""
    writer = result.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
    writer = writer.format("noop") if each is None else writer.foreachBatch(each)
    return writer.trigger(processingTime=f"{round(interval * 1000)} milliseconds").start()


def deliver(rows: DataFrame, query: QueryOrder) -> tuple[tuple[int, float], ...]:
    """Run a query's batch, in one action: an event time and the number of rows that have it, as `newest_counts`."""
    if not query.newest:
        discard(rows)
        return ()
    columns = [F.col(f"`{name}`").cast("timestamp") for name in query.newest]
    newest = columns[0] if len(columns) == 1 else F.greatest(*columns)
    bucket = F.floor(F.unix_micros(newest) / BUCKET).alias("bucket")
    found = rows.select(bucket).where("bucket IS NOT NULL").groupBy("bucket").count().collect()
    return tuple(sorted((int(row["bucket"]) * BUCKET, float(row["count"])) for row in found))


def discard(rows: DataFrame) -> None:
    """Run a query's batch for nobody."""
    rows.write.format("noop").mode("overwrite").save()


def short_error(error: Exception, query: str) -> RuntimeError:
    """What a batch function may raise: Spark takes a text with a long trace apart until its stack overflows."""
    return RuntimeError(f"query {query} failed: {describe(error)}")


def is_initializing(query: StreamingQuery) -> bool:
    """Whether a streaming query that was started has not looked at its sources yet."""
    return query.isActive and str(query.status["message"]).startswith("Initializing")


def state_bytes(queries: Iterable[StreamingQuery]) -> int:
    """Memory of the state of streaming queries, as of their last batches."""
    latest = (query.lastProgress for query in queries)
    return sum(
        operator.memoryUsedBytes for progress in latest if progress is not None for operator in progress.stateOperators
    )


def stop_all(queries: Iterable[StreamingQuery]) -> None:
    """Stop streaming queries, some at a time; one that does not stop in time is left to the end of the process."""

    def stop(query: StreamingQuery) -> None:
        try:
            query.stop()
        except Exception as error:
            print(f"a streaming query did not stop: {describe(error)}")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(stop, queries))
