"""Merging of small buckets: long windows over short batches must not mean thousands of files to probe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.kernels.bitset import from_words, resized, to_words
from weft.kernels.hash_space import hash_range
from weft.kernels.order import sort_order
from weft.plan.changelog import Slots
from weft.plan.key import Index, key_text
from weft.plan.shared import Store
from weft.runtime.slice_state import merge_slices
from weft.runtime.task import BatchTask, Program
from weft.state.bucket import (
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
    write_bucket,
)
from weft.state.index_order import order_index, row_hashes

Array = np.ndarray[Any, Any]


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
    pieces = [
        piece
        for bucket in chosen
        for view in open_parts(Path(task.data) / bucket.path, _overlapping(bucket, low, high))
        if (piece := _piece(program, task, store, view=view, span=(low, high))) is not None
    ]
    if not pieces:
        return []
    rows, sets = (
        pa.concat_tables([p[0] for p in pieces], promote_options="default"),
        np.concatenate([p[1] for p in pieces]),
    )
    batch = rows.combine_chunks().to_batches()[0]
    order = sort_order(batch.column(HASH).to_numpy(), batch.column(TIME).to_numpy())
    batch, sets = batch.take(pa.array(order)), sets[order]
    times = batch.column(TIME).to_numpy()
    batch = _finish(batch, sets, store, times)
    name = task.new_file(f"{store.id}-m{partition}")
    schema = bucket_schema(batch.schema, epoch=task.batch, words=program.words)
    size = write_bucket(Path(task.data) / name, schema, [batch])
    slots = Slots(from_words(np.bitwise_or.reduce(sets, axis=0)))
    part = Part(low, high, len(times), int(times.min()), int(times.max()), slots)
    return [Bucket(name, store.id, store.stream, task.batch, (part,), size)]


def _overlapping(bucket: Bucket, low: int, high: int) -> list[int]:
    return [n for n, part in enumerate(bucket.parts) if part.rows and part.low <= high and part.high >= low]


def _piece(
    program: Program, task: BatchTask, store: Store, *, view: PartView, span: tuple[int, int]
) -> tuple[pa.Table, Array] | None:
    """The rows of a part that lie in the range and are still wanted, with row-wise index hashes."""
    sets = resized(view.sets, program.words) & to_words(task.masks.get(view.epoch, Slots(0)), program.words)
    route = view.column(HASH)
    mine = sets.any(axis=1) & (route >= np.uint64(span[0])) & (route <= np.uint64(span[1]))
    kept = np.flatnonzero(mine)
    if len(kept) == 0:
        return None
    rows = view.rows
    columns = {HASH: rows.column(HASH), TIME: rows.column(TIME)}
    wanted = (*store.columns, *(name for index in store.indexes for name in index.columns()))
    columns |= {name: rows.column(name) for name in wanted if name in rows.schema.names}
    for index in _secondary(store):
        hashes, valid = row_hashes(view, index.id)
        columns[index_hash(index.id)] = pa.array(hashes, mask=~valid)
    table = pa.table(columns).take(pa.array(kept))
    return table, sets[kept]


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
