"""What a probe sees of the store it visits: parts of buckets, or lists of intermediate results, in the order of a key.

Each result is found once, by the first of its new tuples in the fixed order of inputs. So what is stored is seen by
all; what is new, only by tuples of inputs before those that are new in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.execution.join.partition_range import meaning_of
from weft.execution.join.row_references import RowParts
from weft.execution.program import BatchTask, Program
from weft.kernels.hash_space import hash_range, range_in
from weft.kernels.join.merge_join import Side
from weft.plan.key import Index
from weft.plan.probe_tree import Input, Probe
from weft.plan.slots import Slots
from weft.storage.bucket import HASH, Bucket, PartView, index_hash, index_rows
from weft.storage.combinations import CombinationFile, PartMember, StoredMember, open_combinations, place_id
from weft.storage.index_order import order_index
from weft.storage.result_files import PartRef

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Fresh:
    """A bucket that this batch has made. `start` is set for intermediate results: the input of the new tuple they were
    found by; None there means that they were rebuilt from what is stored."""

    bucket: Bucket
    start: Input | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Some of a store's contents, by row number; `spans` are the first and last event time of each member."""

    members: tuple[StoredMember, ...]
    sets: Array
    mask: Slots
    spans: tuple[tuple[int, int], ...]
    source: PartView | CombinationFile
    range: HashRange
    parts: RowParts

    def by_key(self, member: int, owner: Input, index: Index) -> Side | None:
        """In the order of a key of one member, cut to this task's range of hashes; None if no row has the key."""
        time = self.members[member].time
        found = self._indexed(member, owner, index)
        if found is None:
            return None
        hashes, rows = found
        start, end = self.range.span(hashes)
        return Side(hashes[start:end], time, self.sets, rows[start:end]) if end > start else None

    def _indexed(self, member: int, owner: Input, index: Index) -> tuple[Array, Array] | None:
        if isinstance(self.source, PartView):
            names = self.source.rows.schema.names
            if index_rows(index.id) not in names:
                return None  # older than all queries that have this key
            hashes, rows = self.source.column(index_hash(index.id)), self.source.column(index_rows(index.id))
        else:
            at = place_id(owner, index)
            if not self.source.has_index(at):
                each = self.members[member].take(np.arange(len(self.sets)))
                values, valid = self.parts.hashes(each, index)
                hashes, rows = order_index(values, each.time, None if valid.all() else valid)
            else:
                hashes, rows = self.source.index(at)
        known = len(rows) - int(np.count_nonzero(rows < 0))
        return hashes[:known], rows[:known]

    def share(self) -> Array:
        """The row numbers that are this task's if nothing is divided by a key."""
        if isinstance(self.source, PartView):
            start, end = self.range.span(self.source.column(HASH))
            return np.arange(start, end, dtype=np.int32)
        return np.arange(self.range.partition, len(self.sets), self.range.partitions, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class HashRange:
    """The range of hashes that is one task's."""

    partition: int
    partitions: int

    def span(self, hashes: Array) -> tuple[int, int]:
        """Where in sorted hashes it begins and ends."""
        return range_in(hashes, *hash_range(self.partition, self.partitions))


@dataclass(slots=True)
class StoreViews:
    """The stores as one task sees them."""

    program: Program
    task: BatchTask
    range: HashRange
    parts: RowParts
    fresh: Sequence[Fresh]
    _files: dict[str, CombinationFile] = field(default_factory=dict)

    def starting(self, probe: Probe, *, rebuild: bool) -> Iterator[Seen]:
        """The rows a tree begins with: new ones, or to rebuild an intermediate result all that is stored."""
        store = self.program.probed_stores[probe.start]
        new = [each.bucket for each in self.fresh if each.bucket.store == store]
        for bucket in self._stored(store) if rebuild else new:
            yield from self._parts(probe, bucket)

    def seen(self, probe: Probe, *, rebuild: bool) -> Iterator[Seen]:
        """What a probe sees of its store."""
        if len(probe.added) == 1:
            buckets = self._stored(probe.store)
            if not rebuild and probe.added[0] > probe.start:
                buckets += [each.bucket for each in self.fresh if each.bucket.store == probe.store]
            for bucket in buckets:
                yield from self._parts(probe, bucket)
            return
        lists = [] if probe.store in self.task.rebuild else self._stored(probe.store)
        for each in self.fresh:
            new = each.start is not None and (rebuild or each.start <= probe.start)
            if each.bucket.store == probe.store and not new:
                lists.append(each.bucket)
        for bucket in lists:
            yield from self._list(probe, bucket)

    def _stored(self, store: str) -> list[Bucket]:
        return [bucket for bucket in self.task.buckets if bucket.store == store]

    def _mask(self, probe: Probe, bucket: Bucket) -> Slots:
        return Slots(probe.slots & meaning_of(self.task, self.program, bucket) & bucket.slots)

    def _parts(self, probe: Probe, bucket: Bucket) -> Iterator[Seen]:
        mask = self._mask(probe, bucket)
        for number, part in enumerate(bucket.parts):
            if part.rows and part.slots & mask:
                at = self.parts.number(PartRef(bucket.path, number))
                view = self.parts.view(at)
                member = PartMember(at, view.times)
                yield self._seen((member,), mask, ((part.min_time, part.max_time),), view)

    def _list(self, probe: Probe, bucket: Bucket) -> Iterator[Seen]:
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
    ) -> Seen:
        return Seen(members, source.sets, mask, spans, source, self.range, self.parts)
