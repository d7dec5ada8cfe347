"""Rows by reference: the parts of buckets that a task's combinations refer to, and the values of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.kernels.large_text import concat_columns, cut, is_fixed, lengths, take
from weft.plan.key import Index
from weft.storage.bucket import PartView, open_part
from weft.storage.combinations import Member
from weft.storage.index_order import row_hashes
from weft.storage.result_files import PartRef

Array = np.ndarray[Any, Any]


PIECE_BYTES = 256 << 20
"""Limit for the columns that are built from rows at a time."""


class RowParts:
    """Parts by number, and their rows; each part is mapped once."""

    def __init__(self, data: str) -> None:
        self._data = Path(data)
        self._numbers: dict[PartRef, int] = {}
        self._views: dict[int, PartView] = {}
        self._hashes: dict[tuple[int, str], tuple[Array, Array]] = {}
        self.refs: list[PartRef] = []

    def number(self, ref: PartRef) -> int:
        """Return the number of a part; a new part gets the next number."""
        if ref not in self._numbers:
            self._numbers[ref] = len(self.refs)
            self.refs.append(ref)
        return self._numbers[ref]

    def numbers(self, refs: Sequence[PartRef]) -> Array:
        """Return the numbers of some parts."""
        return np.array([self.number(ref) for ref in refs], np.int32)

    def view(self, number: int) -> PartView:
        """Return the part with a number."""
        if number not in self._views:
            ref = self.refs[number]
            self._views[number] = open_part(self._data / ref.path, ref.part)
        return self._views[number]

    def times(self, member: Member) -> Array:
        """Return the event time of each row."""
        values = np.zeros(len(member.part), np.int64)
        for number, rows in by_part(member.part):
            values[rows] = self.view(number).times[member.row[rows]]
        return values

    def hashes(self, member: Member, index: Index) -> tuple[Array, Array]:
        """Return the hash of a key of each row, and which rows have one."""
        values, valid = np.zeros(len(member.part), np.uint64), np.zeros(len(member.part), np.bool_)
        for number, rows in by_part(member.part):
            known, has = self._row_hashes(number, index)
            values[rows], valid[rows] = known[member.row[rows]], has[member.row[rows]]
        return values, valid

    def column(self, member: Member, name: str) -> pa.Array:
        """Return the value of a column in each row; NULL if the part was written when no query wanted the column.

        Text that exceeds Arrow's plain type is returned in the large type; `cut` divides rows to read less at a time.
        """
        taken, places = [], []
        for number, rows in by_part(member.part):
            view = self.view(number)
            has = name in view.rows.schema.names
            wanted = member.row[rows]
            taken.append(take(view.rows.column(name), wanted) if has else pa.nulls(len(wanted)))
            places.append(rows)
        if not taken:
            return pa.nulls(0)
        if len(taken) == 1:
            return taken[0]
        kinds = {values.type for values in taken if not pa.types.is_null(values.type)}
        kind = kinds.pop() if kinds else pa.null()
        together = concat_columns([values.cast(kind) if pa.types.is_null(values.type) else values for values in taken])
        order = np.empty(len(member.part), np.int64)
        order[np.concatenate([np.arange(len(order))[rows] for rows in places])] = np.arange(len(order))
        return together.take(pa.array(order))

    def cut(self, wanted: Sequence[tuple[Member, Sequence[str]]]) -> list[slice]:
        """Divide the rows of some members so that the wanted columns of each piece are of bounded size."""
        count = len(wanted[0][0].part) if wanted else 0
        sizes: Array | None = None
        for member, names in wanted:
            for number, rows in by_part(member.part) if names else ():
                view = self.view(number)
                for name in names:
                    if name in view.rows.schema.names and not is_fixed(view.rows.schema.field(name).type):
                        sizes = np.zeros(count, np.int64) if sizes is None else sizes
                        sizes[rows] += lengths(view.rows.column(name))[member.row[rows]]
        return [slice(0, count)] if sizes is None else cut(sizes, PIECE_BYTES)

    def columns(self, member: Member, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """Return some columns of each row, in as many chunks as their size requires."""
        pieces = [member.take(np.arange(piece.start, piece.stop)) for piece in self.cut([(member, names)])]
        columns = []
        for name in names:
            chunks = [self.column(piece, name) for piece in pieces]
            kind = next((chunk.type for chunk in chunks if not pa.types.is_null(chunk.type)), pa.null())
            columns.append(pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind))
        return columns

    def _row_hashes(self, number: int, index: Index) -> tuple[Array, Array]:
        at = (number, index.id)
        if at not in self._hashes:
            self._hashes[at] = row_hashes(self.view(number), index.id)
        return self._hashes[at]


def by_part(part: Array) -> Iterator[tuple[int, Array | slice]]:
    """Yield the number of each part, and the positions that refer to it."""
    if len(part) == 0:
        return
    if part[0] == part[-1] and bool((part == part[0]).all()):
        yield int(part[0]), slice(None)
        return
    order = np.argsort(part, kind="stable")
    ordered = part[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for rows in np.split(order, cuts):
        yield int(part[rows[0]]), rows


def take_rows(rows: pa.RecordBatch, wanted: Array) -> list[pa.ChunkedArray]:
    """Return rows of a part in this order, possibly repeated, in as many chunks as their size requires."""
    pieces = [slice(0, len(wanted))]
    if not all(is_fixed(kind) for kind in rows.schema.types):
        sizes = np.zeros(len(wanted), np.int64)
        for column in rows.columns:
            sizes += lengths(column)[wanted]
        pieces = cut(sizes, PIECE_BYTES)
    taken = [rows.take(pa.array(wanted[piece])) for piece in pieces]
    return pa.Table.from_batches(taken, rows.schema).columns  # type: ignore[no-any-return]
