"""The tag stage: rows of a stream → query-sets → buckets on disk, in the order of their destination.

A plain function on Arrow data: it runs the same in a test process and in a Spark task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.kernels.bitset import column_of, from_words, slots_of, to_mask, to_words
from weft.kernels.evaluate import EvaluationError, evaluate
from weft.kernels.evaluate_raises import may_raise
from weft.kernels.hash_space import hash_range
from weft.kernels.keys import hash_keys
from weft.kernels.order import sort_order
from weft.plan.changelog import NO_SLOTS, Slots
from weft.plan.expression import Column, Expression
from weft.plan.shared import Index, Store, key_column, key_text
from weft.runtime.task import BatchTask, Program, RoleTag, StreamTag
from weft.state.bucket import (
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
    write_bucket,
)

Array = np.ndarray[Any, Any]
ROWS_AT_ONCE = 1 << 20


@dataclass(slots=True)
class TagReport:
    """What one tag task tells the driver about one stream."""

    stream: str
    rows: int = 0
    late: int = 0
    timeless: int = 0
    max_time: int | None = None
    failures: dict[int, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it travels through the shuffle."""
        return {
            "stream": self.stream,
            "rows": self.rows,
            "late": self.late,
            "timeless": self.timeless,
            "max_time": self.max_time,
            "failures": {str(slot): message for slot, message in self.failures.items()},
        }


def tag_table(program: Program, task: BatchTask, stream: str, *, table: pa.Table) -> tuple[TagReport, list[Bucket]]:
    """Tag the rows of one stream and write their buckets; `table` has the columns the program needs."""
    tag, report, buckets = program.streams[stream], TagReport(stream), list[Bucket]()
    for rows in _pieces(table):
        admitted, times = _admit(rows, tag, task.watermarks.get(stream), report)
        if admitted.num_rows == 0:
            continue
        for role in tag.roles:
            tagged = role.index.tag(admitted, times)
            report.failures.update(tagged.failures)
            buckets.extend(_fill_stores(_Tagged(program, task, report, admitted, times, tagged.sets), role))
    return report, buckets


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Contiguous batches of bounded size."""
    for start in range(0, table.num_rows, ROWS_AT_ONCE):
        yield from table.slice(start, ROWS_AT_ONCE).combine_chunks().to_batches()


def _admit(
    rows: pa.RecordBatch, tag: StreamTag, watermark: int | None, report: TagReport
) -> tuple[pa.RecordBatch, Array]:
    """Count the rows, note the largest event time, leave out those that are late or have no time."""
    report.rows += rows.num_rows
    column = rows.column(tag.stream.time)
    if column.null_count:
        report.timeless += column.null_count
        rows = rows.filter(column.is_valid())
        column = rows.column(tag.stream.time)
    times = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=True)
    if len(times) == 0:
        return rows, times
    newest = int(times.max())
    report.max_time = newest if report.max_time is None else max(report.max_time, newest)
    if watermark is not None and int(times.min()) < watermark:
        on_time = times >= watermark
        report.late += len(times) - int(on_time.sum())
        return rows.filter(pa.array(on_time)), times[on_time]
    return rows, times


@dataclass(frozen=True, slots=True)
class _Tagged:
    """Rows of one role with their query-sets, on the way to the stores."""

    program: Program
    task: BatchTask
    report: TagReport
    rows: pa.RecordBatch
    times: Array
    sets: Array


def _fill_stores(tagged: _Tagged, role: RoleTag) -> Iterator[Bucket]:
    for store in role.stores:
        sets = tagged.sets if len(role.stores) == 1 else tagged.sets & to_words(store.slots, tagged.program.words)
        try:
            bucket = _fill_store(tagged, store, sets)
        except EvaluationError:
            failures = _failing_slots(tagged, store, sets)
            tagged.report.failures |= failures
            sets = sets & ~to_words(to_mask(failures), tagged.program.words)
            bucket = _fill_store(tagged, store, sets, users=_rows_by_part(tagged.program, store, sets))
        if bucket is not None:
            yield bucket


def _failing_slots(tagged: _Tagged, store: Store, sets: Array) -> dict[int, str]:
    """Queries with a key that fails on a row of their own; others that share the store must not suffer for them."""
    found: dict[int, str] = {}
    for part, slots in _users(tagged.program, store).items():
        for slot in slots_of(slots) if may_raise(part) else ():
            try:
                evaluate(part, tagged.rows.filter(pa.array(column_of(sets, slot))))
            except EvaluationError as error:
                found[slot] = str(error)
    return found


def _rows_by_part(program: Program, store: Store, sets: Array) -> dict[Expression, Array]:
    """For each key part that can fail, the rows it is wanted for: it may not be computable for others."""
    return {
        part: np.asarray((sets & to_words(slots, program.words)).any(axis=1))
        for part, slots in _users(program, store).items()
        if may_raise(part)
    }


def _users(program: Program, store: Store) -> dict[Expression, Slots]:
    """The slots of the queries whose key each key part belongs to."""
    found: dict[Expression, Slots] = {}
    for join in (probe.join for probe in program.joins):
        for side in ((join.left, join.left_index), (join.right, join.right_index)):
            for index in (index for index in store.indexes if (store.id, index.id) == side):
                found |= {part: Slots(found.get(part, NO_SLOTS) | join.slots) for part in index.key}
    return found


def _fill_store(
    tagged: _Tagged, store: Store, sets: Array, *, users: Mapping[Expression, Array] | None = None
) -> Bucket | None:
    """Order the wanted rows by destination, cut them into parts and write them."""
    wanted = np.flatnonzero(sets[:, 0]) if sets.shape[1] == 1 else np.flatnonzero(sets.any(axis=1))
    columns, keys = list[tuple[str, pa.Array]](), _Keys(tagged.rows, wanted, users or {})
    if store.route:
        hashes, valid = keys.hashes(store.route)
        if valid is not None:
            wanted, hashes, keys = wanted[valid], hashes[valid], keys.reordered(valid)
        order = sort_order(hashes, tagged.times[wanted])
        wanted, hashes = wanted[order], hashes[order]
        keys = keys.reordered(order)
        columns.append((HASH, pa.array(hashes)))
        ranges = [hash_range(p, tagged.task.partitions) for p in range(tagged.task.partitions)]
        cuts = np.append(np.searchsorted(hashes, np.array([low for low, _ in ranges], np.uint64)), len(wanted))
    else:
        ranges, cuts = [(0, LAST_HASH)], np.array([0, len(wanted)])
    if len(wanted) == 0:
        return None
    kept_sets = np.take(sets, wanted, axis=0)  # three times as fast as indexing
    columns += [(TIME, pa.array(tagged.times[wanted])), (SETS, sets_to_arrow(kept_sets))]
    taken = tagged.rows.select(list(store.columns)).take(pa.array(wanted))
    columns += list(zip(store.columns, taken.columns, strict=True))
    columns += _key_columns(store, keys)
    whole = pa.RecordBatch.from_arrays([array for _, array in columns], names=[name for name, _ in columns])
    parts, described = [], []
    for (low, high), start, end in zip(ranges, cuts[:-1], cuts[1:], strict=True):
        parts.append(_with_indexes(whole.slice(start, end - start), store, keys, slice(start, end)))
        described.append(_describe(low, high, tagged.times[wanted[start:end]], kept_sets[start:end]))
    return _write(tagged, store, parts, described)


def _describe(low: int, high: int, times: Array, sets: Array) -> Part:
    if len(times) == 0:
        return Part(low, high, 0, 0, 0, NO_SLOTS)
    slots = Slots(from_words(np.bitwise_or.reduce(sets, axis=0)))
    return Part(low, high, len(times), int(times.min()), int(times.max()), slots)


def _write(tagged: _Tagged, store: Store, parts: list[pa.RecordBatch], described: list[Part]) -> Bucket:
    task = tagged.task
    name = f"{task.batch:012d}/{store.id}-{task.attempt}-{uuid4().hex[:12]}.arrow"
    schema = bucket_schema(parts[0].schema, epoch=task.batch, words=tagged.program.words)
    size = write_bucket(Path(task.data) / name, schema, parts)
    return Bucket(name, store.id, store.stream, task.batch, tuple(described), size)


class _Keys:
    """Values and hashes of key expressions for some rows, computed when asked for."""

    def __init__(self, rows: pa.RecordBatch, wanted: Array, users: Mapping[Expression, Array]) -> None:
        self._rows = rows
        self._wanted = wanted
        self._users = users

    def reordered(self, order: Array | slice) -> _Keys:
        return _Keys(self._rows, self._wanted[order], self._users)

    def values(self, key: tuple[Any, ...]) -> list[pa.Array]:
        """Each part of a key for the wanted rows only: other rows may not be computable."""
        names = [part.name for part in key if isinstance(part, Column)]
        if len(names) == len(key):
            return list(self._rows.select(names).take(pa.array(self._wanted)).columns)
        return [self._value(part) for part in key]

    def _value(self, part: Expression) -> pa.Array:
        """A key part for the wanted rows; NULL where only queries without this part want the row."""
        if part not in self._users:
            return evaluate(part, self._rows.take(pa.array(self._wanted)))
        chosen = self._users[part][self._wanted]
        values = evaluate(part, self._rows.take(pa.array(self._wanted[chosen])))
        return values.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))

    def hashes(self, key: tuple[Any, ...]) -> tuple[Array, Array | None]:
        """Hash of each row's key, and which rows have one (NULL never matches)."""
        hashed = hash_keys(self.values(key))
        return hashed.h, hashed.valid


