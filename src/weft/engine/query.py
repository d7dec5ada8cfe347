"""A query as its user holds it."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from weft.engine.explain import explain_query
from weft.errors import QueryFailed
from weft.plan.changelog import QueryId, QueryRecord
from weft.runtime.read import Chunk, Reading, chunks_of, plan_reading
from weft.runtime.results import project, results_frame, to_rows

if TYPE_CHECKING:
    from weft.engine.engine import Engine
    from weft.engine.roster import Request
    from weft.engine.sinks import Sink
    from weft.state.journal import Manifest

_log = logging.getLogger("weft")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Query:
    """A handle on one query; it stays valid after the query is dropped."""

    def __init__(self, engine: Engine, query_id: QueryId, name: str, request: Request | None) -> None:
        self._engine = engine
        self._core = engine.core
        self.id = query_id
        self.name = name
        self._request = request

    def __repr__(self) -> str:
        return f"<weft.Query {self.name} {self.state}>"

    @property
    def _record(self) -> QueryRecord | None:
        return self._core.roster.records.get(self.id)

    @property
    def sql(self) -> str:
        """The text it was created with."""
        return self._core.roster.bound[self.id].sql if self._record is None else self._record.sql

    @property
    def state(self) -> str:
        """ "pending" until its first boundary, then "live", at last "dropped" or "failed"."""
        record = self._record
        if record is None:
            return "pending" if self._core.roster.is_pending(self.id) else "dropped"
        if record.error:
            return "failed"
        return "live" if record.ended is None else "dropped"

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not."""
        return self._record.error if self._record is not None else ""

    @property
    def complete_from(self) -> datetime | None:
        """The event time from which its result is complete; None = from the beginning (or still pending)."""
        record = self._record
        return None if record is None or record.start is None else _EPOCH + timedelta(microseconds=record.start)

    @property
    def deployment_latency(self) -> timedelta | None:
        """From the call of `create` to being live; None while pending and after a restart."""
        seconds = self._core.roster.latencies.get(self.id)
        return None if seconds is None else timedelta(seconds=seconds)

    def wait_live(self, timeout: float | None = None) -> bool:
        """Wait until it is in effect; False if the time ran out."""
        return self._request is None or self._request.done.wait(timeout)

    def results(self) -> Any:
        """Spark DataFrame of the committed rows so far, in the query's own columns and types."""
        reading, chunks = self.read(0)
        return results_frame(self._engine.spark, reading, chunks, self._core.roster.bound_query(self.id).outputs)

    def tail(self, *, from_batch: int = 0, timeout: float | None = None) -> Iterator[Any]:
        """Rows as they are committed, beginning with those committed already.

        Ends when the query has ended, when the engine is not running, or after `timeout` seconds without a new batch.
        Timestamps are aware (UTC).
        """
        done = from_batch
        while True:
            with self._core.lock:
                last = self._core.next_batch
                ended = self.state in ("dropped", "failed")
            for table in self.tables(done, last):
                yield from to_rows(table)
            done = last
            if self.state == "failed":
                raise QueryFailed(f'query "{self.name}" failed', detail=self.error)
            if ended or not self._await_batch(done, timeout):
                return

    def _await_batch(self, done: int, timeout: float | None) -> bool:
        """Wait for a batch after `done`; False when none can come or the time is up."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._core.lock:
            while self._core.next_batch <= done:
                idle = not self._engine.running and self._core.running is None
                if idle or self.state == "dropped":
                    return False
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                self._core.committed.wait(0.2)
        return True

    def tables(self, first: int, last: int) -> Iterator[Any]:
        """Arrow tables of the rows committed by batches first … last − 1.

        A SELECT list is computed when rows are read: if it fails on one, the query ends before that row's batch.
        """
        try:
            yield from self._tables(first, last)
        except QueryFailed as error:
            if self.state == "live":
                self._set_aside(first, last, error)
            raise

    def _tables(self, first: int, last: int) -> Iterator[Any]:
        reading, chunks = self.read(first, last)
        outputs = self._core.roster.bound_query(self.id).outputs if self._record is not None else ()
        yield from project(self._engine.spark, reading, chunks, outputs) if chunks else ()

    def _set_aside(self, first: int, last: int, error: QueryFailed) -> None:
        """Find the batch that cannot be read, and end the query before it."""
        for batch in range(first, last - 1):
            try:
                deque(self._tables(batch, batch + 1), maxlen=0)
            except QueryFailed:
                break
        else:
            batch = last - 1
        _log.warning("query failed", extra={"query": self.name, "batch": batch, "error": error.detail})
        self._core.set_aside(self.id, batch, error.detail or error.message)

    def read(self, first: int, last: int | None = None) -> tuple[Reading, Sequence[Chunk]]:
        """How to read this query's rows, and where they are, for batches first … last − 1."""
        reading, manifests = self._log(first, last)
        return reading, list(chunks_of(reading, manifests))

    def batches(self, first: int, last: int) -> list[int]:
        """Those of the batches first … last − 1 that may hold rows of it."""
        reading, manifests = self._log(first, last)
        return [manifest.batch for manifest in manifests if any(chunks_of(reading, [manifest]))]

    def _log(self, first: int, last: int | None) -> tuple[Reading, Sequence[Manifest]]:
        with self._core.lock:
            record = self._record
            query = self._core.roster.bound_query(self.id)
            if record is None:
                record = QueryRecord(self.id, self.name, query.sql, 0, self._core.next_batch, None, ended=0)
            data = str(self._core.directory.path("data"))
            reading = plan_reading(record, query, self._core.streams, data=data)
            return reading, self._core.inventory.results_of(first, last)

    def deliver_to(self, sink: Sink) -> None:
        """Send every row committed from the query's creation on to a sink."""
        self._engine.deliveries.attach(self, sink)

    def explain(self) -> str:
        """The query's part of the shared plan as text."""
        record = self._record
        if record is None:
            return f"query {self.name} ({self.id}): {self.state}\n  {self.sql}"
        return explain_query(record, self._core.roster.bound_query(self.id), self._core.plan)

    def drop(self) -> None:
        """Stop the query at the next boundary; its committed results stay readable. Harmless when repeated."""
        if self.state in ("pending", "live"):
            self._core.submit(drop=[self.id])
