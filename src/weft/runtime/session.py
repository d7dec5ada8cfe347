"""A local Spark session tuned for short batches, and the settings every streaming query of weft needs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from weft.runtime.java import require_java

_LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()

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
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
}

_STREAMING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.openCostInBytes": "0",
    # A shared subexpression must not be computed before the guard of one of its uses: it may raise.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


def local_session(
    cores: int | None = None,
    *,
    log: str | os.PathLike[str] | None = None,
    master: str = "",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The tuned local session; Java is checked first so that its absence gives a clear message.

    What Spark's processes print goes to the file `log` if one is given, else to stderr. With another `master` the same
    settings apply, and `settings` win over them.
    """
    require_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(master or f"local[{cores or os.cpu_count() or 1}]").setAppName("weft")
    conf.setAll(list((_LOCAL | {"spark.sql.session.timeZone": "UTC"} | dict(settings or {})).items()))
    if SparkContext._gateway is None:
        _launch(conf, log)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _launch(conf: SparkConf, log: str | os.PathLike[str] | None) -> None:
    """Start Spark's Java process in a session of its own.

    Ctrl-C in a terminal goes to the whole foreground group, and Spark's Python workers would die of it in the middle
    of a batch. What it means is for this process to say. The Java process still ends with this one: its stdin closes.
    """
    with open(os.devnull if log is None else log, "ab") as file:
        kept = {} if log is None else {"stdout": file, "stderr": file}
        gateway = launch_gateway(conf, {"start_new_session": True, **kept})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


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
