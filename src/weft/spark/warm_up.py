"""Warm-up of Spark: starts workers and loads code before the first batch. A cold first batch takes seconds, and queries
created meanwhile wait for its end."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from weft.kernels.order import sort_order
from weft.spark.batch_job import ITEM

_lock = threading.Lock()
_warm: WeakSet[SparkContext] = WeakSet()


def warm_up(spark: SparkSession) -> None:
    """Run a job shaped like a batch on all workers, once per Spark context."""
    with _lock:
        context = spark.sparkContext
        if context in _warm:
            return
        tasks = context.defaultParallelism
        items = spark.range(0, tasks, 1, tasks).selectExpr("CAST(id AS INT) AS part", "CAST('' AS BINARY) AS item")
        for _ in ("tag", "probe"):
            items = items.mapInArrow(_load, ITEM).repartitionById(tasks, "part")
        items.collect()
        _warm.add(context)


def _load(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Call one kernel, because the first call loads numba. Other kernels are loaded when a query needs them."""
    sort_order(np.arange(2, dtype=np.uint64), np.arange(2))
    yield from batches
