"""Files of the result log: lists of pairs of rows in buckets.

A segment contains pairs of row numbers in pieces; each piece joins one part of a bucket with one part of another. Rows
and query-sets stay in the buckets, and result rows are built when results are read. Where a bucket would be kept for
only a few pairs, their rows are copied into a small bucket of their own. The buckets of a selection are its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.storage.data_file import DataFile, Written, write_file

_SCHEMA = pa.schema([("l", pa.int32()), ("r", pa.int32())])
Rows = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, slots=True)
class PartRef:
    """A part of a bucket file. `path` is relative to the data folder."""

    path: str
    part: int


@dataclass(frozen=True, slots=True)
class SegmentPiece:
    """The pairs between two parts that the shared join `join` produced."""

    join: str
    left: PartRef
    right: PartRef
    pairs: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of pairs in the result log. The n-th piece is the n-th record batch of the file."""

    path: str
    pieces: tuple[SegmentPiece, ...]
    bytes: int

    def references(self) -> frozenset[str]:
        """Return the paths of the bucket files to which the pairs refer."""
        return frozenset(ref.path for piece in self.pieces for ref in (piece.left, piece.right))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value that a manifest contains."""
        pieces = [[p.join, p.left.path, p.left.part, p.right.path, p.right.part, p.pairs] for p in self.pieces]
        return {"path": self.path, "bytes": self.bytes, "pieces": pieces}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Segment:
        """Parse the output of `to_json`."""
        pieces = tuple(SegmentPiece(j, PartRef(lp, ln), PartRef(rp, rn), n) for j, lp, ln, rp, rn, n in value["pieces"])
        return cls(value["path"], pieces, value["bytes"])


@dataclass(frozen=True, slots=True)
class WindowResult:
    """A file of results of closed windows: cells of the aggregate `source`, or combinations of a session join, whose
    rows are in the parts `refs`."""

    path: str
    source: str
    rows: int
    bytes: int
    refs: tuple[PartRef, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value that a manifest contains."""
        refs = [[ref.path, ref.part] for ref in self.refs]
        return {"path": self.path, "source": self.source, "rows": self.rows, "bytes": self.bytes, "refs": refs}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> WindowResult:
        """Parse the output of `to_json`."""
        refs = tuple(PartRef(path, part) for path, part in value["refs"])
        return cls(value["path"], value["source"], value["rows"], value["bytes"], refs)


def write_pairs(folder: str | Path, name: str, pieces: Iterable[tuple[Rows, Rows]]) -> Written:
    """Write the pairs of a segment, one record batch per piece."""
    arrays = ([pa.array(left), pa.array(right)] for left, right in pieces)
    return write_file(folder, name, _SCHEMA, (pa.RecordBatch.from_arrays(pairs, schema=_SCHEMA) for pairs in arrays))


def read_pairs(path: Path, numbers: Iterable[int]) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of the pieces with these numbers, mapped into memory."""
    file = DataFile(path)
    for number in numbers:
        batch = file.batch(number)
        yield batch.column(0).to_numpy(), batch.column(1).to_numpy()


def write_session_rows(folder: str | Path, name: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> Written:
    """Write combinations of session joins. The columns are `slot`, the part `p<n>` and the row `r<n>` of each member,
    and the `first` and `last` time of the session."""
    table = pa.table({column: pa.array(values, _session_type(column)) for column, values in columns.items()})
    return write_file(folder, name, table.schema, table.to_batches())


def read_session_rows(path: Path, slot: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of `write_session_rows` for the combinations of the query in one slot."""
    file = DataFile(path)
    table = pa.Table.from_batches([file.batch(number) for number in range(file.parts)], file.schema)
    selected = table.filter(pc.equal(table["slot"], slot))
    return {name: selected[name].to_numpy() for name in selected.column_names}


def _session_type(name: str) -> pa.DataType:
    return pa.int64() if name in ("first", "last") else pa.int32()
