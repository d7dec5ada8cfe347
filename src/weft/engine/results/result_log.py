"""One query's rows in the shared result log: batch by batch, in tables of bounded size, and never a missing file.

A reader holds a lease on the batches that it has not read yet (`engine/results/leases.py`), so their files stay. Rows
that are not kept any more are an error, `ResultsGone`: they are never left out silently.
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
"""Manifests that are looked at together: each may be large, and the log long."""


class BatchUnreadable(QueryFailed):
    """A query's SELECT list fails on a row of a batch."""

    code = QueryFailed.code

    def __init__(self, failure: QueryFailed, batch: int) -> None:
        super().__init__(failure.message, detail=failure.detail, hint=failure.hint)
        self.batch = batch


class ResultLog:
    """Where a query's rows are, and the rows."""

    def __init__(self, catalog: Catalog, query: QueryId, name: str) -> None:
        self._catalog, self._core = catalog, catalog.core
        self._query, self._name = query, name

    # ---- what there is

    @property
    def first(self) -> int:
        """The first batch of the query's life whose rows are kept; later than its creation if some are gone."""
        with locked_record(self._core, self._query) as record:
            return self._core.next_batch if record is None else max(record.created, kept_from(self._core))

    @property
    def life(self) -> range:
        """The committed batches in which the query lived; empty and at the next batch while the query is pending."""
        with locked_record(self._core, self._query) as record:
            return range(*self._life(record, 0, None))

    def batches(self, first: int, last: int) -> list[int]:
        """Those of the batches first … last - 1 that may hold rows of the query.

        Raises ResultsGone if any of them are not kept any more: what a list left out, its reader would skip.
        """
        begin, end, lease = self.hold(first, last)
        with lease:
            return [batch for batch, _ in self._chunks(self._reading(), begin, end)] if begin < end else []

    def _life(self, record: QueryRecord | None, first: int, last: int | None) -> tuple[int, int]:
        """Of some batches those that are committed and in which the query lived."""
        following = self._core.next_batch
        if record is None:
            return following, following
        ended = following if record.ended is None else min(record.ended, following)
        return max(first, record.created), ended if last is None else min(last, ended)

    def _reading(self) -> Reading:
        """How to read its rows. Not under the lock: its text may have to be bound again."""
        core = self._core
        with core.lock:
            streams = dict(core.streams)  # before its text is bound: a stream that goes takes its queries along
        query, record = bound_of(core, self._query), record_of(core, self._query)
        if record is None:  # it is not in effect yet
            record = QueryRecord(self._query, self._name, query.sql, 0, core.next_batch, None, ended=0)
        strategy = choose_strategy(query, record.route)
        return plan_reading(record, query, strategy, streams, data=str(core.directory.path("data")))

    def _chunks(self, reading: Reading, first: int, last: int) -> Iterator[tuple[int, list[Chunk]]]:
        """What is in each batch; raises ResultsGone where batches went although they were held, for too long."""
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
        """Keep some batches from being removed: those in which the query lived, and that are committed.

        Raises ResultsGone if any of them are not kept any more.
        """
        with locked_record(self._core, self._query) as record:
            return self._hold(record, first, last, seconds)

    def _hold_kept(self, first: int, last: int | None, seconds: float | None = None) -> tuple[int, int, Lease]:
        """The same for those of some batches that are kept."""
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
        """Arrow tables of the query's rows in batches first … last - 1; of a single one without the first `skip`, and
        at most `limit`.

        Raises BatchUnreadable where the SELECT list fails, after the rows of all batches before.
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

            found = self._chunks(reading, begin, end)
            while group := list(islice(found, _AT_ONCE)):
                lease.move(group[0][0])
                try:
                    for table in _in_order(group, read):
                        yield table
                        lease.move(group[0][0])
                except ResultsGone as gone:
                    raise self._missing(group[0][0], gone, lease) from gone

    def _missing(self, batch: int, gone: ResultsGone, lease: Lease) -> ResultsGone | StateCorrupt:
        """Files of what is held are not removed: if one is not there, somebody else took it away."""
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
        """All rows, or `some` that are kept, as a DataFrame; their files stay for a while, since nobody knows when they
        are read."""
        begin, end, _ = self._hold_kept(0, None, GRACE) if some else self.hold(0, None, seconds=GRACE)
        reading = self._reading()
        outputs = bound_of(self._core, self._query).outputs
        chunks = [chunk for _, found in self._chunks(reading, begin, end) for chunk in found]
        return results_frame(self._catalog.spark, reading, chunks, outputs)

    def read(self, first: int, last: int | None = None) -> tuple[Reading, list[Chunk]]:
        """How to read the query's rows, and where those of batches first … last - 1 are, as far as they are kept."""
        begin, end, lease = self._hold_kept(first, last)
        with lease:
            reading = self._reading()
            return reading, [chunk for _, found in self._chunks(reading, begin, end) for chunk in found]


def _in_order(
    group: Sequence[tuple[int, list[Chunk]]], read: Callable[[Iterable[Chunk]], Iterator[Any]]
) -> Iterator[Any]:
    """The rows of some batches, read together: for Spark, one job for all is as good as one for each. If the SELECT
    list fails on one, those before it are read one after the other."""
    given = 0
    try:
        for table in read([chunk for _, chunks in group for chunk in chunks]):
            yield table
            given += table.num_rows
        return
    except QueryFailed as failure:
        if len(group) == 1:
            raise BatchUnreadable(failure, group[0][0]) from failure
    for batch, chunks in group:
        try:
            for table in read(chunks):
                known, given = min(given, table.num_rows), max(0, given - table.num_rows)
                if known < table.num_rows:
                    yield table.slice(known)
        except QueryFailed as failure:
            raise BatchUnreadable(failure, batch) from failure
