"""A probe task's view of the buckets: the rows in its range of hash space, and what their query-sets mean now."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from weft.execution.program import BatchTask, Program
from weft.kernels.hash_space import hash_range, range_in
from weft.kernels.join.merge_join import JoinSide
from weft.plan.key import IndexId, key_text
from weft.plan.shared import Store
from weft.plan.slots import Slots
from weft.storage.bucket import HASH, Bucket, Part, PartView, index_hash, index_rows, open_parts


class PartitionRange:
    """The rows of buckets that lie in one partition's range of hash space."""

    def __init__(self, task: BatchTask, partition: int) -> None:
        self._data = Path(task.data)
        self.low, self.high = hash_range(partition, task.partitions)
        self._open: dict[tuple[str, int], PartView] = {}

    def parts(self, bucket: Bucket) -> list[tuple[int, Part]]:
        """Return the parts with rows that overlap the range, with their numbers."""
        return [(number, bucket.parts[number]) for number in bucket.parts_in(self.low, self.high)]

    def view(self, bucket: Bucket, number: int) -> PartView:
        """Return a part of a bucket, mapped once per task."""
        at = (bucket.path, number)
        if at not in self._open:
            self._open[at] = open_parts(self._data / bucket.path, (number,))[0]
        return self._open[at]

    def side(self, bucket: Bucket, number: int, store: Store, index: IndexId) -> JoinSide:
        """Return a part in the order of an index, cut to this partition's range."""
        view, part = self.view(bucket, number), bucket.parts[number]
        is_inside = self.low <= part.low and part.high <= self.high
        primary = next((i for i in store.indexes if key_text(i.key) == key_text(store.route)), None)
        if primary is not None and primary.id == index:
            return self._primary(view, is_inside)
        rows = view.column(index_rows(index))
        keyed = len(rows) - int(np.count_nonzero(rows < 0))
        hashes, rows = view.column(index_hash(index))[:keyed], rows[:keyed]
        if not is_inside:
            route = view.column(HASH)[rows]
            in_range = (route >= np.uint64(self.low)) & (route <= np.uint64(self.high))
            hashes, rows = hashes[in_range], rows[in_range]
        return JoinSide(hashes, view.times, view.sets, rows)

    def _primary(self, view: PartView, is_inside: bool) -> JoinSide:
        hashes = view.column(HASH)
        if is_inside:
            return JoinSide(hashes, view.times, view.sets, None)
        start, end = range_in(hashes, self.low, self.high)
        return JoinSide(hashes[start:end], view.times, view.sets, np.arange(start, end, dtype=np.int32))


def meaning_of(task: BatchTask, program: Program, bucket: Bucket) -> Slots:
    """Return the slots whose bits in a bucket still mean the same query: the changelog-set since its epoch."""
    return program.live if bucket.epoch == task.batch else task.masks.get(bucket.epoch, Slots(0))


def key_values(store: Store, index_id: IndexId, view: PartView) -> list[pa.Array]:
    """Return the columns that tell keys with equal hashes apart; none if equal hashes imply equal keys."""
    index = next(index for index in store.indexes if index.id == index_id)
    return [view.rows.column(name) for name in index.columns()]
