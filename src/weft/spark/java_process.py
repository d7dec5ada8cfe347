"""The status and termination of Spark's Java process."""

from __future__ import annotations

from contextlib import suppress
from subprocess import Popen
from typing import Any

from pyspark import SparkContext


def java_status() -> int | None:
    """Return the exit status of the Java process that this process started; None if it is running or not started."""
    process = _process()
    return None if process is None else process.poll()


def kill_java() -> None:
    """Kill the Java process. All its batches and reads end, and its lock on the state directory is released."""
    process = _process()
    if process is not None and process.poll() is None:
        with suppress(OSError):
            process.kill()


def is_stopped(spark: Any) -> bool:
    """Return whether the context of a session is stopped while its Java process runs. No session works after that."""
    try:
        java_context = spark.sparkContext._jsc
        return java_context is None or bool(java_context.sc().isStopped())
    except Exception:  # a Java process that does not answer is another failure
        return False


def _process() -> Popen[bytes] | None:
    gateway: Any = SparkContext._gateway
    process: Popen[bytes] | None = getattr(gateway, "proc", None)
    return process
