"""The handle with which users work on a query."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from weft.engine.queries.look import bound_of, record_of
from weft.engine.results.result_log import BatchUnreadable, ResultLog
from weft.engine.views.plan_text import explain_query
from weft.errors import QueryFailed, WeftError
from weft.execution.results.read import Chunk, Reading
from weft.plan.changelog import LiveQuery, QueryId, QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.time import to_datetime
from weft.planner.strategy import choose_strategy
from weft.spark.select_list import to_rows

if TYPE_CHECKING:
    from weft.engine.catalog import Catalog
    from weft.engine.queries.requests import Request
    from weft.engine.sinks.sinks import Sink

_log = logging.getLogger("weft")


class Query:
    """A handle on one query, which stays valid after the query has ended; `ended` saves looking up its record."""

    def __init__(
        self,
        catalog: Catalog,
        query_id: QueryId,
        name: str,
        request: Request | None,
        *,
        ended: QueryRecord | None = None,
    ) -> None:
        self._catalog = catalog
        self._core = catalog.core
        self.id = query_id
        self.name = name
        self._request = request
        self._ended = ended
        self._rows = ResultLog(catalog, query_id, name)

    def __repr__(self) -> str:
        return f"<weft.Query {self.name} {self.state}>"

    @property
    def record(self) -> QueryRecord | None:
        """The record of the query; None while the query is pending."""
        return record_of(self._core, self.id) if self._ended is None else self._ended

    @property
    def sql(self) -> str:
        """The text with which the query was created."""
        record = self.record
        return self.bound.sql if record is None else record.sql

    @property
    def bound(self) -> BoundQuery:
        """The bound query; raises WeftError for an ended query whose text this release refuses."""
        return bound_of(self._core, self.id)

    @property
    def state(self) -> str:
        """The state: "pending" until the first boundary, then "live", finally "dropped" or "failed"."""
        record = self.record
        if record is None:
            return "pending" if self._core.roster.is_pending(self.id) else "dropped"
        if record.error:
            return "failed"
        return "live" if record.ended is None else "dropped"

    @property
    def error(self) -> str:
        """Why the query failed; empty if it did not fail."""
        record = self.record
        return "" if record is None else record.error

    @property
    def complete_from(self) -> datetime | None:
        """The event time from which results are complete; None means from the beginning, or that the query is pending.

        A time that `datetime` cannot represent (before the year 1, after 9999) is replaced by the nearest that it can.
        """
        record = self.record
        return None if record is None or record.start is None else to_datetime(record.start)

    @property
    def deployment_latency(self) -> timedelta | None:
        """The time from the call of `create` to being live; None while pending and after a restart."""
        seconds = self._core.roster.latencies.get(self.id)
        return None if seconds is None else timedelta(seconds=seconds)

    def wait_live(self, timeout: float | None = None) -> bool:
        """Wait until the query is in effect; return False on timeout."""
        return self._request is None or self._request.done.wait(timeout)

    @property
    def results_from(self) -> int:
        """The first batch of the query's life whose rows are kept; rows of earlier batches are gone."""
        return self._rows.first

    def results(self, *, partial: bool = False) -> Any:
        """Return a Spark DataFrame of the rows committed so far, in the query's own columns and types.

        Raises ResultsGone if some of the rows are no longer kept, unless `partial`, which returns the others (see
        `results_from`). The rows stay readable for a minute after this call; then `keep_results` applies to them, too.
        """
        return self._rows.frame(some=partial)

    def tail(self, *, from_batch: int = 0, timeout: float | None = None) -> Iterator[Any]:
        """Yield rows as they are committed, beginning with the rows that are already committed.

        Ends when the query is dropped, when the engine is not running, or after `timeout` seconds without a new batch;
        raises QueryFailed if the query fails. Timestamps are timezone-aware (UTC). Raises ResultsGone if the next rows
        are no longer kept: at the beginning if the query is old (`from_batch=query.results_from` skips what is gone),
        later if the caller reads too slowly.
        """
        next_batch = from_batch
        while True:
            ended = self.state in ("dropped", "failed")  # read before `next_batch`: an ended query gets no more rows
            end = self._core.next_batch
            for table in self.tables(next_batch, end):
                yield from to_rows(table)
            next_batch = max(next_batch, end)
            if self.state == "failed":
                raise QueryFailed(f'query "{self.name}" failed', detail=self.error)
            if ended or not self._await_batch(next_batch, timeout):
                return

    def _await_batch(self, batch: int, timeout: float | None) -> bool:
        """Wait until a batch is committed; return False on timeout or if no batch can come."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ended = self.state == "dropped"  # not under the lock: the record may be on disk
            with self._core.lock:
                if self._core.next_batch > batch:
                    return True
                idle = not self._catalog.is_running() and self._core.running is None
                if idle or ended:
                    return False
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                self._core.committed.wait(0.2)

    def tables(self, first: int, last: int) -> Iterator[Any]:
        """Return the rows committed by batches first … last - 1, in order, as Arrow tables of bounded size.

        The SELECT list is computed when rows are read. If it fails on a row, the query ends before the row's batch, and
        QueryFailed is raised. Raises ResultsGone if some of the rows are no longer kept.
        """
        return self._guarded(self._rows.tables(first, last))

    def rows(self, batch: int, *, skip: int, limit: int, most_bytes: int | None = None) -> Iterator[Any]:
        """Return at most `limit` rows of a batch after the first `skip` as Arrow tables; no other rows are built."""
        return self._guarded(self._rows.tables(batch, batch + 1, skip=skip, limit=limit, most_bytes=most_bytes))

    def _guarded(self, tables: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from tables
        except BatchUnreadable as failure:
            reason = failure.detail or failure.message
            _log.warning("query %s failed on a row of batch %s: %s", self.name, failure.batch, reason)
            self._core.set_aside(self.id, failure.batch, reason)
            raise QueryFailed(
                f'query "{self.name}" failed: {failure.message}', detail=failure.detail, hint=failure.hint
            ) from failure

    def read(self, first: int, last: int | None = None) -> tuple[Reading, Sequence[Chunk]]:
        """Return how to read the query's rows, and where the kept rows of batches first … last - 1 are."""
        return self._rows.read(first, last)

    def batches(self, first: int, last: int) -> list[int]:
        """Return the batches among first … last - 1 that may contain rows of the query."""
        return self._rows.batches(first, last)

    def committed_batches(self) -> range:
        """Return the committed batches of the query's life, whether or not their rows are kept."""
        return self._rows.life

    def deliver_to(self, sink: Sink, *, skip_missing: bool = False) -> None:
        """Deliver all rows from the query's creation on to a sink; if attached again, the sink continues where it was.

        Raises ResultsGone if the next rows are no longer kept, unless `skip_missing`, which notes the gap.
        """
        self._catalog.deliveries.attach(self, sink, skip_missing=skip_missing)

    @property
    def sink_error(self) -> str:
        """Why the sink gets no rows now: the last attempt failed, or the sink has failed and waits to be resumed."""
        return self._catalog.deliveries.error_of(self.id)

    @property
    def sink_state(self) -> str:
        """The state of the sink: "delivering", "retrying", "failed" (see `resume_sink`) or "detached" (a callback that
        was not attached again after a restart). Empty without a sink."""
        return self._catalog.deliveries.state_of(self.id)

    @property
    def sink_gaps(self) -> list[dict[str, Any]]:
        """The batches that the sink never received: `from`, `until` (exclusive) and `reason`."""
        return self._catalog.deliveries.gaps_of(self.id)

    def resume_sink(self) -> None:
        """Let a failed sink continue with the rows that are kept; rows that are gone are noted as a gap."""
        self._catalog.deliveries.resume(self)

    def explain(self) -> str:
        """Return the query's part of the shared plan as text."""
        record = self.record
        if record is None:
            return f"query {self.name} ({self.id}): {self.state}\n  {self.sql}"
        try:
            bound = self.bound
        except WeftError as error:  # an ended query whose text this release refuses
            return f"query {self.name} ({self.id}): {self.state}\n  {record.sql}\n  {error.one_line()}"
        live = LiveQuery(record, bound, choose_strategy(bound, record.route))
        return explain_query(live, self._core.plan, self._core.declared())

    def drop(self) -> None:
        """Drop the query at the next boundary; its committed results stay readable. Harmless when repeated."""
        if self.state in ("pending", "live"):
            self._core.submit(drop=[self.id])
