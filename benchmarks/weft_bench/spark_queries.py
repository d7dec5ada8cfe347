"""The workloads as plain Structured Streaming has them: one streaming DataFrame per user query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weft_bench.case import Case, Kind, Variant
from weft_bench.data import SCHEMA, START, STREAMS
from weft_bench.workload import Predicate, WindowAggregate, WindowJoin, window_aggregates, window_joins


def frames(spark: SparkSession, case: Case, folder: Path) -> list[DataFrame]:
    """The queries of a case over the streams' files under `folder`; where results are checked, they are observed."""
    match case.kind:
        case Kind.JOINS:
            return [_joined(spark, case, query, folder) for query in window_joins(case.queries)]
        case Kind.AGGREGATES:
            return [_aggregated(spark, case, query, folder) for query in window_aggregates(case.queries)]
        case Kind.FAN_OUT:
            raise ValueError("weft is compared with itself here")


def _joined(spark: SparkSession, case: Case, query: WindowJoin, folder: Path) -> DataFrame:
    left = _side(spark, case, folder / STREAMS[0], query.left)
    right = _side(spark, case, folder / STREAMS[1], query.right)
    pairs = left.select(*(F.col(name).alias(f"a_{name}") for name in ("ts", "k", "f0"))).join(
        right.select(*(F.col(name).alias(f"b_{name}") for name in ("ts", "k", "f0"))), F.expr(query.spark_condition())
    )
    result = pairs.select("a_ts", "b_ts", F.col("a_k").alias("k"), "a_f0", "b_f0")
    if case.variant is not Variant.CHECKED:
        return result
    distance = "unix_micros(a_ts) - unix_micros(b_ts)"
    return _observed(result, ("count(1)", "sum(k)", "sum(a_f0 + 1000 * b_f0)", f"sum({distance})"))


def _aggregated(spark: SparkSession, case: Case, query: WindowAggregate, folder: Path) -> DataFrame:
    rows = _side(spark, case, folder / STREAMS[0], query.predicate)
    window = F.window("ts", f"{query.seconds} seconds", f"{query.slide} seconds")
    outputs = [F.expr(text) for text in query.outputs_sql().split(", ")]
    grouped = rows.groupBy(window, "k").agg(*outputs)
    result = grouped.select("k", F.col("window.start").alias("start"), *grouped.columns[2:])
    if case.variant is not Variant.CHECKED:
        return result
    second = F.unix_seconds("start") - int(START.timestamp())
    # What was there to warm up on has keys below zero.
    return _observed(result.where("k >= 0").withColumn("second", second), query.digest_sql())


def _side(spark: SparkSession, case: Case, path: Path, predicate: Predicate) -> DataFrame:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", case.files).parquet(str(path))
    return rows.where(predicate.sql()).withWatermark("ts", "0 seconds")


def _observed(result: DataFrame, figures: Sequence[str]) -> DataFrame:
    return result.observe("digest", *(F.expr(text).alias(f"figure{at}") for at, text in enumerate(figures)))
