"""A query's rows in its own columns, from any row on, in tables of bounded size; Spark computes as few as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.execution.results.read import PIECE_BYTES, PIECE_ROWS, Chunk, Range, Reading, ranges
from weft.execution.results.recent import Lately
from weft.plan.query import Output
from weft.spark.job_pools import READ_LIMIT
from weft.spark.select_list import chosen, needs_no_spark, project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GROWN_BYTES = 256 << 20
"""Bytes that the SELECT list may make of the rows of one job of Spark's, by an estimate that is never too small; a row
of which it makes more is alone. Most estimates are much too large, so this is more than what is read at once."""


def projected(
    spark: SparkSession,
    reading: Reading,
    chunks: Iterable[Chunk],
    outputs: Sequence[Output],
    *,
    skip: int = 0,
    limit: int | None = None,
    most_bytes: int | None = None,
    within: float = READ_LIMIT,
) -> Iterator[pa.Table]:
    """The rows of some chunks, in their order, without the first `skip` and at most `limit` of them. Raises ReadTimeout
    where Spark takes longer than `within` seconds for a piece of them.

    Who sets a limit comes again for the next rows: what all of them need is kept for a while.
    """
    again = limit is not None
    if needs_no_spark(reading, outputs):
        for each in ranges(reading, chunks, skip=skip, limit=limit, most_bytes=most_bytes, again=again):
            yield chosen(each.build(), outputs)
    elif reading.having is None:
        most = most_bytes or PIECE_BYTES
        read = _most_read(outputs, most)
        found = ranges(reading, chunks, skip=skip, limit=limit, most_bytes=read, again=again)
        for group in _groups(found, most, outputs):
            yield from _by_spark(spark, reading, group, outputs, within=within)
    else:  # which rows there are, only Spark can say
        found = ranges(reading, chunks, most_bytes=_most_read(outputs, PIECE_BYTES), again=again)
        groups = _groups(found, PIECE_BYTES, outputs)
        parts = (
            _Filtered(spark, reading, [each.alone()[0] for each in group], outputs, within=within) for group in groups
        )
        yield from _some(parts, skip, limit, most_bytes or PIECE_BYTES)


def _most_read(outputs: Sequence[Output], most_bytes: int) -> int:
    """Bytes of rows to read at once so that what is made of them is not too large either."""
    return max(1, min(most_bytes, GROWN_BYTES // _copies(outputs)))


def _copies(outputs: Sequence[Output]) -> int:
    """How many times the bytes of a row the values that are made of it can take: its columns once, and the most that
    the expressions hold one of them."""
    held: Counter[str] = Counter()
    for output in outputs:
        held.update(dict(output.copies))
    return 1 + max(held.values(), default=0)


def _groups(found: Iterable[Range], most_bytes: int, outputs: Sequence[Output]) -> Iterator[list[Range]]:
    """Ranges that one job of Spark's can take: bounded in rows, in what is read and in what is made of it."""
    copies, added = _copies(outputs), sum(output.added for output in outputs)
    group: list[Range] = []
    rows = size = grown = 0
    for each in (part for whole in found for part in _cut(whole, max(1, GROWN_BYTES // max(1, added)))):
        larger = each.bytes * copies + each.rows * added
        full = rows + each.rows > PIECE_ROWS or size + each.bytes > most_bytes or grown + larger > GROWN_BYTES
        if group and full:
            yield group
            group, rows, size, grown = [], 0, 0, 0
        group.append(each)
        rows, size, grown = rows + each.rows, size + each.bytes, grown + larger
    if group:
        yield group


def _cut(whole: Range, most_rows: int) -> Iterator[Range]:
    """A range in parts of at most so many rows."""
    if whole.rows <= most_rows:
        yield whole
        return
    for first in range(whole.first, whole.last, most_rows):
        last = min(first + most_rows, whole.last)
        yield replace(whole, first=first, last=last, bytes=whole.bytes * (last - first) // whole.rows)


def _by_spark(
    spark: SparkSession, reading: Reading, group: Sequence[Range], outputs: Sequence[Output], *, within: float
) -> Iterator[pa.Table]:
    alone = [each.alone() for each in group]
    tables = list(project(spark, reading, [chunk for chunk, _, _ in alone], outputs, within=within))
    together, begin = pa.concat_tables(tables), 0
    for each, (_, before, rows) in zip(group, alone, strict=True):
        yield together.slice(begin + before, each.rows)
        begin += rows


_COUNTS: Lately[int] = Lately(10_000)
"""How many rows HAVING leaves of ranges that are read page by page: those before a page need not be computed again."""
_TABLES: Lately[pa.Table] = Lately(64 << 20)
"""These rows, as the SELECT list makes them, as far as there is room."""


class _Filtered:
    """The rows that HAVING leaves of some ranges, as the SELECT list makes them."""

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
        # A slot is one query's in a batch, and what is in a file never changes.
        columns = tuple((output.name, output.sql) for output in outputs)
        self._key = (reading.data, reading.slot, reading.having, columns, tuple(chunks))

    def is_before(self, skip: int) -> int | None:
        """How many there are, if that is known and no more than `skip`."""
        known = _COUNTS.get(self._key)
        return known if known is not None and known <= skip else None

    def tables(self, *, again: bool) -> Iterator[pa.Table]:
        """All of them."""
        if not again:
            yield from project(self._spark, self._reading, self._chunks, self._outputs, within=self._within)
            return
        table = _TABLES.get(self._key)
        if table is None:
            made = list(project(self._spark, self._reading, self._chunks, self._outputs, within=self._within))
            table = pa.concat_tables(made) if made else None
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
            found = table.slice(first, left)
            yield from _pieces(found, most_bytes)
            left = None if left is None else left - found.num_rows
            if left is not None and left <= 0:
                return


def _pieces(table: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """The rows of a table, about so many bytes after the other."""
    step = max(1, table.num_rows * most_bytes // max(1, table.nbytes))
    for begin in range(0, table.num_rows, step):
        yield table.slice(begin, step)
