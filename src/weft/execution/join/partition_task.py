"""The probe stage: new buckets of a partition meet the stored ones, and pairs become a segment of the result log.

It is a plain function on files, so it runs the same in a test process and in a Spark task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.execution.aggregate.close_windows import close_windows, window_limits
from weft.execution.aggregate.rewrite_sessions import rest_of
from weft.execution.items import ProbeReport
from weft.execution.join.copy_rows import copy_rows, used_rows
from weft.execution.join.partition_range import PartitionRange, key_values, meaning_of
from weft.execution.join.session_join import close_session_join
from weft.execution.merge_buckets import merge_buckets
from weft.execution.program import BatchTask, JoinProbe, Program
from weft.kernels.bitset import set_to_words
from weft.kernels.join.merge_join import join_pairs
from weft.kernels.key_hash import equal_rows
from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.storage.bucket import (
    Bucket,
    Part,
    PartView,
)
from weft.storage.result_files import PartRef, Segment, SegmentPiece, write_pairs

Array = np.ndarray[Any, Any]


def probe_partition(
    program: Program, task: BatchTask, partition: int, *, fresh: Sequence[Bucket], newest: Mapping[str, int]
) -> ProbeReport:
    """Join a partition's new rows with each other and with stored rows, once for all queries, and close the windows
    that the newest event times of the batch (by stream) have passed."""
    report = ProbeReport()
    merged_away = {path for group in task.merges for path in group}
    for group in task.merges:
        report.merged += merge_buckets(program, task, partition, paths=group)
    stored = [bucket for bucket in task.buckets if bucket.path not in merged_away] + report.merged
    if program.closes_windows:
        _end_windows(program, task, partition, buckets=[*stored, *fresh], newest=newest, report=report)
    if not fresh or not program.joins:
        return report
    matches = list(_matches(program, task, PartitionRange(task, partition), _Both(fresh, stored)))
    report.pairs = sum(len(match.left_rows) for match in matches)
    if matches:
        _write_segment(task, partition, matches, report)
    return report


def _end_windows(
    program: Program,
    task: BatchTask,
    partition: int,
    *,
    buckets: Sequence[Bucket],
    newest: Mapping[str, int],
    report: ProbeReport,
) -> None:
    limits = window_limits(program, task, newest)
    closed = close_windows(program, task, partition, buckets=buckets, limits=limits)
    report.windows, report.open, still_open = closed.results, closed.open, closed.parts
    own_range = PartitionRange(task, partition)
    for join in program.session_joins:
        closed_join = close_session_join(program, task, own_range, join, buckets=buckets, limits=limits[join.streams])
        report.windows += closed_join.results
        report.open |= closed_join.open
        still_open.add(closed_join.parts)
        report.failures |= closed_join.failures
    for bucket in (bucket for bucket in buckets if bucket.path in report.open):
        replacement = rest_of(program, task, partition, bucket=bucket, still_open=still_open)
        if replacement is not None:
            report.rests[bucket.path] = replacement
            report.open.discard(bucket.path)


@dataclass(frozen=True, slots=True)
class _Both:
    fresh: Sequence[Bucket]
    stored: Sequence[Bucket]

    def pairs(self, left: StoreId, right: StoreId) -> Iterator[tuple[Bucket, Bucket]]:
        """Yield every pair of buckets that has not been joined before: at least one of the two is new."""
        fresh_left = [b for b in self.fresh if b.store == left]
        fresh_right = [b for b in self.fresh if b.store == right]
        for a in fresh_left:
            for b in (*fresh_right, *(b for b in self.stored if b.store == right)):
                yield a, b
        for a in (a for a in self.stored if a.store == left):
            for b in fresh_right:
                yield a, b


@dataclass(slots=True)
class _Match:
    """The pairs that were found between two parts."""

    join: str
    left: tuple[Bucket, int]
    right: tuple[Bucket, int]
    left_rows: Array
    right_rows: Array
    views: tuple[PartView, PartView]


def _matches(program: Program, task: BatchTask, own_range: PartitionRange, both: _Both) -> Iterator[_Match]:
    for probe in program.joins:
        for left, right in both.pairs(probe.join.left, probe.join.right):
            mask = Slots(probe.join.slots & meaning_of(task, program, left) & meaning_of(task, program, right))
            if not mask & left.slots & right.slots:
                continue
            for left_number, left_part in own_range.parts(left):
                for right_number, right_part in own_range.parts(right):
                    if _may_match(probe, mask, left_part, right_part):
                        parts = ((left, left_number), (right, right_number))
                        match = _join_parts(program, probe, own_range, mask=mask, parts=parts)
                        if len(match.left_rows):
                            yield match


def _may_match(probe: JoinProbe, mask: Slots, left: Part, right: Part) -> bool:
    if not mask & left.slots & right.slots or left.low > right.high or right.low > left.high:
        return False
    return probe.windows.reachable(min_l=left.min_time, max_l=left.max_time, min_r=right.min_time, max_r=right.max_time)


def _join_parts(
    program: Program,
    probe: JoinProbe,
    own_range: PartitionRange,
    *,
    mask: Slots,
    parts: tuple[tuple[Bucket, int], tuple[Bucket, int]],
) -> _Match:
    (left, left_number), (right, right_number) = parts
    join = probe.join
    left_store, right_store = program.stores[join.left], program.stores[join.right]
    left_side = own_range.side(left, left_number, left_store, join.left_index)
    right_side = own_range.side(right, right_number, right_store, join.right_index)
    left_rows, right_rows = join_pairs(left_side, right_side, probe.windows, set_to_words(mask, program.words))
    views = (own_range.view(left, left_number), own_range.view(right, right_number))
    left_columns = key_values(left_store, join.left_index, views[0])
    if left_columns and len(left_rows):
        right_columns = key_values(right_store, join.right_index, views[1])
        same = equal_rows(left_columns, right_columns, left_rows, right_rows)
        left_rows, right_rows = left_rows[same], right_rows[same]
    return _Match(join.id, parts[0], parts[1], left_rows, right_rows, views)


def _write_segment(task: BatchTask, partition: int, matches: list[_Match], report: ProbeReport) -> None:
    """Write the pairs; rows of parts with few matches are copied, so that the parts can be freed."""
    base = task.new_file(f"p{partition}", suffix="")
    refs = dict[tuple[str, int], tuple[PartRef, Array | None]]()
    for at, (view, rows) in _used_rows(matches).items():
        refs[at] = (PartRef(*at), None)
        kept, numbers = used_rows(view.rows.num_rows, rows)
        if numbers is not None:
            copy = copy_rows(task.data, f"{base}-{len(report.copied)}.rows.arrow", view, kept)
            report.copied.append(copy.path)
            refs[at] = (PartRef(copy.path, 0), numbers)
    pieces, lists = [], []
    for match in matches:
        left, left_map = refs[match.left[0].path, match.left[1]]
        right, right_map = refs[match.right[0].path, match.right[1]]
        pieces.append(SegmentPiece(match.join, left, right, len(match.left_rows)))
        lists.append((_renumber(match.left_rows, left_map), _renumber(match.right_rows, right_map)))
    file = write_pairs(task.data, base + ".pairs.arrow", lists)
    report.segment = Segment(file.path, tuple(pieces), file.bytes)


def _renumber(rows: Array, numbers: Array | None) -> Array:
    return rows if numbers is None else numbers[rows]


def _used_rows(matches: Iterable[_Match]) -> dict[tuple[str, int], tuple[PartView, list[Array]]]:
    used = dict[tuple[str, int], tuple[PartView, list[Array]]]()
    for match in matches:
        for (bucket, number), view, rows in (
            (match.left, match.views[0], match.left_rows),
            (match.right, match.views[1], match.right_rows),
        ):
            used.setdefault((bucket.path, number), (view, []))[1].append(rows)
    return used
