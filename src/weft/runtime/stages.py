"""The two stages of a batch as streams of small items, the same in Spark tasks and in a test process.

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
                for partition in _destinations(bucket, task.partitions):
                    yield partition, _dump({"bucket": value})


def _destinations(bucket: Bucket, partitions: int) -> Iterator[int]:
    for partition in range(partitions):
        low, high = hash_range(partition, partitions)
        if any(part.rows and part.low <= high and part.high >= low for part in bucket.parts):
            yield partition


def probe_stage(program: Program, task: BatchTask, partition: int, *, items: Iterable[bytes]) -> Iterator[bytes]:
    """Probe one partition; tag reports that came this way pass through to the driver."""
    fresh: list[Bucket] = []
    newest: dict[str, int] = {}
    began = time.time()
    for item in items:
        value = json.loads(item)
        if "bucket" in value:
            fresh.append(Bucket.from_json(value["bucket"]))
        elif "newest" in value:
            stream, latest = value["newest"]
            newest[stream] = max(latest, newest.get(stream, latest))
        else:
            yield item
    report: dict[str, Any] = probe_partition(program, task, partition, fresh=fresh, newest=newest).to_json()
    report["span"] = ["probe", began, time.time()]
    if partition == 0:
        report["merged_away"] = [path for group in task.merges for path in group]
    yield _dump(report)


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
