"""A query's rows in its own columns, from any row on, in tables of bounded size; Spark computes as few as can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.plan.query import Output
from weft.runtime.read import PIECE_BYTES, PIECE_ROWS, Chunk, Range, Reading, ranges
from weft.runtime.results import chosen, needs_no_spark, project
from weft.runtime.spark_jobs import READ_LIMIT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    where Spark takes longer than `within` seconds for a piece of them."""
    if needs_no_spark(reading, outputs):
        for each in ranges(reading, chunks, skip=skip, limit=limit, most_bytes=most_bytes):
            yield chosen(each.build(), outputs)
    elif reading.having is None:
        found = ranges(reading, chunks, skip=skip, limit=limit, most_bytes=most_bytes)
        for group in _groups(found, most_bytes or PIECE_BYTES):
            yield from _by_spark(spark, reading, group, outputs, within=within)
    else:  # which rows there are, only Spark can say
        tables = (
            table
            for group in _groups(ranges(reading, chunks), PIECE_BYTES)
            for table in project(spark, reading, [each.alone()[0] for each in group], outputs, within=within)
        )
        yield from _some(tables, skip, limit)


def _groups(found: Iterable[Range], most_bytes: int) -> Iterator[list[Range]]:
    """Ranges that one job of Spark's can take."""
    group: list[Range] = []
    rows = size = 0
    for each in found:
        if group and (rows + each.rows > PIECE_ROWS or size + each.bytes > most_bytes):
            yield group
            group, rows, size = [], 0, 0
        group.append(each)
        rows, size = rows + each.rows, size + each.bytes
    if group:
        yield group


def _by_spark(
    spark: SparkSession, reading: Reading, group: Sequence[Range], outputs: Sequence[Output], *, within: float
) -> Iterator[pa.Table]:
    alone = [each.alone() for each in group]
    tables = list(project(spark, reading, [chunk for chunk, _, _ in alone], outputs, within=within))
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
