"""What a process finds that starts Spark by weft: run by `test_session_start.py`, prints JSON."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark import SparkContext

import weft
from weft.spark.session import local_session

CANARIES = ("CANARY_TOKEN", "CANARY_NAMED", "CANARY_PASSED_KEY", "CANARY_PLAIN")


def seen_by_workers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The canaries in a worker's environment."""
    for _ in batches:
        found = json.dumps([name for name in CANARIES if name in os.environ])
        yield pa.RecordBatch.from_arrays([pa.array([found])], names=["found"])


def listening() -> list[str]:
    """Addresses at which Java and its children can be reached over the network."""
    tree = psutil.Process().children(recursive=True)
    found = {
        connection.laddr.ip
        for process in tree
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN and connection.family != socket.AF_UNIX
    }
    return sorted(found)


def started() -> dict[str, Any]:
    """A local session with secrets in the environment."""
    os.environ.update(dict.fromkeys(CANARIES, "canary-value"))
    spark = local_session(2, secrets=["CANARY_NAMED"], pass_env=["CANARY_PASSED_*"])
    rows = spark.range(0, 2, 1, 2).mapInArrow(seen_by_workers, "found string").collect()
    jvm: Any = spark._jvm
    found = {
        "here": [name for name in CANARIES if name in os.environ],
        "workers": [json.loads(row.found) for row in rows],
        "java": [name for name in CANARIES if jvm.System.getenv(name) is not None],
        "listening": listening(),
        "again": local_session(1, settings={"spark.sql.session.timeZone": "Asia/Tokyo"}) is spark,
        "mode": spark.conf.get("spark.scheduler.mode"),
        "share": jvm.org.apache.spark.SparkContext.getOrCreate().getPoolForName("weft-batches").get().minShare(),
        "zone": spark.conf.get("spark.sql.session.timeZone"),
    }
    spark.stop()
    return found


def engines(root: Path) -> dict[str, Any]:
    """Two engines without a session of the user's: the Spark they share is stopped with the second."""
    (root / "a").mkdir()
    one = weft.Engine(root / "one")
    two = weft.Engine(root / "two")
    same = one.spark.sparkContext is two.spark.sparkContext
    one.stop()
    one.stop()
    alive = two.spark.range(3).count() == 3
    two.stop()
    failed = ""
    with weft.Engine(root / "three", spark=None):
        try:
            weft.Engine(root / "three")
        except weft.errors.StateLocked as error:
            failed = error.code
        counted = SparkContext._active_spark_context is not None
    return {
        "same": same,
        "alive": alive,
        "failed": failed,
        "counted": counted,
        "left": SparkContext._active_spark_context is not None,
    }


if __name__ == "__main__":
    print(json.dumps(started() if sys.argv[1] == "started" else engines(Path(sys.argv[2]))))
