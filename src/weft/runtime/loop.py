"""The one streaming query that reads all streams and hands each micro-batch over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft.errors import EngineStopped
from weft.plan.stream import Stream
from weft.runtime.session import streaming_settings
from weft.runtime.sources import read_streams
from weft.runtime.warm import warm_up

AVAILABLE_NOW = "available-now"
ONE_BATCH = "one-batch"
_POLL = 0.02
_NEVER_AGAIN = "365000 days"
"""With such an interval Spark runs the first batch at once and then waits: exactly one batch."""


class Loop:
    """Starts, stops and restarts the streaming query; batches arrive through `on_batch`."""

    def __init__(self, spark: SparkSession, checkpoint: str, on_batch: Callable[[DataFrame, int], None]) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self._query: StreamingQuery | None = None

    @property
    def running(self) -> bool:
        """Whether batches are being run."""
        return self._query is not None and self._query.isActive

    def start(self, streams: Mapping[str, Stream], frames: Mapping[str, Any], trigger: str) -> None:
        """Start reading all streams."""
        if not streams:
            raise EngineStopped("no stream is declared", hint="Call engine.stream(...) before starting.")
        options: dict[str, Any] = {"processingTime": trigger}
        if trigger == AVAILABLE_NOW:
            options = {"availableNow": True}
        elif trigger == ONE_BATCH:
            options = {"processingTime": _NEVER_AGAIN}
        if trigger not in (AVAILABLE_NOW, ONE_BATCH):
            warm_up(self._spark)
        with streaming_settings(self._spark):
            writer = read_streams(self._spark, streams, frames).writeStream.foreachBatch(self._on_batch)
            self._query = writer.option("checkpointLocation", self._checkpoint).trigger(**options).start()

    def run_one(self, streams: Mapping[str, Stream], frames: Mapping[str, Any]) -> None:
        """Run exactly one micro-batch over what is there now, if anything is new."""
        self.start(streams, frames, ONE_BATCH)
        assert self._query is not None
        try:
            while self._query.isActive and not self._is_waiting(self._query):
                time.sleep(_POLL)
            failure = self._query.exception()
        finally:
            self.stop()
        if failure is not None:
            raise failure

    @staticmethod
    def _is_waiting(query: StreamingQuery) -> bool:
        status = query.status
        return not status["isTriggerActive"] and status["message"].startswith("Waiting for next trigger")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends by itself, for at least `timeout` seconds; raises what ended it."""
        if self._query is None:
            return True
        if timeout is not None and timeout <= 0 and self._query.isActive:
            return False
        ended = self._query.awaitTermination(None if timeout is None else max(1, ceil(timeout)))
        return ended is None or ended

    def stop(self) -> None:
        """Stop after the batch that is running, which is then run again next time unless it was committed."""
        query, self._query = self._query, None
        if query is not None:
            query.stop()
