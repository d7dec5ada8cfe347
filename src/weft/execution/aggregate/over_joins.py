"""Combinations into cells: aggregates over joins whose combinations probe trees find.

A combination counts in every window that holds all its members. It becomes one row for each of them, whose time is the
beginning of the window: cells of such rows are of whole windows, whatever the windows of other queries are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weft.execution.aggregate.accumulate import accumulate, rows_in, write_cells
from weft.execution.join.row_references import RowParts
from weft.execution.program import BatchTask, CombinedTag, Program, SliceTag
from weft.execution.selection.computed import Tagged, TagReport
from weft.kernels.aggregate.cells import Cells, compact, concat, only_groups
from weft.kernels.arrow_types import arrow_type
from weft.kernels.bitset import set_to_words
from weft.kernels.join.select_matches import select_windows
from weft.plan.expression import Column, parts_of
from weft.plan.key import StoreId
from weft.plan.probe_tree import Input
from weft.plan.slots import NO_SLOTS, Slots
from weft.storage.bucket import TIME, Bucket
from weft.storage.combinations import Combinations

Array = np.ndarray[Any, Any]

ROWS_AT_ONCE = 1 << 20
"""Rows, one for each combination and window, that are accumulated together."""


class CombinedCells:
    """The cells of a task's combinations, gathered until they are written; queries that fail on them fail alone."""

    def __init__(self, program: Program, task: BatchTask, parts: RowParts) -> None:
        self._program = program
        self._task = task
        self._parts = parts
        self._cells: dict[StoreId, list[tuple[Cells, tuple[int, int]]]] = {}
        self.failures: dict[int, str] = {}

    def take(self, source: str, found: Combinations) -> Combinations:
        """Accumulate combinations of this name for all queries that aggregate them; the rest is for the others."""
        taken = NO_SLOTS
        for tag in self._program.combined.get(source, ()):
            taken = Slots(taken | tag.slices.store.slots)
            for some in _pieces(found, tag):
                self._accumulate(tag, some)
        return found if taken == NO_SLOTS else found.with_sets(found.sets & ~set_to_words(taken, self._program.words))

    def _accumulate(self, tag: CombinedTag, found: Combinations) -> None:
        rows, starts, sets = self._by_window(tag, found)
        if len(rows) == 0:
            return
        for piece, values in member_columns(tag.slices, tag.inputs, found.take(rows), self._parts):
            columns = {TIME: pa.array(starts[piece])} | values
            batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            report = TagReport(tag.slices.store.side.stream)
            tagged = Tagged(self._program, self._task, report, batch, starts[piece], sets[piece])
            cells = accumulate(tagged, tag.slices)
            self.failures |= report.failures
            if cells is not None:
                self._cells.setdefault(tag.slices.store.id, []).append(cells)

    def _by_window(self, tag: CombinedTag, found: Combinations) -> tuple[Array, Array, Array]:
        """Combinations by number, once for each of the windows that hold them; beginnings, and who has such windows."""
        times = np.stack([member.time for member in found.members])
        earliest, latest = times.min(axis=0), times.max(axis=0)
        rows, starts, sets = [], [], []
        for sliding, slots in tag.shapes:
            mine = found.sets & set_to_words(slots, self._program.words)
            wanted = np.flatnonzero(mine.any(axis=1))
            selected = select_windows(earliest[wanted], latest[wanted], sliding=sliding, start=None)
            assert selected.window_start is not None
            rows.append(wanted[selected.positions])
            starts.append(selected.window_start)
            sets.append(np.take(mine, rows[-1], axis=0))
        return np.concatenate(rows), np.concatenate(starts), np.concatenate(sets)

    def write(self, partition: int) -> list[Bucket]:
        """Write what was gathered, a bucket of slices for each store."""
        made = []
        for store, parts in self._cells.items():
            side = self._program.slices[store].store.side
            cells = compact(concat([cells for cells, _ in parts])) if len(parts) > 1 else parts[0][0]
            cells = only_groups(cells)
            span = (min(first for _, (first, _) in parts), max(last for _, (_, last) in parts))
            path = self._task.new_file(f"{store}-c{partition}")
            rows = rows_in(each for each, _ in parts)
            made.append(write_cells(cells, side, self._task, path=path, span=span, rows=rows))
        self._cells = {}
        return made


def _pieces(found: Combinations, tag: CombinedTag) -> Iterator[Combinations]:
    """Combinations that the store's queries want, as many as will not be too many rows."""
    wanted = found.with_sets(found.sets & set_to_words(tag.slices.store.slots, found.sets.shape[1]))
    windows = sum(-(-sliding.size // sliding.slide) for sliding, _ in tag.shapes)
    step = max(1, ROWS_AT_ONCE // windows)
    if len(wanted) <= step:
        yield from (wanted,) if len(wanted) else ()
        return
    for start in range(0, len(wanted), step):
        yield wanted.take(np.arange(start, min(start + step, len(wanted))))


def member_columns(
    slices: SliceTag, inputs: Sequence[Input], found: Combinations, parts: RowParts
) -> Iterator[tuple[slice, dict[str, pa.Array]]]:
    """The columns of combinations that keys and arguments read, each of its own type even where it is missing; so many
    combinations at a time that they are of bounded size."""
    names = {part.name: part for each in slices.users for part in parts_of(each) if isinstance(part, Column)}
    wanted = [
        (member, [(own, name) for name in names if (own := _own_name(owner, name)) is not None])
        for owner, member in zip(inputs, found.members, strict=True)
    ]
    for piece in parts.cut([(member, [own for own, _ in mine]) for member, mine in wanted]):
        rows, columns = np.arange(piece.start, piece.stop), {}
        for member, mine in wanted:
            some = member if len(rows) == len(found) else member.take(rows)
            for own, name in mine:
                values, type_ = parts.column(some, own), arrow_type(names[name].type)
                columns[name] = values if values.type == type_ else values.cast(type_)
        yield piece, columns


def _own_name(owner: Input, name: str) -> str | None:
    """The input's own name of a column of combinations; None if it is not the input's."""
    return name.removeprefix(owner.column("")) if name.startswith(owner.column("")) else None
