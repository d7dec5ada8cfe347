"""Rows by reference: the parts of buckets that a task's combinations point into, and what is read of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.kernels.large_text import concat, cut, is_fixed, lengths, take
from weft.plan.key import Index
from weft.storage.bucket import PartView, open_part
from weft.storage.combinations import Member
from weft.storage.index_order import row_hashes
from weft.storage.result_files import PartRef

Array = np.ndarray[Any, Any]


PIECE_BYTES = 256 << 20
"""Of the columns that are built of rows at a time."""


class RowParts:
    """Numbers for parts, and their rows; each part is mapped once."""

    def __init__(self, data: str) -> None:
        self._data = Path(data)
        self._numbers: dict[PartRef, int] = {}
        self._views: dict[int, PartView] = {}
        self._hashes: dict[tuple[int, str], tuple[Array, Array]] = {}
        self.refs: list[PartRef] = []

    def number(self, ref: PartRef) -> int:
        """The number of a part."""
        if ref not in self._numbers:
            self._numbers[ref] = len(self.refs)
            self.refs.append(ref)
        return self._numbers[ref]

    def numbers(self, refs: Sequence[PartRef]) -> Array:
        """The numbers of some parts."""
        return np.array([self.number(ref) for ref in refs], np.int32)

    def view(self, number: int) -> PartView:
        """A part by its number."""
        if number not in self._views:
            ref = self.refs[number]
            self._views[number] = open_part(self._data / ref.path, ref.part)
        return self._views[number]

    def times(self, member: Member) -> Array:
        """Event time of each row."""
        values = np.zeros(len(member.part), np.int64)
        for number, rows in by_part(member.part):
            values[rows] = self.view(number).times[member.row[rows]]
        return values

    def hashes(self, member: Member, index: Index) -> tuple[Array, Array]:
        """Hash of a key of each row, and whether it has one."""
        values, valid = np.zeros(len(member.part), np.uint64), np.zeros(len(member.part), np.bool_)
        for number, rows in by_part(member.part):
            known, has = self._row_hashes(number, index)
            values[rows], valid[rows] = known[member.row[rows]], has[member.row[rows]]
        return values, valid

    def column(self, member: Member, name: str) -> pa.Array:
        """A column's value in each row; NULL where a part does not have it: no query of its time wanted it.

        Text that is too much for Arrow's plain type is of its wide one; `cut` says how to have less of it at a time.
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
        kinds = {each.type for each in taken if not pa.types.is_null(each.type)}
        kind = kinds.pop() if kinds else pa.null()
        together = concat([each.cast(kind) if pa.types.is_null(each.type) else each for each in taken])
        order = np.empty(len(member.part), np.int64)
        order[np.concatenate([np.arange(len(order))[rows] for rows in places])] = np.arange(len(order))
        return together.take(pa.array(order))

    def cut(self, wanted: Sequence[tuple[Member, Sequence[str]]]) -> list[slice]:
        """Rows of some members, cut so that the columns wanted of them are of bounded size."""
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
        """Values of some columns in each row, in as many chunks as their bytes ask for."""
        pieces = [member.take(np.arange(piece.start, piece.stop)) for piece in self.cut([(member, names)])]
        found = []
        for name in names:
            chunks = [self.column(piece, name) for piece in pieces]
            kind = next((each.type for each in chunks if not pa.types.is_null(each.type)), pa.null())
            found.append(pa.chunked_array([each.cast(kind) for each in chunks], kind))
        return found

    def _row_hashes(self, number: int, index: Index) -> tuple[Array, Array]:
        at = (number, index.id)
        if at not in self._hashes:
            self._hashes[at] = row_hashes(self.view(number), index.id)
        return self._hashes[at]


def by_part(part: Array) -> Iterator[tuple[int, Array | slice]]:
    """Which rows are in each part."""
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
    """Some rows of a part, in this order and maybe many times, in as many chunks as their bytes ask for."""
    pieces = [slice(0, len(wanted))]
    if not all(is_fixed(kind) for kind in rows.schema.types):
        sizes = np.zeros(len(wanted), np.int64)
        for column in rows.columns:
            sizes += lengths(column)[wanted]
        pieces = cut(sizes, PIECE_BYTES)
    taken = [rows.take(pa.array(wanted[piece])) for piece in pieces]
    return pa.Table.from_batches(taken, rows.schema).columns  # type: ignore[no-any-return]
