"""The stages of a batch as streams of small items, the same in Spark tasks and in a test process.

Rows are not sent from task to task. The tag stage writes them to buckets, and only references to the buckets are
shuffled (`items.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from weft.execution.aggregate.close_windows import close_windows, window_limits
from weft.execution.input.pieces import Piece
from weft.execution.items import (
    NewBucket,
    NewestTime,
    PendingCombinations,
    ProbeReport,
    Report,
    TagReport,
    decode_message,
    decode_report,
    encode_message,
    encode_report,
    is_report,
)
from weft.execution.join.partition_task import probe_partition
from weft.execution.join.probe_tree import WalkReport, walk_stage
from weft.execution.program import BatchTask, Program
from weft.execution.selection.select import tag_table
from weft.kernels.hash_space import hash_range
from weft.storage.bucket import Bucket
from weft.storage.result_files import WindowResult

Sent = tuple[int, bytes]
"""A destination partition, and an encoded item."""
DRIVER = 0
"""The partition that collects the reports for the driver."""


def tag_stage(program: Program, task: BatchTask, pieces: Iterable[Piece]) -> Iterator[Sent]:
    """Tag the rows of some streams: send a report for each piece, and each bucket to the partitions that probe it."""
    began = time.time()
    waiting: list[TagReport] = []
    for piece in pieces:
        if piece.void:
            _discard(task, waiting)
            waiting = []
        waiting.append(tag_table(program, task, piece.stream, table=piece.table))
        if piece.more:
            continue
        waiting[-1].bad_files, waiting[-1].bad_rows = piece.bad_files, piece.bad_rows
        for report in waiting:
            report.span = (began, time.time())
            yield from _tagged(program, task, report)
        waiting = []


def _discard(task: BatchTask, reports: Iterable[TagReport]) -> None:
    """Remove the buckets of a file that turned out to be bad."""
    for bucket in (bucket for report in reports for bucket in report.buckets):
        Path(task.data, bucket.path).unlink(missing_ok=True)


def _tagged(program: Program, task: BatchTask, report: TagReport) -> Iterator[Sent]:
    yield DRIVER, encode_report(report)
    if program.closes_windows and report.max_time is not None:
        newest = encode_message(NewestTime(report.stream, report.max_time))
        yield from ((partition, newest) for partition in range(task.partitions))
    for bucket in report.buckets:
        is_probed_now = bucket.path not in report.later
        if is_probed_now and (bucket.store in program.slices or program.stores[bucket.store].route):
            message = encode_message(NewBucket(bucket))
            yield from ((partition, message) for partition in _destinations(program, bucket, task.partitions))


def _destinations(program: Program, bucket: Bucket, partitions: int) -> Iterator[int]:
    probed = bucket.store in program.probed_stores.values()  # then every task reads it, by any of its keys
    for partition in range(partitions):
        if probed or bucket.parts_in(*hash_range(partition, partitions)):
            yield partition


def probe_stages(program: Program) -> int:
    """Return the number of probe stages of a batch.

    There is at least one, for joins of two relations and for closing windows. Windows over combinations need one more,
    because all combinations must be there before a window closes.
    """
    return max(1, program.probes.stages) + bool(program.combined)


def probe_stage(
    program: Program, task: BatchTask, partition: int, *, stage: int = 1, items: Iterable[bytes]
) -> Iterator[Sent]:
    """Run a probe stage of one partition: send messages to the next stage, and reports to the driver."""
    received = _Received()
    began = time.time()
    for item in items:
        if is_report(item):
            yield DRIVER, item
        else:
            received.take(item)
    report = ProbeReport()
    if stage == 1:
        buckets = [new.bucket for new in received.buckets]
        report = probe_partition(program, task, partition, fresh=buckets, newest=received.newest)
        if partition == DRIVER:
            replaced = [bucket.path for bucket in task.buckets if bucket.store in task.rebuild]
            report.merged_away = [*(path for group in task.merges for path in group), *replaced]
    if stage <= program.probes.stages:
        walked = walk_stage(
            program, task, partition, stage=stage, fresh=received.buckets, partials=received.combinations
        )  # fmt: skip
        _add_walk(report, walked)
        if stage < program.probes.stages:
            yield from _onwards(task, walked)
            yield from ((partition, item) for item in received.for_later(program, stage))
        yield from _cells_onwards(program, task, walked.cells)
        yield from ((partition, item) for item in received.for_closing(program))
    elif program.combined:
        report.windows += _close_combined(program, task, partition, received)
    report.span = (began, time.time())
    yield DRIVER, encode_report(report)


def run_here(
    program: Program,
    task: BatchTask,
    tables: Iterable[Piece | tuple[str, pa.Table, tuple[str, ...]]],
    *,
    passing: Callable[[str], None] = lambda _: None,
) -> list[Report]:
    """Run a whole batch in this process, without Spark, and return the reports of its tasks.

    `tables` are pieces, or the arguments of `Piece`. `passing` is called with "after_tag" and, after each task of a
    probe stage, with "during_probe".
    """
    items: dict[int, list[bytes]] = {partition: [] for partition in range(task.partitions)}
    pieces = (table if isinstance(table, Piece) else Piece(*table) for table in tables)
    for partition, item in tag_stage(program, task, pieces):
        items[partition].append(item)
    passing("after_tag")
    for stage in range(1, probe_stages(program) + 1):
        sent: dict[int, list[bytes]] = {partition: [] for partition in range(task.partitions)}
        for partition, received in items.items():
            for destination, item in probe_stage(program, task, partition, stage=stage, items=received):
                sent[destination].append(item)
            passing("during_probe")
        items = sent
    return [decode_report(report) for reports in items.values() for report in reports]


def _close_combined(program: Program, task: BatchTask, partition: int, received: _Received) -> list[WindowResult]:
    """Close the windows over combinations; the stages before have written all cells that the batch adds."""
    buckets = [*task.buckets, *(new.bucket for new in received.buckets)]
    limits = window_limits(program, task, received.newest)
    return close_windows(program, task, partition, buckets=buckets, limits=limits, combined=True).results


def _add_walk(report: ProbeReport, walked: WalkReport) -> None:
    report.windows += walked.results
    report.pairs += sum(result.rows for result in walked.results)
    report.buckets += [*(new.bucket for new in walked.stored), *walked.cells]
    report.failures |= walked.failures
    report.flows |= {probe: (came, produced) for probe, (came, produced) in walked.sent.items()}


def _onwards(task: BatchTask, walked: WalkReport) -> Iterator[Sent]:
    """Send combinations to the tasks of their keys, and stored joins to all tasks, which read them by any key."""
    for combinations, partitions in walked.partials:
        message = encode_message(combinations)
        yield from ((partition, message) for partition in partitions)
    for new in walked.stored:
        message = encode_message(new)
        yield from ((partition, message) for partition in range(task.partitions))


def _cells_onwards(program: Program, task: BatchTask, cells: Iterable[Bucket]) -> Iterator[Sent]:
    """Send cells of combinations to the tasks of their groups, which close windows in the last stage."""
    for bucket in cells:
        message = encode_message(NewBucket(bucket))
        yield from ((partition, message) for partition in _destinations(program, bucket, task.partitions))


class _Received:
    """The messages that came to a partition from the stage before."""

    def __init__(self) -> None:
        self.buckets: list[NewBucket] = []
        self.combinations: list[PendingCombinations] = []
        self.newest: dict[str, int] = {}

    def take(self, item: bytes) -> None:
        match decode_message(item):
            case NewBucket() as new:
                self.buckets.append(new)
            case PendingCombinations() as combinations:
                self.combinations.append(combinations)
            case NewestTime(stream=stream, time=latest):
                self.newest[stream] = max(latest, self.newest.get(stream, latest))

    def for_later(self, program: Program, stage: int) -> Iterator[bytes]:
        """Yield what later stages of this partition need: new rows, and combinations whose store is not complete."""
        kept = {*program.probed_stores.values(), *(stored.id for stored in program.probes.stored)}
        yield from (encode_message(new) for new in self.buckets if new.bucket.store in kept)
        later = {probe.id for probe in program.probes.probes() if probe.stage > stage}
        yield from (encode_message(pending) for pending in self.combinations if pending.probe in later)

    def for_closing(self, program: Program) -> Iterator[bytes]:
        """Yield what the last stage needs to close windows over combinations: their cells and the newest times."""
        if program.combined:
            cells = {tag.slices.store.id for tags in program.combined.values() for tag in tags}
            yield from (encode_message(new) for new in self.buckets if new.bucket.store in cells)
            yield from (encode_message(NewestTime(stream, time)) for stream, time in self.newest.items())
