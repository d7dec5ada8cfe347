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
from weft.runtime.probe import probe_partition
from weft.runtime.tag import tag_table
from weft.runtime.task import BatchTask, Program
from weft.runtime.walk import Partial, walk_stage
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
    report: dict[str, Any] = {}
    if stage == 1:
        report = probe_partition(
            program, task, partition, fresh=received.fresh, newest=received.newest
        ).to_json()  # fmt: skip
        if partition == 0:
            report["merged_away"] = [path for group in task.merges for path in group]
    if stage <= program.probes.stages:
        walked = walk_stage(
            program, task, partition, stage=stage, fresh=received.fresh, partials=received.partials
        )  # fmt: skip
        report["windows"] = [*report.get("windows", ()), *(result.to_json() for result in walked.results)]
        report |= {"slot_failures": walked.failures, "sent": walked.sent, "exchanged": walked.exchanged}
        for partial, partitions in walked.partials:
            for to in partitions:
                yield to, _dump({"partial": partial.to_json()})
    if stage < program.probes.stages:
        for bucket in received.fresh:
            if bucket.store in program.probed_stores.values():
                yield partition, _dump({"bucket": bucket.to_json()})
    report["span"] = ["probe", began, time.time()]
    yield 0, _dump(report)


class _Received:
    """What came to a partition from the stage before."""

    def __init__(self) -> None:
        self.fresh: list[Bucket] = []
        self.partials: list[Partial] = []
        self.newest: dict[str, int] = {}

    def take(self, value: dict[str, Any]) -> bool:
        """Whether it is for this partition; reports only pass through."""
        if "bucket" in value:
            self.fresh.append(Bucket.from_json(value["bucket"]))
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
