"""The rows of one query in the shared result log, batch by batch, in tables of bounded size.

A reader holds a lease on the batches that it has not read yet (`engine/results/leases.py`), so their files stay. Rows
that are no longer kept raise `ResultsGone`; they are never left out silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from weft.engine.queries.look import bound_of, locked_record, record_of
from weft.engine.results.leases import GRACE, Lease, kept_from
from weft.errors import QueryFailed, ResultsGone, StateCorrupt
from weft.execution.results.read import Chunk, Reading, chunks_of, plan_reading
from weft.plan.changelog import QueryId, QueryRecord
from weft.planner.strategy import choose_strategy
from weft.spark.result_tables import result_tables
from weft.spark.select_list import results_frame

if TYPE_CHECKING:
    from weft.engine.catalog import Catalog

_AT_ONCE = 64
"""Number of manifests that are examined together: each may be large, and the log long."""


class BatchUnreadable(QueryFailed):
    """The error of a SELECT list that fails on a row of batch `batch`."""

    code = QueryFailed.code

    def __init__(self, failure: QueryFailed, batch: int) -> None:
        super().__init__(failure.message, detail=failure.detail, hint=failure.hint)
        self.batch = batch


class ResultLog:
    """The rows of one query, and the batches that contain them."""

    def __init__(self, catalog: Catalog, query: QueryId, name: str) -> None:
        self._catalog, self._core = catalog, catalog.core
        self._query, self._name = query, name

    # ---- what there is

    @property
    def first(self) -> int:
        """The first batch of the query's life whose rows are kept; later than its creation if rows are gone."""
        with locked_record(self._core, self._query) as record:
            return self._core.next_batch if record is None else max(record.created, kept_from(self._core))

    @property
    def life(self) -> range:
        """The committed batches in which the query lived; empty, at the next batch, while the query is pending."""
        with locked_record(self._core, self._query) as record:
            return range(*self._life(record, 0, None))

    def batches(self, first: int, last: int) -> list[int]:
        """Return the batches among first … last - 1 that may contain rows of the query.

        Raises ResultsGone if any of them are no longer kept, since readers would skip a batch that is left out.
        """
        begin, end, lease = self.hold(first, last)
        with lease:
            return [batch for batch, _ in self._chunks(self._reading(), begin, end)] if begin < end else []

    def _life(self, record: QueryRecord | None, first: int, last: int | None) -> tuple[int, int]:
        """Return the range of the committed batches among first … last - 1 in which the query lived."""
        following = self._core.next_batch
        if record is None:
            return following, following
        ended = following if record.ended is None else min(record.ended, following)
        return max(first, record.created), ended if last is None else min(last, ended)

    def _reading(self) -> Reading:
        """Return how to read the query's rows. Do not call it under the lock: the text may have to be bound again."""
        core = self._core
        with core.lock:
            streams = dict(core.streams)  # before the text is bound: dropping a stream also removes its queries
        query, record = bound_of(core, self._query), record_of(core, self._query)
        if record is None:  # the query is pending
            record = QueryRecord(self._query, self._name, query.sql, 0, core.next_batch, None, ended=0)
        strategy = choose_strategy(query, record.route)
        return plan_reading(record, query, strategy, streams, data=str(core.directory.path("data")))

    def _chunks(self, reading: Reading, first: int, last: int) -> Iterator[tuple[int, list[Chunk]]]:
        """Yield the chunks of each batch. Raises ResultsGone if batches were removed after the lease had expired."""
        for begin in range(first, last, _AT_ONCE):
            with self._core.lock:
                manifests = self._core.inventory.results_of(begin, min(begin + _AT_ONCE, last))
                if manifests.first > begin:
                    raise self._gone(kept_from(self._core))
            for manifest in manifests:
                if chunks := list(chunks_of(reading, [manifest])):
                    yield manifest.batch, chunks

    # ---- rows

    def hold(self, first: int, last: int | None, *, seconds: float | None = None) -> tuple[int, int, Lease]:
        """Return the range of committed batches among first … last - 1 in which the query lived, and a lease on it.

        Raises ResultsGone if any of them are no longer kept.
        """
        with locked_record(self._core, self._query) as record:
            return self._hold(record, first, last, seconds)

    def _hold_kept(self, first: int, last: int | None, seconds: float | None = None) -> tuple[int, int, Lease]:
        """Like `hold`, but without the batches that are no longer kept."""
        with locked_record(self._core, self._query) as record:
            return self._hold(record, max(first, kept_from(self._core)), last, seconds)

    def _hold(
        self, record: QueryRecord | None, first: int, last: int | None, seconds: float | None
    ) -> tuple[int, int, Lease]:
        begin, end = self._life(record, first, last)
        kept = kept_from(self._core)
        if begin < min(kept, end):
            raise self._gone(kept)
        return begin, end, self._core.leases.take(begin, seconds=seconds)

    def _gone(self, kept: int) -> ResultsGone:
        return ResultsGone(
            f'rows of query "{self._name}" before batch {kept} are not kept any more',
            hint=f"Read from batch {kept} on, or set keep_results to more.",
        )

    def tables(
        self, first: int, last: int, *, skip: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Iterator[Any]:
        """Yield Arrow tables of the query's rows in batches first … last - 1.

        Of a single batch, skip the first `skip` rows and yield at most `limit` rows. Raises BatchUnreadable where the
        SELECT list fails, after the rows of all earlier batches.
        """
        assert last - first == 1 or (skip == 0 and limit is None), "rows are counted within a batch"
        begin, end, lease = self.hold(first, last)
        with lease:
            if begin >= end:
                return
            reading = self._reading()
            outputs = bound_of(self._core, self._query).outputs

            def read(chunks: Iterable[Chunk]) -> Iterator[Any]:
                return result_tables(
                    lambda: self._catalog.spark,
                    reading,
                    chunks,
                    outputs,
                    skip=skip,
                    limit=limit,
                    most_bytes=most_bytes,
                    within=self._catalog.read_limit,
                )

            batches = self._chunks(reading, begin, end)
            while group := list(islice(batches, _AT_ONCE)):
                lease.move(group[0][0])
                try:
                    for table in _in_order(group, read):
                        yield table
                        lease.move(group[0][0])
                except ResultsGone as gone:
                    raise self._missing(group[0][0], gone, lease) from gone

    def _missing(self, batch: int, gone: ResultsGone, lease: Lease) -> ResultsGone | StateCorrupt:
        """Return the error for a missing file. Under a valid lease weft removes no file, so somebody else did."""
        with self._core.lock:
            kept = self._core.inventory.first_result
            if lease.holds and kept is not None and kept <= batch:
                return StateCorrupt(
                    f"a file of the results of batch {batch} is missing",
                    detail=gone.detail,
                    hint="Restore the state directory from a copy.",
                )
            return self._gone(kept_from(self._core))

    def frame(self, *, some: bool) -> Any:
        """Return all rows, or with `some` those that are kept, as a DataFrame. Their files stay for `GRACE` seconds,
        since only Spark knows when the rows are read."""
        begin, end, _ = self._hold_kept(0, None, GRACE) if some else self.hold(0, None, seconds=GRACE)
        reading = self._reading()
        outputs = bound_of(self._core, self._query).outputs
        chunks = [chunk for _, of_batch in self._chunks(reading, begin, end) for chunk in of_batch]
        return results_frame(self._catalog.spark, reading, chunks, outputs)

    def read(self, first: int, last: int | None = None) -> tuple[Reading, list[Chunk]]:
        """Return how to read the query's rows, and the kept chunks of batches first … last - 1."""
        begin, end, lease = self._hold_kept(first, last)
        with lease:
            reading = self._reading()
            return reading, [chunk for _, of_batch in self._chunks(reading, begin, end) for chunk in of_batch]


def _in_order(
    group: Sequence[tuple[int, list[Chunk]]], read: Callable[[Iterable[Chunk]], Iterator[Any]]
) -> Iterator[Any]:
    """Yield the rows of several batches. All of them are read together, since Spark can compute them in one job. If the
    SELECT list fails on a batch, read one batch after the other up to that one."""
    yielded = 0
    try:
        for table in read([chunk for _, chunks in group for chunk in chunks]):
            yield table
            yielded += table.num_rows
        return
    except QueryFailed as failure:
        if len(group) == 1:
            raise BatchUnreadable(failure, group[0][0]) from failure
    for batch, chunks in group:
        try:
            for table in read(chunks):
                repeated, yielded = min(yielded, table.num_rows), max(0, yielded - table.num_rows)
                if repeated < table.num_rows:
                    yield table.slice(repeated)
        except QueryFailed as failure:
            raise BatchUnreadable(failure, batch) from failure
