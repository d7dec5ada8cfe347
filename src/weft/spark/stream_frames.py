"""Streaming DataFrames as streams: one Spark streaming query per DataFrame.

Spark keeps the offsets of a DataFrame's sources. Each of its micro-batches arrives in `foreachBatch` and waits there
while weft runs a batch with its rows; Spark commits it after weft has committed. The manifest contains the number of
the micro-batch, so a repetition after a crash is recognised. A source that fails ends only its own streaming query.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft.errors import EngineStopped, InvalidStream
from weft.spark.errors import cause_of

AVAILABLE_NOW = "available-now"
ONE_BATCH = "one-batch"
_POLL = 0.02
_NEVER_AGAIN = "365000 days"
"""A trigger interval for exactly one micro-batch: Spark runs the first one at once and then waits."""
_WAITING = ("Waiting for data to arrive", "Waiting for next trigger")
"""Status messages of a Spark query between two triggers. They do not appear before the first trigger has ended."""
_PATIENCE = 120.0
"""Seconds within which a source must answer in `try_frame`."""


class Arrival:
    """A micro-batch of a DataFrame stream that waits for weft."""

    def __init__(self, stream: str, frame: DataFrame, number: int) -> None:
        self.stream, self.frame, self.number = stream, frame, number
        self._released = threading.Event()
        self._error: Exception | None = None

    def release(self, error: Exception | None = None) -> None:
        """Let Spark continue. It commits the micro-batch or, given an error, ends the query with it."""
        if not self._released.is_set():
            self._error = error
            self._released.set()

    def wait(self) -> None:
        """Block until `release` is called, and raise the error it was given, if any."""
        self._released.wait()
        if self._error is not None:
            raise self._error


class FrameReader:
    """The streaming query of one DataFrame stream."""

    def __init__(self, stream: str, frame: DataFrame, checkpoint: Path, arrived: Callable[[Arrival], None]) -> None:
        self.stream = stream
        self._frame, self._checkpoint, self._arrived = frame, checkpoint, arrived
        self._query: StreamingQuery | None = None
        self._waiting: Arrival | None = None
        self._stopping = False

    def start(self, trigger: str) -> None:
        """Start reading: every `trigger`, all available data ("available-now"), or one micro-batch ("one-batch")."""
        options: dict[str, Any] = {"processingTime": trigger}
        if trigger == AVAILABLE_NOW:
            options = {"availableNow": True}
        elif trigger == ONE_BATCH:
            options = {"processingTime": _NEVER_AGAIN}
        self._stopping = False
        writer = self._frame.writeStream.foreachBatch(self._on_batch)
        self._query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(**options).start()

    @property
    def active(self) -> bool:
        """Whether the streaming query is running."""
        return self._query is not None and self._query.isActive

    @property
    def is_quiet(self) -> bool:
        """Whether no micro-batch can arrive before the next trigger, or the query has ended."""
        if self._query is None or not self._query.isActive:
            return True
        status = self._query.status
        return not status["isTriggerActive"] and status["message"].startswith("Waiting for next trigger")

    @property
    def found_nothing(self) -> bool:
        """Whether the query is running, has asked its sources and has found no new data."""
        query = self._query  # another thread may drop the stream at any time
        if self._waiting is not None or query is None or not query.isActive:
            return False
        status = query.status
        return not status["isTriggerActive"] and status["message"].startswith(_WAITING)

    @property
    def error(self) -> str:
        """The reason why the query failed; empty if it did not fail."""
        failure = None if self._query is None else self._query.exception()
        return "" if failure is None else cause_of(failure)

    def stop(self) -> None:
        """Stop reading. A micro-batch that waits is read again after the next start."""
        self._stopping = True
        if self._waiting is not None:
            self._waiting.release(EngineStopped(f'stream "{self.stream}" is not read any more'))
        query, self._query = self._query, None
        if query is not None:
            query.stop()

    def _on_batch(self, frame: DataFrame, number: int) -> None:
        arrival = self._waiting = Arrival(self.stream, frame, number)
        if self._stopping:
            raise EngineStopped(f'stream "{self.stream}" is not read any more')
        self._arrived(arrival)
        try:
            arrival.wait()
        finally:
            self._waiting = None


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return the DataFrame in another session of the same context, whose settings apply to further computations."""
    jvm: Any = spark._jvm
    plan = frame._jdf.queryExecution().analyzed()
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def try_frame(stream: str, frame: DataFrame) -> None:
    """Ask the sources of a DataFrame once for new data, without reading rows. Raise InvalidStream if one fails."""
    with TemporaryDirectory(prefix="weft-try-") as folder:
        reader = FrameReader(stream, frame, Path(folder), lambda arrival: arrival.release())
        try:
            reader.start(ONE_BATCH)
            deadline = time.monotonic() + _PATIENCE
            while not reader.is_quiet:
                if time.monotonic() > deadline:
                    raise _unusable(stream, f"It has not answered in {_PATIENCE:.0f} seconds.")
                time.sleep(_POLL)
            if reader.error:
                raise _unusable(stream, reader.error)
        except InvalidStream:
            raise
        except Exception as error:
            raise _unusable(stream, cause_of(error)) from error
        finally:
            reader.stop()


