"""Aggregates over joins: the combinations that probe trees find become cells.

A combination counts in every window that holds all its members. It becomes one row for each such window, whose time is
the beginning of the window. Cells of these rows cover whole windows, whatever windows other queries have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weft.execution.aggregate.accumulate import accumulate, rows_in, write_cells
from weft.execution.items import TagReport
from weft.execution.join.row_references import RowParts
from weft.execution.program import BatchTask, CombinedTag, Program, SliceTag
from weft.execution.selection.computed import TaggedRows
from weft.kernels.aggregate.cells import Cells, compact, concat_cells, only_groups
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
"""Rows, one per combination and window, that are accumulated at a time."""


class CombinedCells:
    """Cells of a task's combinations, gathered until they are written. A query that fails is noted in `failures`."""

    def __init__(self, program: Program, task: BatchTask, parts: RowParts) -> None:
        self._program = program
        self._task = task
        self._parts = parts
        self._cells: dict[StoreId, list[tuple[Cells, tuple[int, int]]]] = {}
        self.failures: dict[int, str] = {}

    def take(self, source: str, found: Combinations) -> Combinations:
        """Accumulate combinations named `source` for the queries that aggregate them; return those of other queries."""
        taken = NO_SLOTS
        for tag in self._program.combined.get(source, ()):
            taken = Slots(taken | tag.slices.store.slots)
            for piece in _pieces(found, tag):
                self._accumulate(tag, piece)
        return found if taken == NO_SLOTS else found.with_sets(found.sets & ~set_to_words(taken, self._program.words))

    def _accumulate(self, tag: CombinedTag, combinations: Combinations) -> None:
        rows, starts, sets = self._by_window(tag, combinations)
        if len(rows) == 0:
            return
        for piece, values in member_columns(tag.slices, tag.inputs, combinations.take(rows), self._parts):
            columns = {TIME: pa.array(starts[piece])} | values
            batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            report = TagReport(tag.slices.store.side.stream)
            tagged = TaggedRows(self._program, self._task, report, batch, starts[piece], sets[piece])
            cells = accumulate(tagged, tag.slices)
            self.failures |= report.failures
            if cells is not None:
                self._cells.setdefault(tag.slices.store.id, []).append(cells)

    def _by_window(self, tag: CombinedTag, combinations: Combinations) -> tuple[Array, Array, Array]:
        """Return the number of each combination once per window that holds it, the window starts and the query-sets."""
        times = np.stack([member.time for member in combinations.members])
        earliest, latest = times.min(axis=0), times.max(axis=0)
        rows, starts, sets = [], [], []
        for sliding, slots in tag.shapes:
            own_sets = combinations.sets & set_to_words(slots, self._program.words)
            wanted = np.flatnonzero(own_sets.any(axis=1))
            selected = select_windows(earliest[wanted], latest[wanted], sliding=sliding, start=None)
            assert selected.window_start is not None
            rows.append(wanted[selected.positions])
            starts.append(selected.window_start)
            sets.append(np.take(own_sets, rows[-1], axis=0))
        return np.concatenate(rows), np.concatenate(starts), np.concatenate(sets)

    def write(self, partition: int) -> list[Bucket]:
        """Write the gathered cells, one bucket of slices per store."""
        buckets = []
        for store, parts in self._cells.items():
            side = self._program.slices[store].store.side
            cells = compact(concat_cells([cells for cells, _ in parts])) if len(parts) > 1 else parts[0][0]
            cells = only_groups(cells)
            span = (min(first for _, (first, _) in parts), max(last for _, (_, last) in parts))
            path = self._task.new_file(f"{store}-c{partition}")
            rows = rows_in(piece for piece, _ in parts)
            buckets.append(write_cells(cells, side, self._task, path=path, span=span, rows=rows))
        self._cells = {}
        return buckets


def _pieces(combinations: Combinations, tag: CombinedTag) -> Iterator[Combinations]:
    """Yield the combinations that the store's queries want, in pieces of about `ROWS_AT_ONCE` rows at most."""
    wanted = combinations.with_sets(
        combinations.sets & set_to_words(tag.slices.store.slots, combinations.sets.shape[1])
    )
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
    """Yield the columns of combinations that keys and arguments read, in pieces of bounded size; a column has its
    declared type even where it is missing."""
    names = {part.name: part for root in slices.users for part in parts_of(root) if isinstance(part, Column)}
    wanted = [
        (member, [(own, name) for name in names if (own := _own_name(owner, name)) is not None])
        for owner, member in zip(inputs, found.members, strict=True)
    ]
    for piece in parts.cut([(member, [own for own, _ in own_names]) for member, own_names in wanted]):
        rows, columns = np.arange(piece.start, piece.stop), {}
        for member, own_names in wanted:
            taken = member if len(rows) == len(found) else member.take(rows)
            for own, name in own_names:
                values, type_ = parts.column(taken, own), arrow_type(names[name].type)
                columns[name] = values if values.type == type_ else values.cast(type_)
        yield piece, columns


def _own_name(owner: Input, name: str) -> str | None:
    """Return an input's own name of a column of combinations; None if the column is not the input's."""
    return name.removeprefix(owner.column("")) if name.startswith(owner.column("")) else None
