"""The probe stage for session joins: when a session ends, all its pairs are results, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.kernels.bitset import column_of, resized, to_words
from weft.kernels.cells import group_rows
from weft.kernels.close import SessionQuery, ended_sessions, join_sessions
from weft.kernels.pair_cells import equal_pairs
from weft.plan.changelog import Slots
from weft.plan.key import IndexId, StoreId
from weft.runtime.aggregate import Limits
from weft.runtime.partition import PartitionRange, key_values, meaning_of
from weft.runtime.task import BatchTask, Program, SessionClose
from weft.state.bucket import Bucket
from weft.state.segment import PartRef, WindowResult, write_window_pairs

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of one side in a partition: number of the part, row in it, time, query-set, hash and key values."""

    parts: tuple[tuple[str, int], ...]
    part: Array
    row: Array
    times: Array
    sets: Array
    hashes: Array
    keys: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.times)


def close_session_join(
    program: Program,
    task: BatchTask,
    mine: PartitionRange,
    each: SessionClose,
    *,
    buckets: Sequence[Bucket],
    limits: Limits,
) -> tuple[WindowResult | None, set[str]]:
    """The pairs of sessions that end now, as a file; and the buckets with rows of sessions that do not."""
    join = each.join
    if limits.upto is None or limits.after == limits.upto:
        return None, {bucket.path for bucket in buckets if bucket.store in (join.left, join.right)}
    sides = [
        _load(program, task, mine, buckets=buckets, at=at, slots=join.slots)
        for at in ((join.left, join.left_index), (join.right, join.right_index))
    ]
    key = _key_numbers(sides)
    still_open = [np.zeros(len(side), np.bool_) for side in sides]
    found = [_close(query, sides, key, limits=limits, still_open=still_open) for query in each.queries]
    paths = {
        side.parts[number][0]
        for side, flags in zip(sides, still_open, strict=True)
        for number in np.unique(side.part[flags])
    }
    return _write(task, each, sides, [pairs for pairs in found if len(pairs["slot"])]), paths


def _load(
    program: Program,
    task: BatchTask,
    mine: PartitionRange,
    *,
    buckets: Sequence[Bucket],
    at: tuple[StoreId, IndexId],
    slots: Slots,
) -> _Rows:
    store, parts, pieces = program.stores[at[0]], list[tuple[str, int]](), []
    for bucket in (bucket for bucket in buckets if bucket.store == at[0]):
        mask = Slots(slots & meaning_of(task, program, bucket))
        for number, part in mine.parts(bucket):
            if not part.slots & mask:
                continue
            side, view = mine.side(bucket, number, store, at[1]), mine.view(bucket, number)
            rows = np.arange(len(side.t)) if side.rows is None else np.asarray(side.rows)
            sets = resized(view.sets[rows], program.words) & to_words(mask, program.words)
            kept = np.flatnonzero(sets.any(axis=1))
            rows = rows[kept]
            keys = [column.take(pa.array(rows)) for column in key_values(store, at[1], view)]
            pieces.append((np.full(len(rows), len(parts)), rows, view.times[rows], sets[kept], side.h[kept], keys))
            parts.append((bucket.path, number))
    if not pieces:
        none = np.empty(0, np.int64)
        return _Rows((), none, none, none, np.empty((0, program.words), np.uint64), none.astype(np.uint64), ())
    part_numbers, rows, times, sets, hashes, keys = zip(*pieces, strict=True)
    columns = tuple(pa.concat_arrays(list(column)) for column in zip(*keys, strict=True))
    return _Rows(
        tuple(parts),
        np.concatenate(part_numbers),
        np.concatenate(rows),
        np.concatenate(times),
        np.concatenate(sets),
        np.concatenate(hashes),
        columns,
    )


def _key_numbers(sides: Sequence[_Rows]) -> tuple[Array, Array]:
    """A number for each row's key: equal on both sides where keys are equal."""
    left, right = sides
    if len(left) and len(right) and left.keys:
        columns = [pa.concat_arrays([a, b]) for a, b in zip(left.keys, right.keys, strict=True)]
        numbers, _ = group_rows(columns, len(left) + len(right))
    else:
        numbers = np.unique(np.concatenate([left.hashes, right.hashes]), return_inverse=True)[1]
    return numbers[: len(left)], numbers[len(left) :]


def _close(
    query: SessionQuery, sides: Sequence[_Rows], key: tuple[Array, Array], *, limits: Limits, still_open: list[Array]
) -> dict[str, Array]:
    assert limits.upto is not None
    mine = [np.flatnonzero(column_of(side.sets, query.slot)) for side in sides]
    keys = [numbers[rows].astype(np.int64) for numbers, rows in zip(key, mine, strict=True)]
    times = [side.times[rows] for side, rows in zip(sides, mine, strict=True)]
    sessions = join_sessions(keys, times, times, query.gap)
    over, ended = ended_sessions(sessions.ends, query.gap, after=limits.after, upto=limits.upto)
    halves = sessions.numbers
    for flags, rows, session in zip(still_open, mine, halves, strict=True):
        flags[rows[~over[session]]] = True
    done = [np.flatnonzero(ended[session]) for session in halves]
    pairs = list(equal_pairs(halves[0][done[0]], halves[1][done[1]]))
    left, right = (np.concatenate([pair[n] for pair in pairs] or [np.empty(0, np.int64)]) for n in (0, 1))
    session = halves[0][done[0]][left]
    left_rows, right_rows = mine[0][done[0][left]], mine[1][done[1][right]]
    return {
        "slot": np.full(len(session), query.slot),
        "left": sides[0].part[left_rows],
        "left_row": sides[0].row[left_rows],
        "right": sides[1].part[right_rows],
        "right_row": sides[1].row[right_rows],
        "first": sessions.begins[session],
        "last": sessions.ends[session],
    }


def _write(
    task: BatchTask, each: SessionClose, sides: Sequence[_Rows], found: Sequence[dict[str, Array]]
) -> WindowResult | None:
    if not found:
        return None
    columns = {name: np.concatenate([pairs[name] for pairs in found]) for name in found[0]}
    refs = [PartRef(*part) for side in sides for part in side.parts]
    columns["right"] = columns["right"] + len(sides[0].parts)
    used, numbers = np.unique(np.concatenate([columns["left"], columns["right"]]), return_inverse=True)
    columns["left"], columns["right"] = np.split(numbers.reshape(-1), 2)
    path = task.new_file("s")
    size = write_window_pairs(Path(task.data) / path, columns)
    return WindowResult(path, each.join.id, len(columns["slot"]), size, tuple(refs[number] for number in used))
