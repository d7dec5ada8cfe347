"""Merging of small buckets: long windows over short batches must not mean thousands of files to probe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import InternalError
from weft.execution.aggregate.stored_slices import merge_slices
from weft.execution.program import BatchTask, Program
from weft.kernels.bitset import resized, set_from_words, set_to_words
from weft.kernels.hash_space import hash_range
from weft.kernels.large_text import cut, lengths
from weft.kernels.order import sort_order
from weft.plan.key import Index, key_text
from weft.plan.shared import Store
from weft.plan.slots import Slots
from weft.storage.bucket import (
    HASH,
    SETS,
    TIME,
    Bucket,
    Part,
    PartView,
    bucket_schema,
    index_hash,
    index_rows,
    open_parts,
    sets_to_arrow,
)
from weft.storage.data_file import write_file
from weft.storage.index_order import order_index, row_hashes

Array = np.ndarray[Any, Any]


PART_BYTES = 128 << 20
"""Of the rows that are merged at a time: each such piece becomes a part of its own, so that neither memory nor Arrow's
32-bit offsets set a limit to what can be merged."""


def merge_buckets(program: Program, task: BatchTask, partition: int, *, paths: Sequence[str]) -> list[Bucket]:
    """This partition's share of some buckets of one store as one bucket, tagged as of this batch.

    Query-sets are ANDed with the changelog-set of their epoch, so the merged rows mean what they meant; rows that
    no live query wants any more are left out.
    """
    chosen = [bucket for bucket in task.buckets if bucket.path in set(paths)]
    if chosen[0].store in program.slices:
        return merge_slices(program, task, partition, buckets=chosen)
    store = program.stores[chosen[0].store]
    low, high = hash_range(partition, task.partitions)
    shares = [
        share
        for bucket in chosen
        for view in _views(task, bucket, low, high)
        if (share := _share(program, task, store, view=view, span=(low, high))) is not None
    ]
    return [_write(program, task, partition, store=store, shares=shares)] if shares else []


def rewrite_rows(
    program: Program, task: BatchTask, partition: int, *, bucket: Bucket, kept: Mapping[int, Array]
) -> Bucket | None:
    """Some rows of this partition's share of a bucket, flagged by part, as a bucket tagged as of this batch; None if
    no live query wants any of them."""
    store, span = program.stores[bucket.store], hash_range(partition, task.partitions)
    views = open_parts(Path(task.data) / bucket.path, tuple(kept))
    found = (
        _share(program, task, store, view=view, span=span, wanted=flags)
        for view, flags in zip(views, kept.values(), strict=True)
    )
    shares = [share for share in found if share is not None]
    return _write(program, task, partition, store=store, shares=shares) if shares else None


def _write(program: Program, task: BatchTask, partition: int, *, store: Store, shares: Sequence[_Share]) -> Bucket:
    """Some shares as one bucket, with the rows counted."""
    merge, span = _Merge(store, shares), hash_range(partition, task.partitions)
    described: list[Part] = []
    parts = merge.parts(described, span)
    first = next(parts)
    schema = bucket_schema(first.schema, epoch=task.batch, words=program.words)
    file = write_file(task.data, task.new_file(f"{store.id}-m{partition}"), schema, chain([first], parts))
    merged = Bucket(file.path, store.id, store.stream, task.batch, tuple(described), file.bytes)
    if merged.rows != merge.rows:
        raise InternalError(
            f"merging buckets of store {store.id} made {merged.rows} rows of {merge.rows}",
            detail="Nothing of this batch is committed; the buckets are as they were.",
        )
    return merged


def _views(task: BatchTask, bucket: Bucket, low: int, high: int) -> list[PartView]:
    numbers = [n for n, part in enumerate(bucket.parts) if part.rows and part.low <= high and part.high >= low]
    return open_parts(Path(task.data) / bucket.path, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class _Share:
    """What is merged of a part: its rows in the range that are still wanted, with their query-sets."""

    rows: pa.Table
    kept: Array
    sets: Array

    def take(self, rows: Array) -> pa.Table:
        """Some of the wanted rows, by their number among them."""
        return self.rows.take(pa.array(self.kept[rows]))


def _share(
    program: Program,
    task: BatchTask,
    store: Store,
    *,
    view: PartView,
    span: tuple[int, int],
    wanted: Array | None = None,
) -> _Share | None:
    """What is merged of a part; `wanted` flags the rows that are to be, if not all are."""
    sets = resized(view.sets, program.words) & set_to_words(task.masks.get(view.epoch, Slots(0)), program.words)
    route = view.column(HASH)
    mine = sets.any(axis=1) & (route >= np.uint64(span[0])) & (route <= np.uint64(span[1]))
    kept = np.flatnonzero(mine if wanted is None else mine & wanted)
    if len(kept) == 0:
        return None
    rows = view.rows
    columns = {HASH: rows.column(HASH), TIME: rows.column(TIME)}
    names = (*store.columns, *(name for index in store.indexes for name in index.columns()))
    columns |= {name: rows.column(name) for name in names if name in rows.schema.names}
    for index in _secondary(store):
        hashes, valid = row_hashes(view, index.id)
        columns[index_hash(index.id)] = pa.array(hashes, mask=~valid)
    return _Share(pa.table(columns), kept, np.take(sets, kept, axis=0))


class _Merge:
    """The rows of all shares in the order of a bucket, a piece of bounded size at a time."""

    def __init__(self, store: Store, shares: Sequence[_Share]) -> None:
        self._store = store
        self._shares = shares
        self.rows = sum(len(share.kept) for share in shares)
        self._share = np.repeat(np.arange(len(shares), dtype=np.int32), [len(share.kept) for share in shares])
        self._row = np.concatenate([np.arange(len(share.kept), dtype=np.int32) for share in shares])
        self._hashes, self._times = (
            np.concatenate([share.rows.column(name).chunk(0).to_numpy()[share.kept] for share in shares])
            for name in (HASH, TIME)
        )
        self._sets = np.concatenate([share.sets for share in shares])
        self._schema = pa.unify_schemas([share.rows.schema for share in shares], promote_options="default")

    def parts(self, described: list[Part], span: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The parts to be written; `described` is told of each, the ranges of them all being in `span`."""
        order = sort_order(self._hashes, self._times)
        pieces = cut(self._bytes()[order], PART_BYTES)
        for piece in pieces:
            for rows, batch in self._gathered(order[piece]):
                hashes = self._hashes[rows]
                limits = span if len(rows) == self.rows else (int(hashes[0]), int(hashes[-1]))
                described.append(self._describe(rows, limits))
                yield _finish(batch, self._sets[rows], self._store, self._times[rows])

    def _bytes(self) -> Array:
        """Bytes of each row."""
        found = []
        for share in self._shares:
            sizes = np.zeros(share.rows.num_rows, np.int64)
            for column in share.rows.columns:
                sizes += lengths(column.chunk(0))
            found.append(sizes[share.kept])
        return np.concatenate(found)

    def _gathered(self, rows: Array) -> Iterator[tuple[Array, pa.RecordBatch]]:
        """Rows by their number among all, in this order; cut in halves until they fit into arrays, since how large
        nested values are is only estimated."""
        tables, places = [], []
        for number, share in enumerate(self._shares):
            at = np.flatnonzero(self._share[rows] == number)
            if len(at):
                tables.append(share.take(self._row[rows[at]]))
                places.append(at)
        together = pa.concat_tables([self._schema.empty_table(), *tables], promote_options="default").combine_chunks()
        batches = together.to_batches()
        if len(batches) == 1:
            order = np.empty(len(rows), np.int64)
            order[np.concatenate(places)] = np.arange(len(rows))
            yield rows, batches[0].take(pa.array(order))
        else:
            half = len(rows) // 2
            yield from self._gathered(rows[:half])
            yield from self._gathered(rows[half:])

    def _describe(self, rows: Array, limits: tuple[int, int]) -> Part:
        times = self._times[rows]
        slots = Slots(set_from_words(np.bitwise_or.reduce(self._sets[rows], axis=0)))
        return Part(*limits, len(rows), int(times.min()), int(times.max()), slots)


def _secondary(store: Store) -> list[Index]:
    return [index for index in store.indexes if key_text(index.key) != key_text(store.route)]


def _finish(batch: pa.RecordBatch, sets: Array, store: Store, times: Array) -> pa.RecordBatch:
    """Put the query-sets in and turn row-wise hashes into sorted indexes."""
    names = [name for name in batch.schema.names if not name.startswith("weft#h:")]
    columns = {name: batch.column(name) for name in names} | {SETS: sets_to_arrow(sets)}
    for index in _secondary(store):
        hashes = batch.column(index_hash(index.id))
        valid = np.asarray(hashes.is_valid()) if hashes.null_count else None
        ordered, rows = order_index(hashes.fill_null(0).to_numpy(zero_copy_only=False), times, valid)
        columns |= {index_hash(index.id): pa.array(ordered), index_rows(index.id): pa.array(rows)}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
