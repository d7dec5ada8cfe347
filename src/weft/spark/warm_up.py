"""Spark made ready for its first batch: workers started, code loaded. Cold, a first batch takes seconds, and every
query that comes meanwhile waits for its end."""

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
    """Run a job of the shape of a batch, in all workers at once; only the first time that it is asked for."""
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
    """What is called first loads most: numba itself. The kernels of a query are loaded when it is there."""
    sort_order(np.arange(2, dtype=np.uint64), np.arange(2))
    yield from batches
