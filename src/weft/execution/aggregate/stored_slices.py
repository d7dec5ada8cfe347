"""A partition's view of stores of slices: loading of their cells, and merging of small files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.execution.aggregate.accumulate import route_hashes, rows_in, write_cells
from weft.execution.program import BatchTask, Program
from weft.kernels.aggregate.cells import LAST, Cells, compact, concat_cells, only_groups, reduce_lanes
from weft.kernels.aggregate.sessions import number_sessions
from weft.kernels.bitset import WORD_BITS, resized, set_to_words
from weft.kernels.hash_space import hash_range
from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.plan.strategy import SlicedRelation
from weft.storage.bucket import Bucket
from weft.storage.slices import read_slices

Array = np.ndarray[Any, Any]


def load_cells(
    program: Program, task: BatchTask, partition: int, *, buckets: Iterable[Bucket], side: SlicedRelation
) -> list[Cells]:
    """Return this partition's cells in some buckets of a store, one value per part: only classes that still mean a
    live query, and only groups in the partition's range of hash space."""
    low, high = hash_range(partition, task.partitions)
    loaded = []
    for bucket in buckets:
        numbers = bucket.parts_in(low, high)
        for number, (stored, epoch) in zip(numbers, read_slices(Path(task.data) / bucket.path, numbers), strict=True):
            part = bucket.parts[number]
            meaning = program.live if epoch == task.batch else task.masks.get(epoch, Slots(0))
            cells = with_meaning(stored, meaning, program.words)
            if low > part.low or part.high > high:
                cells = _in_range(cells, side, low, high)
            if len(cells):
                loaded.append(cells)
    return loaded


def with_meaning(cells: Cells, meaning: Slots, words: int) -> Cells:
    """Return the cells with query-sets of `words` words, ANDed with a changelog-set; unwanted cells are left out."""
    sets = resized(cells.sets, words) & set_to_words(meaning & ((1 << WORD_BITS * words) - 1), words)
    cells = replace(cells, sets=sets)
    kept = np.asarray(sets.any(axis=1))
    return cells if kept.all() else cells.take(np.flatnonzero(kept[cells.classes]))


def _in_range(cells: Cells, side: SlicedRelation, low: int, high: int) -> Cells:
    hashes = route_hashes(cells, side)
    in_range = (hashes >= np.uint64(low)) & (hashes <= np.uint64(high))
    return only_groups(cells.take(np.flatnonzero(in_range[cells.group])), np.flatnonzero(in_range))


def merge_slices(program: Program, task: BatchTask, partition: int, *, buckets: Sequence[Bucket]) -> list[Bucket]:
    """Merge this partition's share of some buckets of slices into one bucket, tagged as of this batch."""
    side = program.slices[buckets[0].store].store.side
    parts = load_cells(program, task, partition, buckets=buckets, side=side)
    if not parts:
        return []
    cells = concat_cells(parts)
    cells = _join_runs(cells, program, buckets[0].store) if side.session else compact(cells)
    cells = only_groups(cells)
    span = (min(bucket.min_time for bucket in buckets), max(bucket.max_time for bucket in buckets))
    path = task.new_file(f"{side.store}-m{partition}")
    return [write_cells(cells, side, task, path=path, span=span, rows=rows_in(parts))]


def _join_runs(cells: Cells, program: Program, store: StoreId) -> Cells:
    """Merge runs of a class and group that are closer than the smallest gap."""
    families = program.slices[store].families
    gap = min(family.gap for family in families if family.gap is not None)
    cuts = np.array(sorted({cut for family in families for cut in family.cuts}), np.int64)
    key = cells.classes * max(cells.group_count, 1) + cells.group
    order = np.lexsort((cells.slices, key))
    numbers, begins, _ = number_sessions(key[order], cells.slices[order], cells.lanes[LAST][order], gap, cuts)
    lanes, details = reduce_lanes(cells, order, numbers, len(begins))
    firsts = order[np.flatnonzero(np.diff(numbers, prepend=-1))]
    return replace(
        cells,
        slices=begins,
        classes=cells.classes[firsts],
        group=cells.group[firsts],
        lanes=lanes,
        details=details,
    )
