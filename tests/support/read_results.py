"""Read the rows of a chunk of the result log at once, for tests."""

from __future__ import annotations

import pyarrow as pa

from weft.execution.results.read import Chunk, Reading, read_rows


def read_chunk(reading: Reading, chunk: Chunk) -> pa.Table:
    """Return all rows of a query in a chunk."""
    pieces = list(read_rows(reading, chunk))
    return pa.concat_tables(pieces) if pieces else reading.schema.empty_table()
