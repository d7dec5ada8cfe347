"""A local Spark session tuned for short batches, and the settings every streaming query of weft needs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from weft.runtime.java import require_java

# Measured (docs/architecture.md): Unix sockets and the simple checkpoint manager take most of a batch's fixed cost.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.log.level": "ERROR",
}

_STREAMING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


def local_session(cores: int | None = None) -> SparkSession:
    """The tuned local session; Java is checked first so that its absence gives a clear message."""
    require_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores or os.cpu_count() or 1}]").appName("weft")
    for key, value in (_LOCAL | {"spark.sql.session.timeZone": "UTC"}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


_settings_lock = threading.RLock()


@contextmanager
def streaming_settings(spark: SparkSession) -> Iterator[None]:
    """The session with weft's settings: a streaming query copies them when it starts, then they are put back."""
    with _settings_lock:
        settings = _STREAMING | {"spark.sql.files.minPartitionNum": str(spark.sparkContext.defaultParallelism)}
        before = {key: spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)
