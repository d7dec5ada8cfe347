"""A query's rows in its own columns, from any row on, in tables of bounded size; Spark computes as few as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.plan.query import Output
from weft.runtime.read import PIECE_BYTES, PIECE_ROWS, Chunk, Range, Reading, ranges
from weft.runtime.results import chosen, needs_no_spark, project

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
) -> Iterator[pa.Table]:
    """The rows of some chunks, in their order, without the first `skip` and at most `limit` of them."""
    if needs_no_spark(reading, outputs):
        for each in ranges(reading, chunks, skip=skip, limit=limit, most_bytes=most_bytes):
            yield chosen(each.build(), outputs)
    elif reading.having is None:
        most = most_bytes or PIECE_BYTES
        found = ranges(reading, chunks, skip=skip, limit=limit, most_bytes=_most_read(outputs, most))
        for group in _groups(found, most, outputs):
            yield from _by_spark(spark, reading, group, outputs)
    else:  # which rows there are, only Spark can say
        found = ranges(reading, chunks, most_bytes=_most_read(outputs, PIECE_BYTES))
        tables = (
            table
            for group in _groups(found, PIECE_BYTES, outputs)
            for table in project(spark, reading, [each.alone()[0] for each in group], outputs)
        )
        yield from _some(tables, skip, limit)


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
    spark: SparkSession, reading: Reading, group: Sequence[Range], outputs: Sequence[Output]
) -> Iterator[pa.Table]:
    alone = [each.alone() for each in group]
    tables = list(project(spark, reading, [chunk for chunk, _, _ in alone], outputs))
    together, begin = pa.concat_tables(tables), 0
    for each, (_, before, rows) in zip(group, alone, strict=True):
        yield together.slice(begin + before, each.rows)
        begin += rows


def _some(tables: Iterable[pa.Table], skip: int, limit: int | None) -> Iterator[pa.Table]:
    left = limit
    for table in tables:
        first, skip = min(skip, table.num_rows), max(0, skip - table.num_rows)
        found = table.slice(first, left)
        if found.num_rows:
            yield found
        left = None if left is None else left - found.num_rows
        if left is not None and left <= 0:
            return
