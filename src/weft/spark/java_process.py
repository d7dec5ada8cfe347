"""Spark's Java process: whether it lives, and its end."""

from __future__ import annotations

from contextlib import suppress
from subprocess import Popen
from typing import Any

from pyspark import SparkContext


def java_status() -> int | None:
    """The exit status of the Java process that this process started; None while it lives, or if there is none."""
    process = _process()
    return None if process is None else process.poll()


def kill_java() -> None:
    """End the Java process at once: no batch and no read of it goes on, and the state directory is given up."""
    process = _process()
    if process is not None and process.poll() is None:
        with suppress(OSError):
            process.kill()


def is_stopped(spark: Any) -> bool:
    """Whether the context of a session was stopped while its Java process lives; no session works there any more."""
    try:
        java_context = spark.sparkContext._jsc
        return java_context is None or bool(java_context.sc().isStopped())
    except Exception:  # Java does not answer, which is another matter
        return False


def _process() -> Popen[bytes] | None:
    gateway: Any = SparkContext._gateway
    found: Popen[bytes] | None = getattr(gateway, "proc", None)
    return found
