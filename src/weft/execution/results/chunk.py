"""The rows of one query in a chunk of the result log. This is the only place where full rows are built.

A chunk is opened once. `find` returns which of its units belong to the query, which takes a few bytes each, and
`Found.build` builds rows of some units: a reader that wants ten of nine million pairs builds ten rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.errors import QueryFailed, ResultsGone
from weft.execution.join.row_references import RowParts, by_part, take_rows
from weft.execution.results.reading import (
    BucketRows,
    Chunk,
    CombinationRows,
    PiecePairs,
    Reading,
    WindowCells,
)
from weft.execution.results.recent import RecentCache
from weft.execution.results.row_widths import row_widths
from weft.kernels.aggregate.cells import Cells, compact, concat_cells
from weft.kernels.aggregate.result_columns import SumOverflow, WindowEnd, result_table
from weft.kernels.bitset import rows_with_slot
from weft.kernels.join.select_matches import SelectedRows, select_pairs, select_rows, select_windows
from weft.kernels.join.window_table import window_ends
from weft.plan.aggregation import Aggregation
from weft.plan.strategy import EquiJoin
from weft.plan.window import to_micros
from weft.storage.bucket import PartView, open_part
from weft.storage.combinations import Member, open_combinations
from weft.storage.result_files import PartRef, read_pairs, read_session_rows
from weft.storage.slices import read_slices

Longs = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
_TIMESTAMP = pa.timestamp("us", "UTC")
Columns = list[pa.Array | pa.ChunkedArray]


@contextmanager
def kept_files(reading: Reading) -> Iterator[None]:
    """Turn a missing file into ResultsGone: the file existed when its batch was committed."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(str(error.filename or error)).name
        raise ResultsGone(
            f'rows of query "{reading.name}" are not kept any more',
            detail=f"File {missing} of the result log is gone.",
            hint="Read sooner, or set keep_results to more.",
        ) from error


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Rows of a query that are located but not built."""

    reading: Reading
    units: Longs
    """The unit of the chunk that each row comes from, in ascending order."""
    widths: Callable[[], Longs | int]
    """Returns the approximate bytes of each row, or one number for all rows."""
    make: Callable[[slice], pa.Table]

    def build(self, first: int, last: int) -> pa.Table:
        """Build the rows first … last - 1."""
        if first >= last:
            return self.reading.schema.empty_table()
        with kept_files(self.reading):
            return self.make(slice(first, last))


class Opened(Protocol):
    """A chunk whose files are mapped into memory."""

    @property
    def units(self) -> int:
        """The number of units."""

    def find(self, first: int, last: int) -> Found:
        """Locate the rows of the query in a range of units."""


def open_chunk(reading: Reading, chunk: Chunk, *, again: bool = False) -> Opened:
    """Map the files of a chunk; raises ResultsGone if they are not there.

    `again` says that the chunk will be opened again, as for the next page; then what takes long to find is cached.
    """
    with kept_files(reading):
        match chunk.source:
            case BucketRows(part=part):
                return _Rows(reading, part)
            case PiecePairs() as pairs:
                swapped = isinstance(reading.strategy, EquiJoin) and reading.strategy.swapped
                return _Pairs(reading, pairs, swapped=swapped)
            case CombinationRows() as combinations if reading.session is not None:
                return _Sessions(reading, reading.places, combinations)
            case CombinationRows(path=path):
                return _Combinations(reading, reading.places, path)
            case WindowCells(paths=paths):
                assert reading.aggregation is not None, "only an aggregate has cells"
                return _Groups(reading, reading.aggregation, paths, again=again)
            case _:
                assert_never(chunk.source)


def _nothing(reading: Reading) -> Found:
    return Found(reading, np.empty(0, np.int64), lambda: 0, lambda _: reading.schema.empty_table())


def _found(reading: Reading, first: int, selected: SelectedRows, sides: Sequence[tuple[PartView, Numbers]]) -> Found:
    """Return rows that consist of one row of each part; `sides` has the row numbers by position."""
    names = [list(columns) for columns in reading.columns]

    def widths() -> Longs | int:
        total: Longs | int = 0
        for (view, numbers), wanted in zip(sides, names, strict=True):
            fixed, varying = row_widths(view.rows, wanted, numbers[selected.positions])
            total = total + (fixed if varying is None else fixed + varying)
        return total

    def make(span: slice) -> pa.Table:
        part = _part_of(selected, span)
        arrays: Columns = []
        for (view, numbers), wanted in zip(sides, names, strict=True):
            arrays += take_rows(view.rows.select(wanted), numbers[part.positions])
        return _finished(reading, arrays, part)

    return Found(reading, selected.positions + first, widths, make)


def _part_of(selected: SelectedRows, span: slice) -> SelectedRows:
    starts = selected.window_start
    return SelectedRows(selected.positions[span], None if starts is None else starts[span])


def _finished(reading: Reading, arrays: Columns, selected: SelectedRows) -> pa.Table:
    """Return a table of columns, with the start and end of the window if the query has windows."""
    if reading.sliding is not None:
        assert selected.window_start is not None
        starts = selected.window_start
        ends = window_ends(starts, to_micros(reading.sliding.size))
        arrays += [pa.array(starts).cast(_TIMESTAMP), pa.array(ends).cast(_TIMESTAMP)]
    if not arrays:  # a SELECT list of constants needs only the number of rows
        return pa.table({"weft#rows": pa.nulls(len(selected.positions), pa.bool_())})
    return pa.Table.from_arrays(arrays, schema=reading.schema)


def _window_end(reading: Reading) -> WindowEnd:
    if reading.session is not None:
        return WindowEnd(to_micros(reading.session.gap), session=True, cut=reading.session.cut)
    assert reading.sliding is not None, "an aggregation has windows"
    return WindowEnd(to_micros(reading.sliding.size), session=False)


class _Rows:
    """A part of a selection's bucket; a unit is a row."""

    def __init__(self, reading: Reading, ref: PartRef) -> None:
        self._reading = reading
        self._part = open_part(Path(reading.data) / ref.path, ref.part)
        self.units = self._part.rows.num_rows

    def find(self, first: int, last: int) -> Found:
        reading, part = self._reading, self._part
        selected = select_rows(
            part.times[first:last],
            part.sets[first:last],
            slot=reading.slot,
            sliding=reading.sliding,
            start=reading.start,
        )
        return _found(reading, first, selected, [(part, np.arange(first, last))])


