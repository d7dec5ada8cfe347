"""The tag stage: give the rows of a stream their query-sets and write them as buckets, ordered by destination.

It is a plain function on Arrow data, so it runs the same in a test process and in a Spark task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.execution.aggregate.accumulate import fill_slices
from weft.execution.input.pieces import ROWS_AT_ONCE, cut_pieces
from weft.execution.items import TagReport
from weft.execution.program import BatchTask, Program, RoleTag, StreamTag
from weft.execution.selection.admission import admit
from weft.execution.selection.computed import Keys, TaggedRows, rows_by_part, without_failing
from weft.execution.selection.idle_streams import InTime, in_time
from weft.kernels.bitset import set_from_words, set_to_words
from weft.kernels.expression.evaluate import EvaluationError
from weft.kernels.hash_space import hash_range
from weft.kernels.key_hash import hash_keys
from weft.kernels.order import sort_order
from weft.plan.expression import Column, Expression
from weft.plan.key import Index, key_column, key_text
from weft.plan.probe_tree import TIME_ROUTE
from weft.plan.shared import Store
from weft.plan.slots import NO_SLOTS, Slots
from weft.storage.bucket import (
    HASH,
    LAST_HASH,
    SETS,
    TIME,
    Bucket,
    Part,
    bucket_schema,
    index_hash,
    index_rows,
    sets_to_arrow,
)
from weft.storage.data_file import write_file
from weft.storage.index_order import order_index

Array = np.ndarray[Any, Any]
_FEWEST_ROWS, _VALUES_AT_ONCE, _WORDS_AT_ONCE = 1 << 16, 1 << 24, 1 << 24


def tag_table(program: Program, task: BatchTask, stream: str, *, table: pa.Table) -> TagReport:
    """Tag the rows of one stream and write their buckets; `table` has the columns that the program needs."""
    tag, report = program.streams[stream], TagReport(stream)
    for rows in _pieces(table, rows_at_once(tag)):
        admitted, times = admit(rows, tag, task, report)
        if admitted.num_rows == 0:
            continue
        missed = None
        for role in tag.roles:
            tagged = role.index.tag(admitted, times)
            report.failures.update(tagged.failures)
            timely = in_time(times, tagged.sets, tag.passed, task.closed)
            remaining = TaggedRows(program, task, report, admitted, times, timely.sets)
            report.buckets += _fill_stores(remaining, role)
            report.buckets += [
                bucket for slices in role.slices if (bucket := fill_slices(remaining, slices)) is not None
            ]
            report.buckets += _fill_for_later(remaining, timely, role)
            missed = timely.missed if missed is None else missed | (False if timely.missed is None else timely.missed)
        report.missed += 0 if missed is None else int(missed.sum())
    return report


def _fill_for_later(tagged: TaggedRows, timely: InTime, role: RoleTag) -> list[Bucket]:
    """Write the rows that are too late for earlier rows of their joins; only later batches join them."""
    if timely.later is None:
        return []
    buckets = list(_fill_stores(replace(tagged, sets=timely.later), role))
    tagged.report.later += [bucket.path for bucket in buckets]
    return buckets


def rows_at_once(tag: StreamTag) -> int:
    """Return how many rows to tag at a time: fewer if more is computed per row or query-sets are longer."""
    computed = max((len(slices.store.accumulators) for role in tag.roles for slices in role.slices), default=0)
    words = max((role.index.words for role in tag.roles), default=1)
    fitting = min(_VALUES_AT_ONCE // max(1, computed), _WORDS_AT_ONCE // words)
    return min(ROWS_AT_ONCE, max(_FEWEST_ROWS, fitting))


def _pieces(table: pa.Table, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield a table as contiguous batches of bounded size."""
    for piece in cut_pieces([table], most_rows):
        yield from piece.combine_chunks().to_batches()


def _fill_stores(tagged: TaggedRows, role: RoleTag) -> Iterator[Bucket]:
    for store in role.stores:
        sets = tagged.sets if len(role.stores) == 1 else tagged.sets & set_to_words(store.slots, tagged.program.words)
        try:
            bucket = _fill_store(tagged, store, sets)
        except EvaluationError:
            users = _users(tagged.program, store)
            sets = without_failing(tagged, users, sets)
            bucket = _fill_store(tagged, store, sets, users=rows_by_part(users, sets))
        if bucket is not None:
            yield bucket


def _users(program: Program, store: Store) -> dict[Expression, Slots]:
    """Return the slots of the queries that use each key part of a store."""
    users: dict[Expression, Slots] = {}
    for join in (probe.join for probe in program.joins):
        for side in ((join.left, join.left_index), (join.right, join.right_index)):
            for index in (index for index in store.indexes if (store.id, index.id) == side):
                users |= {part: Slots(users.get(part, NO_SLOTS) | join.slots) for part in index.key}
    for probe in program.probes.probes():
        for equality in (*probe.equalities, *(() if probe.route is None else (probe.route,))):
            for side, index in ((equality.left, equality.left_index), (equality.right, equality.right_index)):
                if program.probed_stores[side] == store.id:
                    users |= {part: Slots(users.get(part, NO_SLOTS) | probe.slots) for part in index.key}
    return users


