"""A probe step's view of its store: parts of buckets or lists of stored combinations, in the order of a key.

Each result is found once, by the first of its new rows in the fixed order of inputs. All probe steps therefore see what
was stored before the batch; a new row is seen only by new rows of inputs before its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.execution.items import NewBucket
from weft.execution.join.partition_range import meaning_of
from weft.execution.join.row_references import RowParts
from weft.execution.program import BatchTask, Program
from weft.kernels.hash_space import hash_range, range_in
from weft.kernels.join.merge_join import JoinSide
from weft.plan.key import Index
from weft.plan.probe_tree import Input, Probe
from weft.plan.slots import Slots
from weft.storage.bucket import HASH, Bucket, PartView, index_hash, index_rows
from weft.storage.combinations import CombinationFile, PartMember, StoredMember, open_combinations, place_id
from weft.storage.index_order import order_index
from weft.storage.result_files import PartRef

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class StoreView:
    """Some of a store's contents, by row number; `spans` has the first and last event time of each member."""

    members: tuple[StoredMember, ...]
    sets: Array
    mask: Slots
    spans: tuple[tuple[int, int], ...]
    source: PartView | CombinationFile
    range: HashRange
    parts: RowParts

    def by_key(self, member: int, owner: Input, index: Index) -> JoinSide | None:
        """Return the rows in the order of a member's key, cut to this task's range of hashes; None if no row is
        left."""
        time = self.members[member].time
        indexed = self._indexed(member, owner, index)
        if indexed is None:
            return None
        hashes, rows = indexed
        start, end = self.range.span(hashes)
        return JoinSide(hashes[start:end], time, self.sets, rows[start:end]) if end > start else None

    def _indexed(self, member: int, owner: Input, index: Index) -> tuple[Array, Array] | None:
        if isinstance(self.source, PartView):
            names = self.source.rows.schema.names
            if index_rows(index.id) not in names:
                return None  # the bucket is older than all queries with this key
            hashes, rows = self.source.column(index_hash(index.id)), self.source.column(index_rows(index.id))
        else:
            at = place_id(owner, index)
            if not self.source.has_index(at):
                taken = self.members[member].take(np.arange(len(self.sets)))
                values, valid = self.parts.hashes(taken, index)
                hashes, rows = order_index(values, taken.time, None if valid.all() else valid)
            else:
                hashes, rows = self.source.index(at)
        keyed = len(rows) - int(np.count_nonzero(rows < 0))
        return hashes[:keyed], rows[:keyed]

    def share(self) -> Array:
        """Return the row numbers of this task's share if no key partitions the rows."""
        if isinstance(self.source, PartView):
            start, end = self.range.span(self.source.column(HASH))
            return np.arange(start, end, dtype=np.int32)
        return np.arange(self.range.partition, len(self.sets), self.range.partitions, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class HashRange:
    """The range of hashes that belongs to one task."""

    partition: int
    partitions: int

    def span(self, hashes: Array) -> tuple[int, int]:
        """Return where the range begins and ends in sorted hashes."""
        return range_in(hashes, *hash_range(self.partition, self.partitions))


@dataclass(slots=True)
class StoreViews:
    """The stores as one task sees them."""

    program: Program
    task: BatchTask
    range: HashRange
    parts: RowParts
    fresh: Sequence[NewBucket]
    _files: dict[str, CombinationFile] = field(default_factory=dict)

    def starting(self, probe: Probe, *, rebuild: bool) -> Iterator[StoreView]:
        """Yield the rows that begin a tree: the new ones or, to rebuild a stored join, all stored ones."""
        store = self.program.probed_stores[probe.start]
        new = [fresh.bucket for fresh in self.fresh if fresh.bucket.store == store]
        for bucket in self._stored(store) if rebuild else new:
            yield from self._parts(probe, bucket)

    def seen(self, probe: Probe, *, rebuild: bool) -> Iterator[StoreView]:
        """Yield what a probe step sees of its store."""
        if len(probe.added) == 1:
            buckets = self._stored(probe.store)
            if not rebuild and probe.added[0] > probe.start:
                buckets += [fresh.bucket for fresh in self.fresh if fresh.bucket.store == probe.store]
            for bucket in buckets:
                yield from self._parts(probe, bucket)
            return
        lists = [] if probe.store in self.task.rebuild else self._stored(probe.store)
        for fresh in self.fresh:
            is_hidden = fresh.start is not None and (rebuild or fresh.start <= probe.start)
            if fresh.bucket.store == probe.store and not is_hidden:
                lists.append(fresh.bucket)
        for bucket in lists:
            yield from self._list(probe, bucket)

    def _stored(self, store: str) -> list[Bucket]:
        return [bucket for bucket in self.task.buckets if bucket.store == store]

    def _mask(self, probe: Probe, bucket: Bucket) -> Slots:
        return Slots(probe.slots & meaning_of(self.task, self.program, bucket) & bucket.slots)

    def _parts(self, probe: Probe, bucket: Bucket) -> Iterator[StoreView]:
        mask = self._mask(probe, bucket)
        for number, part in enumerate(bucket.parts):
            if part.rows and part.slots & mask:
                at = self.parts.number(PartRef(bucket.path, number))
                view = self.parts.view(at)
                member = PartMember(at, view.times)
                yield self._seen((member,), mask, ((part.min_time, part.max_time),), view)

    def _list(self, probe: Probe, bucket: Bucket) -> Iterator[StoreView]:
        mask = self._mask(probe, bucket)
        if not mask:
            return
        if bucket.path not in self._files:
            self._files[bucket.path] = open_combinations(Path(self.task.data) / bucket.path)
        file = self._files[bucket.path]
        numbers = self.parts.numbers(file.refs)
        yield self._seen(tuple(file.member(at, numbers) for at in range(file.members)), mask, file.spans, file)

    def _seen(
        self,
        members: tuple[StoredMember, ...],
        mask: Slots,
        spans: tuple[tuple[int, int], ...],
        source: PartView | CombinationFile,
    ) -> StoreView:
        return StoreView(members, source.sets, mask, spans, source, self.range, self.parts)
