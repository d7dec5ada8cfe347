"""Merging of small buckets, so that long windows over short batches do not lead to thousands of files to probe."""

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
"""Maximum bytes of rows that are merged at a time. Each such piece becomes a part, so that neither memory nor Arrow's
32-bit offsets limit how much can be merged."""


def merge_buckets(program: Program, task: BatchTask, partition: int, *, paths: Sequence[str]) -> list[Bucket]:
    """Merge this partition's share of some buckets of one store into one bucket, tagged as of this batch.

    Query-sets are ANDed with the changelog-set of their epoch, so each bit still stands for the same query. Rows that
    no live query wants are left out; without wanted rows, the result is empty.
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
    """Write the rows of this partition that `kept` flags, by part of a bucket, to a new bucket tagged as of this batch.

    The result is None if no live query wants any of the rows.
    """
    store, span = program.stores[bucket.store], hash_range(partition, task.partitions)
    views = open_parts(Path(task.data) / bucket.path, tuple(kept))
    candidates = (
        _share(program, task, store, view=view, span=span, wanted=flags)
        for view, flags in zip(views, kept.values(), strict=True)
    )
    shares = [share for share in candidates if share is not None]
    return _write(program, task, partition, store=store, shares=shares) if shares else None


def _write(program: Program, task: BatchTask, partition: int, *, store: Store, shares: Sequence[_Share]) -> Bucket:
    """Write some shares as one bucket; raise InternalError if the number of rows changes."""
    merge, span = _Merge(store, shares), hash_range(partition, task.partitions)
    descriptions: list[Part] = []
    batches = merge.parts(descriptions, span)
    first = next(batches)
    schema = bucket_schema(first.schema, epoch=task.batch, words=program.words)
    file = write_file(task.data, task.new_file(f"{store.id}-m{partition}"), schema, chain([first], batches))
    merged = Bucket(file.path, store.id, store.stream, task.batch, tuple(descriptions), file.bytes)
    if merged.rows != merge.rows:
        raise InternalError(
            f"merging buckets of store {store.id} made {merged.rows} rows of {merge.rows}",
            detail="Nothing of this batch is committed; the buckets are as they were.",
        )
    return merged


def _views(task: BatchTask, bucket: Bucket, low: int, high: int) -> list[PartView]:
    return open_parts(Path(task.data) / bucket.path, bucket.parts_in(low, high))


@dataclass(frozen=True, slots=True, eq=False)
class _Share:
    """The rows of a part that are merged: those in the partition's range that a live query wants, with query-sets."""

    rows: pa.Table
    """All rows of the part."""
    kept: Array
    """The numbers of the merged rows."""
    sets: Array
    """The query-sets of the merged rows."""

    def take(self, rows: Array) -> pa.Table:
        """Return merged rows by their positions in `kept`."""
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
    """Return the rows of a part to merge, or None if there are none; `wanted` flags the rows to choose from."""
    sets = resized(view.sets, program.words) & set_to_words(task.masks.get(view.epoch, Slots(0)), program.words)
    route = view.column(HASH)
    eligible = sets.any(axis=1) & (route >= np.uint64(span[0])) & (route <= np.uint64(span[1]))
    kept = np.flatnonzero(eligible if wanted is None else eligible & wanted)
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
    """The rows of all shares in the order of a bucket, in pieces of bounded size."""

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
        """Yield the parts to write, and append the description of each to `described`; `span` contains all hashes."""
        order = sort_order(self._hashes, self._times)
        pieces = cut(self._bytes()[order], PART_BYTES)
        for piece in pieces:
            for rows, batch in self._gathered(order[piece]):
                hashes = self._hashes[rows]
                limits = span if len(rows) == self.rows else (int(hashes[0]), int(hashes[-1]))
                described.append(self._describe(rows, limits))
                yield _finish(batch, self._sets[rows], self._store, self._times[rows])

    def _bytes(self) -> Array:
        """Return the approximate bytes of each row."""
        sizes_by_share = []
        for share in self._shares:
            sizes = np.zeros(share.rows.num_rows, np.int64)
            for column in share.rows.columns:
                sizes += lengths(column.chunk(0))
            sizes_by_share.append(sizes[share.kept])
        return np.concatenate(sizes_by_share)

    def _gathered(self, rows: Array) -> Iterator[tuple[Array, pa.RecordBatch]]:
        """Yield the rows with these numbers in this order, halved until each half fits into one batch.

        A piece may exceed 32-bit offsets, because the sizes of nested values are only estimated.
        """
        tables, places = [], []
        for number, share in enumerate(self._shares):
            positions = np.flatnonzero(self._share[rows] == number)
            if len(positions):
                tables.append(share.take(self._row[rows[positions]]))
                places.append(positions)
        table = pa.concat_tables([self._schema.empty_table(), *tables], promote_options="default").combine_chunks()
        batches = table.to_batches()
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
    """Return a batch with its query-sets added and the hash of each row replaced by sorted indexes."""
    names = [name for name in batch.schema.names if not name.startswith("weft#h:")]
    columns = {name: batch.column(name) for name in names} | {SETS: sets_to_arrow(sets)}
    for index in _secondary(store):
        hashes = batch.column(index_hash(index.id))
        valid = np.asarray(hashes.is_valid()) if hashes.null_count else None
        ordered, rows = order_index(hashes.fill_null(0).to_numpy(zero_copy_only=False), times, valid)
        columns |= {index_hash(index.id): pa.array(ordered), index_rows(index.id): pa.array(rows)}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
