"""Buckets: immutable, memory-mappable Arrow files of tagged rows.

A file contains the rows that one tag task wrote for one store, as one record batch per range of hash space, sorted by
(hash of the route, event time). Rows are written once; the state, the exchange between stages and the result log refer
to them by (file, part, row). When tasks own other ranges later, each reads its range of the old files; no row is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.plan.key import IndexId, StoreId
from weft.plan.slots import Slots
from weft.storage.data_file import DataFile

HASH = "weft#h"
TIME = "weft#t"
SETS = "weft#q"
RESERVED = "weft#"
LAST_HASH = 2**64 - 1

_EPOCH = b"weft.epoch"
_WORDS = b"weft.words"


def index_hash(index: IndexId) -> str:
    """Return the name of the column with the sorted hashes of a secondary index."""
    return f"weft#h:{index}"


def index_rows(index: IndexId) -> str:
    """Return the name of the column with the row number of each hash; -1 where the key is NULL."""
    return f"weft#r:{index}"


@dataclass(frozen=True, slots=True)
class Part:
    """Statistics of the rows in one range of hash space, from `low` to `high`, both included."""

    low: int
    high: int
    rows: int
    min_time: int
    max_time: int
    slots: Slots


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket file as manifests describe it. `path` is relative to the data folder."""

    path: str
    store: StoreId
    stream: str
    epoch: int
    parts: tuple[Part, ...]
    bytes: int
    refs: tuple[str, ...] = ()
    """Files of the rows to which the combinations of a stored join refer; empty for other buckets."""

    @property
    def rows(self) -> int:
        """The number of rows in all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def slots(self) -> Slots:
        """The slots in the query-sets of all rows."""
        mask = 0
        for part in self.parts:
            mask |= part.slots
        return Slots(mask)

    @property
    def max_time(self) -> int:
        """The largest event time of a row."""
        return max(part.max_time for part in self.parts if part.rows)

    @property
    def min_time(self) -> int:
        """The smallest event time of a row."""
        return min(part.min_time for part in self.parts if part.rows)

    def parts_in(self, low: int, high: int) -> list[int]:
        """Return the numbers of the parts that have rows and overlap a range of hashes, both ends included."""
        return [n for n, part in enumerate(self.parts) if part.rows and part.low <= high and part.high >= low]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value that a manifest contains."""
        return {
            "path": self.path,
            "store": self.store,
            "stream": self.stream,
            "epoch": self.epoch,
            "bytes": self.bytes,
            "parts": [[p.low, p.high, p.rows, p.min_time, p.max_time, hex(p.slots)] for p in self.parts],
        } | ({"refs": self.refs} if self.refs else {})

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Bucket:
        """Parse the output of `to_json`."""
        parts = tuple(
            Part(low, high, rows, min_time, max_time, Slots(int(slots, 16)))
            for low, high, rows, min_time, max_time, slots in value["parts"]
        )
        store = StoreId(value["store"])
        refs = tuple(value.get("refs", ()))
        return cls(value["path"], store, value["stream"], value["epoch"], parts, value["bytes"], refs)


def bucket_schema(rows: pa.Schema, *, epoch: int, words: int) -> pa.Schema:
    """Return the schema of a bucket file. Its metadata name the epoch and the width in words of the query-sets."""
    return rows.with_metadata({_EPOCH: str(epoch).encode(), _WORDS: str(words).encode()})


@dataclass(frozen=True, slots=True)
class PartView:
    """A part of a bucket, mapped into memory. Pages are read when they are first accessed."""

    rows: pa.RecordBatch
    epoch: int
    times: np.ndarray[Any, np.dtype[np.int64]]
    sets: np.ndarray[Any, np.dtype[np.uint64]]

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """Return a fixed-width column without NULLs as an array, without copying."""
        values: np.ndarray[Any, Any] = self.rows.column(name).to_numpy(zero_copy_only=True)
        return values


def meaning_of_sets(schema: pa.Schema) -> tuple[int, int]:
    """Return the epoch and the width in words of a file's query-sets."""
    return int(schema.metadata[_EPOCH]), int(schema.metadata[_WORDS])


def open_part(path: Path, part: int) -> PartView:
    """Map one part of a bucket file into memory."""
    return open_parts(path, (part,))[0]


def open_parts(path: Path, parts: Sequence[int]) -> list[PartView]:
    """Map the parts of a bucket file with these numbers into memory."""
    file = DataFile(path)
    epoch, words = meaning_of_sets(file.schema)
    return [_view(file.batch(part), epoch, words) for part in parts]


def _view(rows: pa.RecordBatch, epoch: int, words: int) -> PartView:
    times = rows.column(TIME).to_numpy(zero_copy_only=True)
    return PartView(rows, epoch, times, sets_from_arrow(rows.column(SETS), words))


def sets_to_arrow(sets: np.ndarray[Any, np.dtype[np.uint64]]) -> pa.Array:
    """Return query-sets as an Arrow column, without copying."""
    sets = np.ascontiguousarray(sets)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(8 * sets.shape[1]), len(sets), [None, pa.py_buffer(sets)])


def sets_from_arrow(column: pa.Array, words: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the query-sets of a column that `sets_to_arrow` made, without copying."""
    values = np.frombuffer(column.buffers()[1], np.uint64)
    return values[column.offset * words : (column.offset + len(column)) * words].reshape(-1, words)
