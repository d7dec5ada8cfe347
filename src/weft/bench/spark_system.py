"""A case on plain Structured Streaming: one streaming query per user query, in one application.

Its best settings: the session weft runs on, as many shuffle partitions as cores, the in-memory state store, filters
before everything else, only the needed columns in the state, results to the sink that costs nothing.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from weft.bench.case import Case, Digest, Outcome, Variant
from weft.bench.data import SCHEMA, STREAMS
from weft.bench.measure import Batch, rate_alone, rate_together, to_batch
from weft.bench.workload import Predicate, WindowJoin, window_joins
from weft.runtime.session import local_session, streaming_settings

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_POLL = 0.25


def run_spark(case: Case, folder: Path, limit: float) -> Outcome:
    """Measure a case over the files under `folder`, for at most `limit` seconds; leaves Spark running."""
    spark = local_session()
    begin = time.time()
    queries = _start(spark, case, folder)
    end = _wait(queries, begin + limit)
    batches = [[to_batch(progress) for progress in query.recentProgress] for query in queries]
    outcome = _outcome(case, batches, begin, end)
    if case.variant is Variant.CHECKED:
        for query in queries:
            query.awaitTermination()
        return replace(outcome, digests=_digests(queries))
    if all(query.isActive for query in queries):
        return replace(outcome, note=f"stopped after {end - begin:.0f} s")
    return replace(outcome, note=_failure(queries))


def _outcome(case: Case, batches: list[list[Batch]], begin: float, end: float) -> Outcome:
    if case.queries == 1:
        return rate_alone(batches[0], case.batch_rows)
    return rate_together(batches, rows=case.batch_rows, begin=begin, end=end)


def _start(spark: SparkSession, case: Case, folder: Path) -> list[StreamingQuery]:
    with streaming_settings(spark):
        for key, value in _settings().items():
            spark.conf.set(key, value)
        return [
            _joined(spark, case, query, folder)
            .writeStream.format("noop")
            .queryName(f"bench{number}")
            .option("checkpointLocation", str(folder / "checkpoints" / str(number)))
            .trigger(availableNow=True)
            .start()
            for number, query in enumerate(window_joins(case.queries))
        ]


def _settings() -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Needed by weft, which adds streams while running; here it would only ask for names.
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    }


def _joined(spark: SparkSession, case: Case, query: WindowJoin, folder: Path) -> DataFrame:
    left = _side(spark, case, folder / STREAMS[0], query.left)
    right = _side(spark, case, folder / STREAMS[1], query.right)
    pairs = left.select(*(F.col(name).alias(f"a_{name}") for name in ("ts", "k", "f0"))).join(
        right.select(*(F.col(name).alias(f"b_{name}") for name in ("ts", "k", "f0"))), F.expr(query.spark_condition())
    )
    result = pairs.select("a_ts", "b_ts", F.col("a_k").alias("k"), "a_f0", "b_f0")
    return _observed(result) if case.variant is Variant.CHECKED else result


def _side(spark: SparkSession, case: Case, path: Path, predicate: Predicate) -> DataFrame:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", case.files).parquet(str(path))
    return rows.where(predicate.sql()).withWatermark("ts", "0 seconds")


def _observed(result: DataFrame) -> DataFrame:
    distance = F.unix_micros("a_ts") - F.unix_micros("b_ts")
    return result.observe(
        "digest",
        F.count(F.lit(1)).alias("rows"),
        F.sum("k").alias("keys"),
        F.sum(F.col("a_f0") + 1000 * F.col("b_f0")).alias("values"),
        F.sum(distance).alias("distance"),
    )


def _digests(queries: list[StreamingQuery]) -> dict[int, Digest]:
    found = {}
    for number, query in enumerate(queries):
        total = Digest()
        for progress in query.recentProgress:
            row = progress.observedMetrics.get("digest")
            if row is not None:
                total = total.plus(Digest(*(int(figure or 0) for figure in row)))
        found[number] = total
    return found


def _wait(queries: list[StreamingQuery], deadline: float) -> float:
    """Wait until time is up or a query has ended: from then on the others have the machine to themselves."""
    while time.time() < deadline and all(query.isActive for query in queries):
        time.sleep(_POLL)
    return time.time()


def _failure(queries: list[StreamingQuery]) -> str:
    failures = [str(error) for query in queries if not query.isActive and (error := query.exception()) is not None]
    return f"a query failed: {failures[0].splitlines()[0]}" if failures else ""
