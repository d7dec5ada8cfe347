"""Set-up of Spark's Python workers for weft's tasks: one Arrow thread, and a limit on memory."""

from __future__ import annotations

import gc
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.errors import InvalidSetting
from weft.spark.freed_memory import trim_memory
from weft.spark.session import is_local, shares_workers

MEMORY_SETTING = "spark.weft.worker.memory"
_SHARE = 0.6
"""Share of the machine's memory for all concurrent workers. Java, the driver and the page cache need the rest."""
_LEAST = 2 << 30
"""Minimum limit in bytes: Arrow's allocator reserves a gigabyte in advance, compiled code some hundred megabytes."""
_SIZE = re.compile(r"(?P<number>\d+)\s*(?P<unit>[bkmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SETTLED = 4
_tasks_done = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """The set-up of a worker, shipped with every task."""

    memory: int | None = None
    """Bytes that the worker may allocate; 0: no limit; None: a share of the machine's memory."""
    slots: int | None = None
    """Number of concurrent tasks on the worker's machine; None: one per core."""
    shared: bool = True
    """Whether the worker may also run code that is not weft's."""

    def limit(self) -> int:
        """Return the bytes that the worker may allocate; 0: no limit."""
        if self.memory is not None:
            return self.memory
        return max(_LEAST, int(_SHARE * machine_memory() / max(1, self.slots or _cores())))


def worker_of(spark: SparkSession) -> Worker:
    """Return the set-up for the workers of a Spark context. Raise InvalidSetting if the memory setting is invalid."""
    context = spark.sparkContext
    setting = context._conf.get(MEMORY_SETTING, None)
    slots = context.defaultParallelism if is_local(context.master or "") else None
    return Worker(None if setting is None else _to_bytes(setting), slots, shares_workers(spark))


def _to_bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidSetting(
            f"{MEMORY_SETTING} is {text!r}", hint='Give a size such as "4g" or "800m", or "0" for no limit.'
        )
    return int(match["number"]) * _UNITS[match["unit"].lower()]


@contextmanager
def worker_limits(worker: Worker) -> Iterator[None]:
    """Run a task of weft with one Arrow thread, since tasks already use all cores, and bounded memory, so that a query
    that needs too much fails with a MemoryError before the kernel kills an arbitrary process."""
    threads = pa.cpu_count()
    if threads != 1:
        pa.set_cpu_count(1)
    before = _limit_memory(worker.limit())
    try:
        yield
        if not worker.shared:
            _settle()
    finally:
        if before is not None:
            resource.setrlimit(resource.RLIMIT_DATA, before)
        if not worker.shared:
            trim_memory()
        if worker.shared and threads != 1:
            pa.set_cpu_count(threads)


def _limit_memory(limit: int) -> tuple[int, int] | None:
    """Limit allocated memory, not counting mapped files. Return the previous limits; None if they are unchanged."""
    if not limit:
        return None
    before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    if any(bound <= limit for bound in bounds):
        return None
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    return before


def _settle() -> None:
    """Exclude loaded code from garbage collection after each of the first tasks: it never becomes garbage, and PySpark
    runs the collector after every task."""
    global _tasks_done  # noqa: PLW0603
    _tasks_done += 1
    if _tasks_done <= _SETTLED:
        gc.collect()
        gc.freeze()


def machine_memory() -> int:
    """Return the bytes of memory of this machine or container."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text):
            limits.append(int(text))
    return min(limits)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
