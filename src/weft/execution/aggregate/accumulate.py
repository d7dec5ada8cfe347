"""Accumulation into cells of slices: of a stream's rows when they are tagged, and of combinations when found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import InternalError
from weft.execution.program import BatchTask, SliceTag
from weft.execution.selection.computed import Keys, TaggedRows, rows_by_part, without_failing
from weft.kernels.aggregate.cells import LAST, ROWS, Cells, split_groups
from weft.kernels.aggregate.rows_to_cells import RowBatch, rows_to_cells
from weft.kernels.aggregate.session_index import SessionIndex, index_sessions
from weft.kernels.bitset import set_from_words, set_to_words
from weft.kernels.expression.evaluate import EvaluationError
from weft.kernels.hash_space import hash_range
from weft.kernels.key_hash import hash_keys
from weft.plan.expression import Expression
from weft.plan.identity import identity
from weft.plan.slots import NO_SLOTS, Slots
from weft.plan.strategy import SlicedRelation
from weft.storage.bucket import Bucket, Part
from weft.storage.slices import write_slices

Array = np.ndarray[Any, Any]


def fill_slices(tagged: TaggedRows, slices: SliceTag) -> Bucket | None:
    """Accumulate the rows that a store's queries want and write the cells; None if there are no such rows."""
    accumulated = accumulate(tagged, slices)
    if accumulated is None:
        return None
    cells, span = accumulated
    return write_cells(cells, slices.store.side, tagged.task, path=tagged.task.new_file(slices.store.id), span=span)


def accumulate(tagged: TaggedRows, slices: SliceTag) -> tuple[Cells, tuple[int, int]] | None:
    """Return the cells of the rows that a store's queries want, and the time span of these rows; None without rows."""
    sets = tagged.sets & set_to_words(slices.store.slots, tagged.program.words)
    try:
        rows = _rows(tagged, slices, sets, {})
    except EvaluationError:
        sets = without_failing(tagged, slices.users, sets)
        rows = _rows(tagged, slices, sets, rows_by_part(slices.users, sets))
    if rows is None:
        return None
    cells = rows_to_cells(rows, slices.families, slices.accumulators)
    return None if cells is None else (cells, (int(rows.times.min()), int(rows.times.max())))


def _rows(tagged: TaggedRows, slices: SliceTag, sets: Array, users: Mapping[Expression, Array]) -> RowBatch | None:
    """Return the wanted rows with the values computed from them; a row with a NULL join key never joins and is left
    out."""
    side = slices.store.side
    wanted = np.flatnonzero(sets[:, 0]) if sets.shape[1] == 1 else np.flatnonzero(sets.any(axis=1))
    keys = Keys(tagged.rows, wanted, users, in_order=True)
    groups = keys.values(side.keys)
    if side.joined:
        valid = hash_keys(groups[: side.route]).valid
        if valid is not None:
            wanted = wanted[valid]
            keys = Keys(tagged.rows, wanted, users, in_order=True)
            groups = [column.filter(pa.array(valid)) for column in groups]
    if len(wanted) == 0:
        return None
    arguments = {identity(part): part for _, part in slices.store.accumulators}
    columns = keys.values(tuple(arguments.values()))
    all_wanted = len(wanted) == len(sets)
    return RowBatch(
        sets=sets if all_wanted else np.take(sets, wanted, axis=0),
        times=tagged.times if all_wanted else tagged.times[wanted],
        groups=tuple(groups),
        arguments=dict(zip(arguments, columns, strict=True)),
    )


def rows_in(parts: Iterable[Cells]) -> int:
    """Return how many rows were accumulated into some cells; merging and dividing cells never changes this."""
    return sum(int(part.lanes[ROWS].sum(dtype=np.int64)) for part in parts)


def check_rows(parts: Iterable[Cells], rows: int, what: str) -> None:
    """Raise InternalError if cells do not count as many rows as the cells they were made from."""
    counted = rows_in(parts)
    if counted != rows:
        raise InternalError(
            f"merging cells of {what} made {counted} rows of {rows}",
            detail="Nothing of this batch is committed; the files are as they were.",
        )


def write_cells(
    cells: Cells, side: SlicedRelation, task: BatchTask, *, path: str, span: tuple[int, int], rows: int | None = None
) -> Bucket:
    """Write cells as a bucket of slices with one part per partition; `span` is the time span of their rows, and
    `rows` the number of rows that merged cells must have."""
    ranges = [hash_range(partition, task.partitions) for partition in range(task.partitions)]
    lows = np.array([low for low, _ in ranges], np.uint64)
    owner = np.searchsorted(lows, route_hashes(cells, side), side="right") - 1
    parts = split_groups(cells, owner, len(ranges))
    check_rows(parts, rows_in((cells,)) if rows is None else rows, f"store {side.store}")
    descriptions = [_describe(part, *limits, span) for part, limits in zip(parts, ranges, strict=True)]
    indexes = [index_of(part, side) for part in parts] if side.session else []
    words = cells.sets.shape[1]
    file = write_slices(task.data, path, parts, epoch=task.batch, words=words, indexes=indexes)
    return Bucket(file.path, side.store, side.stream, task.batch, tuple(descriptions), file.bytes)


def index_of(cells: Cells, side: SlicedRelation) -> SessionIndex:
    """Return the index of cells of sessions."""
    return index_sessions(cells.group, cells.lanes[LAST], route_hashes(cells, side))


def route_hashes(cells: Cells, side: SlicedRelation) -> Array:
    """Return the position of each group in hash space: the hash of the keys that partition the store."""
    if side.route == 0:
        return np.zeros(cells.group_count, np.uint64)
    hashes: Array = hash_keys(cells.groups[: side.route]).h
    return hashes


def _describe(cells: Cells, low: int, high: int, span: tuple[int, int]) -> Part:
    if len(cells) == 0:
        return Part(low, high, 0, 0, 0, NO_SLOTS)
    slots = Slots(set_from_words(np.bitwise_or.reduce(cells.sets, axis=0)))
    return Part(low, high, len(cells), span[0], span[1], slots)