class _Pairs:
    """A piece of a segment; a unit is a pair of row numbers."""

    def __init__(self, reading: Reading, pairs: PiecePairs, *, swapped: bool) -> None:
        self._reading = reading
        data = Path(reading.data)
        views = [open_part(data / ref.path, ref.part) for ref in (pairs.left, pairs.right)]
        # Bits of rows from before the query was created belonged to another query in its slot.
        self._is_new = min(view.epoch for view in views) >= reading.created
        rows = next(read_pairs(data / pairs.path, (pairs.number,))) if self._is_new else ()
        sides = list(zip(views, rows, strict=False))
        self._sides = sides[::-1] if swapped else sides
        self.units = len(rows[0]) if rows else 0

    def find(self, first: int, last: int) -> Found:
        reading = self._reading
        if not self._is_new:
            return _nothing(reading)
        (left, left_rows), (right, right_rows) = [(view, rows[first:last]) for view, rows in self._sides]
        selected = select_pairs(
            left_rows,
            right_rows,
            (left.times, left.sets),
            (right.times, right.sets),
            slot=reading.slot,
            bounds=reading.bounds,
            sliding=reading.sliding,
            start=reading.start,
        )
        return _found(reading, first, selected, [(left, left_rows), (right, right_rows)])


class _Combinations:
    """A file of combinations; with sliding windows, a combination is a row of each window that contains all members."""

    def __init__(self, reading: Reading, places: Sequence[int], path: str) -> None:
        self._reading = reading
        file = open_combinations(Path(reading.data) / path)
        known = file.words * 64 > reading.slot
        self._wanted = np.flatnonzero(rows_with_slot(file.sets, reading.slot)) if known else np.empty(0, np.int64)
        self._parts = RowParts(reading.data)
        self._numbers = self._parts.numbers(file.refs)
        self._members = [file.rows(place) for place in places]
        self.units = len(self._wanted)

    def find(self, first: int, last: int) -> Found:
        reading, wanted = self._reading, self._wanted[first:last]
        members = [Member(self._numbers[part[wanted]], row[wanted], row[wanted]) for part, row in self._members]
        selected = SelectedRows(np.arange(len(wanted)), None)
        if reading.sliding is not None and len(wanted):
            times = np.stack([self._parts.times(member) for member in members])
            selected = select_windows(
                times.min(axis=0), times.max(axis=0), sliding=reading.sliding, start=reading.start
            )

        def make(span: slice) -> pa.Table:
            part = _part_of(selected, span)
            return _finished(reading, _columns(reading, self._parts, members, part.positions), part)

        return Found(
            reading,
            selected.positions + first,
            lambda: _member_widths(reading, self._parts, members, selected.positions),
            make,
        )


