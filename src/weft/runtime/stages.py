"""The stages of a batch as streams of small items, the same in Spark tasks and in a test process.

Rows never travel here: the tag stage writes buckets, and what is shuffled is only who should look at which bucket.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from weft.kernels.hash_space import hash_range
from weft.plan.probes import Input
from weft.runtime.probe import probe_partition
from weft.runtime.store_view import Fresh
from weft.runtime.tag import tag_table
from weft.runtime.task import BatchTask, Program
from weft.runtime.walk import Partial, WalkReport, walk_stage
from weft.state.bucket import Bucket

Item = tuple[int, bytes]
"""Destination partition and a JSON value."""


def tag_stage(
    program: Program, task: BatchTask, tables: Iterable[tuple[str, pa.Table, tuple[str, ...]]]
) -> Iterator[Item]:
    """Tag the rows of some streams (name, rows, files set aside); one report, and each bucket to who must probe it."""
    began = time.time()
    for stream, table, bad_files in tables:
        report, buckets = tag_table(program, task, stream, table=table)
        described = [bucket.to_json() for bucket in buckets]
        span = ["tag", began, time.time()]
        yield 0, _dump({"tag": report.to_json() | {"bad_files": bad_files}, "buckets": described, "span": span})
        if program.closes_windows and report.max_time is not None:
            for partition in range(task.partitions):
                yield partition, _dump({"newest": [stream, report.max_time]})
        for bucket, value in zip(buckets, described, strict=True):
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
    """How many probe stages a batch has: one at least, for joins of two relations and the ends of windows."""
    return max(1, program.probes.stages)


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
        yield from _onwards(program, task, walked)
    if stage < program.probes.stages:
        kept = {*program.probed_stores.values(), *(each.id for each in program.probes.stored)}
        yield from ((partition, _fresh_item(each)) for each in received.fresh if each.bucket.store in kept)
    report["span"] = ["probe", began, time.time()]
    yield 0, _dump(report)


def _walk_report(walked: WalkReport, report: dict[str, Any]) -> dict[str, Any]:
    return {
        "windows": [*report["windows"], *(result.to_json() for result in walked.results)],
        "pairs": report.get("pairs", 0) + sum(result.rows for result in walked.results),
        "buckets": [each.bucket.to_json() for each in walked.stored],
        "slot_failures": walked.failures,
        "sent": walked.sent,
        "exchanged": walked.exchanged,
    }


def _onwards(program: Program, task: BatchTask, walked: WalkReport) -> Iterator[Item]:
    """Combinations to the tasks of their keys; intermediate results to all, who see them by any of their keys."""
    for partial, partitions in walked.partials:
        item = _dump({"partial": [partial.probe, partial.path, partial.rebuild]})
        yield from ((partition, item) for partition in partitions)
    for each in walked.stored:
        item = _fresh_item(each)
        yield from ((partition, item) for partition in range(task.partitions))


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


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
