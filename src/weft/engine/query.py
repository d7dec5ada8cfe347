"""A query as its user holds it."""

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
    """A handle on one query; it stays valid after the query is dropped.

    With the record of an ended query, as a list of them has it, nothing is looked up again to say how the query ended.
    """

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
        """What is on record of it; None while it is pending."""
        return record_of(self._core, self.id) if self._ended is None else self._ended

    @property
    def sql(self) -> str:
        """The text it was created with."""
        record = self.record
        return self.bound.sql if record is None else record.sql

    @property
    def bound(self) -> BoundQuery:
        """Its bound form; raises what is wrong with the text of an ended query that this release does not accept."""
        return bound_of(self._core, self.id)

    @property
    def state(self) -> str:
        """ "pending" until its first boundary, then "live", at last "dropped" or "failed"."""
        record = self.record
        if record is None:
            return "pending" if self._core.roster.is_pending(self.id) else "dropped"
        if record.error:
            return "failed"
        return "live" if record.ended is None else "dropped"

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not."""
        record = self.record
        return "" if record is None else record.error

    @property
    def complete_from(self) -> datetime | None:
        """The event time from which its result is complete; None = from the beginning (or still pending). A time that
        Python's `datetime` cannot hold (before the year 1, after 9999) is given as the nearest that it can."""
        record = self.record
        return None if record is None or record.start is None else to_datetime(record.start)

    @property
    def deployment_latency(self) -> timedelta | None:
        """From the call of `create` to being live; None while pending and after a restart."""
        seconds = self._core.roster.latencies.get(self.id)
        return None if seconds is None else timedelta(seconds=seconds)

    def wait_live(self, timeout: float | None = None) -> bool:
        """Wait until it is in effect; False if the time ran out."""
        return self._request is None or self._request.done.wait(timeout)

    @property
    def results_from(self) -> int:
        """The first batch of its life whose rows are kept: those of earlier ones are gone."""
        return self._rows.first

    def results(self, *, partial: bool = False) -> Any:
        """Spark DataFrame of the committed rows so far, in the query's own columns and types.

        Raises ResultsGone if some of them are not kept any more; `partial` gives those that are (`results_from`). They
        stay for a minute from this call on; then `keep_results` counts for them, too.
        """
        return self._rows.frame(some=partial)

    def tail(self, *, from_batch: int = 0, timeout: float | None = None) -> Iterator[Any]:
        """Rows as they are committed, beginning with those committed already.

        Ends when the query has ended, when the engine is not running, or after `timeout` seconds without a new batch.
        Timestamps are aware (UTC). Raises ResultsGone if rows that come next are not kept any more: at the beginning
        if the query is old (`from_batch=query.results_from` leaves those out), later if they are read too slowly.
        """
        done = from_batch
        while True:
            ended = self.state in ("dropped", "failed")  # first: what it had by then is all there will be
            last = self._core.next_batch
            for table in self.tables(done, last):
                yield from to_rows(table)
            done = max(done, last)
            if self.state == "failed":
                raise QueryFailed(f'query "{self.name}" failed', detail=self.error)
            if ended or not self._await_batch(done, timeout):
                return

    def _await_batch(self, done: int, timeout: float | None) -> bool:
        """Wait for a batch after `done`; False when none can come or the time is up."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ended = self.state == "dropped"  # not under the lock: it may have to be looked up on disk
            with self._core.lock:
                if self._core.next_batch > done:
                    return True
                idle = not self._catalog.is_running() and self._core.running is None
                if idle or ended:
                    return False
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                self._core.committed.wait(0.2)

    def tables(self, first: int, last: int) -> Iterator[Any]:
        """Arrow tables of the rows committed by batches first … last - 1, of bounded size, in order.

        A SELECT list is computed when rows are read: if it fails on one, the query ends before that row's batch.
        Raises ResultsGone if some of the rows are not kept any more.
        """
        return self._guarded(self._rows.tables(first, last))

    def rows(self, batch: int, *, skip: int, limit: int, most_bytes: int | None = None) -> Iterator[Any]:
        """Arrow tables of a batch's rows without the first `skip`, at most `limit`: no more than these are built."""
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
        """How to read this query's rows, and where they are, for batches first … last - 1."""
        return self._rows.read(first, last)

    def batches(self, first: int, last: int) -> list[int]:
        """Those of the batches first … last - 1 that may hold rows of it."""
        return self._rows.batches(first, last)

    def committed_batches(self) -> range:
        """The committed batches of its life; whether their rows are kept is not asked."""
        return self._rows.life

    def deliver_to(self, sink: Sink, *, skip_missing: bool = False) -> None:
        """Send every row committed from the query's creation on to a sink; one that is attached again goes on where it
        was. Raises ResultsGone if rows that come next are not kept any more: `skip_missing` notes the gap."""
        self._catalog.deliveries.attach(self, sink, skip_missing=skip_missing)

    @property
    def sink_error(self) -> str:
        """Why its sink gets no rows now: the last attempt failed, or it has failed and waits to be resumed."""
        return self._catalog.deliveries.error_of(self.id)

    @property
    def sink_state(self) -> str:
        """Empty without a sink, else "delivering", "retrying", "failed" (see `resume_sink`) or "detached" (a callback
        that nobody has attached again since the start)."""
        return self._catalog.deliveries.state_of(self.id)

    @property
    def sink_gaps(self) -> list[dict[str, Any]]:
        """Batches that its sink never had, `from` one `until` another, and why."""
        return self._catalog.deliveries.gaps_of(self.id)

    def resume_sink(self) -> None:
        """Let a sink that has failed go on with the rows that are kept; those that are gone are noted as a gap."""
        self._catalog.deliveries.resume(self)

    def explain(self) -> str:
        """The query's part of the shared plan as text."""
        record = self.record
        if record is None:
            return f"query {self.name} ({self.id}): {self.state}\n  {self.sql}"
        try:
            bound = self.bound
        except WeftError as error:  # of an ended query, whose text this release does not take any more
            return f"query {self.name} ({self.id}): {self.state}\n  {record.sql}\n  {error.one_line()}"
        live = LiveQuery(record, bound, choose_strategy(bound, record.route))
        return explain_query(live, self._core.plan, self._core.declared())

    def drop(self) -> None:
        """Stop the query at the next boundary; its committed results stay readable. Harmless when repeated."""
        if self.state in ("pending", "live"):
            self._core.submit(drop=[self.id])