class _Sessions:
    """A file of a session join; a unit is a combination of the query."""

    def __init__(self, reading: Reading, places: Sequence[int], combinations: CombinationRows) -> None:
        self._reading, self._places = reading, places
        self._rows = read_session_rows(Path(reading.data) / combinations.path, reading.slot)
        self._parts = RowParts(reading.data)
        self._numbers = self._parts.numbers(combinations.refs)
        self.units = len(self._rows["first"])

    def find(self, first: int, last: int) -> Found:
        reading, rows = self._reading, {name: values[first:last] for name, values in self._rows.items()}
        members = [Member(self._numbers[rows[f"p{at}"]], rows[f"r{at}"], rows["first"]) for at in self._places]
        positions = np.arange(len(rows["first"]))

        def make(span: slice) -> pa.Table:
            arrays = _columns(reading, self._parts, members, positions[span])
            starts = rows["first"][span]
            times = (starts, _window_end(reading).of(starts, rows["last"][span]))
            arrays += [pa.array(values).cast(_TIMESTAMP) for values in times]
            return pa.Table.from_arrays(arrays, schema=reading.schema)

        widths = lambda: _member_widths(reading, self._parts, members, positions)  # noqa: E731
        return Found(reading, positions + first, widths, make)


def _columns(reading: Reading, parts: RowParts, members: Sequence[Member], positions: Longs) -> Columns:
    arrays: Columns = []
    for member, names in zip(members, reading.columns, strict=True):
        taken = member.take(positions)
        arrays += parts.columns(taken, names)
    return arrays


def _member_widths(reading: Reading, parts: RowParts, members: Sequence[Member], positions: Longs) -> Longs:
    total = np.zeros(len(positions), np.int64)
    for member, names in zip(members, reading.columns, strict=True):
        taken = member.take(positions)
        for number, rows in by_part(taken.part):
            fixed, varying = row_widths(parts.view(number).rows, names, taken.row[rows])
            total[rows] += fixed if varying is None else fixed + varying
    return total


_GROUPS: RecentCache[Cells] = RecentCache(256 << 20)
"""Cache of groups in chunks that are read page by page: finding one group takes as long as finding all."""


def _groups_of(reading: Reading, paths: Sequence[str]) -> Cells | None:
    """Return the groups of a query in some files; a group may be in several of them."""
    parts = []
    for path in paths:
        for cells, _ in read_slices(Path(reading.data) / path, (0,)):
            rows = np.flatnonzero(rows_with_slot(cells.sets, reading.slot)[cells.classes])
            if len(rows):
                parts.append(cells.take(rows))
    return compact(concat_cells(parts)) if parts else None


def _size_of(cells: Cells) -> int:
    """Return the bytes of cells, with their groups, classes and words."""
    arrays: list[Any] = [cells.sets, cells.slices, cells.classes, cells.group, *cells.lanes.values()]
    arrays += [array for detail in cells.details.values() for array in (detail.cells, detail.codes, detail.weights)]
    return sum(int(array.nbytes) for array in (*arrays, *cells.groups, *cells.dictionaries.values()))


class _Groups:
    """Files of closed windows of an aggregate; a unit is a group of the query in a window."""

    def __init__(self, reading: Reading, aggregation: Aggregation, paths: tuple[str, ...], *, again: bool) -> None:
        self._reading, self._aggregation = reading, aggregation
        key = (reading.data, reading.slot, paths)  # the content of a file never changes
        self._groups = _GROUPS.get(key) if again else None
        if self._groups is None:
            self._groups = _groups_of(reading, paths)
            if again and self._groups is not None:
                _GROUPS.put(key, self._groups, _size_of(self._groups))

    @property
    def units(self) -> int:
        return 0 if self._groups is None else len(self._groups)

    def find(self, first: int, last: int) -> Found:
        groups = self._groups
        if groups is None:
            return _nothing(self._reading)
        units = np.arange(first, min(last, len(groups)))

        def make(span: slice) -> pa.Table:
            chosen = units[span]
            return self._finish(groups if len(chosen) == len(groups) else groups.take(chosen))

        return Found(self._reading, units, lambda: 16 * max(1, len(self._reading.schema)), make)

    def _finish(self, cells: Cells) -> pa.Table:
        try:
            return result_table(cells, self._aggregation, _window_end(self._reading), merged=True)
        except SumOverflow as error:
            raise QueryFailed(
                "a sum does not fit its type",
                detail=str(error),
                hint="Sum a wider type: SUM(CAST(x AS DECIMAL(38, 0))).",
            ) from error