def _fill_store(
    tagged: TaggedRows, store: Store, sets: Array, *, users: Mapping[Expression, Array] | None = None
) -> Bucket | None:
    """Order the wanted rows by destination, cut them into parts and write them; None if no row is wanted."""
    wanted = np.flatnonzero(sets[:, 0]) if sets.shape[1] == 1 else np.flatnonzero(sets.any(axis=1))
    columns, keys = list[tuple[str, pa.Array]](), Keys(tagged.rows, wanted, users or {})
    if store.route:
        hashes, valid = _time_hashes(tagged.times[wanted]) if store.route == TIME_ROUTE else keys.hashes(store.route)
        if valid is not None:
            wanted, hashes, keys = wanted[valid], hashes[valid], keys.reordered(valid)
        order = sort_order(hashes, tagged.times[wanted])
        wanted, hashes = wanted[order], hashes[order]
        keys = keys.reordered(order)
        columns.append((HASH, pa.array(hashes)))
        # A store that is probed by index need not be cut: fewer parts mean fewer probes.
        part_count = 1 if store.route == TIME_ROUTE else tagged.task.partitions
        ranges = [hash_range(p, part_count) for p in range(part_count)]
        cuts = np.append(np.searchsorted(hashes, np.array([low for low, _ in ranges], np.uint64)), len(wanted))
    else:
        ranges, cuts = [(0, LAST_HASH)], np.array([0, len(wanted)])
    if len(wanted) == 0:
        return None
    kept_sets = np.take(sets, wanted, axis=0)  # three times as fast as `sets[wanted]`
    columns += [(TIME, pa.array(tagged.times[wanted])), (SETS, sets_to_arrow(kept_sets))]
    payload = tagged.rows.select(list(store.columns)).take(pa.array(wanted))
    columns += list(zip(store.columns, payload.columns, strict=True))
    columns += _key_columns(store, keys)
    batch = pa.RecordBatch.from_arrays([array for _, array in columns], names=[name for name, _ in columns])
    parts, descriptions = [], []
    for (low, high), start, end in zip(ranges, cuts[:-1], cuts[1:], strict=True):
        parts.append(_with_indexes(batch.slice(start, end - start), store, keys, slice(start, end)))
        descriptions.append(_describe(low, high, tagged.times[wanted[start:end]], kept_sets[start:end]))
    if store.route == TIME_ROUTE:
        _count_keys(tagged.report, store, parts[0])
    return _write(tagged, store, parts, descriptions)


def _count_keys(report: TagReport, store: Store, part: pa.RecordBatch) -> None:
    for index in store.indexes:
        keyed = part.num_rows - int(np.count_nonzero(part.column(index_rows(index.id)).to_numpy() < 0))
        hashes = part.column(index_hash(index.id)).to_numpy()[:keyed]
        distinct = int(np.count_nonzero(hashes[1:] != hashes[:-1])) + min(1, keyed)
        place = f"{store.id}/{index.id}"
        report.keys[place] = max(report.keys.get(place, (0, 0)), (keyed, distinct))


def _time_hashes(times: Array) -> tuple[Array, Array | None]:
    return hash_keys([pa.array(times)]).h, None


def _describe(low: int, high: int, times: Array, sets: Array) -> Part:
    if len(times) == 0:
        return Part(low, high, 0, 0, 0, NO_SLOTS)
    slots = Slots(set_from_words(np.bitwise_or.reduce(sets, axis=0)))
    return Part(low, high, len(times), int(times.min()), int(times.max()), slots)


def _write(tagged: TaggedRows, store: Store, parts: list[pa.RecordBatch], descriptions: list[Part]) -> Bucket:
    task = tagged.task
    schema = bucket_schema(parts[0].schema, epoch=task.batch, words=tagged.program.words)
    file = write_file(task.data, task.new_file(store.id), schema, parts)
    return Bucket(file.path, store.id, store.stream, task.batch, tuple(descriptions), file.bytes)


def _key_columns(store: Store, keys: Keys) -> list[tuple[str, pa.Array]]:
    """Return the computed key parts that tell apart keys with equal hashes."""
    parts = {
        key_column(part): part
        for index in store.indexes
        if not index.exact
        for part in index.key
        if not isinstance(part, Column)
    }
    return [(name, keys.values((part,))[0]) for name, part in sorted(parts.items())]


def _with_indexes(part: pa.RecordBatch, store: Store, keys: Keys, span: slice) -> pa.RecordBatch:
    """Add the secondary indexes: every index whose key is not the route."""
    for index in store.indexes:
        if key_text(index.key) != key_text(store.route):
            hashes, rows = _secondary(part, index, keys.reordered(span))
            part = part.append_column(index_hash(index.id), pa.array(hashes))
            part = part.append_column(index_rows(index.id), pa.array(rows))
    return part


def _secondary(part: pa.RecordBatch, index: Index, keys: Keys) -> tuple[Array, Array]:
    hashes, valid = keys.hashes(index.key)
    return order_index(hashes, part.column(TIME).to_numpy(), valid)
