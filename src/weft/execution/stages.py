"""The stages of a batch as streams of small items, the same in Spark tasks and in a test process.

Rows never travel here: the tag stage writes buckets, and what is shuffled is only who should look at which bucket.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.execution.aggregate.close_windows import close_windows, window_limits
from weft.execution.input.pieces import Piece
from weft.execution.join.partition_task import probe_partition
from weft.execution.join.probe_tree import Partial, WalkReport, walk_stage
from weft.execution.join.store_view import Fresh
from weft.execution.program import BatchTask, Program
from weft.execution.selection.computed import TagReport
from weft.execution.selection.select import tag_table
from weft.kernels.hash_space import hash_range
from weft.plan.probe_tree import Input
from weft.storage.bucket import Bucket

Item = tuple[int, bytes]
"""Destination partition and a JSON value."""


def tag_stage(program: Program, task: BatchTask, pieces: Iterable[Piece]) -> Iterator[Item]:
    """Tag the rows of some streams; a report for each piece, and each bucket to who must probe it."""
    began = time.time()
    waiting: list[tuple[TagReport, list[Bucket]]] = []
    for piece in pieces:
        if piece.void:
            _discard(task, waiting)
            waiting = []
        waiting.append(tag_table(program, task, piece.stream, table=piece.table))
        if piece.more:
            continue
        *before, (report, buckets) = waiting
        for each in before:
            yield from _tagged(program, task, *each, span=(began, time.time()))
        report.bad_files, report.bad_rows = piece.bad_files, piece.bad_rows
        yield from _tagged(program, task, report, buckets, span=(began, time.time()))
        waiting = []


def _discard(task: BatchTask, tagged: Iterable[tuple[TagReport, list[Bucket]]]) -> None:
    """Remove what was made of a file that turned out to be bad."""
    for bucket in (bucket for _, buckets in tagged for bucket in buckets):
        Path(task.data, bucket.path).unlink(missing_ok=True)


def _tagged(
    program: Program, task: BatchTask, report: TagReport, buckets: list[Bucket], *, span: tuple[float, float]
) -> Iterator[Item]:
    described = [bucket.to_json() for bucket in buckets]
    yield 0, _dump({"tag": report.to_json(), "buckets": described, "span": ["tag", *span]})
    if program.closes_windows and report.max_time is not None:
        for partition in range(task.partitions):
            yield partition, _dump({"newest": [report.stream, report.max_time]})
    for bucket, value in zip(buckets, described, strict=True):
        if bucket.path in report.later:
            continue
        if bucket.store in program.slices or program.stores[bucket.store].route:
            for partition in _destinations(program, bucket, task.partitions):
                yield partition, _dump({"bucket": value})


def _destinations(program: Program, bucket: Bucket, partitions: int) -> Iterator[int]:
    probed = bucket.store in program.probed_stores.values()  # by any of its keys, in any task
    for partition in range(partitions):
        low, high = hash_range(partition, partitions)
        if probed or any(part.rows and part.low <= high and part.high >= low for part in bucket.parts):
            yield partition


def probe_stages(program: Program) -> int:
    """How many probe stages a batch has: one at least, for joins of two relations and the ends of windows; one more
    for the ends of windows over combinations, which have to be all there."""
    return max(1, program.probes.stages) + bool(program.combined)


def probe_stage(
    program: Program, task: BatchTask, partition: int, *, stage: int = 1, items: Iterable[bytes]
) -> Iterator[Item]:
    """One of the probe stages of a partition: what goes to the next one, and reports, which go to partition 0."""
    received = _Received()
    began = time.time()
    for item in items:
        if not received.take(json.loads(item)):
            yield 0, item
    report: dict[str, Any] = {"windows": []}
    if stage == 1:
        fresh = [each.bucket for each in received.fresh]
        report = probe_partition(program, task, partition, fresh=fresh, newest=received.newest).to_json()
        if partition == 0:
            replaced = [bucket.path for bucket in task.buckets if bucket.store in task.rebuild]
            report["merged_away"] = [*(path for group in task.merges for path in group), *replaced]
    if stage <= program.probes.stages:
        walked = walk_stage(
            program, task, partition, stage=stage, fresh=received.fresh, partials=received.partials
        )  # fmt: skip
        report |= _walk_report(walked, report)
        if stage < program.probes.stages:
            yield from _onwards(task, walked)
            yield from ((partition, item) for item in received.for_later(program, stage))
        yield from _cells_onwards(program, task, walked.cells)
        yield from ((partition, item) for item in received.for_ends(program))
    elif program.combined:
        report["windows"] += _end_combined(program, task, partition, received)
    report["span"] = ["probe", began, time.time()]
    yield 0, _dump(report)


def run_here(
    program: Program,
    task: BatchTask,
    tables: Iterable[Piece | tuple[str, pa.Table, tuple[str, ...]]],
    *,
    passing: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A whole batch in this process, without Spark: what its tasks report. `tables` are streams, rows and files that
    were set aside; `passing` is told how far it is."""
    items: dict[int, list[bytes]] = {partition: [] for partition in range(task.partitions)}
    pieces = (each if isinstance(each, Piece) else Piece(*each) for each in tables)
    for partition, item in tag_stage(program, task, pieces):
        items[partition].append(item)
    passing("after_tag")
    for stage in range(1, probe_stages(program) + 1):
        sent: dict[int, list[bytes]] = {partition: [] for partition in range(task.partitions)}
        for partition, received in items.items():
            for to, item in probe_stage(program, task, partition, stage=stage, items=received):
                sent[to].append(item)
            passing("during_probe")
        items = sent
    return [json.loads(report) for reports in items.values() for report in reports]


