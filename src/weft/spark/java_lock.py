"""The lock of Spark's Java process on a state directory."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from weft.errors import StateLocked

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.1


class JavaLock:
    """A file lock that the Java process of an engine holds until it ends or until `release`.

    The driver's own lock ends with the driver. If the driver is killed, its Java process survives for a moment and may
    still write the checkpoint of a streaming query, so the next engine waits for the end of that process.
    """

    def __init__(self, spark: SparkSession, path: Path) -> None:
        jvm: Any = spark._jvm
        gateway: Any = spark.sparkContext._gateway
        options = gateway.new_array(jvm.java.nio.file.OpenOption, 2)
        options[0] = jvm.java.nio.file.StandardOpenOption.CREATE
        options[1] = jvm.java.nio.file.StandardOpenOption.WRITE
        self._channel: Any = jvm.java.nio.channels.FileChannel.open(jvm.java.io.File(str(path)).toPath(), options)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._channel.tryLock() is None:
            if time.monotonic() > deadline:
                self._channel.close()
                raise StateLocked(
                    f'state directory "{path.parent}" is still in use by the Java process of an engine that has died',
                    detail=f"It is process {path.read_text() or 'unknown'}.",
                    hint="End that process, then try again.",
                )
            time.sleep(_POLL_SECONDS)
        path.write_text(str(jvm.java.lang.ProcessHandle.current().pid()))

    def release(self) -> None:
        """Release the lock. Idempotent; if the Java process has ended, so has its lock."""
        with suppress(Py4JError, OSError):
            self._channel.close()
