"""Rewriting of files that hold few open sessions, so that the closed ones can be removed.

A closed session has been reported, and no row that may still come belongs to it: a file is removed when all its
sessions are closed. But a key that never pauses would keep every file it is in, with the closed sessions of all other
keys. So if little of a file is open, that little becomes a new file, which replaces the old one.

Every task decides for its own range of hash space; the driver removes a file only if all tasks have replaced it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.execution.aggregate.accumulate import rows_in, write_cells
from weft.execution.aggregate.stored_slices import with_meaning
from weft.execution.merge_buckets import rewrite_rows
from weft.execution.program import BatchTask, Program
from weft.kernels.aggregate.cells import LAST, concat_cells
from weft.kernels.aggregate.session_index import chosen_cells
from weft.kernels.bitset import resized, set_to_words
from weft.plan.slots import Slots
from weft.storage.bucket import Bucket, open_parts
from weft.storage.slices import read_sessions

Array = np.ndarray[Any, Any]

SPARSE = 4
"""Open rows or cells are rewritten if they are at most one in this many of a task's. All tasks together then write at
most half of a file, so no more is written than is removed."""


@dataclass(slots=True)
class OpenParts:
    """The open rows or cells of files that were searched; files in `whole` were not, and stay as they are."""

    whole: set[str] = field(default_factory=set)
    flags: dict[tuple[str, int], Array] = field(default_factory=dict)
    """Which rows or cells are open, by path and part."""

    def note(self, path: str, number: int, count: int, rows: Array) -> None:
        """Note that some of the `count` rows or cells of a part are in open sessions."""
        at = (path, number)
        if at not in self.flags:
            self.flags[at] = np.zeros(count, np.bool_)
        self.flags[at][rows] = True

    def add(self, other: OpenParts) -> None:
        """Add what is open for other queries."""
        self.whole |= other.whole
        for (path, number), flags in other.flags.items():
            self.note(path, number, len(flags), flags)

    def of(self, path: str) -> dict[int, Array]:
        """Return which rows or cells of a file are open, by part."""
        return {number: flags for (owner, number), flags in self.flags.items() if owner == path}


def rest_of(
    program: Program, task: BatchTask, partition: int, *, bucket: Bucket, still_open: OpenParts
) -> Bucket | None:
    """Write the open rows or cells of a file in this partition to a new bucket; None if the file should stay."""
    retained = program.streams[bucket.stream].stream.retain is not None if bucket.stream in program.streams else True
    if bucket.path in still_open.whole or bucket.epoch == task.batch or retained:
        return None
    parts = still_open.of(bucket.path)
    if not _is_sparse(bucket, task, parts):
        return None
    if bucket.store in program.slices:
        return _rest_of_cells(program, task, partition, bucket=bucket, parts=parts)
    kept = _kept_rows(program, task, bucket, parts)
    return rewrite_rows(program, task, partition, bucket=bucket, kept=kept) if _is_sparse(bucket, task, kept) else None


def _is_sparse(bucket: Bucket, task: BatchTask, parts: Mapping[int, Array]) -> bool:
    """Return whether so little is open that rewriting pays: all tasks together write at most half of the file."""
    here = sum(len(flags) for flags in parts.values())
    kept = sum(int(np.count_nonzero(flags)) for flags in parts.values())
    return 0 < SPARSE * kept <= max(here, bucket.rows // task.partitions)


def _rest_of_cells(
    program: Program, task: BatchTask, partition: int, *, bucket: Bucket, parts: Mapping[int, Array]
) -> Bucket | None:
    """Write the open cells of a file that live queries want; None without such cells, since the file is then freed."""
    side, mask = program.slices[bucket.store].store.side, task.masks.get(bucket.epoch, Slots(0))
    stored = read_sessions(Path(task.data) / bucket.path, parts)
    open_cells = [
        with_meaning(chosen_cells(cells, np.flatnonzero(flags)), mask, program.words)
        for flags, (cells, _, _) in zip(parts.values(), stored, strict=True)
        if flags.any()
    ]
    cells = concat_cells(open_cells)
    if len(cells) == 0:
        return None
    span = (int(cells.slices.min()), int(cells.lanes[LAST].max()))
    path = task.new_file(f"{side.store}-o{partition}")
    return write_cells(cells, side, task, path=path, span=span, rows=rows_in(open_cells))


def _kept_rows(program: Program, task: BatchTask, bucket: Bucket, parts: Mapping[int, Array]) -> dict[int, Array]:
    """Return the rows of open sessions, and those that queries other than session joins want, by part."""
    sessions = 0
    for session_join in program.session_joins:
        if bucket.store in {store for store, _ in session_join.join.places}:
            sessions |= session_join.join.slots
    others = set_to_words(Slots(task.masks.get(bucket.epoch, Slots(0)) & ~sessions), program.words)
    views = open_parts(Path(task.data) / bucket.path, tuple(parts))
    return {
        number: flags | (resized(view.sets, program.words) & others).any(axis=1)
        for (number, flags), view in zip(parts.items(), views, strict=True)
    }