def _end_combined(program: Program, task: BatchTask, partition: int, received: _Received) -> list[dict[str, Any]]:
    """End the windows over combinations: all that the batch adds to their cells was made in the stages before."""
    buckets = [*task.buckets, *(each.bucket for each in received.fresh)]
    limits = window_limits(program, task, received.newest)
    closed = close_windows(program, task, partition, buckets=buckets, limits=limits, combined=True)
    return [result.to_json() for result in closed.results]


def _walk_report(walked: WalkReport, report: dict[str, Any]) -> dict[str, Any]:
    return {
        "windows": [*report["windows"], *(result.to_json() for result in walked.results)],
        "pairs": report.get("pairs", 0) + sum(result.rows for result in walked.results),
        "buckets": [bucket.to_json() for bucket in (*(each.bucket for each in walked.stored), *walked.cells)],
        "slot_failures": report.get("slot_failures", {}) | walked.failures,
        "sent": walked.sent,
        "spent": [partial.path for partial, _ in walked.partials],
    }


def _onwards(task: BatchTask, walked: WalkReport) -> Iterator[Item]:
    """Combinations to the tasks of their keys; intermediate results to all, who see them by any of their keys."""
    for partial, partitions in walked.partials:
        yield from ((partition, _partial_item(partial)) for partition in partitions)
    for each in walked.stored:
        item = _fresh_item(each)
        yield from ((partition, item) for partition in range(task.partitions))


def _cells_onwards(program: Program, task: BatchTask, cells: Iterable[Bucket]) -> Iterator[Item]:
    """Cells of combinations to the tasks of their groups, which end windows in the last stage."""
    for bucket in cells:
        for partition in _destinations(program, bucket, task.partitions):
            yield partition, _fresh_item(Fresh(bucket))


def _partial_item(each: Partial) -> bytes:
    return _dump({"partial": [each.probe, each.path, each.rebuild]})


def _fresh_item(each: Fresh) -> bytes:
    return _dump({"bucket": each.bucket.to_json(), "start": each.start})


class _Received:
    """What came to a partition from the stage before."""

    def __init__(self) -> None:
        self.fresh: list[Fresh] = []
        self.partials: list[Partial] = []
        self.newest: dict[str, int] = {}

    def take(self, value: dict[str, Any]) -> bool:
        """Whether it is for this partition; reports only pass through."""
        if "bucket" in value:
            start = value.get("start")
            self.fresh.append(Fresh(Bucket.from_json(value["bucket"]), None if start is None else Input(*start)))
        elif "partial" in value:
            self.partials.append(Partial(*value["partial"]))
        elif "newest" in value:
            stream, latest = value["newest"]
            self.newest[stream] = max(latest, self.newest.get(stream, latest))
        else:
            return False
        return True

    def for_later(self, program: Program, stage: int) -> Iterator[bytes]:
        """What later stages of this partition need: new rows, and combinations whose store is not complete before."""
        kept = {*program.probed_stores.values(), *(each.id for each in program.probes.stored)}
        yield from (_fresh_item(each) for each in self.fresh if each.bucket.store in kept)
        later = {probe.id for probe in program.probes.probes() if probe.stage > stage}
        yield from (_partial_item(each) for each in self.partials if each.probe in later)

    def for_ends(self, program: Program) -> Iterator[bytes]:
        """What the last stage needs to end windows over combinations: their cells, and how far event time has come."""
        if program.combined:
            cells = {tag.slices.store.id for tags in program.combined.values() for tag in tags}
            yield from (_fresh_item(each) for each in self.fresh if each.bucket.store in cells)
            yield from (_dump({"newest": list(each)}) for each in self.newest.items())


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