def _unusable(stream: str, detail: str) -> InvalidStream:
    return InvalidStream(
        f'the source of stream "{stream}" cannot be read, so the stream was not declared',
        detail=detail,
        hint="Repair the source or its options, then declare the stream again.",
    )


class Frames:
    """All DataFrame streams of an engine, with their readers and waiting micro-batches."""

    def __init__(self, checkpoints: Path, *, arrived: Callable[[], None]) -> None:
        self._checkpoints = checkpoints
        self._notify = arrived
        self._lock = threading.Lock()
        self._readers: dict[str, FrameReader] = {}
        self._arrivals: dict[str, Arrival] = {}
        self.attached: dict[str, DataFrame] = {}
        """The user's DataFrames, by stream."""

    def start(self, stream: str, trigger: str) -> None:
        """Start reading a stream, unless it is already being read."""
        if stream not in self._readers:
            checkpoint = self._checkpoints / stream
            reader = FrameReader(stream, self.attached[stream], checkpoint, self._take)
            reader.start(trigger)
            self._readers[stream] = reader

    def stop(self, stream: str) -> None:
        """Stop reading a stream."""
        reader = self._readers.pop(stream, None)
        with self._lock:
            self._arrivals.pop(stream, None)
        if reader is not None:
            reader.stop()

    def stop_all(self) -> None:
        """Stop reading all streams."""
        for stream in list(self._readers):
            self.stop(stream)

    def forget(self, stream: str) -> None:
        """Remove the DataFrame and the offsets of a dropped stream."""
        self.stop(stream)
        self.attached.pop(stream, None)
        shutil.rmtree(self._checkpoints / stream, ignore_errors=True)

    @property
    def reading(self) -> Mapping[str, FrameReader]:
        """The readers, by stream."""
        return self._readers

    def arrivals(self) -> dict[str, Arrival]:
        """Return the waiting micro-batches, by stream."""
        with self._lock:
            return dict(self._arrivals)

    def release(self, arrival: Arrival, error: Exception | None = None) -> None:
        """Release a micro-batch that is committed or, with an error, is not read now."""
        with self._lock:
            if self._arrivals.get(arrival.stream) is arrival:
                del self._arrivals[arrival.stream]
        arrival.release(error)

    def failures(self) -> dict[str, str]:
        """Stop the readers whose query has ended. Return the errors of those that failed, by stream."""
        failed = {name: reader.error for name, reader in list(self._readers.items()) if not reader.active}
        for name in failed:
            self.stop(name)
        return {name: error for name, error in failed.items() if error}

    def _take(self, arrival: Arrival) -> None:
        with self._lock:
            self._arrivals[arrival.stream] = arrival
        self._notify()
