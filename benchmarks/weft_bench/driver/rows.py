"""The rows of a stream by their numbers: the same rows with the same event times for every system and every rate."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from weft_bench.data import START
from weft_bench.workloads.model import StreamSpec

BLOCK = 10_000
"""Rows that are made at once; a block's randomness is its own, so where files begin makes no difference."""
_TEMPLATE_SECONDS = 30
_TEMPLATE_ROWS = 2_000_000
_BEGIN = int(START.timestamp()) * 1_000_000
ARROW_TYPES: Mapping[str, pa.DataType] = {
    "timestamp": pa.timestamp("us", "UTC"),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}


def event_micros(rows: float, rows_per_second: float) -> int:
    """The event time (microseconds since 1970) that so many rows lead to."""
    return _BEGIN + math.floor(rows * 1_000_000 / rows_per_second)


class Rows:
    """Makes a stream's rows from blocks that are made once and used again and again; only event times go on.

    So many blocks that values repeat after half a minute of event time or two million rows, whichever is less. Where
    columns depend on the number of the row, `make` has an attribute `live` that is true, and no block is used twice.
    """

    def __init__(self, stream: StreamSpec, *, seed: int, rows_per_second: float) -> None:
        self._stream = stream
        self._seed = seed
        self._rows_per_second = rows_per_second
        self._live = bool(getattr(stream.make, "live", False))
        self._time, *rest = stream.columns
        self._schema = pa.schema([(name, _arrow_type(stream, name)) for name in rest])
        wanted = min(_TEMPLATE_SECONDS * rows_per_second, _TEMPLATE_ROWS)
        self._count = math.ceil(wanted / BLOCK)
        first = 1 if self._live else self._count
        self._blocks = {number: self._make(number) for number in range(first)}

    def between(self, begin: int, end: int) -> pa.Table:
        """Rows `begin` to before `end`, in the order of their event times."""
        pieces = []
        for number in range(begin // BLOCK, -(-end // BLOCK)):
            first = max(begin - number * BLOCK, 0)
            pieces.append(self._block(number).slice(first, min(end - number * BLOCK, BLOCK) - first))
        times = _BEGIN + np.floor(np.arange(begin, end) * (1_000_000 / self._rows_per_second)).astype(np.int64)
        table = pa.Table.from_batches(pieces, self._schema)
        return table.add_column(0, self._time, pa.array(times, ARROW_TYPES["timestamp"]))

    def _block(self, number: int) -> pa.RecordBatch:
        if not self._live:
            return self._blocks[number % self._count]
        if number not in self._blocks:
            self._blocks = {each: block for each, block in self._blocks.items() if each == number - 1}
            self._blocks[number] = self._make(number)
        return self._blocks[number]

    def _make(self, number: int) -> pa.RecordBatch:
        numbers = np.arange(number * BLOCK, (number + 1) * BLOCK)
        columns = self._stream.make(np.random.default_rng((self._seed, number)), numbers)
        if set(columns) != set(self._schema.names):
            raise ValueError(f'stream "{self._stream.name}" makes {sorted(columns)}, not {sorted(self._schema.names)}')
        arrays = [_cast(columns[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _arrow_type(stream: StreamSpec, name: str) -> pa.DataType:
    try:
        return ARROW_TYPES[stream.columns[name]]
    except KeyError:
        raise ValueError(f'column "{name}" of stream "{stream.name}": no type {stream.columns[name]!r}') from None


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
