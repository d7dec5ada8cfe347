"""Read the rows of one query from the shared result log, in pieces of bounded size, from any row on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.execution.results.chunk import Found, Longs, kept_files, open_chunk
from weft.execution.results.reading import Chunk, Reading, chunks_of, plan_reading

__all__ = [
    "PIECE_BYTES",
    "PIECE_ROWS",
    "Chunk",
    "Reading",
    "RowRange",
    "chunks_of",
    "plan_reading",
    "ranges",
    "read_rows",
]

PIECE_ROWS = 1 << 17
"""Maximum number of rows that are built at once."""
PIECE_BYTES = 32 << 20
"""Maximum bytes of rows that are built at once; a larger row is built alone."""


@dataclass(frozen=True, slots=True, eq=False)
class RowRange:
    """Consecutive rows of a query in one chunk, few enough to be built at once."""

    chunk: Chunk
    found: Found
    first: int
    last: int
    bytes: int
    """The approximate size of the rows."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.last - self.first

    def build(self) -> pa.Table:
        """Build the rows."""
        return self.found.build(self.first, self.last)

    def alone(self) -> tuple[Chunk, int, int]:
        """Return a chunk that contains the rows, the number of its rows before them, and the number of all its rows.

        With windows a unit may be several rows, so the chunk may begin and end with other rows.
        """
        units = self.found.units
        begin, end = int(units[self.first]), int(units[self.last - 1]) + 1
        first, last = np.searchsorted(units, (begin, end))
        return self.chunk.only(begin, end), self.first - int(first), int(last - first)


def ranges(
    reading: Reading,
    chunks: Iterable[Chunk],
    *,
    skip: int = 0,
    limit: int | None = None,
    most_bytes: int | None = None,
    again: bool = False,
) -> Iterator[RowRange]:
    """Yield the rows of a query in some chunks, in order, without the first `skip` rows and at most `limit` rows.

    Skipped rows are located, which takes nanoseconds each, but not built. `again` says that other rows of the same
    chunks will be read soon.
    """
    remaining = limit
    for chunk in chunks:
        for located in _stretches(reading, chunk, again=again):
            rows = len(located.units)
            first, skip = min(skip, rows), max(0, skip - rows)
            last = rows if remaining is None else min(rows, first + remaining)
            for begin, end, size in _spans(located, first, last, most_bytes or PIECE_BYTES):
                yield RowRange(chunk, located, begin, end, size)
            remaining = None if remaining is None else remaining - (last - first)
            if remaining is not None and remaining <= 0:
                return


def _stretches(reading: Reading, chunk: Chunk, *, again: bool) -> Iterator[Found]:
    """Locate the rows in a chunk, a bounded number of units at a time."""
    opened = open_chunk(reading, chunk, again=again)
    last = opened.units if chunk.last is None else min(chunk.last, opened.units)
    step = max(1, PIECE_ROWS // _rows_of_unit(reading))
    for begin in range(chunk.first, last, step):
        with kept_files(reading):
            located = opened.find(begin, min(begin + step, last))
        if len(located.units):
            yield located


def _rows_of_unit(reading: Reading) -> int:
    """Return the maximum number of rows of one unit."""
    if reading.sliding is None or reading.aggregation is not None:
        return 1
    return -(-reading.sliding.size // reading.sliding.slide)


def _spans(located: Found, first: int, last: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges (first, last, bytes) of rows with at most `most` bytes; a larger row is a range of its own."""
    if first >= last:
        return
    with kept_files(located.reading):
        widths = located.widths()
    if isinstance(widths, int):
        step = max(1, most // max(1, widths))
        for begin in range(first, last, step):
            end = min(begin + step, last)
            yield begin, end, (end - begin) * widths
        return
    ends: Longs = np.cumsum(widths[first:last])
    begin = 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first + begin, first + end, int(ends[end - 1]) - before
        begin = end


def read_rows(reading: Reading, chunk: Chunk) -> Iterator[pa.Table]:
    """Yield the rows of a query in a chunk, a bounded number at a time.

    The columns are those that the SELECT list needs, named `<relation>.<column>`; of an aggregate they are the keys
    `g<n>`, the values `a<n>` and the window.
    """
    for span in ranges(reading, [chunk]):
        yield span.build()
