"""Files that are kept for few open sessions: those are written anew, so that all that has ended can go.

A session that has ended was reported, and no row that may still come belongs to it: a file goes when all its sessions
have ended. But a key that never pauses would keep every file it is in, with the ended sessions of all other keys. So
where little of a file is open, that little becomes a file of its own in place of the old one.

Every task decides for its own range of hash space, and the driver puts a file away only if all of them have done so.
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
from weft.kernels.aggregate.cells import LAST, concat
from weft.kernels.aggregate.session_index import chosen_cells
from weft.kernels.bitset import resized, set_to_words
from weft.plan.slots import Slots
from weft.storage.bucket import Bucket, open_parts
from weft.storage.slices import read_sessions

Array = np.ndarray[Any, Any]

SPARSE = 4
"""What is open of a file is written anew if it is at most one in so many of the rows or cells of a task: of a whole
file at most half then, so that each that is written makes up for one that goes."""


@dataclass(slots=True)
class OpenParts:
    """What is open of files: of those that were looked through each row or cell, the others have to stay as they
    are."""

    whole: set[str] = field(default_factory=set)
    flags: dict[tuple[str, int], Array] = field(default_factory=dict)
    """By path and part."""

    def note(self, path: str, number: int, count: int, rows: Array) -> None:
        """Some rows or cells of a part, which has so many, are of sessions that go on."""
        at = (path, number)
        if at not in self.flags:
            self.flags[at] = np.zeros(count, np.bool_)
        self.flags[at][rows] = True

    def add(self, other: OpenParts) -> None:
        """Take in what is open for other queries."""
        self.whole |= other.whole
        for (path, number), flags in other.flags.items():
            self.note(path, number, len(flags), flags)

    def of(self, path: str) -> dict[int, Array]:
        """What is open of a file, by part."""
        return {number: flags for (each, number), flags in self.flags.items() if each == path}


def rest_of(
    program: Program, task: BatchTask, partition: int, *, bucket: Bucket, still_open: OpenParts
) -> Bucket | None:
    """What is open of a file in this partition, as a new one; None if the file should stay as it is."""
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
    """Whether so little is open that it is worth writing: all tasks together write at most half of the file."""
    here = sum(len(flags) for flags in parts.values())
    kept = sum(int(np.count_nonzero(flags)) for flags in parts.values())
    return 0 < SPARSE * kept <= max(here, bucket.rows // task.partitions)


def _rest_of_cells(
    program: Program, task: BatchTask, partition: int, *, bucket: Bucket, parts: Mapping[int, Array]
) -> Bucket | None:
    """The open cells of a file of slices, as far as they still mean a live query; None if none does, and the file goes
    by itself."""
    side, mask = program.slices[bucket.store].store.side, task.masks.get(bucket.epoch, Slots(0))
    stored = read_sessions(Path(task.data) / bucket.path, parts)
    found = [
        with_meaning(chosen_cells(cells, np.flatnonzero(flags)), mask, program.words)
        for flags, (cells, _, _) in zip(parts.values(), stored, strict=True)
        if flags.any()
    ]
    cells = concat(found)
    if len(cells) == 0:
        return None
    span = (int(cells.slices.min()), int(cells.lanes[LAST].max()))
    path = task.new_file(f"{side.store}-o{partition}")
    return write_cells(cells, side, task, path=path, span=span, rows=rows_in(found))


def _kept_rows(program: Program, task: BatchTask, bucket: Bucket, parts: Mapping[int, Array]) -> dict[int, Array]:
    """Rows of sessions that go on, and those that queries other than session joins want."""
    sessions = 0
    for each in program.session_joins:
        if bucket.store in {store for store, _ in each.join.places}:
            sessions |= each.join.slots
    others = set_to_words(Slots(task.masks.get(bucket.epoch, Slots(0)) & ~sessions), program.words)
    views = open_parts(Path(task.data) / bucket.path, tuple(parts))
    return {
        number: flags | (resized(view.sets, program.words) & others).any(axis=1)
        for (number, flags), view in zip(parts.items(), views, strict=True)
    }
