"""The open sessions that a batch looks at: groups with a session that may close, and files that may be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.execution.aggregate.accumulate import index_of
from weft.execution.program import BatchTask, Program
from weft.kernels.aggregate.cells import LAST, Cells
from weft.kernels.aggregate.session_index import SessionIndex, chosen_cells, ending_spans, surely_open_after
from weft.kernels.aggregate.sessions import SessionQuery
from weft.kernels.aggregate.sort_codes import distinct
from weft.kernels.bitset import WORD_BITS, resized, set_to_words
from weft.kernels.hash_space import hash_range
from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.storage.bucket import Bucket
from weft.storage.slices import read_sessions

Array = np.ndarray[Any, Any]

_ALWAYS = 1 << 16
"""Files with at most this many rows or cells are searched in every batch."""


def is_asked(batch: int, bucket: Bucket, rows: int) -> bool:
    """Return whether to search a file for open sessions although all its rows are older than the gap.

    Later rows in other files may keep its sessions open. A large file is searched only at ages that are powers of two.
    """
    age = batch - bucket.epoch
    return rows <= _ALWAYS or age & (age - 1) == 0


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Cells taken from a part of a bucket; `rows` are their numbers among the part's `count` cells."""

    bucket: Bucket
    number: int
    count: int
    rows: Array
    cells: Cells


@dataclass(frozen=True, slots=True)
class DueCells:
    """By store, the cells of groups with sessions that may close or in files that may be done; `open` has other
    files."""

    sides: list[list[Chosen]]
    open: set[str]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    bucket: Bucket
    number: int
    cells: Cells
    index: SessionIndex
    limits: tuple[int, int] | None
    """The range of hash space to consider; None for all of it."""

    def within(self, hashes: Array) -> Array:
        if self.limits is None:
            return hashes
        low, high = self.limits
        return hashes[(hashes >= np.uint64(low)) & (hashes <= np.uint64(high))]


class SessionCells:
    """The open sessions of some stores in one partition."""

    def __init__(self, program: Program, task: BatchTask, partition: int, buckets: Sequence[Bucket]) -> None:
        self._program, self._task, self._buckets = program, task, buckets
        self._range = hash_range(partition, task.partitions)

    def due(
        self, stores: Sequence[StoreId], queries: Sequence[SessionQuery], *, after: int | None, upto: int
    ) -> DueCells:
        """Return the cells that these queries have to look at to close sessions that end in (after, upto]."""
        sides = [list(self._parts(store)) for store in stores]
        spans, newest_done = ending_spans(queries, after=after, upto=upto), surely_open_after(queries, upto)
        wanted, still_open = [np.empty(0, np.uint64)], set[str]()
        for part in (part for side in sides for part in side):
            last = part.cells.lanes[LAST]
            rows = part.index.ending(last, spans)
            wanted.append(part.within(part.index.hashes[part.cells.group[rows]]))
            if part.index.newest(last) <= newest_done and is_asked(self._task.batch, part.bucket, len(last)):
                wanted.append(part.within(part.index.hashes))
            else:
                still_open.add(part.bucket.path)
        hashes = distinct(np.concatenate(wanted))
        return DueCells([[chosen for part in side if (chosen := _chosen(part, hashes))] for side in sides], still_open)

    def _parts(self, store: StoreId) -> Iterator[_Part]:
        low, high = self._range
        side = self._program.slices[store].store.side
        for bucket in (bucket for bucket in self._buckets if bucket.store == store):
            numbers = bucket.parts_in(low, high)
            stored = read_sessions(Path(self._task.data) / bucket.path, numbers)
            for number, (cells, index, epoch) in zip(numbers, stored, strict=True):
                sets = self._meaning(cells.sets, epoch)
                if not sets.any():
                    continue
                part = bucket.parts[number]
                limits = (low, high) if low > part.low or part.high > high else None
                if index is None:  # written by an older release
                    index = index_of(cells, side)  # noqa: PLW2901
                yield _Part(bucket, number, replace(cells, sets=sets), index, limits)

    def _meaning(self, sets: Array, epoch: int) -> Array:
        """Return the query-sets of classes with only the bits that still mean a live query."""
        words = self._program.words
        live = self._program.live if epoch == self._task.batch else self._task.masks.get(epoch, Slots(0))
        masked: Array = resized(sets, words) & set_to_words(live & ((1 << WORD_BITS * words) - 1), words)
        return masked


def _chosen(part: _Part, hashes: Array) -> Chosen | None:
    if len(hashes) == 0:
        return None
    rows = part.index.cells_of(part.index.groups_with(hashes))
    rows = rows[np.asarray(part.cells.sets.any(axis=1))[part.cells.classes[rows]]]
    if len(rows) == 0:
        return None
    return Chosen(part.bucket, part.number, len(part.cells), rows, chosen_cells(part.cells, rows))