def _key_columns(store: Store, keys: _Keys) -> list[tuple[str, pa.Array]]:
    """Computed key parts that hash collisions must be told apart by."""
    wanted = {
        key_column(part): part
        for index in store.indexes
        if not index.exact
        for part in index.key
        if not isinstance(part, Column)
    }
    return [(name, keys.values((part,))[0]) for name, part in sorted(wanted.items())]


def _with_indexes(part: pa.RecordBatch, store: Store, keys: _Keys, span: slice) -> pa.RecordBatch:
    """Add the secondary indexes: every index whose key is not the route itself."""
    for index in store.indexes:
        if key_text(index.key) != key_text(store.route):
            hashes, rows = _secondary(part, index, keys.reordered(span))
            part = part.append_column(index_hash(index.id), pa.array(hashes))
            part = part.append_column(index_rows(index.id), pa.array(rows))
    return part


def _secondary(part: pa.RecordBatch, index: Index, keys: _Keys) -> tuple[Array, Array]:
    hashes, valid = keys.hashes(index.key)
    return order_index(hashes, part.column(TIME).to_numpy(), valid)


def order_index(hashes: Array, times: Array, valid: Array | None) -> tuple[Array, Array]:
    """Sorted hashes and their rows; rows without a key come last, with row number -1."""
    rows = np.arange(len(hashes), dtype=np.int32) if valid is None else np.flatnonzero(valid).astype(np.int32)
    order = sort_order(hashes[rows], times[rows])
    missing = len(hashes) - len(rows)
    return (
        np.concatenate([hashes[rows][order], np.full(missing, LAST_HASH, np.uint64)]),
        np.concatenate([rows[order], np.full(missing, -1, np.int32)]),
    )
