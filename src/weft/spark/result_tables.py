"""Result rows of a query, from any row on, in tables of bounded size. Spark computes as few rows as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.execution.results.read import PIECE_BYTES, PIECE_ROWS, Chunk, Reading, RowRange, ranges
from weft.execution.results.recent import RecentCache
from weft.plan.query import Output
from weft.spark.job_pools import READ_LIMIT
from weft.spark.select_list import needs_no_spark, read_results, select_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GROWN_BYTES = 256 << 20
"""Maximum estimated bytes that the SELECT list produces in one Spark job, unless a single row exceeds it. The estimate
is an upper bound and usually much too large, so this is more than what is read at once."""


def result_tables(
    spark: Callable[[], SparkSession],
    reading: Reading,
    chunks: Iterable[Chunk],
    outputs: Sequence[Output],
    *,
    skip: int = 0,
    limit: int | None = None,
    most_bytes: int | None = None,
    within: float = READ_LIMIT,
) -> Iterator[pa.Table]:
    """Yield the result rows of chunks in order, without the first `skip` rows and at most `limit` rows.

    `spark` is called only if Spark has to compute something. Raise ReadTimeout if Spark takes longer than `within`
    seconds for one piece. A reader with a `limit` is expected to return for the next page, so what all pages need is
    cached for a while.
    """
    again = limit is not None
    if needs_no_spark(reading, outputs):
        for span in ranges(reading, chunks, skip=skip, limit=limit, most_bytes=most_bytes, again=again):
            yield select_columns(span.build(), outputs)
    elif reading.having is None:
        table_bytes = most_bytes or PIECE_BYTES
        read_bytes = _most_read(outputs, table_bytes)
        spans = ranges(reading, chunks, skip=skip, limit=limit, most_bytes=read_bytes, again=again)
        for group in _groups(spans, table_bytes, outputs):
            yield from _by_spark(spark(), reading, group, outputs, within=within)
    else:  # only Spark can tell which rows HAVING keeps
        spans = ranges(reading, chunks, most_bytes=_most_read(outputs, PIECE_BYTES), again=again)
        groups = _groups(spans, PIECE_BYTES, outputs)
        parts = (
            _Filtered(spark(), reading, [span.alone()[0] for span in group], outputs, within=within) for group in groups
        )
        yield from _some(parts, skip, limit, most_bytes or PIECE_BYTES)


def _most_read(outputs: Sequence[Output], most_bytes: int) -> int:
    """Return how many bytes to read at once so that the output of the SELECT list stays within `GROWN_BYTES`."""
    return max(1, min(most_bytes, GROWN_BYTES // _copies(outputs)))


def _copies(outputs: Sequence[Output]) -> int:
    """Return an upper bound for the factor by which the SELECT list enlarges a row: its columns once, plus the largest
    number of copies of one column that all expressions together contain."""
    held: Counter[str] = Counter()
    for output in outputs:
        held.update(dict(output.copies))
    return 1 + max(held.values(), default=0)


def _groups(spans: Iterable[RowRange], most_bytes: int, outputs: Sequence[Output]) -> Iterator[list[RowRange]]:
    """Group ranges for one Spark job each, bounded in rows, in bytes read and in estimated bytes produced."""
    copies, added = _copies(outputs), sum(output.added for output in outputs)
    group: list[RowRange] = []
    rows = size = grown = 0
    for part in (part for span in spans for part in _cut(span, max(1, GROWN_BYTES // max(1, added)))):
        estimate = part.bytes * copies + part.rows * added
        full = rows + part.rows > PIECE_ROWS or size + part.bytes > most_bytes or grown + estimate > GROWN_BYTES
        if group and full:
            yield group
            group, rows, size, grown = [], 0, 0, 0
        group.append(part)
        rows, size, grown = rows + part.rows, size + part.bytes, grown + estimate
    if group:
        yield group


def _cut(span: RowRange, most_rows: int) -> Iterator[RowRange]:
    """Split a range into parts of at most `most_rows` rows."""
    if span.rows <= most_rows:
        yield span
        return
    for first in range(span.first, span.last, most_rows):
        last = min(first + most_rows, span.last)
        yield replace(span, first=first, last=last, bytes=span.bytes * (last - first) // span.rows)


def _by_spark(
    spark: SparkSession, reading: Reading, group: Sequence[RowRange], outputs: Sequence[Output], *, within: float
) -> Iterator[pa.Table]:
    chunks = [span.alone() for span in group]
    tables = list(read_results(spark, reading, [chunk for chunk, _, _ in chunks], outputs, within=within))
    table, begin = pa.concat_tables(tables), 0
    for span, (_, before, rows) in zip(group, chunks, strict=True):
        yield table.slice(begin + before, span.rows)
        begin += rows


_COUNTS: RecentCache[int] = RecentCache(10_000)
"""Cache: how many rows HAVING keeps of a group of ranges, so that groups before a page are not computed again."""
_TABLES: RecentCache[pa.Table] = RecentCache(64 << 20)
"""Cache of 64 MB: the rows that HAVING keeps of a group of ranges, after the SELECT list."""


class _Filtered:
    """The rows that HAVING keeps of a group of ranges, after the SELECT list."""

    def __init__(
        self,
        spark: SparkSession,
        reading: Reading,
        chunks: Sequence[Chunk],
        outputs: Sequence[Output],
        *,
        within: float,
    ) -> None:
        self._spark, self._reading, self._chunks, self._outputs = spark, reading, chunks, outputs
        self._within = within
        # A slot belongs to one query in each batch and files are immutable, so this key identifies the rows.
        columns = tuple((output.name, output.sql) for output in outputs)
        self._key = (reading.data, reading.slot, reading.having, columns, tuple(chunks))

    def is_before(self, skip: int) -> int | None:
        """Return the number of rows if it is cached and at most `skip`, else None."""
        known = _COUNTS.get(self._key)
        return known if known is not None and known <= skip else None

    def tables(self, *, again: bool) -> Iterator[pa.Table]:
        """Yield all rows. `again` says that the next page will need them, so they are cached."""
        if not again:
            yield from read_results(self._spark, self._reading, self._chunks, self._outputs, within=self._within)
            return
        table = _TABLES.get(self._key)
        if table is None:
            pieces = list(read_results(self._spark, self._reading, self._chunks, self._outputs, within=self._within))
            table = pa.concat_tables(pieces) if pieces else None
            _COUNTS.put(self._key, 0 if table is None else table.num_rows, 1)
            if table is not None:
                _TABLES.put(self._key, table, table.nbytes)
        if table is not None:
            yield table


def _some(parts: Iterable[_Filtered], skip: int, limit: int | None, most_bytes: int) -> Iterator[pa.Table]:
    left = limit
    for part in parts:
        if limit is not None and (before := part.is_before(skip)) is not None:
            skip -= before
            continue
        for table in part.tables(again=limit is not None):
            first, skip = min(skip, table.num_rows), max(0, skip - table.num_rows)
            rows = table.slice(first, left)
            yield from _pieces(rows, most_bytes)
            left = None if left is None else left - rows.num_rows
            if left is not None and left <= 0:
                return


def _pieces(table: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """Split a table into pieces of about `most_bytes` bytes."""
    step = max(1, table.num_rows * most_bytes // max(1, table.nbytes))
    for begin in range(0, table.num_rows, step):
        yield table.slice(begin, step)
